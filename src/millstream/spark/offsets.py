"""The offsets of a streaming query, as Spark keeps them in the checkpoint.

    {"streams": {"ORDERS": {"from": 101, "id": "2026-01-02T03:04:05.6Z", "next": 201, "parts": 4}}, "v": 1}

`next` is the first sequence that has not been read.  `from` and `parts` belong to the micro-batch that ends
here: where it began and into how many ranges it was cut.  The end offset alone therefore determines what a
batch reads, and a repeated batch reads the same ranges, even after a restart with other options.  `id` is the
creation time of the stream: a stream that was deleted and created again is another one.  `query` is present
when a durable consumer follows the query: the name with which this query claims the consumer.

Always true: the text of equal offsets is equal (sorted keys), because Spark compares text; 1 <= from <= next;
parts is 0 exactly where nothing is read.

Not here: which ranges a batch is cut into (`plan`).
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from millstream.spark.errors import CheckpointError

VERSION: Final = 1

# The offset as parsed JSON, which Spark passes to a reader and gets from it.
OffsetDict = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Position:
    """The position of the query in one stream."""

    id: str
    start: int  # `from` in the text
    next: int
    parts: int


@dataclass(frozen=True, slots=True)
class Offset:
    streams: Mapping[str, Position] = field(default_factory=dict)
    query: str | None = None

    def to_dict(self) -> OffsetDict:
        """Return the offset as Spark wants it; keys are sorted at every level."""
        document: OffsetDict = {}
        if self.query is not None:
            document["query"] = self.query
        document["streams"] = {
            name: {"from": at.start, "id": at.id, "next": at.next, "parts": at.parts}
            for name, at in sorted(self.streams.items())
        }
        document["v"] = VERSION
        return document

    def to_text(self) -> str:
        return json.dumps(self.to_dict(), sort_keys=True)

    @property
    def is_initial(self) -> bool:
        """Return True if nothing has been read up to this offset: no micro-batch ends here."""
        return all(at.parts == 0 and at.start == at.next for at in self.streams.values())


def parse(document: object) -> Offset:
    """Parse the offset in a checkpoint; raise `CheckpointError` with the reason if it is not ours."""
    if not isinstance(document, dict):
        raise _damaged(document, "it is not an object")
    if document.get("v") != VERSION:
        raise _damaged(document, f"its version is {document.get('v')!r}, this is for {VERSION}")
    streams = document.get("streams")
    if not isinstance(streams, dict):
        raise _damaged(document, "it has no streams")
    query = document.get("query")
    if query is not None and not isinstance(query, str):
        raise _damaged(document, "query is not text")
    return Offset({name: _position(document, name, value) for name, value in streams.items()}, query)


def parse_text(text: str) -> Offset:
    try:
        document = json.loads(text)
    except json.JSONDecodeError as error:
        raise _damaged(text, f"it is not JSON ({error})") from None
    return parse(document)


def _position(document: object, name: str, value: object) -> Position:
    if not isinstance(value, dict):
        raise _damaged(document, f"stream {name} is not an object")
    numbers = {}
    for key in ("from", "next", "parts"):
        number = value.get(key)
        if isinstance(number, bool) or not isinstance(number, int):
            raise _damaged(document, f"{key} of stream {name} is not a number")
        numbers[key] = number
    identity = value.get("id")
    if not isinstance(identity, str):
        raise _damaged(document, f"stream {name} has no id")
    start, following, parts = numbers["from"], numbers["next"], numbers["parts"]
    if not 1 <= start <= following or parts < 0 or (parts > 0) != (following > start):
        raise _damaged(document, f"the range of stream {name} makes no sense")
    return Position(identity, start, following, parts)


def _damaged(document: object, why: str) -> CheckpointError:
    text = document if isinstance(document, str) else json.dumps(document)
    if len(text) > 300:
        text = text[:300] + "…"
    return CheckpointError(
        f"the checkpoint holds an offset that the jetstream source did not write: {why}. "
        "Either the checkpoint is of another source, or a file in it is damaged. "
        f"The offset: {text}"
    )
