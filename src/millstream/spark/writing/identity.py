"""The identity of a task: the same for every attempt at the same rows.

A streaming write is a batch of a query: both are Spark's and stay the same when a batch is repeated, after
any restart.  A batch write has a name that the driver generates and all its tasks share.
"""

import secrets
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TaskIdentity:
    """The rows of one partition of one batch."""

    query: str
    batch: int
    partition: int
    attempt: int = 0  # informational: all attempts have the same rows

    @property
    def id_start(self) -> bytes:
        """Return the prefix of the rows' ids; the number of the row follows."""
        return f"{self.query}:{self.batch}:{self.partition}:".encode()

    def __str__(self) -> str:
        return f"partition {self.partition} of batch {self.batch}"


def new_write_name() -> str:
    """Return a name for a batch write, which has no query."""
    return secrets.token_hex(8)


def identity_of_task(write_name: str | None) -> TaskIdentity:
    """Return the identity of this task in a batch write, or (None) in a batch of a query."""
    from pyspark import TaskContext

    context = TaskContext.get()
    partition = context.partitionId() if context is not None else 0
    attempt = context.attemptNumber() if context is not None else 0
    if write_name is not None:
        return TaskIdentity(write_name, 0, partition, attempt)
    query = context.getLocalProperty("sql.streaming.queryId") if context is not None else None
    batch = context.getLocalProperty("streaming.sql.batchId") if context is not None else None
    if query is None or batch is None:
        raise RuntimeError("Spark did not tell which query and which batch this task belongs to")
    return TaskIdentity(query, int(batch), partition, attempt)
