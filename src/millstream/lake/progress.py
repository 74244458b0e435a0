"""Progress of each query that fills a table, written with every commit.

    {"9f2c…": {"batch": 12, "kind": "archive", "filter": [], "streams": {
        "ORDERS": {"id": "2026-01-02T03:04:05.6Z", "first": 1, "from": 1101, "next": 1201, "gaps": []}}}}

A query is one checkpoint of Spark's; its batches are numbered.  `from` and `next` are the range of the last
batch, `first` is where the first batch began, `gaps` are sequences between two batches that none covers.

The document is a property of each snapshot that we commit, and of the table.  The snapshot's counts: it is
right after a rollback, too.  The table's counts where no snapshot of ours is left, because others have
rewritten the table and expired the snapshots.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from millstream.lake.errors import TableRefused

if TYPE_CHECKING:
    from pyiceberg.table import Table

KEY: Final = "millstream.progress"
_MOST_GAPS: Final = 1000


@dataclass(frozen=True, slots=True)
class StreamProgress:
    """Progress of one stream in the table; `start` and `next` are the range of the last batch."""

    id: str  # creation time of the stream
    first: int
    start: int
    next: int
    gaps: tuple[tuple[int, int], ...] = ()

    def moved(self, start: int, following: int) -> "StreamProgress":
        """Return the progress after a batch of `[start, following)`."""
        gaps = self.gaps
        if start > self.next and len(gaps) < _MOST_GAPS:
            gaps = (*gaps, (self.next, start - 1))
        return replace(self, start=start, next=following, gaps=gaps)


@dataclass(frozen=True, slots=True)
class QueryProgress:
    """Progress of one query: its last batch, and its streams."""

    batch: int
    kind: str
    filter: tuple[str, ...] = ()
    streams: Mapping[str, StreamProgress] = field(default_factory=dict)


Progress = dict[str, QueryProgress]


def to_text(progress: Progress) -> str:
    """Return the document as JSON with sorted keys."""
    document = {
        query: {
            "batch": one.batch,
            "kind": one.kind,
            "filter": list(one.filter),
            "streams": {
                name: {
                    "id": at.id,
                    "first": at.first,
                    "from": at.start,
                    "next": at.next,
                    "gaps": [list(gap) for gap in at.gaps],
                }
                for name, at in one.streams.items()
            },
        }
        for query, one in progress.items()
    }
    return json.dumps(document, sort_keys=True, separators=(",", ":"))


def from_text(text: str) -> Progress:
    """Parse the document; raise ValueError, KeyError or TypeError if it is not ours."""
    document: dict[str, Any] = json.loads(text)
    return {
        query: QueryProgress(
            int(one["batch"]),
            str(one["kind"]),
            tuple(one["filter"]),
            {
                name: StreamProgress(
                    str(at["id"]),
                    int(at["first"]),
                    int(at["from"]),
                    int(at["next"]),
                    tuple((int(low), int(high)) for low, high in at["gaps"]),
                )
                for name, at in one["streams"].items()
            },
        )
        for query, one in document.items()
    }


def progress_of(table: "Table") -> Progress:
    """Return the progress in a loaded table: of the newest snapshot of ours, else of its properties."""
    text: str | None = None
    snapshot = table.current_snapshot()
    while snapshot is not None and text is None:
        text = snapshot.summary[KEY] if snapshot.summary is not None else None
        parent = snapshot.parent_snapshot_id
        snapshot = table.snapshot_by_id(parent) if parent is not None else None
    text = text or table.properties.get(KEY, "{}")
    try:
        return from_text(text)
    except (ValueError, KeyError, TypeError):
        name = ".".join(table.name())
        raise TableRefused(f"table {name}: its property {KEY} was not written by Millstream") from None
