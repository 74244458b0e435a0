"""Read Spark's checkpoint of a query: the sequences that a batch covers, and the committed batches.

Spark writes `offsets/N` before batch N runs and `commits/N` after its sink has written it.  The offsets are
the data source's own JSON, so the exact range of a batch is known even if messages in it have been removed.
"""

import json
from typing import Final

from pyspark.sql import SparkSession

from millstream.spark.errors import CheckpointError
from millstream.spark.jobs.files import Files, open_files
from millstream.spark.offsets import Position, parse_text

_LEAST_LINES: Final = {"offsets": 3, "commits": 2}  # a version, then JSON
_READ_AT_START: Final = 2  # Spark reads the last two files of each folder


def sound_checkpoint(place: str, spark: SparkSession) -> str:
    """Return `place`, or raise CheckpointError.

    Spark's own error for a damaged file may not name the file.
    """
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
        """Return the id that Spark gave the query; it survives restarts.  Empty before the first start."""
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
        """Raise CheckpointError if a file that Spark reads at the start of the query is damaged."""
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
        """Return the range of a batch in each stream."""
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
        """Return the number of the last batch that Spark will not run again, or -1."""
        return max(self._batches("commits"), default=-1)

    def _batches(self, folder: str) -> list[int]:
        return sorted(int(name) for name in self._files.names(folder) if name.isdigit())
