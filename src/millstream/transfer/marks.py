"""What a promotion writes into the metadata of streams, so that the next run knows what the last one did.

    on the target   `millstream.promote.copy`    this is an unfinished copy, and of which stream
    on the source   `millstream.promote.frozen`  what the freeze changed, to be given back

Both are gone when a promotion is complete, and a stream with neither is somebody's own.
"""

from __future__ import annotations

import json
from typing import Any, Final

from millstream.transfer.answers import Json

COPY: Final = "millstream.promote.copy"
FROZEN: Final = "millstream.promote.frozen"
FENCE_PREFIX: Final = "millstream.frozen."
FEED_PREFIX: Final = "MILLSTREAM_FEED_"
_SERVERS: Final = "_nats."  # metadata that servers set themselves


def origin_of(info: Json) -> str:
    """Tells one stream from others of the same name: when it was made."""
    return str(info["created"])


def marked(config: Json, origin: str) -> Json:
    """The configuration of an unfinished copy."""
    return {**config, "metadata": {**(config.get("metadata") or {}), COPY: origin}}


def is_unfinished_copy(info: Json, origin: str) -> bool:
    return bool((info["config"].get("metadata") or {}).get(COPY) == origin)


def frozen(config: Json, paused: list[str]) -> Json:
    """The configuration of a stream that takes no messages, and what it takes to undo that."""
    note = json.dumps({"subjects": config.get("subjects") or [], "paused": paused})
    changed = {**config, "metadata": {**(config.get("metadata") or {}), FROZEN: note}}
    if config.get("subjects"):
        changed["subjects"] = [FENCE_PREFIX + config["name"]]
    return changed


def freeze_note(config: Json) -> dict[str, Any] | None:
    """What ``frozen`` noted, or None if the stream is not frozen."""
    note = (config.get("metadata") or {}).get(FROZEN)
    if note is None:
        return None
    found: dict[str, Any] = json.loads(note)
    return found


def own_config(config: Json) -> Json:
    """The configuration that the stream has when nobody moves it."""
    note = freeze_note(config)
    changed = dict(config)
    if note is not None and note["subjects"]:
        changed["subjects"] = note["subjects"]
    metadata = {
        key: value
        for key, value in (config.get("metadata") or {}).items()
        if key not in (COPY, FROZEN) and not key.startswith(_SERVERS)
    }
    changed.pop("metadata", None)
    if metadata:
        changed["metadata"] = metadata
    return changed
