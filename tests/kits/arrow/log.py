"""Logs, and what is read from them as Arrow, without a server."""

from collections.abc import Iterable, Sequence

import pyarrow as pa

from millstream.arrow import ipc
from millstream.arrow.reader import RangeReading
from millstream.arrow.schema import COLUMNS, DEFAULT_COLUMNS, fields_of
from millstream.store.extent import Extent, lend_extent
from millstream.store.fs import FileSystem, MemoryFileSystem
from millstream.store.log import Log
from millstream.store.record import Record
from millstream.store.recovery import open_log

ALL = tuple(COLUMNS)
FIRST_TIME = 1_700_000_000_000_000_123


class Direct:
    """A log that is read in the thread that has it."""

    def __init__(self, log: Log) -> None:
        self.log = log
        self.lent = 0
        self.damaged: list[int] = []

    def lend(self, seq: int, last: int, patterns: tuple[bytes, ...], most: int) -> Extent | None:
        extent = lend_extent(self.log, seq, last, patterns, most)
        self.lent += extent is not None
        return extent

    def give_back(self, extent: Extent, damaged: Sequence[int]) -> None:
        extent.give_back()
        self.damaged += damaged
        for seq in damaged:
            self.log.peek(seq, Record())


def new_log(fs: FileSystem | None = None, segment_size: int = 2000) -> Log:
    return open_log(fs or MemoryFileSystem(), "log", segment_size=segment_size)


def commit(log: Log) -> None:
    pending = log.begin_commit(flush=True)
    if pending is not None:
        pending.run()
        log.end_commit(pending)


def append(log: Log, subject: bytes, payload: bytes, headers: bytes = b"") -> int:
    seq = log.last_seq + 1
    body = headers + payload
    return log.append(subject, body, 0, len(headers), len(body), FIRST_TIME + 1_000_001 * seq, 0)


def fill(log: Log, count: int) -> None:
    for number in range(log.last_seq + 1, log.last_seq + count + 1):
        append(log, b"a.%d" % (number % 3), b"body %d" % number)
        if number % 7 == 0:
            commit(log)
    commit(log)


def table_of(
    log: Log,
    columns: Sequence[str] = DEFAULT_COLUMNS,
    *,
    first: int = 1,
    last: int | None = None,
    patterns: Iterable[bytes] = (),
    source: Direct | None = None,
) -> pa.Table:
    """A range, through the bytes that would be sent."""
    fields = fields_of(columns)
    end = log.committed if last is None else last
    reading = RangeReading(source or Direct(log), "S", columns, first, end, tuple(patterns))
    sent = [ipc.schema_message(fields, {})]
    while (batch := reading.next_batch()) is not None:
        sent += [bytes(part) for part in ipc.batch_message(batch, fields, {})]
    assert reading.ended
    sent.append(ipc.END)
    table = pa.ipc.open_stream(b"".join(sent)).read_all()
    table.validate(full=True)
    assert table.num_rows == reading.rows
    return table


def seqs(table: pa.Table) -> list[int]:
    found: list[int] = table.column("seq").to_pylist()
    return found
