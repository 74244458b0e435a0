"""Taking snapshots and restoring them over the wire, as a client of any server would."""

from __future__ import annotations

import asyncio
import hashlib
import io
import json
import tarfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from nats.aio.client import Client
from nats.aio.msg import Msg

from millstream.archive.entries import MAGIC, EntryBuffer, EntryReader
from millstream.archive.frames import BLOCK_SIZE, START, frame, read_frames
from tests.kits.patience import PATIENCE_S

TIME = 1_700_000_000_000_000_000


class Entry(NamedTuple):
    name: bytes
    seq: int = 0
    timestamp: int = TIME
    headers: bytes = b""
    body: bytes = b""


END = Entry(b"", 0, 0)


def state(**fields: Any) -> Entry:
    found = {"messages": 0, "bytes": 0, "first_seq": 0, "last_seq": 0, "consumer_count": 0, **fields}
    return Entry(b"state.json", body=json.dumps(found).encode())


def message(seq: int, body: bytes = b"", *, subject: bytes = b"a.b", headers: bytes = b"") -> Entry:
    return Entry(subject, seq, TIME + seq, headers, body)


def consumer(name: str, config: dict[str, Any], where: dict[str, Any]) -> Entry:
    document = {"config": {"durable_name": name, "name": name, **config}, "state": where}
    return Entry(f"consumers/{name}".encode(), body=json.dumps(document).encode())


def join(*entries: Entry) -> bytes:
    buffer = EntryBuffer()
    buffer.append(MAGIC)
    for each in entries:
        both = each.headers + each.body
        buffer.add(each.name, each.timestamp, each.seq, both, 0, len(each.headers), len(both))
    return buffer.take()


def pack(data: bytes) -> bytes:
    return START + b"".join(frame(data[at : at + BLOCK_SIZE]) for at in range(0, len(data), BLOCK_SIZE))


def archive(*entries: Entry) -> bytes:
    return pack(join(*entries, END))


def entries_of(data: bytes) -> list[Entry]:
    reader = EntryReader()
    reader.feed(read_frames(data))
    found = []
    while reader.next():
        found.append(Entry(reader.name(), reader.seq, reader.timestamp, reader.headers(), reader.body()))
    assert reader.between
    assert found[-1] == END
    return found


def messages_of(data: bytes) -> list[Entry]:
    return [each for each in entries_of(data) if each.seq]


def consumers_of(data: bytes) -> dict[str, Any]:
    return {
        each.name.decode().removeprefix("consumers/"): json.loads(each.body)
        for each in entries_of(data)
        if each.name.startswith(b"consumers/")
    }


@dataclass
class Snapshot:
    answer: dict[str, Any]
    came: list[Msg] = field(default_factory=list)

    @property
    def data(self) -> bytes:
        return b"".join(each.data for each in self.came)

    @property
    def replies(self) -> list[str]:
        return [each.reply for each in self.came]

    @property
    def end(self) -> dict[str, str] | None:
        """The headers of the last message, which must be empty."""
        assert self.came[-1].data == b""
        return self.came[-1].headers


class Site:
    """One connection to one server."""

    def __init__(self, client: Client) -> None:
        self.client = client

    async def ask(self, verb: str, body: Any = b"") -> dict[str, Any]:
        text = body if isinstance(body, bytes) else json.dumps(body).encode()
        answer = await self.client.request(f"$JS.API.{verb}", text, timeout=PATIENCE_S)
        found: dict[str, Any] = json.loads(answer.data)
        return found

    async def do(self, verb: str, body: Any = b"") -> dict[str, Any]:
        answer = await self.ask(verb, body)
        assert "error" not in answer, answer
        return answer

    async def create(self, name: str, **config: Any) -> dict[str, Any]:
        return await self.do(f"STREAM.CREATE.{name}", {"name": name, "num_replicas": 1, **config})

    async def publish(self, subject: str, body: bytes = b"", **headers: str) -> int:
        named = {key.replace("_", "-"): value for key, value in headers.items()}
        answer = await self.client.request(subject, body, timeout=PATIENCE_S, headers=named or None)
        found = json.loads(answer.data)
        assert "error" not in found, found
        seq: int = found["seq"]
        return seq

    async def snapshot(self, name: str, *, acks: bool = True, **request: Any) -> Snapshot:
        """All of it; without `acks`, what comes until the server gives up."""
        inbox = self.client.new_inbox()
        taken = Snapshot({})
        ended = asyncio.Event()

        async def receive(msg: Msg) -> None:
            taken.came.append(msg)
            if msg.reply and acks:
                await self.client.publish(msg.reply)
            if not msg.data:
                ended.set()

        subscription = await self.client.subscribe(inbox, cb=receive)
        taken.answer = await self.do(f"STREAM.SNAPSHOT.{name}", {"deliver_subject": inbox, **request})
        async with asyncio.timeout(PATIENCE_S):
            await ended.wait()
        await subscription.unsubscribe()
        return taken

    async def begin_restore(self, name: str, config: dict[str, Any]) -> str:
        found = await self.do(f"STREAM.RESTORE.{name}", {"config": {"name": name, **config}, "state": {}})
        subject: str = found["deliver_subject"]
        return subject

    async def restore(
        self, name: str, data: bytes, *, chunk: int = 64 * 1024, **config: Any
    ) -> dict[str, Any]:
        """The answer to the last message."""
        subject = await self.begin_restore(name, config)
        for at in range(0, len(data), chunk):
            answer = await self.client.request(subject, data[at : at + chunk], timeout=PATIENCE_S)
            assert answer.data == b"", answer.data
        answer = await self.client.request(subject, b"", timeout=PATIENCE_S)
        found: dict[str, Any] = json.loads(answer.data)
        return found

    async def restored(self, name: str, data: bytes, **config: Any) -> dict[str, Any]:
        answer = await self.restore(name, data, **config)
        assert "error" not in answer, answer
        return answer

    async def info(self, name: str) -> dict[str, Any]:
        return await self.do(f"STREAM.INFO.{name}", {"deleted_details": True, "subjects_filter": ">"})

    async def consumer(self, name: str, consumer: str) -> dict[str, Any]:
        """Return the consumer's info without the fields that depend on the time."""
        found = await self.do(f"CONSUMER.INFO.{name}.{consumer}")
        for place in ("delivered", "ack_floor"):
            found[place].pop("last_active", None)
        return {key: value for key, value in found.items() if key not in ("ts", "created")}

    async def pull(self, name: str, consumer: str, batch: int) -> list[Msg]:
        """Pull the messages that are there now."""
        inbox = self.client.new_inbox()
        subscription = await self.client.subscribe(inbox)
        body = json.dumps({"batch": batch, "no_wait": True}).encode()
        await self.client.publish(f"$JS.API.CONSUMER.MSG.NEXT.{name}.{consumer}", body, reply=inbox)
        found: list[Msg] = []
        async with asyncio.timeout(PATIENCE_S):
            while len(found) < batch:
                msg = await subscription.next_msg(timeout=PATIENCE_S)
                if (msg.headers or {}).get("Status"):
                    break
                found.append(msg)
        await subscription.unsubscribe()
        return found


def old_archive(folder: Path) -> bytes:
    """The files of a stream that nats-server left, as an archive of the older form."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for path in sorted(folder.rglob("*")):
            if path.is_file():
                tar.add(path, str(path.relative_to(folder)), recursive=False)
    return pack(out.getvalue())


def digest(entries: list[Entry]) -> str:
    return hashlib.sha256(repr(entries).encode()).hexdigest()
