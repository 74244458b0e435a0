"""Files of a store that were damaged, or written by somebody else, and what a start makes of them.

An input names a file and says what is in it now::

    store/streams/S/0000000001.log\\n…bytes

If the line begins with ``=``, checksums are made right again, so that what is behind them is looked at.
"""

from __future__ import annotations

import struct
from collections.abc import Hashable, Iterator
from functools import cache

from millstream.base.checksum import crc32c
from millstream.base.numbers import pack_rising, unpack_rising
from millstream.jetstream.consumers.entries import EntryKind, decode
from millstream.store import blocks, summary
from millstream.store.fs import MemoryFileSystem
from millstream.store.record import HEADER_SIZE, Record
from millstream.store.recovery import open_log
from millstream.store.segment import FILE_HEADER_SIZE
from tests.fuzz.targets.jetstream import Place
from tests.kits.store.scenario import SEGMENT, Life, read_all

_STREAMS = ("S", "P", "W")
_REPAIRED = b"="


@cache
def store_files() -> dict[str, bytes]:
    """Return the files of three streams: one plain, one compressed, one with everything at once."""
    place = Place()
    for name, config in zip(_STREAMS, ({}, {"compression": "s2"}, {"max_msgs_per_subject": 3}), strict=True):
        subject = name.lower()
        made = place.ask(
            f"STREAM.CREATE.{name}",
            {"name": name, "subjects": [f"{subject}.>"], "allow_msg_ttl": True, **config},
        )
        assert "error" not in made, made
        for durable in ("C", "D"):
            consumer = {"durable_name": durable, "ack_policy": "explicit", "max_deliver": 3}
            place.ask(f"CONSUMER.DURABLE.CREATE.{name}.{durable}", {"stream_name": name, "config": consumer})
        for number in range(40):
            headers = b"NATS/1.0\r\nNats-Msg-Id: %d\r\n\r\n" % number if number % 3 == 0 else None
            place.world.send(f"{subject}.{number % 7}".encode(), b"body %d " % number * 9, headers=headers)
            place.world.settle()
        place.ask(f"CONSUMER.MSG.NEXT.{name}.C", {"batch": 10})
        for each in place.world.delivered[-10::2]:
            place.world.send(each.reply, b"+ACK")
        place.world.send(place.world.delivered[-1].reply, b"-NAK")
        place.ask(f"STREAM.MSG.DELETE.{name}", {"seq": 5})
        place.ask(f"STREAM.MSG.DELETE.{name}", {"seq": 9, "no_erase": True})
        place.ask(f"STREAM.PURGE.{name}", {"filter": f"{subject}.3"})
        place.world.advance(1.0)
    place.account.stop()
    place.world.settle()
    return {path: place.fs.read_all(path) for path in _paths(place.fs)}


def _paths(fs: MemoryFileSystem, folder: str = "store") -> list[str]:
    found = []
    for name in fs.list(folder):
        path = f"{folder}/{name}"
        inside = _paths(fs, path)
        found += inside or [path]
    return found


def store_seeds() -> Iterator[bytes]:
    for path, data in store_files().items():
        yield path.encode() + b"\n" + data
        yield _REPAIRED + path.encode() + b"\n" + data


def repaired(path: str, data: bytes) -> bytes:
    """Return the content of a file with valid checksums."""
    if path.endswith(".sum") and len(data) > 12:
        return data[:8] + crc32c(data[12:]).to_bytes(4, "little") + data[12:]
    if path.endswith(".log") and data[:4] == b"MSZ\x01":
        return _repaired_blocks(data)
    if path.endswith(".log"):
        return _repaired_records(data)
    return data


def _repaired_records(data: bytes) -> bytes:
    out, at = bytearray(data), FILE_HEADER_SIZE
    while len(out) - at >= HEADER_SIZE:
        size = int.from_bytes(out[at : at + 4], "little") & 0xFFFFFFF
        if size < HEADER_SIZE or at + size > len(out):
            break
        crc = crc32c(bytes(out[at + 8 : at + size])) ^ crc32c(bytes(out[at : at + 4])) ^ at
        out[at + 4 : at + 8] = (crc & 0xFFFFFFFF).to_bytes(4, "little")
        at += size
    return bytes(out)


