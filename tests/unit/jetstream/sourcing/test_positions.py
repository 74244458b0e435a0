"""Positions of sources after restarts: from headers, from the file, and from its latest entry."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from millstream.jetstream.publish.candidate import MARK_SOURCE
from millstream.jetstream.sourcing.origin import Asker, Origin, OriginKind
from millstream.jetstream.sourcing.positions import Positions, StoredPosition
from millstream.jetstream.stream.torn_commit import discard_torn
from millstream.jsapi.stream_types import ExternalStream, StreamSource
from millstream.protocol import headers
from millstream.store.fs import MemoryFileSystem
from millstream.store.layout import FIRST_RECORD
from millstream.store.log import Log
from millstream.store.record import HEADER_SIZE, WHOLE, Record
from millstream.store.recovery import open_log
from tests.kits.crashfs import SECTOR

PATH = "log/0000000001.log"


def origin(name: str, api: str = "") -> Origin:
    config = StreamSource(name=name, external=ExternalStream(api) if api else None)
    return Origin(OriginKind.SOURCE, config, Asker("S", "A"), [config])


class Shelf:
    """A log with messages of sources, and the file beside it."""

    def __init__(self) -> None:
        self.fs = MemoryFileSystem()
        self.log: Log = open_log(self.fs, "log")
        self.positions = Positions(self.log)

    def store(self, header: str, size: int = 0) -> None:
        block = headers.make((b"Nats-Stream-Source", header.encode()))
        self.log.append(b"s", block + b"x" * size, 0, len(block), len(block) + size, 1, MARK_SOURCE)

    def commit(self) -> None:
        commit = self.log.begin_commit()
        assert commit is not None
        commit.run(sync=True)
        self.log.end_commit(commit)

    def write(self, **now: int) -> Callable[[], None]:
        self.positions.commit_begins({f"{name} > >": StoredPosition(seq) for name, seq in now.items()})
        return self.positions.next_write(self.fs, "folder")

    def found(self, *origins: Origin) -> dict[str, int]:
        """Return the positions that the next server recovers."""
        positions = Positions(open_log(self.fs, "log"))
        positions.recover(self.fs, "folder", origins)
        found = positions.take_recovered()
        assert found is not None
        return {name: position.seq for name, position in found.items()}


def test_the_last_header_of_each_source_counts() -> None:
    shelf = Shelf()
    for header in ("O 1 > > a id", "P 7 > > a id", "O 2 > > a id", "Q 9 x > a id"):
        shelf.store(header)
    shelf.commit()
    assert shelf.found(origin("O"), origin("P"), origin("Q")) == {"O > >": 2, "P > >": 7}


def test_old_headers_name_only_the_stream() -> None:
    shelf = Shelf()
    shelf.store("O 3")
    shelf.store("$JS.ACK.P.c.1.4.1.1.1")
    external = origin("E", "x.api")
    shelf.store(external.index_name.split(" ")[0] + " 5")
    shelf.commit()
    assert shelf.found(origin("O"), origin("P"), external) == {
        "O > >": 3,
        "P > >": 4,
        external.index_name: 5,
    }


def test_the_file_tells_what_messages_do_not() -> None:
    shelf = Shelf()
    shelf.store("O 1 > > a id")
    shelf.commit()
    shelf.log.remove(1)
    shelf.write(O=1, P=4)()
    shelf.commit()
    assert shelf.found(origin("O"), origin("P")) == {"O > >": 1, "P > >": 4}


def test_later_headers_tell_more_than_the_file() -> None:
    shelf = Shelf()
    shelf.store("O 1 > > a id")
    shelf.write(O=1, P=4)()
    shelf.commit()
    shelf.store("O 2 > > a id")
    shelf.commit()
    assert shelf.found(origin("O"), origin("P")) == {"O > >": 2, "P > >": 4}


def test_a_file_that_was_written_for_a_commit_that_never_was_does_not_count() -> None:
    shelf = Shelf()
    shelf.store("O 1 > > a id")
    shelf.log.remove(1)
    shelf.write(O=1)()
    shelf.commit()
    shelf.store("O 2 > > a id")
    shelf.log.remove(2)
    shelf.write(O=2)()  # and then the power goes
    assert shelf.found(origin("O")) == {"O > >": 1}


def test_it_is_written_when_something_could_be_forgotten() -> None:
    shelf = Shelf()
    shelf.store("O 1 > > a id")
    assert not shelf.positions.due()
    shelf.log.remove(1)
    assert shelf.positions.due()
    shelf.write(O=1)()
    assert not shelf.positions.due()


def test_a_damaged_file_is_as_none() -> None:
    shelf = Shelf()
    shelf.store("O 1 > > a id")
    shelf.write(O=1, P=4)()
    shelf.commit()
    damaged = shelf.fs.read_all("folder/sources.json").replace(b'"seq":4', b'"seq":5')
    shelf.fs.replace("folder/sources.json", damaged)
    assert shelf.found(origin("O"), origin("P")) == {"O > >": 1}


def skip(shelf: Shelf, name: str, position: int) -> None:
    shelf.log.skip_to(shelf.log.last_seq + 1, 1)
    shelf.positions.skipped(f"{name} > >", position)


def cut_log(shelf: Shelf, size: int) -> None:
    """Leave only the first bytes of the log's file, as a process that is killed while it writes."""
    file = shelf.fs.open("log/0000000001.log", create=False)
    file.truncate(size)


