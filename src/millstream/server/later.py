"""Import after the start the modules that not every server needs, or that none needs at once.

`millstream serve` answers its first client before it imports them, because scripts and test suites wait
for that answer.  Soon afterwards a thread imports the modules that first requests may need, so that such a
request does not block the loop.  It imports the others when the server has little to do, because the
interpreter runs one thread at a time.  A server inside another program imports all of them when it is
started, because a fork must not happen while a thread imports.
"""

from __future__ import annotations

import importlib
import importlib.util
import logging
import sys
import threading
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from millstream.config.options import ServerOptions

_log = logging.getLogger("millstream.server")

# After the parts of streams, which clients use at once.  Servers that live shorter never import the rest.
DELAY_S: Final = 0.5
_PATIENCE_S: Final = 10.0  # for a server that always has much to do
_LOOK_S: Final = 0.05
_IDLE: Final = 0.2  # of a core

_FOR_STREAMS: Final = (
    "millstream.jetstream.stream.api",
    "millstream.jetstream.consumers.api",
    "millstream.jetstream.stream.stream",
    "millstream.jetstream.stream.header_recovery",
    "millstream.jetstream.stream.staging_folder",
    "millstream.jetstream.stream.torn_commit",
)
_ALWAYS: Final = ("hashlib", "hmac", "millstream.server.reload", "millstream.server.system.answers")
_WITH_JETSTREAM: Final = (
    "cramjam",
    "millstream.jetstream.snapshots.api",
    "millstream.server.jetstream_view",
    "zoneinfo",
)
_FOR_MONITORING: Final = ("millstream.server.monitor.routes",)
_FOR_OTEL: Final = ("millstream.otel.sender", "millstream.otel.measurements", "millstream.otel.recording")
_WITH_ARROW: Final = ("millstream.server.arrow.clients",)


def needed_at_once(options: ServerOptions) -> list[str]:
    """Return the modules that the first request of a client may need."""
    return [*_FOR_STREAMS] if options.jetstream.enabled else []


def needed_later(options: ServerOptions) -> list[str]:
    """Return the other modules that a server with these options may need after its start."""
    names = [*_FOR_MONITORING] if options.monitor.enabled else []
    names += _ALWAYS
    if options.broker.authorization.oidc is not None:
        names.append("jwt")
    if options.otel is not None:
        names += _FOR_OTEL
    if options.broker.signs and importlib.util.find_spec("nacl") is not None:
        names.append("nacl.public")
    if options.jetstream.enabled:
        names += _WITH_JETSTREAM
        if options.arrow.enabled:
            names += _WITH_ARROW
    return names


def load(names: Iterable[str]) -> None:
    """Import the modules."""
    for name in names:
        importlib.import_module(name)


def load_in_thread(options: ServerOptions) -> None:
    """Import in a thread; if there is none to be had, each module is imported when it is needed."""
    if all(name in sys.modules for name in (*needed_at_once(options), *needed_later(options))):
        return
    try:
        threading.Thread(target=_load_in_turn, args=(options,), name="millstream-import", daemon=True).start()
    except RuntimeError as error:
        _log.debug("modules are imported when they are needed: %s", error)


def _load_in_turn(options: ServerOptions) -> None:
    load(needed_at_once(options))
    time.sleep(DELAY_S)
    until = time.monotonic() + _PATIENCE_S
    for name in needed_later(options):
        wait_until_idle(until)
        load([name])


def wait_until_idle(until: float) -> None:
    """Return when this process has little to do, and at this moment of the steady clock at the latest."""
    while time.monotonic() < until:
        began, used = time.monotonic(), time.process_time()
        time.sleep(_LOOK_S)
        if time.process_time() - used < (time.monotonic() - began) * _IDLE:
            return