def _repaired_blocks(data: bytes) -> bytes:
    out, at = bytearray(data), 0
    while out[at : at + 4] == b"MSZ\x01" and len(out) - at >= blocks.BLOCK_HEADER_SIZE:
        stored = struct.unpack_from("<I", out, at + 16)[0]
        end = at + blocks.BLOCK_HEADER_SIZE + stored
        if end > len(out):
            break
        crc = crc32c(bytes(out[at + 8 : end])) ^ at
        out[at + 4 : at + 8] = (crc & 0xFFFFFFFF).to_bytes(4, "little")
        at = end
    if len(out) - at >= blocks.TRAILER_SIZE:
        crc = crc32c(bytes(out[at:-8])) ^ at
        out[-8:-4] = (crc & 0xFFFFFFFF).to_bytes(4, "little")
    return bytes(out)


def check_store(data: bytes) -> Hashable:
    """Other streams are as they were; this one starts with what is sound, or says why it does not."""
    name, _, content = data.partition(b"\n")
    path = name.removeprefix(_REPAIRED).decode(errors="replace")
    files = dict(store_files())
    if path not in files:
        return None
    files[path] = repaired(path, content) if name.startswith(_REPAIRED) else content
    fs = MemoryFileSystem()
    for each, found in files.items():
        fs.replace(each, found)
    place = Place(fs)
    hit = path.split("/")[2] if path.count("/") > 2 else ""
    told = [_look_at(place, stream) for stream in _STREAMS]
    for stream, answer in zip(_STREAMS, told, strict=True):
        if stream != hit:
            assert answer == _expected()[stream], stream
    untouched = path.endswith(".sum") and not name.startswith(_REPAIRED)
    if untouched:  # it says nothing that the segment does not say
        assert told == [_expected()[stream] for stream in _STREAMS]
    place.world.send(hit.lower().encode() + b".new", b"after")
    place.world.advance(2.0)
    again = Place(fs)
    assert set(again.account.streams) == set(place.account.streams)
    return (
        path[-12:],
        name[:1] == _REPAIRED,
        hash(told[_STREAMS.index(hit)][:3]) % 50 if hit in _STREAMS else 0,
    )


def _look_at(place: Place, stream: str) -> tuple[Hashable, ...]:
    """Read every message of a stream, ask for every consumer, and return what was found."""
    if stream in place.account.unrecovered:
        return ("unrecovered",)
    info = place.ask(f"STREAM.INFO.{stream}", {"subjects_filter": ">"})
    if "error" in info:
        return (info["error"]["err_code"],)
    state = info["state"]
    log = place.account.streams[stream].log
    record = Record()
    bodies = []
    for seq in list(log.sequences(0, min(log.last_seq, log.first_seq + 2000))):
        if log.get(seq, record):
            bodies.append((seq, record.subject(), record.headers(), record.payload()))
    consumers = place.ask(f"CONSUMER.LIST.{stream}", {}).get("consumers") or []
    where = tuple(sorted((each["name"], each["num_pending"], each["num_ack_pending"]) for each in consumers))
    for each in consumers:
        place.ask(f"CONSUMER.MSG.NEXT.{stream}.{each['name']}", {"batch": 3})
    return (state["messages"], state["first_seq"], state["last_seq"], tuple(bodies), where)


@cache
def _expected() -> dict[str, tuple[Hashable, ...]]:
    fs = MemoryFileSystem()
    for path, data in store_files().items():
        fs.replace(path, data)
    place = Place(fs)
    return {stream: _look_at(place, stream) for stream in _STREAMS}


# -- one log, of small segments -----------------------------------------------------------------------------


@cache
def _lives() -> tuple[tuple[Life, dict[str, bytes], dict[int, str]], ...]:
    """A plain and a compressed log: what was done to it, its files, and where each message lies."""
    lives = []
    for block_size in (0, 120):
        life = Life(MemoryFileSystem(), folder=f"s{block_size}", block_size=block_size)
        life.open()
        life.put(60)
        life.commit()
        life.remove(2, 9, 10, 31, 58)
        life.commit()
        if block_size:
            life.compact()
        places = {}
        for segment in life.log.chain.segments:
            life.log.reader.load(segment)
            found = (seq for seq in life.live if segment.ordinal_of(seq) >= 0)
            places.update(dict.fromkeys(found, f"{life.folder}/{segment.number:010d}.log"))
        life.log.close()
        files = {
            f"{life.folder}/{name}": life.fs.read_all(f"{life.folder}/{name}")
            for name in life.fs.list(life.folder)
        }
        lives.append((life, files, places))
    return tuple(lives)


