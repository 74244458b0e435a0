"""What is wrong with an archive, in the words that nats-server has for it."""

from __future__ import annotations

from millrace.base.errors import MillraceError


class ArchiveError(MillraceError):
    """These bytes are no archive, or not a whole one."""


def corrupt() -> ArchiveError:
    """The compression makes no sense, or the bytes end in the middle of a frame."""
    return ArchiveError("s2: corrupt input")


def wrong_checksum() -> ArchiveError:
    return ArchiveError("s2: corrupt input, crc mismatch")


def unsupported() -> ArchiveError:
    return ArchiveError("s2: unsupported input")


def invalid() -> ArchiveError:
    """The entries make no sense."""
    return ArchiveError("archive: invalid archive stream")


def ended() -> ArchiveError:
    """There should be more."""
    return ArchiveError("EOF")
