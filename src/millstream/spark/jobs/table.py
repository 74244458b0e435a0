"""A table of Parquet files in which any Parquet reader sees every row exactly once.

    <root>/stream=ORDERS/day=2026-10-01/batch=b000000000012/part-….parquet
    <root>/_millstream/table.json   what the table is, and which query writes it
    <root>/_millstream/batches/000000000012.json  from and next of each stream, rows: written last
    <root>/_millstream/staging/  a batch while it is written; readers skip names that begin with _

A batch is written to the staging folder, and its folders are then renamed to their place, so no reader sees a
partial folder; folders of an earlier attempt are replaced.  A batch is complete when its manifest exists: if
the driver dies before that, Spark runs the batch again and writes the same folders once more.

Always true: a folder `batch=bN` without manifest N belongs to the batch that is being written, and there is
at most one such N;  `batch=bA_bB` contains the merged batches A to B, which all have manifests.

Only an empty folder becomes a table, so the table never contains files of others.  Of a batch, only files
written by Spark or a compaction are removed (`files.BATCH_FILES`).

Not here: merging folders (`compaction`), the callers (`archive`, `transform`).
"""

import fcntl
import json
import os
import re
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from millstream.base.owned import few
from millstream.spark.jobs.errors import TableError
from millstream.spark.jobs.files import Files, LocalFiles
from millstream.spark.offsets import Position

HIDDEN: Final = "_millstream"
STAGING: Final = f"{HIDDEN}/staging"
BATCHES: Final = f"{HIDDEN}/batches"
BATCH: Final = "batch"  # name of the innermost partition column
_ABOUT: Final = f"{HIDDEN}/table.json"
_LOCK: Final = f"{HIDDEN}/lock"
_VERSION: Final = 1
# Names that may exist before a table is claimed: a checkpoint in it, and the remains of a crash during the
# claim.
_BEFORE_CLAIM: Final = ("checkpoint", "lock", ".table.json.new", "table.json.new")
_BATCH_FOLDER: Final = re.compile(rf"{BATCH}=b[0-9]{{12}}(_b[0-9]{{12}})?")


@dataclass(frozen=True, slots=True)
class Manifest:
    """One batch: the sequences that it covers and its number of rows."""

    batch: int
    rows: int
    streams: Mapping[str, Position]

    def as_json(self) -> dict[str, Any]:
        streams = {
            name: {"from": at.start, "id": at.id, "next": at.next}
            for name, at in sorted(self.streams.items())
        }
        return {"batch": self.batch, "rows": self.rows, "streams": streams}

    @classmethod
    def from_json(cls, one: Mapping[str, Any]) -> "Manifest":
        streams = {
            name: Position(at["id"], at["from"], at["next"], int(at["next"] > at["from"]))
            for name, at in one["streams"].items()
        }
        return cls(one["batch"], one["rows"], streams)


def batch_name(first: int, last: int | None = None) -> str:
    """Return the value of the column `batch`: sorts like the batch numbers and never looks like a number."""
    return f"b{first:012d}" if last is None else f"b{first:012d}_b{last:012d}"


def batch_numbers(name: str) -> tuple[int, int]:
    """Return first and last batch of a folder's name (`batch=b…` or the value alone)."""
    first, _, last = name.removeprefix(f"{BATCH}=").partition("_")
    return int(first[1:]), int((last or first)[1:])