def segment_seeds() -> Iterator[bytes]:
    for _, files, _ in _lives():
        for path, data in files.items():
            yield path.encode() + b"\n" + data
            yield _REPAIRED + path.encode() + b"\n" + data


def _is_part(other: bytes, content: bytes, before: bytes) -> bool:
    """Return whether a part of `content` has a valid checksum because it stands in another file, too."""
    places = (slice(at, at + 24) for at in range(0, len(content), 8))
    return any(content[place] == other[place] != before[place] for place in places)


def check_segments(data: bytes) -> Hashable:
    """Nothing but what was stored is found, and of other files all of it.

    Except if checksums were forged, or the file is that of another segment.
    """
    name, _, content = data.partition(b"\n")
    path = name.removeprefix(_REPAIRED).decode(errors="replace")
    life, files, places = next((each for each in _lives() if path in each[1]), (None, {}, {}))
    if life is None:
        return None
    if name.startswith(_REPAIRED):
        content = repaired(path, content)
    others = (data for _, found, _ in _lives() for each, data in found.items() if each != path)
    forged = name.startswith(_REPAIRED) or any(_is_part(data, content, files[path]) for data in others)
    fs = MemoryFileSystem()
    for each, found in {**files, path: content}.items():
        fs.replace(each, found)
    log = open_log(fs, life.folder, segment_size=SEGMENT)
    messages = read_all(log)
    if not forged:
        assert all(body == life.stored[seq] for seq, body in messages.items())
        assert all(seq in messages for seq, place in places.items() if place != path)
        assert log.messages == len(messages)
        assert sum(node.count for _, node in log.index.match(b">")) == log.messages
    body = b"after"
    new = log.append(b"z", body, 0, 0, len(body), 1, 0)
    commit = log.begin_commit()
    assert commit is not None
    commit.run()
    log.end_commit(commit)
    log.close()
    again = read_all(open_log(fs, life.folder, segment_size=SEGMENT))
    assert forged or again == {**messages, new: body}
    return path[-7:], forged, len(messages), len(log.losses.damages)


# -- the parts alone, which is faster ------------------------------------------------------------------------


def summary_seeds() -> Iterator[bytes]:
    for _, files, _ in _lives():
        yield from (data[12:] for path, data in files.items() if path.endswith(".sum"))


def check_summary(data: bytes) -> Hashable:
    """A summary whose checksum is right, and nothing else need be."""
    found = summary.decode(summary.MAGIC + crc32c(data).to_bytes(4, "little") + data)
    return found is None, found is not None and (found.subjects.names.count, found.count)


def entry_seeds() -> Iterator[bytes]:
    for path, data in store_files().items():
        if "/consumers/" in path and path.endswith(".log"):
            record, at = Record(), FILE_HEADER_SIZE
            while record.read(data, at, len(data), True) == 1:
                yield record.payload()
                at += record.size


def check_entry(data: bytes) -> Hashable:
    entry = decode(data)
    changes = entry.changes
    kind = EntryKind(entry.kind)
    if changes is None:
        return kind, None
    return kind, min(len(changes.pending), 5), min(len(changes.gone), 5), min(len(changes.redelivered), 5)


def number_seeds() -> Iterator[bytes]:
    for numbers in ([], [1], [1, 2, 3, 100, 2**40], list(range(300)), [2**63, 2**64 - 1]):
        yield len(numbers).to_bytes(2, "little") + pack_rising(numbers)


def check_numbers(data: bytes) -> Hashable:
    """Numbers that rise, read and written again."""
    count, packed = int.from_bytes(data[:2], "little"), data[2:]
    numbers, end = unpack_rising(packed, 0, count)
    assert len(numbers) == count
    assert end <= len(packed)
    assert numbers == sorted(numbers)
    assert unpack_rising(pack_rising(numbers), 0, count)[0] == numbers
    return min(count, 20), numbers[-1:] > [2**32]
