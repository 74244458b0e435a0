"""An Iceberg table that queries fill batch by batch, each batch exactly once.

The driver adds the files of a batch and the new progress (`progress`) in one commit, whose condition is that
nobody else has committed since the table was loaded.  If that fails, or the catalog does not say whether it
worked, the table is loaded again: either the batch is in its progress, which ends the commit, or it is not,
and the commit is tried again on top of what is there now.  A commit that is still under way somewhere and
arrives late fails by the same condition.  This holds for any number of drivers, dead or alive.

PyIceberg would repeat a failed commit by itself, without a look at the progress, so that is turned off for
the loaded table; the table's own property, which other engines follow, stays as it is.

Not here: writing data files (`data_files`), merging and removing them (`upkeep`).
"""

import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from millstream.lake.catalog import explain, explained, may_pass
from millstream.lake.data_files import FileTarget, PartitionColumn
from millstream.lake.errors import LakeUnavailable, TableRefused
from millstream.lake.progress import KEY, Progress, QueryProgress, StreamProgress, progress_of, to_text

if TYPE_CHECKING:
    import pyarrow as pa
    from pyiceberg.catalog import Catalog
    from pyiceberg.schema import Schema
    from pyiceberg.table import Table, Transaction

MADE_BY: Final = "millstream.table"  # a property of tables that we created; its value is the kind
PAYLOAD: Final = "millstream.payload"  # a property: the columns of the payload as DDL
QUERY: Final = "millstream.query"
BATCH: Final = "millstream.batch"
_UNMEASURED: Final = "write.metadata.metrics.column."
_PROPERTIES: Final = {
    "format-version": "2",
    "commit.manifest-merge.enabled": "true",
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "20",
    "write.parquet.compression-codec": "zstd",
}
_NUM_RETRIES: Final = "commit.retry.num-retries"
_FIRST_PAUSE_S: Final = 0.05
_LONGEST_PAUSE_S: Final = 2.0
PATIENCE_S: Final = 60.0

Stage = Callable[["Table", "Transaction"], bool]


@dataclass(frozen=True, slots=True)
class TableForm:
    """The form of a table to create: columns, partition fields, order of rows."""

    kind: str
    columns: "pa.Schema"
    partition: tuple[PartitionColumn, ...]
    order: tuple[str, ...] = ()
    unmeasured: tuple[str, ...] = ()  # paths of columns without statistics
    payload: str = ""  # the columns of the payload as DDL, if it has any


class LakeTable:
    """One table of a catalog."""

    def __init__(self, catalog: "Catalog", name: str, patience_s: float = PATIENCE_S) -> None:
        self.catalog = catalog
        self.name = name
        self._patience_s = patience_s

    @classmethod
    def open(cls, catalog: "Catalog", name: str) -> "LakeTable":
        """Open an existing table of ours; raise TableRefused if there is none, or it is not ours."""
        table = cls(catalog, name)
        table._refuse_foreign(table.load(), None)
        return table

    @classmethod
    def ensure(cls, catalog: "Catalog", name: str, form: TableForm) -> "LakeTable":
        """Open the table, or create it; add columns that it lacks; raise TableRefused if they do not fit."""
        table = cls(catalog, name)
        with explained(catalog.name):
            if not catalog.table_exists(name):
                table._create(form)
        loaded = table.load()
        table._refuse_foreign(loaded, form.kind)
        table._adopt_columns(form)
        return table

    def load(self) -> "Table":
        with explained(self.catalog.name, self.name):
            return self.catalog.load_table(self.name)

    def progress(self) -> Progress:
        return progress_of(self.load())

    def file_target(self, batch: int) -> FileTarget:
        """Return where the files of a batch go."""
        from pyiceberg.io.pyarrow import schema_to_pyarrow

        table = self.load()
        prefix, suffix = _UNMEASURED, "none"
        unmeasured = [
            key.removeprefix(prefix)
            for key, value in table.properties.items()
            if key.startswith(prefix) and value == suffix
        ]
        return FileTarget(
            location=table.location().rstrip("/"),
            schema=schema_to_pyarrow(table.schema()),
            partition=partition_columns(table),
            batch=batch,
            unmeasured=frozenset(name.partition(".")[0] for name in unmeasured),
            io=dict(table.io.properties),
        )

    def commit_batch(
        self,
        query: str,
        batch: int,
        paths: Sequence[str],
        *,
        advance: Callable[[Progress], QueryProgress],
    ) -> None:
        """Add the files of a batch, unless the batch is in the table already.

        `advance` gets the progress on which the commit is based and returns that of the query afterwards; it
        raises an error if the batch may not be added.
        """

        def stage(table: "Table", transaction: "Transaction") -> bool:
            before = progress_of(table)
            if query in before and before[query].batch >= batch:
                return False
            text = to_text({**before, query: advance(before)})
            about = {QUERY: query, BATCH: str(batch), KEY: text}
            if paths:
                transaction.add_files(list(paths), snapshot_properties=about, check_duplicate_files=False)
            else:
                with transaction.update_snapshot(snapshot_properties=about).merge_append():
                    pass  # a snapshot without files, for its progress
            transaction.set_properties({KEY: text})
            return True

        self.commit(stage)

    def commit(self, stage: Stage) -> None:
        """Commit what `stage` stages; again, from the table as it is then, until it is done or says no.

        `stage` returns False if there is nothing to do.  It is called again after a commit whose outcome is
        unknown, so it must see in the table whether that commit has arrived.
        """
        from pyiceberg.exceptions import CommitFailedException

        deadline = time.monotonic() + self._patience_s
        pause_s = _FIRST_PAUSE_S
        while True:
            try:
                table = _without_retries(self.catalog.load_table(self.name))
                transaction = table.transaction()
                if stage(table, transaction):
                    transaction.commit_transaction()
                return
            except CommitFailedException as error:
                failure: Exception = error
            except Exception as error:
                if not may_pass(error):
                    with explained(self.catalog.name):
                        raise
                failure = error
            if time.monotonic() > deadline:
                if isinstance(failure, CommitFailedException):
                    raise LakeUnavailable(
                        f"table {self.name}: others committed to it all the time for {self._patience_s:g} s"
                    ) from failure
                raise explain(failure, self.catalog.name) from failure
            time.sleep(pause_s * random.uniform(0.5, 1.0))
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)

    def _create(self, form: TableForm) -> None:
        from pyiceberg.exceptions import TableAlreadyExistsError
        from pyiceberg.transforms import DayTransform, IdentityTransform, Transform

        namespace, _, _ = self.name.rpartition(".")
        self.catalog.create_namespace_if_not_exists(namespace)
        properties = {
            **_PROPERTIES,
            MADE_BY: form.kind,
            **{f"{_UNMEASURED}{path}": "none" for path in form.unmeasured},
        }
        try:
            with self.catalog.create_table_transaction(
                self.name, schema=form.columns, properties=properties
            ) as transaction:
                if form.partition:
                    with transaction.update_spec() as spec:
                        for one in form.partition:
                            transform: Transform[Any, Any] = (
                                DayTransform() if one.by_day else IdentityTransform()
                            )
                            spec.add_field(one.column, transform, one.name)
                if form.order:
                    with transaction.update_sort_order() as order:
                        for column in form.order:
                            order.asc(column, IdentityTransform())
        except TableAlreadyExistsError:
            pass  # another archive was faster

    def _refuse_foreign(self, table: "Table", kind: str | None) -> None:
        made = table.properties.get(MADE_BY)
        if made is None:
            columns = ", ".join(field.name for field in table.schema().fields[:8])
            raise TableRefused(
                f"table {self.name} was not made by Millstream (columns: {columns}); choose another name"
            )
        if kind is not None and made != kind:
            raise TableRefused(f"table {self.name} was made by a job of kind {made}, not {kind}")

    def _adopt_columns(self, form: TableForm) -> None:
        """Add columns and widen types by Iceberg's rules; commit nothing if nothing changes."""

        def stage(table: "Table", transaction: "Transaction") -> bool:
            before = table.schema()
            try:
                _check_scales(before, form.columns)
                with transaction.update_schema() as update:
                    update.union_by_name(form.columns)
            except Exception as error:
                reason = str(error).splitlines()[0].rstrip(".")
                raise TableRefused(f"table {self.name} cannot take these columns: {reason}") from None
            changed = transaction.table_metadata.schema().as_struct() != before.as_struct()
            if table.properties.get(PAYLOAD, "") != form.payload:
                transaction.set_properties({PAYLOAD: form.payload})
                changed = True
            return changed

        self.commit(stage)


