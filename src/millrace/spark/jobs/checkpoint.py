"""What Spark's checkpoint of a query says: which sequences a batch covers, and which batches are done.

Spark writes `offsets/N` before batch N runs and `commits/N` when its sink has it.  The offsets are the data
source's own JSON, so the exact range of a batch is known even when messages in it are gone.
"""

import json

from millrace.spark.errors import CheckpointError
from millrace.spark.jobs.files import Files
from millrace.spark.offsets import Position, parse_text


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
        done = [int(name) for name in self._files.names("commits") if name.isdigit()]
        return max(done, default=-1)
