"""What a server imports after its start: the parts that not every server, or no server soon, has a use for.

`millstream serve` answers its first client before it imports them, because scripts and test suites wait for
that.  A thread imports them soon after, so that the first request that needs one does not hold up the loop.
A server inside another program imports them when it is started: a thread that imports must not meet a fork.
"""

from __future__ import annotations

import importlib
import logging
import sys
import threading
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from millstream.config.options import ServerOptions

_log = logging.getLogger("millstream.server")

# Servers that live shorter than this never import them.
DELAY_S: Final = 0.5

_ALWAYS: Final = ("hashlib", "hmac", "millstream.server.reload", "millstream.server.system_answers")
_WITH_JETSTREAM: Final = (
    "cramjam",
    "millstream.jetstream.archive.api",
    "millstream.server.jetstream_view",
    "zoneinfo",
)
_WITH_ARROW: Final = ("millstream.server.arrow.clients",)


def modules_for(options: ServerOptions) -> list[str]:
    """Return the modules that a server with these options may need after its start."""
    names = [*_ALWAYS]
    if options.jetstream.enabled:
        names += _WITH_JETSTREAM
        if options.arrow.enabled:
            names += _WITH_ARROW
    return names


def load(names: Iterable[str]) -> None:
    """Import the modules."""
    for name in names:
        importlib.import_module(name)


def load_in_thread(names: Iterable[str]) -> None:
    """Import the modules in a thread; if there is none to be had, each is imported when it is needed."""
    missing = [name for name in names if name not in sys.modules]
    if not missing:
        return
    try:
        threading.Thread(target=load, args=(missing,), name="millstream-import", daemon=True).start()
    except RuntimeError as error:
        _log.debug("modules are imported when they are needed: %s", error)
