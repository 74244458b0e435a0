"""Archives put together by hand."""

import hashlib
import io
import json
import tarfile
from collections.abc import Iterable
from typing import Any, NamedTuple

from millstream.archive.entries import MAGIC, EntryBuffer, EntryReader
from millstream.archive.frames import BLOCK_SIZE, START, frame, read_frames
from millstream.archive.highway import HighwayHash

TIME = 1_700_000_000_000_000_000


class Entry(NamedTuple):
    name: bytes
    seq: int = 0
    timestamp: int = TIME
    headers: bytes = b""
    body: bytes = b""


END = Entry(b"", 0, 0)


def message(seq: int, body: bytes = b"", *, subject: bytes = b"a", headers: bytes = b"") -> Entry:
    return Entry(subject, seq, TIME + seq, headers, body)


def state(**fields: Any) -> Entry:
    found = {"messages": 0, "bytes": 0, "first_seq": 0, "last_seq": 0, "consumer_count": 0, **fields}
    return Entry(b"state.json", body=json.dumps(found).encode())


def consumer(name: str, config: dict[str, Any], where: dict[str, Any]) -> Entry:
    return Entry(
        f"consumers/{name}".encode(),
        body=json.dumps({"config": {"durable_name": name, **config}, "state": where}).encode(),
    )


def join(entries: Iterable[Entry]) -> bytes:
    buffer = EntryBuffer()
    buffer.append(MAGIC)
    for each in entries:
        both = each.headers + each.body
        buffer.add(each.name, each.timestamp, each.seq, both, 0, len(each.headers), len(both))
    return buffer.take()


def pack(data: bytes) -> bytes:
    return START + b"".join(frame(data[at : at + BLOCK_SIZE]) for at in range(0, len(data), BLOCK_SIZE))


def archive(*entries: Entry) -> bytes:
    """A whole one: the end is added."""
    return pack(join((*entries, END)))


def entries_of(data: bytes) -> list[Entry]:
    reader = EntryReader()
    reader.feed(read_frames(data))
    found = []
    while reader.next():
        found.append(Entry(reader.name(), reader.seq, reader.timestamp, reader.headers(), reader.body()))
    assert reader.between
    return found


# -- older ones ----------------------------------------------------------------------------------------------


def block_record(
    stream: str,
    number: int,
    seq: int,
    subject: bytes = b"",
    body: bytes = b"",
    headers: bytes = b"",
    *,
    timestamp: int = TIME,
) -> bytes:
    content = (len(headers).to_bytes(4, "little") + headers if headers else b"") + body
    size = 22 + len(subject) + len(content) + 8
    first = (size | (1 << 31 if headers else 0)).to_bytes(4, "little")
    middle = seq.to_bytes(8, "little") + timestamp.to_bytes(8, "little", signed=True)
    hasher = HighwayHash(hashlib.sha256(f"{stream}-{number}".encode()).digest())
    digest = hasher.sum(middle + subject + headers + body)
    return first + middle + len(subject).to_bytes(2, "little") + subject + content + digest


def summed(key: str, text: bytes) -> bytes:
    return HighwayHash(hashlib.sha256(key.encode()).digest()).sum(text).hex().encode()


def tar_of(files: dict[str, bytes]) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for name, data in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    return out.getvalue()


def old_files(stream: str, blocks: dict[int, bytes], **config: Any) -> dict[str, bytes]:
    meta = json.dumps({"Created": "2023-01-02T03:04:05Z", "name": stream, **config}).encode()
    return {
        "meta.inf": meta,
        "meta.sum": summed(stream, meta),
        **{f"msgs/{number}.blk": data for number, data in blocks.items()},
    }


def old_consumer(stream: str, name: str, dat: bytes, **config: Any) -> dict[str, bytes]:
    meta = json.dumps(
        {"Created": "2023-02-03T04:05:06Z", "Name": name, "durable_name": name, **config}
    ).encode()
    return {
        f"obs/{name}/meta.inf": meta,
        f"obs/{name}/meta.sum": summed(f"{stream}/{name}", meta),
        f"obs/{name}/o.dat": dat,
    }
