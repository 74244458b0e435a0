"""Archives of streams: their layers one by one, and whole restores."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Hashable, Iterator

from cramjam import snappy

from millstream.archive.entries import EntryReader
from millstream.archive.errors import ArchiveError
from millstream.archive.frames import FrameReader, read_frames
from millstream.archive.highway import HighwayHash
from millstream.archive.old_consumers import decode_state
from millstream.archive.s2 import pack, unpack
from tests.fuzz.targets.client_protocol import cuts
from tests.fuzz.targets.jetstream import Place
from tests.kits.jetstream import archive as kit

_PLAIN, _PACKED, _TAR, _FILES = range(4)  # how the input of a restore is meant
_CONSUMER = {
    "delivered": {"consumer_seq": 2, "stream_seq": 2},
    "ack_floor": {"consumer_seq": 1, "stream_seq": 1},
    "pending": {"2": {"Sequence": 2, "Timestamp": kit.TIME}},
    "redelivered": {"2": 1},
}


def s2_seeds() -> Iterator[bytes]:
    for data in (b"", b"a", b"abc" * 100, bytes(range(256)) * 4, b"x" * 70_000):
        yield bytes(snappy.compress_raw(data))
    yield b"\x14\x04ab\x15\x00\x15\x00"


def check_s2(data: bytes) -> Hashable:
    """Data that Snappy's own reader accepts has the same content in ours."""
    try:
        found = unpack(data, 0, 1 << 20)
    except ArchiveError:
        found = None
    if found is not None:  # the other reader allocates whatever a block says that it holds
        try:
            expected = bytes(snappy.decompress_raw(data))
        except Exception:  # cramjam's own classes
            expected = None
        if expected is not None and len(expected) <= 1 << 20:
            assert found == expected
    return found is None, found is not None and min(len(found).bit_length(), 12), len(data).bit_length()


