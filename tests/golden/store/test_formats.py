"""The bytes on disk, as ``docs/formats/log.md`` describes them.  A change here is a change of the format."""

from pathlib import Path

import pytest

from millstream.base.numbers import pack_rising
from millstream.store.block_file import BlockFile, open_segment_file
from millstream.store.fs import MemoryFileSystem
from millstream.store.record import Kind
from millstream.store.recovery import open_log
from millstream.store.summary import decode
from tests.kits.crashfs import CrashFileSystem
from tests.kits.store.log import commit, commit_all, one_record, put

GOLDEN = Path(__file__).parent
TIME = 1_700_000_000_000_000_000


def dump(data: bytes) -> str:
    """Offset, hex and letters, sixteen bytes to a line."""
    lines = []
    for at in range(0, len(data), 16):
        row = data[at : at + 16]
        letters = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in row)
        lines.append(f"{at:06x}  {row.hex(' '):<47}  {letters}\n")
    return "".join(lines)


def assert_golden(name: str, text: str) -> None:
    path = GOLDEN / name
    assert path.is_file(), f"{name} is missing; it should be:\n{text}"
    assert text == path.read_text(), f"{name} should be:\n{text}"


RECORDS = {
    "record-message.txt": one_record(Kind.MESSAGE, 7, TIME, b"orders.eu", b"", b"hello", 16),
    "record-headers.txt": one_record(Kind.MESSAGE, 8, TIME, b"a", b"NATS/1.0\r\n\r\n", b"hi", 16),
    "record-removed.txt": one_record(Kind.REMOVED, 3, TIME, b"", b"", pack_rising([5, 6, 300]), 16),
    "record-floor.txt": one_record(Kind.FLOOR, 300, TIME, b"", b"", b"", 16),
    "record-skip.txt": one_record(Kind.SKIP, 300, TIME, b"", b"", b"", 16),
    "record-erase.txt": one_record(Kind.ERASE, 1, TIME, b"", b"", pack_rising([300]), 16),
}


@pytest.mark.parametrize("name", RECORDS)
def test_a_record_is_these_bytes(name: str) -> None:
    assert_golden(name, dump(RECORDS[name]))


def log_files() -> dict[str, bytes]:
    """Two segments: one sealed with its summary, and the last one."""
    fs = MemoryFileSystem()
    log = open_log(fs, "s", segment_size=200, first_seq=5)
    put(log, b"orders.eu", b"first", timestamp=TIME)
    put(log, b"orders.us", b"second", b"NATS/1.0\r\n\r\n", timestamp=TIME + 1)
    log.skip_to(9, TIME + 2)
    put(log, b"orders.eu", b"third", timestamp=TIME + 3)
    log.remove(6)
    commit(log)
    put(log, b"orders.eu", b"fourth", timestamp=TIME + 4)
    put(log, b"orders.uk", b"fifth", timestamp=TIME + 5)
    log.remove(5)
    commit_all(log)
    return {name: fs.read_all(f"s/{name}") for name in fs.list("s")}


def test_a_log_is_these_files() -> None:
    files = log_files()
    assert sorted(files) == ["0000000001.log", "0000000001.sum", "0000000002.log"]
    assert_golden("sealed-segment.txt", dump(files["0000000001.log"]))
    assert_golden("summary.txt", dump(files["0000000001.sum"]))
    assert_golden("last-segment.txt", dump(files["0000000002.log"]))


def undump(text: str) -> bytes:
    return b"".join(bytes.fromhex(line[8:55]) for line in text.splitlines())


def test_a_summary_of_format_1_says_the_same_without_times() -> None:
    old, new = (
        decode(undump((GOLDEN / name).read_text())) for name in ("summary-format-1.txt", "summary.txt")
    )
    assert old is not None
    assert new is not None
    assert (old.count, old.base_seq, old.last_seq, old.removals) == (3, 5, 10, [6])
    assert (new.count, new.base_seq, new.last_seq, new.removals) == (3, 5, 10, [6])
    assert [old.tables.offset_at(ordinal) for ordinal in range(3)] == [
        new.tables.offset_at(ordinal) for ordinal in range(3)
    ]
    assert (old.tables.timed.to_list(), old.tables.times.to_list()) == ([], [])
    assert (new.tables.timed.to_list(), new.tables.times.to_list()) == ([0], [TIME])


def test_files_are_written_synced_and_removed_in_this_order() -> None:
    fs = CrashFileSystem()
    steps: list[str] = []

    def tell(title: str) -> None:
        steps.append(f"# {title}\n" + "".join(f"{line}\n" for line in fs.transcript))
        fs.transcript.clear()

    log = open_log(fs, "s", segment_size=100)
    tell("open")
    put(log, b"a", b"x" * 30)
    commit(log)
    tell("first commit")
    put(log, b"a", b"x" * 30)
    commit(log)
    tell("second commit")
    put(log, b"a", b"x" * 30)
    commit(log)
    tell("commit with a roll")
    log.remove_below(3)
    commit(log)
    tell("commit that drops a segment")
    put(log, b"a", b"x" * 30)
    log.erase(3)
    commit_all(log)
    tell("commit that erases")
    log.close()
    open_log(fs, "s", segment_size=100)
    tell("open again")
    assert_golden("transcript.txt", "".join(steps))


def test_a_compressed_segment_is_read_from_these_bytes() -> None:
    """A new version of LZ4 may compress to other bytes, but must read the old ones."""
    fs = MemoryFileSystem()
    fs.replace("s/0000000001.log", undump((GOLDEN / "compressed-segment.txt").read_text()))
    file = open_segment_file(fs, "s/0000000001.log")
    assert isinstance(file, BlockFile)
    assert dump(file.read(0, file.size())) == (GOLDEN / "sealed-segment.txt").read_text()


def test_a_segment_is_compressed_in_this_order() -> None:
    fs = CrashFileSystem()
    log = open_log(fs, "s", segment_size=100, block_size=100)
    for _ in range(4):
        put(log, b"a", b"x" * 30)
    commit_all(log)
    fs.transcript.clear()
    steps = ["# compress\n"]
    segment = log.upkeep.candidate()
    assert segment is not None
    compression = log.upkeep.begin_job(segment)
    compression.run()
    assert log.end_job(compression)
    commit_all(log)
    steps += [f"{line}\n" for line in fs.transcript]
    fs.transcript.clear()
    log.erase(1)
    commit_all(log)
    steps += ["# erase\n", *(f"{line}\n" for line in fs.transcript)]
    assert_golden("compression-transcript.txt", "".join(steps))
