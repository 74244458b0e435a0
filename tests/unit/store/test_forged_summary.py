"""Summaries with a right checksum and wrong numbers: nothing is read by a number that does not fit.

Who can write into the store can put anything into a summary.  The segment's file counts then, or the summary
is one that a segment could have: in no case does compiled code read where nothing is.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from millstream.base.checksum import crc32c
from millstream.store.counts import count_between, subjects_between
from millstream.store.fs import MemoryFileSystem
from millstream.store.log import Log
from millstream.store.recovery import open_log
from millstream.store.summary import MAGIC
from tests.kits.store.log import bodies, body_of, commit_all, contents, filled, put

PATH = "s/0000000001.sum"
START = len(MAGIC) + 4
COUNT = 40


def sealed(body: bytes) -> bytes:
    return MAGIC + crc32c(body).to_bytes(4, "little") + body


def stored(*, gaps: bool = False) -> MemoryFileSystem:
    fs = MemoryFileSystem()
    log = filled(COUNT, fs, segment_size=2000)
    if gaps:
        log.skip_to(log.last_seq + 3, 0)
        put(log, b"s.1", headers=b"NATS/1.0\r\na: b\r\n\r\n")
        commit_all(log)
    log.close()
    return fs


def changed(body: bytes) -> Iterator[bytes]:
    """Every byte, every four and every eight of them with other values."""
    for at in range(len(body)):
        for value in (0, 1, 0x7F, 0xFF, body[at] ^ 1, (body[at] + 1) & 0xFF):
            if value != body[at]:
                yield body[:at] + bytes((value,)) + body[at + 1 :]
        for width in (4, 8):
            for value in (b"\xff", b"\x7f", b"\0"):
                if at + width <= len(body):
                    yield body[:at] + value * width + body[at + width :]


def use(log: Log) -> None:
    """Use every operation that reads the tables."""
    for seq, (subject, _, body, _) in contents(log).items():
        if seq <= COUNT:
            assert (subject, body) == (b"s.%d" % (seq % 3), body_of(seq))
    for subject, _ in list(log.index.match(b">")):
        log.first_of(subject)
        log.last_of(subject)
        log.next_match(1, subject)
    count_between(log, 3, 20, (b"s.1",))
    subjects_between(log, 1, 1000)
    log.seq_at_time(5_000_000_000)
    for seq in range(1, 12):
        log.remove(seq)
    log.remove_matching(b"s.2", 30)
    log.remove_below(35)
    commit_all(log)


@pytest.mark.compiled
@pytest.mark.parametrize("gaps", [False, True])
def test_a_forged_summary_is_read_as_a_segment_could_have_it_or_not_at_all(gaps: bool) -> None:
    body = stored(gaps=gaps).read_all(PATH)[START:]
    for number, forged in enumerate(changed(body)):
        if gaps and number % 5:
            continue
        fs = stored(gaps=gaps)
        fs.replace(PATH, sealed(forged))
        log = open_log(fs, "s", segment_size=2000)
        use(log)
        log.close()


def test_numbers_beyond_the_subjects_cost_nothing() -> None:
    fs = stored()
    found = fs.read_all(PATH)
    end = len(found) - 12  # the only time
    table = found[end - 20 : end]
    assert set(table) <= {0, 2, 4}  # numbers of three subjects, a bit for headers below each
    for forged in (b"\xfe" * 20, b"\x06" * 20, b"\x02" * 20):
        fs.replace(PATH, sealed(found[START : end - 20] + forged + found[end:]))
        log = open_log(fs, "s", segment_size=2000)
        assert bodies(log) == {seq: body_of(seq) for seq in range(1, COUNT + 1)}
        assert {subject: node.count for subject, node in log.index.match(b">")} == {
            b"s.0": 13,
            b"s.1": 14,
            b"s.2": 13,
        }
        log.close()


@pytest.mark.parametrize("tail", [b"", b"\0", b"\xff" * 1000])
def test_a_summary_of_another_length_is_made_again(tail: bytes) -> None:
    fs = stored()
    found = fs.read_all(PATH)
    fs.replace(PATH, sealed(found[START:-1] + tail))
    log = open_log(fs, "s", segment_size=2000)
    assert bodies(log) == {seq: body_of(seq) for seq in range(1, COUNT + 1)}
