"""The configuration files of nats-server's streams and consumers: `meta.inf`, and its hash in `meta.sum`.

The key of the hash is the SHA-256 of "<stream>" or "<stream>/<consumer>".
"""

from __future__ import annotations

import hashlib
from typing import Any

import msgspec

from millstream.archive.errors import ArchiveError
from millstream.archive.highway import HighwayHash
from millstream.base.errors import UNREADABLE_JSON
from millstream.golang.time import TimeError, parse_time


def check_sum(kind: str, name: str, text: bytes, digest: bytes | None) -> None:
    """Raise ArchiveError if the metadata of a stream or consumer was altered."""
    found = HighwayHash(hashlib.sha256(name.encode()).digest()).sum(text).hex().encode()
    if digest is not None and digest.strip() != found:
        raise ArchiveError(f"{kind} metadata does not match its checksum")


def created_in(text: bytes) -> int:
    """Return ns since 1970, or 0 if the metadata has no creation time."""
    try:
        found: Any = msgspec.json.decode(text)
        return max(int(parse_time(found["Created"])), 0)
    except (KeyError, TypeError, TimeError, *UNREADABLE_JSON):
        return 0
