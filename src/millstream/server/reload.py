"""Read the configuration again while the server runs (SIGHUP, or a system request).

A file that is invalid, or changes a setting that cannot change, has no effect.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from millstream.base import guard
from millstream.base.errors import MillstreamError
from millstream.base.reasons import CannotListen, system_reason
from millstream.broker import reload as broker_reload
from millstream.config.errors import ConfigError
from millstream.config.load import load
from millstream.config.reload import Area, ReloadPlan, plan_reload

if TYPE_CHECKING:
    from millstream.server.server import Server

_log = logging.getLogger("millstream.server")


def reload_configuration(server: Server) -> ReloadPlan:
    """Apply the changes of the configuration file.

    Raises ConfigError if that is not possible, or if a part of it failed; the other parts are then in force.
    """
    options = server.options
    if not options.config_file:
        raise ConfigError("can only reload config when a file is provided using -c or --config")
    plan = plan_reload(options, load(options.config_file, options.overrides))
    broker_reload.apply(server.broker, plan.options.broker)
    server.options = plan.options
    server.configured_ns = time.time_ns()
    failed = [_try("certificates", server.renew_certificates)] if Area.TLS in plan.areas else []
    failed.append(_try("JetStream", lambda: server.jetstream.reload(plan)))
    failed.append(_try("the Arrow endpoint", lambda: _follow_jetstream(server)))
    failed += [
        _try("what follows the configuration", partial(each, plan)) for each in server.reload_listeners
    ]
    problems = [problem for problem in failed if problem]
    if problems:  # all else is in force
        raise ConfigError("; ".join(problems))
    for change in plan.changes:
        _log.info("Reloaded: %s", change.name.removeprefix("broker."))
    _log.info("Reloaded server configuration (%s)", plan.options.config_digest)
    return plan


def _try(what: str, step: Callable[[], object]) -> str:
    """Run one step of the plan; return the error as a text, or "".  The other steps run in any case."""
    try:
        step()
    except MillstreamError as error:
        return f"{what}: {error}"
    except OSError as error:
        return f"{what}: {system_reason(error)}"
    except Exception as error:
        guard.report(f"reloading {what}", error)
        return f"{what}: internal error"
    return ""


def _follow_jetstream(server: Server) -> None:
    try:
        server.follow_jetstream()
    except CannotListen as error:
        _log.error("Streams cannot be served as Arrow: %s", error)
