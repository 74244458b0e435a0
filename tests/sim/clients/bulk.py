"""A client that does more than publish: counters, schedules, fast ingest, snapshots and new streams."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

from tests.sim.clients.actors import PATIENCE_S, Actor, payload_of
from tests.sim.clients.client import Message
from tests.sim.history import Copy, FastBatch, Incarnation, Publish
from tests.sim.machine.loop import SECOND_NS, START_NS, SimFuture

FLOW = 3  # messages between two answers of fast ingest
START, APPEND, COMMIT = 0, 1, 2  # operations of fast ingest


class BulkActor(Actor):
    """Performs all operations of a publisher's plan."""

    async def count(self, stream: str, subject: str, by: int) -> None:
        """Add to a counter."""
        await self.client.online()
        record, future = self._send(stream, subject, 0, {"Nats-Incr": f"+{by}"}, payload=b"", increment=by)
        self._answered(record, await future)

    async def schedule(self, stream: str, subject: str, after_s: int) -> None:
        """Have a message published later, on another subject of the stream."""
        await self.client.online()
        due = datetime.fromtimestamp(START_NS // SECOND_NS + int(self.loop.now) + after_s, UTC)
        headers = {
            "Nats-Schedule": f"@at {due:%Y-%m-%dT%H:%M:%SZ}",
            "Nats-Schedule-Target": subject.replace(".in.", ".out."),
        }
        record, future = self._send(stream, subject, 20, headers, due=self.loop.now + after_s)
        self._answered(record, await future)

    async def fast(self, stream: str, subject: str, count: int, size: int) -> None:
        """Send messages with fast ingest, all at once; note up to which one they are stored."""
        await self.client.online()
        name = f"f{self.history.next_uid()}"
        batch = FastBatch(name, stream, [], self.loop.now)
        self.history.fast.append(batch)
        ended = self.loop.future()
        inbox = f"_FAST.{self.client.name}.{name}"
        sid = self.client.subscribe(f"{inbox}.>", lambda message: self._told(batch, message, ended))
        self.loop.after(self.loop.clients, PATIENCE_S, ended.set, None)
        for number in range(1, count + 1):
            uid = self.history.next_uid()
            batch.uids.append(uid)
            record = Publish(uid, self.client.name, stream, subject, self.loop.now, self.client.connections)
            record.sent, record.batch, record.size = self.client.connected, name, size
            self.history.publishes.append(record)
            operation = START if number == 1 else APPEND
            if number == count:
                operation = COMMIT
            reply = f"{inbox}.{FLOW}.fail.{number}.{operation}.$FI"
            self.client.publish(subject, payload_of(uid, size), reply)
        self.note("sends fast", name, batch.uids)
        await ended
        self.client.unsubscribe(sid)

    def _told(self, batch: FastBatch, message: Message, ended: SimFuture) -> None:
        if message.headers.get("Status") or not message.payload:
            return
        answer = message.json()
        self.note("is told of", batch.name, answer)
        if answer.get("type") == "ack":
            batch.stored = max(batch.stored, answer["seq"])
        elif "type" not in answer:
            if "error" not in answer:
                batch.stored = max(batch.stored, answer["count"])
            ended.set(None)

    async def snapshot(self, stream: str, subject: str, copy: str, consumers: bool = False) -> None:
        """Copy a stream: take a snapshot, and restore it under another name."""
        began = self.loop.now
        config, archive = await self._take(stream, consumers)
        if archive is None:
            self.note("has no snapshot of", stream)
            return
        self.note("has a snapshot of", stream, len(archive), "chunks")
        taken_at = self.loop.now
        config |= {"name": copy, "subjects": [f"{copy.lower()}.>"]}
        if await self._put(copy, config, archive):
            self.note("has restored", copy)
            self.history.copies.append(Copy(copy, stream, began, taken_at, consumers, config))

    async def _take(self, stream: str, consumers: bool) -> tuple[dict[str, Any], list[bytes] | None]:
        await self.client.online()
        chunks: list[bytes] = []
        ended = self.loop.future()
        number = self.client.connections

        def take(message: Message) -> None:
            if message.payload:
                chunks.append(message.payload)
                if message.reply:
                    self.client.publish(message.reply)
            else:
                ended.set(message)

        inbox = f"_SNAP.{self.client.name}.{self.history.next_uid()}"
        sid = self.client.subscribe(inbox, take)
        self.loop.after(self.loop.clients, 3 * PATIENCE_S, ended.set, None)
        request = {"deliver_subject": inbox, "no_consumers": not consumers, "chunk_size": 1024}
        answer = await self.client.api(f"STREAM.SNAPSHOT.{stream}", request)
        end: Message | None = None
        if answer is not None and "error" not in answer:
            end = await ended
        self.client.unsubscribe(sid)
        whole = end is not None and not end.headers.get("Status", "").startswith("4")
        whole = whole and number == self.client.connections
        return (answer or {}).get("config", {}), chunks if whole else None

    async def _put(self, name: str, config: dict[str, Any], archive: list[bytes]) -> bool:
        begun = await self.client.api(f"STREAM.RESTORE.{name}", {"config": config})
        if begun is None or "error" in begun:
            self.note("cannot restore", name, begun)
            return False
        for chunk in [*archive, b""]:
            answer = await self.client.ask(begun["deliver_subject"], chunk, None, 3 * PATIENCE_S)
            if answer is None or answer.headers.get("Status"):
                return False
            if not chunk:
                told = answer.json()
                self.note("is told of", name, told.get("error", "ok"))
                return "error" not in told
        return False

    async def recreate(self, stream: str, subject: str, config: dict[str, Any]) -> None:
        """Delete a stream and create it again, whatever the answers are."""
        record = Incarnation(stream, self.loop.now)
        self.history.incarnations.append(record)
        self.note("deletes", stream)
        await self.client.online()
        answer = await self.client.ask(f"$JS.API.STREAM.DELETE.{stream}", b"", None, PATIENCE_S)
        if answer is not None and not answer.headers.get("Status") and answer.json().get("success"):
            record.deleted_at = self.loop.now
        self.note("is told", "nothing" if answer is None else answer.payload.decode())
        body = json.dumps({"name": stream, **config}).encode()
        while True:
            await self.client.online()
            created = await self.client.ask(f"$JS.API.STREAM.CREATE.{stream}", body, None, PATIENCE_S)
            if created is not None and not created.headers.get("Status"):
                self.note("creates", stream, created.json().get("error", "ok"))
                if created.json().get("error", {}).get("err_code", 10058) == 10058:
                    record.created_at = self.loop.now
                    return
            await self.loop.sleep(0.5)