class ParquetTable:
    """The table in one folder; `partition` are the partition columns outside the batch."""

    def __init__(self, files: Files, partition: Sequence[str]) -> None:
        self.files = files
        self.partition = tuple(partition)
        self._recovered = False

    @property
    def root(self) -> str:
        return self.files.root

    @property
    def exists(self) -> bool:
        return self.files.exists(_ABOUT)

    @classmethod
    def open(cls, files: Files) -> "ParquetTable":
        """Open an existing table; raise TableError if the folder is not a table of ours."""
        return cls(files, _about(files)["partition"])

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Exclude every other writer; a writer that died leaves no lock.

        Works on local folders only.  Hadoop has no locks; there the owner in `table.json` must suffice.
        """
        if not isinstance(self.files, LocalFiles):
            yield
            return
        self._refuse_foreign()
        path = self.files.path(_LOCK)
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise TableError(f"table {self.root} is being written by another process") from None
            yield
        finally:
            os.close(descriptor)

    def claim(self, query: str, details: Mapping[str, Any]) -> None:
        """Make this query the owner of the table, or check that it is; raise TableError if it is not.

        The query numbers the batches: another one would begin at 0 again and replace existing batches.
        """
        wanted = {"v": _VERSION, "partition": list(self.partition), "query": query, **details}
        if not self.exists:
            self._refuse_foreign()
            self.files.write(_ABOUT, json.dumps(wanted))
            return
        about = _about(self.files)
        if about["query"] != query:
            raise TableError(
                f"table {self.root} is written with another checkpoint (query {about['query']}); "
                "use that checkpoint, or another table"
            )
        for key, value in wanted.items():
            if about.get(key) != value:
                raise TableError(f"table {self.root} was made with {key} {about.get(key)!r}, not {value!r}")

    def _refuse_foreign(self) -> None:
        """Raise TableError if the folder is not a table and not empty."""
        if self.exists:
            return
        found = [name for name in self.files.folders("") + self.files.names("") if name != HIDDEN]
        inside = self.files.folders(HIDDEN) + self.files.names(HIDDEN)
        found += [f"{HIDDEN}/{name}" for name in inside if name not in _BEFORE_CLAIM]
        if found:
            raise TableError(
                f"{self.root} holds {few(found)}, but is no table of Millstream; choose an empty folder"
            )

    def details(self) -> Mapping[str, Any]:
        """Return the details given to `claim`."""
        return _about(self.files)

    def write_batch(self, rows: DataFrame, batch: int, streams: Mapping[str, Position]) -> Manifest:
        """Write a batch, again if necessary; do nothing if its manifest exists."""
        written = self.manifest(batch)
        if written is not None:
            return written
        self._recover()
        # Each attempt has its own folder: the JVM of a killed driver may still write to its folder.
        staging = f"{STAGING}/{uuid.uuid4().hex}"
        counted = Observation()
        (
            rows.withColumn(BATCH, F.lit(batch_name(batch)))
            .observe(counted, F.count(F.lit(1)).alias("rows"))
            .write.partitionBy(*self.partition, BATCH)
            .mode("overwrite")
            .parquet(self.files.at(staging))
        )
        for folder in self._leaves(staging):
            place = folder.removeprefix(f"{staging}/")
            self.files.remove(place)
            self.files.move(folder, place)
            self.files.keep(place)  # Spark does not sync, and a purge may follow the manifest
        self.files.remove(staging)
        manifest = Manifest(batch, int(counted.get["rows"]), streams)
        self.files.write(f"{BATCHES}/{batch:012d}.json", json.dumps(manifest.as_json()))
        return manifest

    def _recover(self) -> None:
        """Remove the remains of a writer that died, once: staged files and the batch without a manifest."""
        if self._recovered:
            return
        self.files.remove(STAGING)
        last = self.last_batch()
        for leaf in self.leaves():
            if batch_numbers(leaf.rpartition("/")[2])[1] > last:
                self.files.remove(leaf)
        self._recovered = True

    def manifest(self, batch: int) -> Manifest | None:
        """Return the manifest of one batch, from its own file or a merged one; None if there is none."""
        try:
            return Manifest.from_json(json.loads(self.files.read(f"{BATCHES}/{batch:012d}.json")))
        except FileNotFoundError:
            pass
        for name in self._manifest_names():
            first, separator, last = name.removesuffix(".json").partition("-")
            if separator and int(first) <= batch <= int(last):
                return next((one for one in self._read_manifests(name) if one.batch == batch), None)
        return None

    def manifests(self) -> list[Manifest]:
        """Return the manifests of all complete batches, in order."""
        found: dict[int, Manifest] = {}
        for name in self._manifest_names():
            found.update((one.batch, one) for one in self._read_manifests(name))
        return [found[batch] for batch in sorted(found)]

    def merge_manifests(self) -> None:
        """Merge the manifests into one file.  A kill in between leaves both, which agree."""
        names = self._manifest_names()
        if len(names) < 2:
            return
        batches = self.manifests()
        merged = f"{batches[0].batch:012d}-{batches[-1].batch:012d}.json"
        self.files.write(f"{BATCHES}/{merged}", json.dumps([one.as_json() for one in batches]))
        for name in names:
            if name != merged:
                self.files.remove(f"{BATCHES}/{name}")

    def last_batch(self) -> int:
        """Return the number of the last complete batch, or -1."""
        numbers = [int(name.removesuffix(".json").rpartition("-")[2]) for name in self._manifest_names()]
        return max(numbers, default=-1)

    def _manifest_names(self) -> list[str]:
        """Return the names of manifest files, without files whose writing was interrupted."""
        return [name for name in self.files.names(BATCHES) if name.endswith(".json")]

    def read(self, spark: SparkSession, schema: StructType) -> DataFrame:
        """Return every row of the complete batches, with the partition columns and `batch`."""
        last = self.last_batch()
        whole = StructType(schema.fields).add(BATCH, "string")
        if not self.leaves():
            return spark.createDataFrame([], whole)
        return spark.read.schema(whole).parquet(self.root).where(F.col(BATCH) <= batch_name(last, last))

    def leaves(self) -> list[str]:
        """Return the batch folders that readers see."""
        return self._leaves("")

    def _leaves(self, top: str) -> list[str]:
        """Return the batch folders below a folder."""
        found = [top]
        for _ in range(len(self.partition) + 1):
            found = [
                f"{folder}/{name}" if folder else name
                for folder in found
                for name in self.files.folders(folder)
                if "=" in name
            ]
        return [folder for folder in found if _BATCH_FOLDER.fullmatch(folder.rpartition("/")[2])]

    def _read_manifests(self, name: str) -> list[Manifest]:
        path = f"{BATCHES}/{name}"
        try:
            document = json.loads(self.files.read(path))
            return [
                Manifest.from_json(one) for one in (document if isinstance(document, list) else [document])
            ]
        except (ValueError, KeyError, TypeError):
            raise TableError(f"{self.files.at(path)} is damaged") from None


def _about(files: Files) -> dict[str, Any]:
    try:
        about = json.loads(files.read(_ABOUT))
    except FileNotFoundError:
        raise TableError(f"{files.root} is no table that Millstream wrote") from None
    except ValueError:
        raise TableError(f"{files.at(_ABOUT)} is damaged") from None
    if not isinstance(about, dict) or about.get("v") != _VERSION:
        raise TableError(f"{files.at(_ABOUT)} is of another version")
    return about
