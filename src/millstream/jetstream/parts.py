"""The parts of streams, imported with the first stream, so that a server without any starts faster.

parts.Stream(account, config, created, log, sync=sync)
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from millstream.jetstream.archive.staging import Staging as Staging
    from millstream.jetstream.batch import discard_torn as discard_torn
    from millstream.jetstream.consumers.journal import Journal as Journal
    from millstream.jetstream.restoring import restore as restore
    from millstream.jetstream.stream import Stream as Stream
    from millstream.jetstream.stream_config_limits import StreamLimits as StreamLimits
    from millstream.jetstream.stream_config_values import valid_name as valid_name
    from millstream.store.recovery import new_log as new_log
    from millstream.store.recovery import open_log as open_log

PLACES: Final = {
    "Journal": "millstream.jetstream.consumers.journal",
    "Staging": "millstream.jetstream.archive.staging",
    "Stream": "millstream.jetstream.stream",
    "StreamLimits": "millstream.jetstream.stream_config_limits",
    "discard_torn": "millstream.jetstream.batch",
    "new_log": "millstream.store.recovery",
    "open_log": "millstream.store.recovery",
    "restore": "millstream.jetstream.restoring",
    "valid_name": "millstream.jetstream.stream_config_values",
}


def __getattr__(name: str) -> Any:
    """Import a part, and keep it."""
    if name not in PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(importlib.import_module(PLACES[name]), name)
    globals()[name] = found
    return found
