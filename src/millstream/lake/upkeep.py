"""Keep a table small: merge small files, expire snapshots, remove files that nothing names.

    merge_files     the small files of a partition become one; the commit only exchanges them
    expire          snapshots go, then the files that only those named
    remove_orphans  files below the table's location that no snapshot names: left by tasks that failed, by
                    drivers that died, by commits that lost

All of it may run beside archives and other engines: a commit that loses is tried again on the table as it is
then, and a merge whose files have gone meanwhile is dropped.  Orphans have to be old, since the files of a
batch under way are not named yet; and they need names that we, or Iceberg's metadata, have.  Nothing outside
the table's location is ever removed.
"""

import contextlib
import re
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from millstream.lake.catalog import explained
from millstream.lake.data_files import PREFIX, FileTarget, LakeFile, conform, new_stem
from millstream.lake.errors import LakeError
from millstream.lake.places import is_local, local_path
from millstream.lake.progress import KEY, progress_of, to_text
from millstream.lake.table import LakeTable

if TYPE_CHECKING:
    from pyiceberg.manifest import DataFile
    from pyiceberg.table import FileScanTask, Table, Transaction

_OUR_DATA: Final = re.compile(rf"{PREFIX}b\d{{12}}-[0-9a-f]{{32}}-\d{{5}}-\d{{5}}\.parquet")
_METADATA: Final = re.compile(
    r"snap-\d+-\d+-[0-9a-f-]{36}\.avro|[0-9a-f-]{36}-m\d+\.avro|\d{5,}-[0-9a-f-]{36}\.metadata\.json"
)
_OPERATION: Final = "millstream.upkeep"  # a property of our merging snapshots


@dataclass(frozen=True, slots=True)
class MergedFiles:
    """The result of merging."""

    partitions: int = 0
    before: int = 0
    after: int = 0
    rows: int = 0


def merge_files(table: LakeTable, *, least: int, large_bytes: int) -> MergedFiles:
    """Merge the files of each partition that has at least `least` smaller than `large_bytes`."""
    done = MergedFiles()
    with explained(table.catalog.name):
        groups = _groups(table.load(), large_bytes)
    for files in groups:
        if len(files) < max(2, least):
            continue
        for run in _runs(files, large_bytes):
            if len(run) > 1 and _merge_run(table, run):
                rows = sum(one.record_count for one in run)
                done = MergedFiles(done.partitions, done.before + len(run), done.after + 1, done.rows + rows)
        done = MergedFiles(done.partitions + 1, done.before, done.after, done.rows)
    return done


def expire(table: LakeTable, *, keep: int, older_than_s: float = 0.0) -> int:
    """Expire snapshots except the newest `keep`, heads of branches and tags, and those not old enough.

    Returns the number of expired snapshots.
    """
    if keep < 1:
        raise LakeError("at least one snapshot is kept")
    unnamed: list[str] = []
    expired = 0

    def stage(loaded: "Table", transaction: "Transaction") -> bool:
        nonlocal expired
        limit_ms = (time.time() - older_than_s) * 1000
        protected = {ref.snapshot_id for ref in loaded.refs().values()}
        by_age = sorted(loaded.snapshots(), key=lambda one: one.sequence_number or 0)
        goes = [
            one for one in by_age[:-keep] if one.snapshot_id not in protected and one.timestamp_ms < limit_ms
        ]
        expired = len(goes)
        if not goes:
            return False
        gone = {one.snapshot_id for one in goes}
        stays = [one for one in loaded.snapshots() if one.snapshot_id not in gone]
        unnamed[:] = _candidates(loaded, goes, stays)
        from pyiceberg.table.update.snapshot import ExpireSnapshots

        ExpireSnapshots(transaction).by_ids(sorted(gone)).commit()
        return True

    table.commit(stage)
    if expired:
        loaded = table.load()
        named = _named(loaded)  # somebody may have gone back to an old snapshot before the commit
        _delete(loaded, [path for path in unnamed if path not in named])
    return expired


def remove_orphans(table: LakeTable, *, older_than_s: float) -> list[str]:
    """Remove old files of ours that no snapshot names; return their paths.  Local folders only."""
    loaded = table.load()
    if not is_local(loaded.location()):
        raise LakeError(f"table {table.name}: orphans can only be found in a local folder")
    limit = time.time() - older_than_s
    root = local_path(loaded.location())
    candidates = [
        f"{loaded.location().rstrip('/')}/{place.relative_to(root)}"
        for folder, pattern in (("data", _OUR_DATA), ("metadata", _METADATA))
        for place in sorted((root / folder).rglob("*"))
        if pattern.fullmatch(place.name)
        and place.is_file()
        and not place.is_symlink()
        and place.stat().st_mtime < limit
    ]
    if not candidates:
        return []
    named = _named(table.load())  # after the list, so that a file committed meanwhile is named
    orphans = [path for path in candidates if path not in named]
    _delete(loaded, orphans)
    return orphans


def current_files(table: "Table") -> "list[FileScanTask]":
    """Return the live data files; raise LakeError if another engine has deleted rows of them."""
    tasks = list(table.scan().plan_files())
    if any(task.delete_files for task in tasks):
        name = ".".join(table.name())
        raise LakeError(f"table {name} has deleted rows (merge-on-read), which Millstream cannot leave out")
    return tasks


