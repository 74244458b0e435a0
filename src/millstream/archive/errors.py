"""Errors of archives, in nats-server's words."""

from __future__ import annotations

from millstream.base.errors import MillstreamError
from millstream.golang.json import BadSyntax, CutShort, TooMany, read_each


class ArchiveError(MillstreamError):
    """Raised for bytes that are not a complete archive."""


class DamagedRecord(ArchiveError):
    """Raised for a record of a message block that was altered or cut; `reason` says how it shows."""

    def __init__(self, block: int, reason: str) -> None:
        super().__init__(f"malformed or corrupt message in block {block}: {reason}")
        self.reason = reason


def corrupt() -> ArchiveError:
    """Return the error for invalid compression, or bytes that end inside a frame."""
    return ArchiveError("s2: corrupt input")


def wrong_checksum() -> ArchiveError:
    return ArchiveError("s2: corrupt input, crc mismatch")


def unsupported() -> ArchiveError:
    return ArchiveError("s2: unsupported input")


def invalid() -> ArchiveError:
    """Return the error for invalid entries."""
    return ArchiveError("archive: invalid archive stream")


def ended() -> ArchiveError:
    """Return the error for a truncated archive."""
    return ArchiveError("EOF")


def first_json(text: bytes) -> bytes:
    """Return the first value of a text, ignoring the rest; raise ArchiveError if there is none."""
    try:
        for value in read_each(text):
            return value.raw
    except CutShort:
        raise ArchiveError("unexpected EOF") from None
    except (BadSyntax, TooMany) as error:
        raise ArchiveError(str(error)) from None
    raise ended()