def test_a_commit_that_was_written_in_part_counts_in_part() -> None:
    shelf = Shelf()
    shelf.store("O 1 > > a id")
    shelf.write(O=1, P=0)()
    shelf.commit()
    positions = [("O", 2), ("O", 3), ("P", 8), ("P", 9), ("O", 4), ("P", 12), ("O", 5)]
    sizes = [shelf.fs.open("log/0000000001.log", create=False).size()]
    for name, position in positions:
        skip(shelf, name, position)
        sizes.append(sizes[0] + shelf.log.gathered())
    shelf.write(O=5, P=12)()
    shelf.commit()
    reached = {"O > >": 5, "P > >": 12}
    assert shelf.found(origin("O"), origin("P")) == reached
    for count in reversed(range(len(positions))):
        cut_log(shelf, sizes[count])
        reached = {"O > >": 1, "P > >": 0}
        reached |= {f"{name} > >": position for name, position in positions[:count]}
        assert shelf.found(origin("O"), origin("P")) == reached, count


def test_the_later_of_header_and_skipped_message_counts() -> None:
    shelf = Shelf()
    skip(shelf, "O", 1)
    shelf.store("O 2 > > a id")
    skip(shelf, "P", 1)
    size = FIRST_RECORD + shelf.log.gathered()
    shelf.store("P 2 > > a id")
    skip(shelf, "O", 3)
    shelf.write(O=3, P=2)()
    shelf.commit()
    cut_log(shelf, size)
    assert shelf.found(origin("O"), origin("P")) == {"O > >": 2, "P > >": 1}


def test_a_source_without_a_message_so_far_is_known_to_have_none() -> None:
    shelf = Shelf()
    for position in range(1, 10):
        skip(shelf, "O", position)
    shelf.write(O=9, P=0)()
    shelf.commit()
    cut_log(shelf, FIRST_RECORD + 4 * HEADER_SIZE)
    assert shelf.found(origin("O"), origin("P")) == {"O > >": 4, "P > >": 0}


def test_a_source_whose_only_message_is_damaged_begins_again() -> None:
    shelf = Shelf()
    shelf.store("O 1 > > a id")
    shelf.commit()
    shelf.fs.open(PATH, create=False).overwrite(FIRST_RECORD + HEADER_SIZE, b"?")
    assert shelf.found(origin("O")) == {"O > >": 0}


