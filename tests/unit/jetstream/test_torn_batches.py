"""Atomic batches of which a power loss wrote some sectors: nothing of them is left."""

from __future__ import annotations

import pytest

from millstream.jetstream.stream.torn_commit import discard_torn
from millstream.protocol import headers
from millstream.store.log import Log
from millstream.store.recovery import open_log
from tests.kits.crashfs import SECTOR, CrashFileSystem

PATH = "s/0000000001.log"
COUNT = 6


def put(log: Log, block: bytes, body: bytes) -> None:
    data = block + body
    log.append(b"s", data, 0, len(block), len(data), 1, 0)


def commit(log: Log) -> None:
    found = log.begin_commit()
    assert found is not None
    found.run()
    log.end_commit(found)


def lines(number: int) -> bytes:
    pairs = [(b"Nats-Batch-Id", b"b"), (b"Nats-Batch-Sequence", b"%d" % number)]
    return headers.make(*pairs, *([(b"Nats-Batch-Commit", b"1")] if number == COUNT else []))


def written() -> tuple[CrashFileSystem, int, int]:
    """Return a log with a message, and a batch and another message in one write; and where that lies."""
    fs = CrashFileSystem()
    log = open_log(fs, "s")
    put(log, b"", b"before")
    commit(log)
    start = len(fs.read_all(PATH))
    for number in range(1, COUNT + 1):
        put(log, lines(number), b"x" * 300)
    put(log, b"", b"behind" * 100)
    commit(log)
    log.close()
    return fs, start, len(fs.read_all(PATH))


_, START, END = written()


@pytest.mark.parametrize("sector", range(START // SECTOR + 1, END // SECTOR + 1))
@pytest.mark.parametrize("cut", [False, True])
def test_nothing_is_left_of_a_batch_that_lost_a_sector(sector: int, cut: bool) -> None:
    fs, _, end = written()
    lost = slice(sector * SECTOR, min((sector + 1) * SECTOR, end))
    fs.damage(PATH, lambda data: data.__setitem__(lost, bytes(lost.stop - lost.start)))
    if cut:  # the sectors behind it were not written either
        fs.damage(PATH, lambda data: data.__delitem__(slice(lost.stop, None)))
    log = open_log(fs, "s")
    discard_torn(log)
    left = [seq for seq in range(2, COUNT + 2) if log.has(seq)]
    assert left in ([], list(range(2, COUNT + 2)))
    assert log.has(1)
    assert left == [] or sector * SECTOR > END - 700  # only the message behind it was hit


def test_a_flipped_bit_costs_one_message_of_a_batch() -> None:
    for at in range(START + 8, END, 37):
        fs, _, _ = written()
        fs.damage(PATH, lambda data, at=at: data.__setitem__(at, data[at] ^ 4))  # type: ignore[misc]
        log = open_log(fs, "s")
        discard_torn(log)
        assert log.messages + log.losses.messages == COUNT + 2
        assert log.losses.messages <= 1
