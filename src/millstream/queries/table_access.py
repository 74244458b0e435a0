"""The Iceberg tables that a reader may see: all of a catalog, or those whose streams the reader may read.

A table has the messages of streams, so permissions of streams decide.  The reader's account must have each
stream of the table, created at the same time, and its user must be allowed to get messages of it.  A table
whose stream is gone is left to readers of the whole catalog.
"""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from millstream.lake.library import TableLibrary, archived_streams, table_name
from millstream.tables.errors import NotAllowed, SourceUnavailable, StreamMissing
from millstream.tables.source import TableSource

if TYPE_CHECKING:
    from pyiceberg.table import Table


class TableAccess:
    """Tables of a library, as far as `judge` may read their streams; without a judge, all of them."""

    def __init__(self, library: TableLibrary, judge: TableSource | None = None) -> None:
        self.library = library
        self._judge = judge

    def find(self, namespace: str, name: str) -> "Table | None":
        """Return the table that a query names, or None; raise NotAllowed if the reader may not see it."""
        table = self.library.find(namespace, name)
        if table is not None:
            self.check(table)
        return table

    def archive_of(self, stream: str) -> "Table":
        """Return the archive of a stream; raise TableMissing, TableRefused or NotAllowed."""
        table = self.library.archive_of(stream)
        self._check(table, [stream])
        return table

    def check(self, table: "Table") -> None:
        """Raise NotAllowed unless the reader may read all streams of a table."""
        self._check(table, archived_streams(table))

    def visible(self, namespace: tuple[str, ...]) -> Iterator[str]:
        """Yield the names of the tables of a namespace that the reader may see."""
        for name in self.library.names(namespace):
            if self._judge is None:
                yield name
                continue
            try:
                self.check(self.library.load(namespace, name))
            except (NotAllowed, SourceUnavailable):
                continue
            yield name

    def _check(self, table: "Table", streams: Iterable[str]) -> None:
        if self._judge is None:
            return
        known: Any = archived_streams(table)
        if not known:
            raise NotAllowed(f"table {table_name(table)} has no streams, whose permissions would decide")
        for stream in streams:
            try:
                made = self._judge.readable_since(stream)
            except StreamMissing:
                made = ""
            if made != known[stream].id:
                name = table_name(table)
                raise NotAllowed(f"table {name} has messages of stream {stream}, which this account lacks")
