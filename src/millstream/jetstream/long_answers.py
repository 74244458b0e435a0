"""Build the JSON of long responses in pieces (``base.slices``).

A response has one or two fields that grow with what is stored.  They are encoded piece by piece and inserted
into the rest of the response, which is short; the text is the same as if encoded at once.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

import msgspec

from millstream.base.slices import Pieces
from millstream.golang.json import escape_html
from millstream.jsapi.codec import encode

if TYPE_CHECKING:
    from millstream.jetstream.read.lookup import Durable, Later  # noqa: F401 - in the text of ``Steps``
    from millstream.jsapi.go_types import Struct
    from millstream.jsapi.responses import Response

_COST: Final = 8  # items of a slice that the description of a stream or consumer counts for
_AT_ONCE: Final = 1024  # numbers of a piece

# What stands for a field in the rest of the answer.  Only the field itself can look like this: the metadata
# of streams, where clients choose the names, has no values but texts.
SUBJECTS_MARK: Final = {"": 0}
DELETED_MARK: Final = [0]
_SUBJECTS_TEXT: Final = b'"subjects":{"":0}'
_DELETED_TEXT: Final = b'"deleted":[0]'


class Encoded(msgspec.Struct, frozen=True):
    """An encoded response."""

    text: bytes


# An answer that takes long: others have their turn between its pieces.
Steps = Pieces["Response | Encoded | Later | Durable"]


def listed(answer: Response, field: str, items: Iterable[Struct | None]) -> Pieces[Encoded]:
    """Return the response with `items` in its empty list `field`; None is work without an item."""
    start, found, end = encode(answer).partition(b'"%b":[]' % field.encode())
    parts = [start, found[:-1]]
    for item in items:
        if item is not None:
            parts += (encode(item), b",")
        yield _COST
    if parts[-1] == b",":
        parts.pop()
    return Encoded(b"".join((*parts, found[-1:], end)))


def counted(counts: dict[str, int]) -> bytes:
    """Return members of the object of subjects, each followed by a comma."""
    return escape_html(msgspec.json.encode(counts))[1:-1] + b"," if counts else b""


def numbered(numbers: list[int]) -> Pieces[bytes]:
    """Return the items of a list of numbers."""
    parts: list[str] = []
    for at in range(0, len(numbers), _AT_ONCE):
        parts.append(",".join(map(str, numbers[at : at + _AT_ONCE])))
        yield _AT_ONCE
    return ",".join(parts).encode()


def with_details(answer: Response, subjects: bytes, deleted: bytes) -> Encoded:
    """Return the STREAM.INFO response, which has a mark for each of these fields that is not empty."""
    text = encode(answer)
    if subjects:
        text = text.replace(_SUBJECTS_TEXT, b'"subjects":{%b}' % subjects.removesuffix(b","), 1)
    if deleted:
        text = text.replace(_DELETED_TEXT, b'"deleted":[%b]' % deleted, 1)
    return Encoded(text)
