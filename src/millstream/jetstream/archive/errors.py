"""What is wrong with an archive, in the words that nats-server has for it."""

from __future__ import annotations

from millstream.base.errors import MillstreamError
from millstream.golang.json import BadSyntax, CutShort, TooMany, read_each
from millstream.jsapi.errors import ApiError


class ArchiveError(MillstreamError):
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


def told(error: ApiError) -> str:
    """An error of the API inside of another text."""
    return f"{error} ({error.body.err_code})"


def first_json(text: bytes) -> bytes:
    """The first value of a text, since nobody looks at what follows; ArchiveError if there is none."""
    try:
        for value in read_each(text):
            return value.raw
    except CutShort:
        raise ArchiveError("unexpected EOF") from None
    except (BadSyntax, TooMany) as error:
        raise ArchiveError(str(error)) from None
    raise ended()
