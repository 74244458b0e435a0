"""The parts of streams, imported with the first stream, so that a server without any starts faster.

parts.Stream(account, config, created, log, sync=sync)
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from millstream.jetstream.config.limits import StreamLimits as StreamLimits
    from millstream.jetstream.config.values import valid_name as valid_name
    from millstream.jetstream.consumers.dead_letters import store_letters as store_letters
    from millstream.jetstream.consumers.journal import Journal as Journal
    from millstream.jetstream.dedupe.files import IdFiles as IdFiles
    from millstream.jetstream.sourcing.origin import Asker as Asker
    from millstream.jetstream.sourcing.origin import origins_of as origins_of
    from millstream.jetstream.sourcing.positions import Positions as Positions
    from millstream.jetstream.stream.header_recovery import restore as restore
    from millstream.jetstream.stream.staging_folder import Staging as Staging
    from millstream.jetstream.stream.stream import Stream as Stream
    from millstream.jetstream.stream.torn_commit import discard_torn as discard_torn
    from millstream.store.recovery import new_log as new_log
    from millstream.store.recovery import open_log as open_log

PLACES: Final = {
    "Asker": "millstream.jetstream.sourcing.origin",
    "IdFiles": "millstream.jetstream.dedupe.files",
    "Journal": "millstream.jetstream.consumers.journal",
    "Positions": "millstream.jetstream.sourcing.positions",
    "Staging": "millstream.jetstream.stream.staging_folder",
    "Stream": "millstream.jetstream.stream.stream",
    "StreamLimits": "millstream.jetstream.config.limits",
    "discard_torn": "millstream.jetstream.stream.torn_commit",
    "new_log": "millstream.store.recovery",
    "open_log": "millstream.store.recovery",
    "origins_of": "millstream.jetstream.sourcing.origin",
    "restore": "millstream.jetstream.stream.header_recovery",
    "store_letters": "millstream.jetstream.consumers.dead_letters",
    "valid_name": "millstream.jetstream.config.values",
}


def __getattr__(name: str) -> Any:
    """Import a part, and keep it."""
    if name not in PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(importlib.import_module(PLACES[name]), name)
    globals()[name] = found
    return found