def _groups(table: "Table", large_bytes: int) -> "Iterator[list[DataFile]]":
    """Yield the small files of each partition, in the order of their first row."""
    found: dict[Any, list[DataFile]] = {}
    for task in table.scan().plan_files():
        file = task.file
        ours = file.spec_id == table.spec().spec_id and is_local(file.file_path)
        if ours and file.file_size_in_bytes < large_bytes and not task.delete_files:
            found.setdefault(str(file.partition), []).append(file)
    position = table.schema().find_field("seq").field_id if "seq" in table.schema().column_names else None

    def first(file: "DataFile") -> tuple[int, str]:
        low = (file.lower_bounds or {}).get(position) if position is not None else None
        return (int.from_bytes(low, "little", signed=True) if low else 0, file.file_path)

    for files in found.values():
        yield sorted(files, key=first)


def _runs(files: "list[DataFile]", large_bytes: int) -> "Iterator[list[DataFile]]":
    """Yield neighbouring files that together are not much larger than `large_bytes`."""
    run: list[DataFile] = []
    size = 0
    for file in files:
        if run and size + file.file_size_in_bytes > large_bytes:
            yield run
            run, size = [], 0
        run.append(file)
        size += file.file_size_in_bytes
    if run:
        yield run


def _merge_run(table: LakeTable, run: "list[DataFile]") -> bool:
    """Write the rows of some files into one and exchange them; return False if one of them is gone."""
    target = table.file_target(0)
    folder = run[0].file_path.rpartition("/")[0]
    merged = _copied(target, run, f"{folder}/{new_stem(target.batch)}-00000-00000.parquet")
    wanted = {one.file_path for one in run}
    done = False

    def stage(loaded: "Table", transaction: "Transaction") -> bool:
        from pyiceberg.io.pyarrow import parquet_file_to_data_file

        nonlocal done
        live = {task.file.file_path: task for task in loaded.scan().plan_files()}
        if merged in live:
            done = True
            return False
        if not wanted <= live.keys() or any(live[path].delete_files for path in wanted):
            done = False
            return False
        text = to_text(progress_of(loaded))
        properties = {KEY: text, _OPERATION: "merge"}
        with transaction.update_snapshot(snapshot_properties=properties).overwrite() as overwrite:
            for path in wanted:
                overwrite.delete_data_file(live[path].file)
            overwrite.append_data_file(parquet_file_to_data_file(loaded.io, loaded.metadata, merged))
        done = True
        return True

    table.commit(stage)
    return done


def _copied(target: FileTarget, run: "list[DataFile]", path: str) -> str:
    """Copy the rows of some files into a new one, in order, with bounded memory."""
    import pyarrow.parquet as pq

    written = LakeFile(target, path)
    place = local_path(path)
    try:
        for one in run:
            place = local_path(one.file_path)
            with pq.ParquetFile(place) as file:
                for batch in file.iter_batches():
                    written.add(conform(batch, target.schema))
        expected = sum(one.record_count for one in run)
        if written.rows != expected:
            raise LakeError(f"{place.parent}: {written.rows} rows were merged, not {expected}")
        written.close()
    except BaseException as error:
        written.discard()
        if isinstance(error, FileNotFoundError):
            raise LakeError(f"{place} is gone, although the table names it") from None
        if isinstance(error, OSError | ValueError):
            raise LakeError(f"{place} is damaged: {str(error).splitlines()[0]}") from None
        raise
    return path


def _manifests(table: "Table", snapshots: Iterable[Any]) -> dict[str, Any]:
    return {manifest.manifest_path: manifest for one in snapshots for manifest in one.manifests(table.io)}


def _data_files(table: "Table", manifests: Iterable[Any]) -> set[str]:
    return {
        entry.data_file.file_path
        for manifest in manifests
        for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=True)
    }


def _candidates(table: "Table", goes: list[Any], stays: list[Any]) -> list[str]:
    """Return the files that may be named by the snapshots to expire only."""
    leaving, staying = _manifests(table, goes), _manifests(table, stays)
    only = [manifest for path, manifest in leaving.items() if path not in staying]
    lists = {one.manifest_list for one in goes}
    return sorted({one.manifest_path for one in only} | _data_files(table, only) | lists)


def _named(table: "Table") -> set[str]:
    """Return every file that the table names."""
    metadata = table.metadata
    manifests = _manifests(table, table.snapshots())
    return (
        {table.metadata_location}
        | {one.metadata_file for one in metadata.metadata_log}
        | {one.manifest_list for one in table.snapshots()}
        | {one.statistics_path for one in metadata.statistics}
        | set(manifests)
        | _data_files(table, manifests.values())
    )


def _delete(table: "Table", paths: Iterable[str]) -> None:
    """Delete files below the table's location; one that is gone already is no error.

    Paths come from metadata that others may have written, so those that lead upwards are left alone.
    """
    root = table.location().rstrip("/") + "/"
    for path in paths:
        if path.startswith(root) and ".." not in path.removeprefix(root).split("/"):
            with contextlib.suppress(FileNotFoundError, OSError):
                table.io.delete(path)
