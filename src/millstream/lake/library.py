"""The tables of a catalog for readers: found by name or by the stream that they archive, read file by file.

Nothing here writes.  A table is loaded anew for each reading, and a loaded table does not change: its scans
see the snapshot that was current then.  PyIceberg's own readers decode all files of a scan at once, and
`read_rows` decodes one after the other, so memory stays at the size of one file.
"""

import contextlib
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from millstream.lake.catalog import CatalogSettings, explained, open_catalog
from millstream.lake.errors import LakeError, TableMissing, TableRefused
from millstream.lake.progress import progress_of

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.expressions import BooleanExpression
    from pyiceberg.table import FileScanTask, Table

_ARCHIVE: Final = "archive"  # the kind of job


@dataclass(frozen=True, slots=True)
class ArchivedStream:
    """One stream in a table: its sequences from `first` to `next` - 1 are there, except for gaps."""

    id: str  # creation time of the stream
    first: int
    next: int
    filter: tuple[str, ...] = ()


class TableLibrary:
    """The tables of one catalog, which is opened when it is first needed; several threads may read."""

    def __init__(self, settings: CatalogSettings) -> None:
        self.settings: Final = settings
        self._catalog: Catalog | None = None
        self._opening = threading.Lock()
        self._archives: dict[str, tuple[tuple[str, ...], str]] = {}  # where streams were found

    def namespaces(self, parent: Sequence[str] = ()) -> list[tuple[str, ...]]:
        """Return the namespaces directly in another one, or those of the first level, sorted."""
        with explained(self.settings.name):
            return sorted(tuple(one) for one in self._opened().list_namespaces(tuple(parent)))

    def all_namespaces(self) -> Iterator[tuple[str, ...]]:
        """Yield every namespace once, parents first, even if the catalog ignores the parent in a request."""
        waiting = self.namespaces()
        seen = set(waiting)
        while waiting:
            one = waiting.pop(0)
            yield one
            found = [child for child in self.namespaces(one) if child not in seen]
            seen.update(found)
            waiting += found

    def names(self, namespace: Sequence[str]) -> list[str]:
        """Return the names of the tables of a namespace, sorted; raise TableMissing if there is none."""
        with explained(self.settings.name):
            return sorted(one[-1] for one in self._opened().list_tables(tuple(namespace)))

    def load(self, namespace: Sequence[str], name: str) -> "Table":
        """Return a table; raise TableMissing if there is none."""
        with explained(self.settings.name, ".".join((*namespace, name))):
            return self._opened().load_table((*namespace, name))

    def find(self, namespace: str, name: str) -> "Table | None":
        """Return the table of this name, or the only one that differs in case; None if there is none."""
        for space in self.all_namespaces():
            if ".".join(space).lower() == namespace.lower():
                names = self.names(space)
                near = [name] if name in names else [one for one in names if one.lower() == name.lower()]
                if len(near) == 1:
                    return self.load(space, near[0])
        return None

    def archive_of(self, stream: str) -> "Table":
        """Return the table that archives a stream; raise TableMissing, or TableRefused if several do.

        All tables are searched the first time.
        """
        known = self._archives.get(stream)
        if known is not None:
            with contextlib.suppress(TableMissing):
                table = self.load(*known)
                if stream in archived_streams(table, kind=_ARCHIVE):
                    return table
        places = [(space, name) for space in self.all_namespaces() for name in self.names(space)]
        found = [place for place in places if stream in archived_streams(self.load(*place), kind=_ARCHIVE)]
        if not found:
            raise TableMissing(f"catalog {self.settings.name} has no archive of stream {stream}")
        if len(found) > 1:
            names = " and ".join(".".join((*space, name)) for space, name in found)
            raise TableRefused(
                f"stream {stream} has several archives, {names}; query one of them by its name"
            )
        self._archives[stream] = found[0]
        return self.load(*found[0])

    def close(self) -> None:
        """Close the catalog."""
        with self._opening:
            if self._catalog is not None:
                self._catalog.close()
            self._catalog = None

    def _opened(self) -> "Catalog":
        with self._opening:
            if self._catalog is None:
                self._catalog = open_catalog(self.settings)
            return self._catalog


def table_name(table: "Table") -> str:
    """Return the name of a table with its namespace."""
    return ".".join(table.name())


def archived_streams(table: "Table", *, kind: str = "") -> dict[str, ArchivedStream]:
    """Return the streams whose messages went into a table; with `kind`, by jobs of that kind."""
    return {
        stream: ArchivedStream(at.id, at.first, at.next, query.filter)
        for query in progress_of(table).values()
        if kind in ("", query.kind)
        for stream, at in query.streams.items()
    }


def table_schema(table: "Table") -> Any:
    """Return the columns of a table as an Arrow schema without metadata and without large types.

    Arrow has no Substrait form of large types, and conditions are read from that form.
    """
    import pyarrow as pa
    from pyiceberg.io.pyarrow import schema_to_pyarrow

    found = schema_to_pyarrow(table.schema(), include_field_ids=False)
    return pa.schema([pa.field(one.name, _small(one.type)) for one in found])


def _small(kind: Any) -> Any:
    """Return a type of Arrow with 32-bit offsets, in all its parts."""
    import pyarrow as pa

    if pa.types.is_large_string(kind):
        return pa.string()
    if pa.types.is_large_binary(kind):
        return pa.binary()
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return pa.list_(_small(kind.value_type))
    if pa.types.is_map(kind):
        return pa.map_(_small(kind.key_type), _small(kind.item_type))
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(part.name, _small(part.type)) for part in kind])
    return kind


def planned_files(table: "Table", condition: "BooleanExpression") -> "list[FileScanTask]":
    """Return the data files that may have rows of the condition, by partitions and statistics."""
    with readable(table):
        return list(table.scan(row_filter=condition).plan_files())


def read_rows(
    table: "Table", files: "Sequence[FileScanTask]", condition: "BooleanExpression", columns: Sequence[str]
) -> Iterator[Any]:
    """Yield the rows of the condition as record batches with these columns, file by file."""
    import pyarrow as pa
    from pyiceberg.io.pyarrow import ArrowScan

    whole = table_schema(table)
    form = pa.schema([whole.field(name) for name in columns])
    projection = table.schema().select(*columns)
    with readable(table):
        scan = ArrowScan(table.metadata, table.io, projection, condition)
    for file in files:
        with readable(table, f"{file.file.file_path}: "):
            for batch in scan.to_record_batches([file]):
                yield batch.select(list(columns)).cast(form)


@contextlib.contextmanager
def readable(table: "Table", place: str = "") -> Iterator[None]:
    """Turn errors of reading a table into one sentence that names it, and the place if it is known."""
    try:
        yield
    except LakeError:
        raise
    except Exception as error:
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise LakeError(f"table {table_name(table)} cannot be read: {place}{reason}") from error
