"""A relation as DuckDB reads it: a pyarrow dataset whose scans know which columns and rows are wanted.

DuckDB calls `scanner` of a registered dataset once for each scan of a query, with the columns and the filter
that are to be applied.  Rows must be exactly those of the filter; so the stream or table is read within
the spans of the filter, and the filter is applied to what comes.
"""

from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds

from millstream.queries.relations import Relation, RelationPart
from millstream.queries.substrait import columns_of, spans_of

# Yields the record batches of a part of a stream or table.
Opener = Callable[[RelationPart], Iterator[Any]]


class RelationDataset(ds.Dataset):  # type: ignore[misc]
    """A relation that is read anew by each scan."""

    def __init__(self, relation: Relation, opener: Opener) -> None:
        self._relation = relation
        self._opener = opener

    @property
    def schema(self) -> Any:
        """The columns of the relation."""
        return self._relation.schema

    def scanner(self, columns: list[str] | None = None, filter: Any = None, **_: object) -> "RelationScan":
        """Return a scan of some columns, of the rows that a filter keeps."""
        return RelationScan(self._relation, self._opener, columns, filter)


class RelationScan:
    """One scan; reading begins with the first batch."""

    def __init__(self, relation: Relation, opener: Opener, columns: list[str] | None, condition: Any) -> None:
        names = list(relation.schema.names)
        self._relation = relation
        self._opener = opener
        self._columns = names if columns is None else list(columns)
        needed = columns_of(condition, relation.schema)
        self._read = [name for name in names if name in needed or name in self._columns]
        self._condition = condition
        self.scan = relation.scan(self._read, spans_of(condition, relation.schema))

    def to_reader(self) -> Any:
        """Return the rows batch by batch."""
        fields = [self._relation.schema.field(name) for name in self._columns]
        return pa.RecordBatchReader.from_batches(pa.schema(fields), self._batches())

    def _batches(self) -> Iterator[Any]:
        for raw in self._opener(self.scan):
            batch = self._relation.shaped(raw, self._read)
            if self._condition is not None:
                batch = batch.filter(self._condition)
            if batch.num_rows:
                yield batch.select(self._columns)