def test_nothing_is_known_of_a_source_if_messages_were_removed_and_one_is_damaged() -> None:
    shelf = Shelf()
    for seq in (1, 2, 3):
        shelf.store(f"O {seq} > > a id")
    shelf.commit()
    shelf.log.remove(1)
    shelf.log.remove(2)
    shelf.commit()
    shelf.fs.open(PATH, create=False).overwrite(offset_of(shelf, message=3) + HEADER_SIZE, b"?")
    assert shelf.found(origin("O")) == {}


def test_a_source_begins_again_if_power_tore_the_first_commit() -> None:
    shelf = Shelf()
    shelf.log.mark_ends(True)
    for seq in range(1, 9):
        shelf.store(f"O {seq} > > a id", 200)
    shelf.commit()
    shelf.fs.open(PATH, create=False).overwrite(0, bytes(2 * SECTOR))
    assert shelf.found(origin("O")) == {"O > >": 0}


def test_it_is_written_again_after_a_write_that_failed() -> None:
    shelf = Shelf()
    shelf.store("O 1 > > a id")
    shelf.log.remove(1)
    write = shelf.write(O=1)
    assert shelf.positions.due()
    write()
    assert not shelf.positions.due()


def test_an_entry_that_was_not_reached_does_not_count_when_other_messages_reach_it() -> None:
    shelf = Shelf()
    shelf.store("O 1 > > a id")
    shelf.write(O=1, P=0)()
    shelf.commit()
    for position in (2, 3, 4):
        shelf.store(f"O {position} > > a id")
    shelf.write(O=4, P=0)()  # and then the process is killed
    killed = Shelf()
    killed.fs = shelf.fs
    killed.log = open_log(shelf.fs, "log")
    killed.positions = Positions(killed.log)
    killed.positions.recover(shelf.fs, "folder", [origin("O"), origin("P")])
    assert killed.positions.due()
    for position in (1, 2, 3):
        killed.store(f"P {position} > > a id")
    killed.write(O=1, P=3)()
    killed.commit()
    assert killed.found(origin("O"), origin("P")) == {"O > >": 1, "P > >": 3}


@pytest.mark.parametrize("behind", [True, False])
def test_sources_go_on_before_a_torn_commit_and_send_the_rest_again(behind: bool) -> None:
    shelf = Shelf()
    shelf.log.mark_ends(True)
    for seq in range(1, 4):
        shelf.store(f"O {seq} > > a id")
    shelf.write(O=3)
    shelf.commit()
    for seq in range(4, 7):
        shelf.store(f"O {seq} > > a id", size=1200)
    shelf.log.append(b"own", b"own", 0, 0, 3, 1, 0)
    shelf.write(O=6)()
    shelf.commit()
    shelf.log.close()
    lose_a_sector(shelf, message=4 if behind else 6)
    again = open_log(shelf.fs, "log")
    again.mark_ends(True)
    positions = Positions(again)
    positions.recover(shelf.fs, "folder", [origin("O")])
    discard_torn(again, sourced=True)
    left = 3 if behind else 5
    assert list(again.sequences(1, again.last_seq)) == [*range(1, left + 1), 7]
    assert shelf.found(origin("O")) == {"O > >": left}  # also by the start after this one
    again.close()
    assert not behind or open_log(shelf.fs, "log").losses.torn == []


def offset_of(shelf: Shelf, message: int) -> int:
    """Return where the record of a message begins."""
    data = shelf.fs.read_all(PATH)
    record, at = Record(), FIRST_RECORD
    while record.read(data, at, len(data), False) == WHOLE:
        if record.is_message() and record.seq == message:
            break
        at += record.size
    return at


def lose_a_sector(shelf: Shelf, message: int) -> None:
    """Write zeros over a sector of a message, as if it had not been written when power went."""
    at = offset_of(shelf, message)
    file = shelf.fs.open(PATH, create=False)
    file.overwrite(-(-at // SECTOR) * SECTOR, bytes(SECTOR))
