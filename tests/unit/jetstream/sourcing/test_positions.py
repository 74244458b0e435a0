"""How far sources are, after restarts: from headers, from the file, and whichever of its entries counts."""

from __future__ import annotations

from collections.abc import Callable

from millstream.jetstream.publish.candidate import MARK_SOURCE
from millstream.jetstream.sourcing.origin import Asker, Origin, OriginKind
from millstream.jetstream.sourcing.positions import Positions, StoredPosition
from millstream.jsapi.stream_types import ExternalStream, StreamSource
from millstream.protocol import headers
from millstream.store.fs import MemoryFileSystem
from millstream.store.log import Log
from millstream.store.recovery import open_log


def origin(name: str, api: str = "") -> Origin:
    config = StreamSource(name=name, external=ExternalStream(api) if api else None)
    return Origin(OriginKind.SOURCE, config, Asker("S", "A"), [config])


class Shelf:
    """A log with messages of sources, and the file beside it."""

    def __init__(self) -> None:
        self.fs = MemoryFileSystem()
        self.log: Log = open_log(self.fs, "log")
        self.now: dict[str, StoredPosition] = {}
        self.positions = Positions(self.log, lambda: self.now)

    def store(self, header: str) -> None:
        block = headers.make((b"Nats-Stream-Source", header.encode()))
        self.log.append(b"s", block, 0, len(block), len(block), 1, MARK_SOURCE)

    def commit(self) -> None:
        commit = self.log.begin_commit()
        assert commit is not None
        commit.run(sync=True)
        self.log.end_commit(commit)

    def write(self, **now: int) -> Callable[[], None]:
        self.now = {f"{name} > >": StoredPosition(seq) for name, seq in now.items()}
        return self.positions.next_write(self.fs, "folder")

    def found(self, *origins: Origin) -> dict[str, int]:
        """What the next server finds."""
        log = open_log(self.fs, "log")
        positions = Positions(log, dict)
        positions.load(self.fs, "folder")
        return {name: position.seq for name, position in positions.find(origins).items()}


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