def archived(
    kind: str,
    batch: int,
    before: QueryProgress | None,
    ranges: Mapping[str, tuple[str, int, int]],
    filter: Sequence[str],
) -> QueryProgress:
    """Return the progress of a query after a batch; `ranges` are id, start and next of each stream."""
    streams = dict(before.streams) if before else {}
    for name, (id, start, following) in ranges.items():
        known = streams.get(name)
        if known is None:
            streams[name] = StreamProgress(id, start, start, following)
        else:
            streams[name] = known.moved(start, following)
    return QueryProgress(batch, kind, tuple(sorted(filter)), streams)


def partition_columns(table: "Table") -> tuple[PartitionColumn, ...]:
    """Return the partition fields of a table; raise TableRefused for one that Millstream does not write."""
    found = []
    for one in table.spec().fields:
        transform = str(one.transform)
        if transform not in ("identity", "day"):
            raise TableRefused(f"table {'.'.join(table.name())} is partitioned by {transform} now")
        column = table.schema().find_column_name(one.source_id)
        assert column is not None
        found.append(PartitionColumn(one.name, column, transform == "day"))
    return tuple(found)


def _check_scales(schema: "Schema", columns: "pa.Schema") -> None:
    """Raise ValueError for a decimal of another scale than in the table: PyIceberg lets it pass."""
    from pyiceberg.io.pyarrow import schema_to_pyarrow

    known = schema_to_pyarrow(schema)
    for column in columns:
        if column.name in known.names:
            _compare_scales(column.name, known.field(column.name).type, column.type)


def _compare_scales(name: str, known: Any, wanted: Any) -> None:
    import pyarrow as pa

    if pa.types.is_decimal(known) and pa.types.is_decimal(wanted) and known.scale != wanted.scale:
        raise ValueError(f"Cannot change column type: {name}: {known} -> {wanted}")
    if pa.types.is_struct(known) and pa.types.is_struct(wanted):
        parts = {one.name: one.type for one in known}
        for part in wanted:
            _compare_scales(f"{name}.{part.name}", parts.get(part.name, part.type), part.type)
    elif pa.types.is_nested(known) and pa.types.is_nested(wanted):  # lists and maps
        _compare_scales(name, known.field(0).type, wanted.field(0).type)


def _without_retries(table: "Table") -> "Table":
    """Return the loaded table with PyIceberg's own retries turned off; the catalog does not see this."""
    properties = {**table.metadata.properties, _NUM_RETRIES: "0"}
    table.metadata = table.metadata.model_copy(update={"properties": properties})
    return table
