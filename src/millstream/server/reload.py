"""Reading the configuration again while the server runs (SIGHUP, or a system request).

A file that is wrong, or that changes what cannot change, leaves everything as it was.
"""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING

from millstream.broker import reload as broker_reload
from millstream.config.errors import ConfigError
from millstream.config.load import load
from millstream.config.reload import Area, ReloadPlan, plan_reload

if TYPE_CHECKING:
    from millstream.server.server import Server

_log = logging.getLogger("millstream.server")


def reload_configuration(server: Server) -> ReloadPlan:
    """Apply what changed in the configuration file; ConfigError if that is not possible."""
    options = server.options
    if not options.config_file:
        raise ConfigError("can only reload config when a file is provided using -c or --config")
    plan = plan_reload(options, load(options.config_file, options.overrides))
    broker_reload.apply(server.broker, plan.options.broker)
    server.options = plan.options
    server.configured_ns = time.time_ns()
    if Area.TLS in plan.areas:
        server.renew_certificates()
    server.jetstream.reload(plan)
    try:
        server.follow_jetstream()
    except OSError as error:  # all else is in force
        _log.error("Streams cannot be served as Arrow: %s", error.strerror or error)
    for listener in server.reload_listeners:
        listener(plan)
    for change in plan.changes:
        _log.info("Reloaded: %s", change.name.removeprefix("broker."))
    _log.info("Reloaded server configuration (%s)", plan.options.config_digest)
    return plan
