"""Helpers of the tests of the store: logs with known content, and readers of all of it."""

from __future__ import annotations

from millstream.store.commit import Commit
from millstream.store.fs import FileSystem, MemoryFileSystem
from millstream.store.log import Log
from millstream.store.record import Record, RecordBuffer
from millstream.store.recovery import open_log

SMALL = 300  # bytes of a segment: a handful of records


def put(log: Log, subject: bytes, body: bytes = b"", headers: bytes = b"", timestamp: int = 0) -> int:
    return log.append(subject, headers + body, 0, len(headers), len(headers) + len(body), timestamp, 0)


def commit(log: Log, *, sync: bool = True) -> Commit | None:
    """Make everything durable."""
    done = log.begin_commit()
    if done is not None:
        done.run(sync=sync)
        log.end_commit(done)
    return done


def commit_all(log: Log) -> None:
    """Commit until nothing is left, including what the commits themselves add."""
    while log.uncommitted:
        commit(log)


def filled(count: int, fs: FileSystem | None = None, *, segment_size: int = SMALL, folder: str = "s") -> Log:
    """A committed log of `count` messages, a second apart, over a few segments."""
    log = open_log(fs if fs is not None else MemoryFileSystem(), folder, segment_size=segment_size)
    for number in range(1, count + 1):
        put(log, b"s.%d" % (number % 3), body_of(number), timestamp=number * 1_000_000_000)
    commit_all(log)
    return log


def body_of(number: int) -> bytes:
    return b"body %d " % number * (number % 5 + 1)


def contents(log: Log) -> dict[int, tuple[bytes, bytes, bytes, int]]:
    """Return all records that can be read."""
    record = Record()
    return {
        seq: (record.subject(), record.headers(), record.payload(), record.timestamp)
        for seq in list(log.sequences(0, log.last_seq))
        if log.get(seq, record)
    }


def bodies(log: Log) -> dict[int, bytes]:
    return {seq: content[2] for seq, content in contents(log).items()}


def one_record(
    kind: int, seq: int, timestamp: int, subject: bytes, headers: bytes, body: bytes, base: int = 0
) -> bytes:
    buffer = RecordBuffer()
    buffer.base = base
    buffer.add(kind, seq, timestamp, subject, headers + body, 0, len(headers), len(headers) + len(body))
    buffer.seal()
    return buffer.take()
