"""Who a task is: which rows are its own, however often it is tried.

A streaming write is the batch of a query: both numbers are Spark's and the same when a batch is done again,
after any restart.  A batch write has a name of its own that the driver makes up and all its tasks share.
"""

import secrets
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TaskIdentity:
    """The rows of one partition of one batch."""

    query: str
    batch: int
    partition: int
    attempt: int = 0  # only for people: two attempts are the same rows

    @property
    def id_start(self) -> bytes:
        """What the ids of the rows begin with; the number of the row follows."""
        return f"{self.query}:{self.batch}:{self.partition}:".encode()

    def __str__(self) -> str:
        return f"partition {self.partition} of batch {self.batch}"


def new_write_name() -> str:
    """For a batch write, which has no query."""
    return secrets.token_hex(8)


def identity_of_task(write_name: str | None) -> TaskIdentity:
    """Who this process works for: of a batch write, or (None) of a query's batch."""
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