def check_packing(data: bytes) -> Hashable:
    """Packed bytes are the same again, and never much larger."""
    if not data:
        return None
    depth, data = data[0] % 32, data[1:] * (data[0] // 32 + 1)
    packed = pack(data, depth)
    assert unpack(packed, 0, len(data)) == data
    assert len(packed) <= len(data) + len(data) // 6 + 32
    return depth > 0, len(packed).bit_length(), len(data).bit_length()


def entries() -> bytes:
    state = kit.state(messages=3, bytes=100, first_seq=1, last_seq=4, consumer_count=1)
    consumer = kit.consumer("C", {"ack_policy": "explicit"}, _CONSUMER)
    messages = [kit.message(seq, b"body %d" % seq, subject=b"a.%d" % seq) for seq in (1, 2, 4)]
    headers = kit.message(
        5, b"x", subject=b"a.h", headers=b"NATS/1.0\r\nNats-TTL: 1h\r\nNats-Msg-Id: q\r\n\r\n"
    )
    return kit.join((state, consumer, *messages, headers, kit.END))


def frame_seeds() -> Iterator[bytes]:
    yield kit.pack(entries())
    yield kit.pack(b"").replace(b"sNaPpY", b"S2sTwO") + kit.pack(b"hello" * 50)[10:] + b"\xfe\x02\x00\x00ab"


def _framed(pieces: tuple[bytes, ...]) -> bytes | None:
    reader = FrameReader()
    try:
        found = b"".join(b"".join(reader.feed(piece)) for piece in pieces)
        reader.finish()
    except ArchiveError:
        return None
    return found


def check_frames(data: bytes) -> Hashable:
    expected = _framed((data,))
    for pair in cuts(data, 30):
        assert _framed(pair) == expected
    if expected is not None:
        assert read_frames(data) == expected
    return expected is None, len(expected or b"").bit_length()


def entry_seeds() -> Iterator[bytes]:
    yield entries()
    yield kit.join((kit.state(), kit.END))


def _entries(pieces: tuple[bytes, ...]) -> list[tuple[Hashable, ...]] | None:
    reader, found = EntryReader(), []
    reader.most = 100_000
    for piece in pieces:
        reader.feed(piece)
        try:
            while reader.next():
                if reader.too_large:
                    return None
                found.append(
                    (
                        reader.name(),
                        reader.seq,
                        reader.timestamp,
                        reader.headers(),
                        reader.body(),
                        reader.is_end(),
                    )
                )
        except ArchiveError:
            return None
    return found


def check_entries(data: bytes) -> Hashable:
    expected = _entries((data,))
    for pair in cuts(data, 30):
        assert _entries(pair) == expected
    return expected is None or tuple(len(each[0]) for each in expected[:8])


def old_files() -> dict[str, bytes]:
    records = [
        kit.block_record(
            "S", 1, seq, b"a.%d" % seq, b"body", b"NATS/1.0\r\nA: b\r\n\r\n" if seq == 2 else b""
        )
        for seq in (1, 2, 3)
    ]
    state = bytes((22, 2, 2, 2, 1, 1, 0)) + b"\x00" * 4
    return kit.old_files("S", {1: b"".join(records)}, subjects=["a.>"]) | kit.old_consumer(
        "S", "C", state, ack_policy="explicit"
    )


def restore_seeds() -> Iterator[bytes]:
    yield bytes((_PLAIN,)) + entries()
    yield bytes((_PACKED,)) + kit.pack(entries())
    yield bytes((_TAR,)) + kit.tar_of(old_files())
    yield bytes((_FILES,)) + b"".join(
        b"%b\n%d\n%b\n" % (name.encode(), len(data), data) for name, data in old_files().items()
    )


def _resealed(data: bytes) -> bytes:
    """A tar of the files in `data`, with the hashes that an attacker would compute."""
    files: dict[str, bytes] = {}
    while data and len(files) < 20:
        name, _, rest = data.partition(b"\n")
        size, _, rest = rest.partition(b"\n")
        length = int(size) if size.isdigit() and len(size) < 6 else 0
        files[name.decode("latin-1")[:90]] = rest[:length]
        data = rest[length + 1 :]
    for name in list(files):
        if name.endswith("meta.inf"):
            owner = "S" if name == "meta.inf" else f"S/{name.split('/')[1] if '/' in name else ''}"
            files[name.replace("meta.inf", "meta.sum")] = kit.summed(owner, files[name])
        if name.endswith(".blk"):
            files[name] = _rehashed(files[name])
    return kit.tar_of(files)


def _rehashed(block: bytes) -> bytes:
    """Records of a block of messages with hashes that fit what they say."""
    out, at = bytearray(block), 0
    while len(out) - at >= 30:
        first = int.from_bytes(out[at : at + 4], "little")
        size = first & 0x3FFFFFFF
        if size < 30 or at + size > len(out):
            break
        subject_size = int.from_bytes(out[at + 20 : at + 22], "little")
        content = bytes(out[at + 22 + subject_size : at + size - 8])
        if first >> 31:
            content = content[4:]
        hasher = HighwayHash(hashlib.sha256(b"S-1").digest())
        subject = bytes(out[at + 22 : at + 22 + subject_size])
        out[at + size - 8 : at + size] = hasher.sum(bytes(out[at + 4 : at + 20]) + subject + content)
        at += size
    return bytes(out)


def check_restore(data: bytes) -> Hashable:
    """A restore ends with an answer; a stream that it made is one like any other, also after a restart."""
    kind, content = (data[0] % 4, data[1:]) if data else (_PACKED, b"")
    if kind in (_PLAIN, _TAR):
        content = kit.pack(content)
    elif kind == _FILES:
        content = kit.pack(_resealed(content))
    place = Place()
    answer = place.ask("STREAM.RESTORE.S", {"config": {"name": "S", "subjects": ["a.>"]}, "state": {}})
    subject = answer["deliver_subject"].encode()
    for at in range(0, len(content), 4000):
        place.world.send(subject, content[at : at + 4000], reply=b"_INBOX.chunk")
        place.world.settle()
    place.world.send(subject, b"", reply=b"_INBOX.end")
    place.world.settle()
    ends = [
        json.loads(each.payload)
        for each in place.world.published
        if each.subject == b"_INBOX.end" and each.payload
    ]
    assert len(ends) == 1, ends
    outcome = ends[0].get("error", {}).get("description", "")
    if "S" in place.account.streams:
        for _ in range(2):
            info = place.ask("STREAM.INFO.S", {"subjects_filter": ">"})
            assert "error" not in info, info
            for seq in (info["state"]["first_seq"], info["state"]["last_seq"]):
                place.ask("STREAM.MSG.GET.S", {"seq": seq})
            place.ask("CONSUMER.MSG.NEXT.S.C", {"batch": 3})
            place.ask("STREAM.UPDATE.S", {"name": "S", "subjects": ["a.>"], "max_msgs_per_subject": 1})
            place.world.advance(31.0)
            place.restart()
            assert not place.account.unrecovered, place.account.unrecovered
    return kind, outcome[:40]


def old_consumer_seeds() -> Iterator[bytes]:
    yield bytes((22, 2, 2, 2, 1, 1, 0)) + b"\x00" * 4
    yield bytes((22, 2, 1, 1, 2, 2, 0, 1, 0, 1, 1, 1, 1))


def check_old_consumer(data: bytes) -> Hashable:
    state = decode_state(data)
    return len(state.pending) if state is not None and hasattr(state, "pending") else None
