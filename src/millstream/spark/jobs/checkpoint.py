"""What Spark's checkpoint of a query says: which sequences a batch covers, and which batches are done.

Spark writes `offsets/N` before batch N runs and `commits/N` when its sink has it.  The offsets are the data
source's own JSON, so the exact range of a batch is known even when messages in it are gone.
"""

import json
from typing import Final

from pyspark.sql import SparkSession

from millstream.spark.errors import CheckpointError
from millstream.spark.jobs.files import Files, open_files
from millstream.spark.offsets import Position, parse_text

_LEAST_LINES: Final = {"offsets": 3, "commits": 2}  # a version, then JSON
_READ_AT_START: Final = 2  # of each folder, by Spark: the last one, and the one before


def sound_checkpoint(place: str, spark: SparkSession) -> str:
    """`place` again, or CheckpointError: Spark's own words for a damaged file do not always name it."""
    Checkpoint(open_files(place, spark)).check()
    return place


class Checkpoint:
    """The checkpoint folder of one query."""

    def __init__(self, files: Files) -> None:
        self._files = files

    @property
    def folder(self) -> str:
        return self._files.root

    def query_id(self) -> str:
        """The identity that Spark gave the query; the same after every restart.  Empty before the first."""
        try:
            return str(json.loads(self._files.read("metadata"))["id"])
        except FileNotFoundError:
            return ""
        except (ValueError, KeyError, TypeError):
            raise CheckpointError(
                f"{self._files.at('metadata')} is damaged, so Spark cannot tell whose checkpoint this is; "
                "restore it, or start with a new checkpoint and a new table"
            ) from None

    def check(self) -> None:
        """CheckpointError if a file that Spark reads when the query starts is damaged."""
        self.query_id()
        for folder in _LEAST_LINES:
            for batch in self._batches(folder)[-_READ_AT_START:]:
                self._check_log(folder, batch)

    def _check_log(self, folder: str, batch: int) -> None:
        path = f"{folder}/{batch}"
        try:
            version, *rest = self._files.read(path).splitlines() or [""]
            if not version.startswith("v") or 1 + len(rest) < _LEAST_LINES[folder]:
                raise ValueError("cut off")
            for line in rest:
                if line.strip() not in ("", "-"):
                    json.loads(line)
        except ValueError:
            raise CheckpointError(
                f"{self._files.at(path)} is damaged; restore the checkpoint, or start with a new one where "
                "this one was"
            ) from None

    def ranges(self, batch: int) -> dict[str, Position]:
        """Where a batch begins and ends in each stream."""
        path = f"offsets/{batch}"
        try:
            lines = self._files.read(path).splitlines()
        except FileNotFoundError:
            raise CheckpointError(f"{self._files.at(path)} is missing in the checkpoint") from None
        # A version, the state of the query, then one line for each source.
        return {
            name: position
            for line in lines[2:]
            if line.strip() not in ("", "-")
            for name, position in parse_text(line).streams.items()
        }

    def last_committed(self) -> int:
        """Number of the last batch that Spark will never run again; -1 if there is none."""
        return max(self._batches("commits"), default=-1)

    def _batches(self, folder: str) -> list[int]:
        return sorted(int(name) for name in self._files.names(folder) if name.isdigit())
