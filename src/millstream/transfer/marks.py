"""Metadata that a promotion writes into streams, so that the next run knows what the last one did.

    on the target   `millstream.promote.copy`    this is an unfinished copy, and of which stream
    on the source   `millstream.promote.frozen`  what the freeze changed, to be restored

Both are removed when a promotion is complete; a stream with neither belongs to somebody else.
"""

from __future__ import annotations

import json
from typing import Any, Final

from millstream.transfer.answers import Json

COPY: Final = "millstream.promote.copy"
FROZEN: Final = "millstream.promote.frozen"
FENCE_PREFIX: Final = "millstream.frozen."
FEED_PREFIX: Final = "MILLSTREAM_FEED_"
_SERVERS: Final = "_nats."  # metadata set by servers


def origin_of(info: Json) -> str:
    """Return what identifies a stream among others of the same name: its creation time."""
    return str(info["created"])


def marked(config: Json, origin: str) -> Json:
    """Return the configuration of an unfinished copy."""
    return {**config, "metadata": {**(config.get("metadata") or {}), COPY: origin}}


def is_unfinished_copy(info: Json, origin: str) -> bool:
    return bool((info["config"].get("metadata") or {}).get(COPY) == origin)


def frozen(config: Json, paused: list[str]) -> Json:
    """Return the configuration of a frozen stream, with a note of how to undo it."""
    note = json.dumps({"subjects": config.get("subjects") or [], "paused": paused})
    changed = {**config, "metadata": {**(config.get("metadata") or {}), FROZEN: note}}
    if config.get("subjects"):
        changed["subjects"] = [FENCE_PREFIX + config["name"]]
    return changed


def freeze_note(config: Json) -> dict[str, Any] | None:
    """Return the note of ``frozen``, or None if the stream is not frozen."""
    note = (config.get("metadata") or {}).get(FROZEN)
    if note is None:
        return None
    found: dict[str, Any] = json.loads(note)
    return found


def own_config(config: Json) -> Json:
    """Return the configuration without the changes of a promotion."""
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
