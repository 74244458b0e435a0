"""A client that uses more of what streams offer: keys, rollups, reads, and new configurations."""

from __future__ import annotations

import json
from typing import Any

from tests.sim.clients.actors import PATIENCE_S
from tests.sim.clients.bulk import BulkActor
from tests.sim.clients.client import Message
from tests.sim.clients.content import AT_ONCE, direct_batch, stored_directly, stored_message
from tests.sim.history import BatchOutcome, Reading, Republished, Stored, Update


class StreamActor(BulkActor):
    """Performs all operations of a publisher's plan."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._known: dict[tuple[str, str], int] = {}  # the last sequence of a key, as this client knows it

    async def send(
        self, stream: str, subject: str, size: int, headers: dict[str, str] | None = None, to: str = ""
    ) -> None:
        """Publish a message with headers; `to` is the subject that it is stored under."""
        await self.client.online()
        record, future = self._send(stream, subject, size, dict(headers or {}))
        record.subject = to or subject
        record.ttl_s = _ttl_s(record.headers)
        self._answered(record, await future)

    async def key(self, stream: str, subject: str, way: str, ttl_s: int = 0) -> None:
        """Write a key as a client of a bucket does that knows what it read or wrote before."""
        headers: dict[str, str] = {}
        last = self._known.get((stream, subject))
        if way == "purge":
            headers |= {"KV-Operation": "PURGE", "Nats-Rollup": "sub"}
        elif way == "delete":
            headers["KV-Operation"] = "DEL"
        if ttl_s:
            headers["Nats-TTL"] = f"{ttl_s}s"
        more: dict[str, Any] = {"ttl_s": ttl_s}
        if way == "update" and last is not None:
            headers["Nats-Expected-Last-Subject-Sequence"] = str(last)
            more |= {"expected": last, "expects": "subject"}
        await self.client.online()
        record, future = self._send(stream, subject, 12, headers, **more)
        self._answered(record, await future)
        if record.seq:
            self._known[stream, subject] = record.seq
        elif record.refused and record.answer is not None:
            text = record.answer["error"].get("description", "")
            _, _, told = text.partition("wrong last sequence: ")
            if told.isdigit():
                self._known[stream, subject] = int(told)

    async def repeat(self, stream: str, subject: str, which: float) -> None:
        """Send a message with an id once more, however long ago it was, or a new one."""
        sent = [each for each in self.history.publishes if each.stream == stream and each.msg_id]
        place = int(which * 2 * len(sent))
        if place < len(sent):
            subject, uid, msg_id = sent[place].subject, sent[place].uid, sent[place].msg_id
        else:
            uid = self.history.next_uid()
            msg_id = f"id{uid}"
        await self.client.online()
        record, future = self._send(stream, subject, 20, {"Nats-Msg-Id": msg_id}, uid=uid, msg_id=msg_id)
        self._answered(record, await future)

    async def expect_id(self, stream: str, subject: str, stale: bool) -> None:
        """Publish a message with an id that expects the one of the last message that this client sent."""
        sent = [each for each in self.history.publishes if each.stream == stream and each.seq and each.msg_id]
        last = max(sent, key=lambda each: each.seq, default=None)
        uid = self.history.next_uid()
        headers = {"Nats-Msg-Id": f"id{uid}", "Nats-Expected-Stream": stream}
        if last is not None:
            headers["Nats-Expected-Last-Msg-Id"] = "none" if stale else last.msg_id
        await self.client.online()
        record, future = self._send(stream, subject, 20, headers, uid=uid, msg_id=f"id{uid}")
        self._answered(record, await future)

    async def checked_batch(self, stream: str, subject: str, count: int, stale: bool) -> None:
        """Publish an atomic batch whose first message expects the last one of its subject."""
        last = await self._last(stream, subject)
        if last is None:
            return
        await self.client.online()
        name = f"c{self.history.next_uid()}"
        outcome = BatchOutcome(name, stream, [], self.loop.now)
        self.history.batches.append(outcome)
        expected = max(0, last - 1) if stale else last
        for number in range(1, count + 1):
            headers = {"Nats-Batch-Id": name, "Nats-Batch-Sequence": str(number)}
            more: dict[str, Any] = {"batch": name}
            if number == 1:
                headers["Nats-Expected-Last-Subject-Sequence"] = str(expected)
                more |= {"expected": expected, "expects": "subject"}
            if number == count:
                headers["Nats-Batch-Commit"] = "1"
            record, future = self._send(stream, subject, 15, headers, **more)
            outcome.uids.append(record.uid)
            answer = await future if number in (1, count) else None
            if number == count:
                self._answered(outcome, answer)
            elif number == 1 and (answer is None or answer.payload):
                return

    async def change(self, stream: str, config: dict[str, Any]) -> None:
        """Give a stream another configuration."""
        await self.client.online()
        record = Update(self.loop.now, stream, config)
        self.history.updates.append(record)
        self.note("asks for", config, "of", stream)
        body = json.dumps({"name": stream, **config}).encode()
        future = self.client.ask(f"$JS.API.STREAM.UPDATE.{stream}", body, None, PATIENCE_S)
        message: Message | None = await future
        if message is not None and not message.headers.get("Status"):
            record.answered_at, record.answer = self.loop.now, message.json()
            self.note("is told of", stream, record.answer.get("error", "ok"))

    async def follow_copies(self, stream: str, subject: str) -> None:
        """Subscribe to copies that a stream republishes."""
        self.client.subscribe(subject, lambda message: self._copied(stream, message))

    def _copied(self, stream: str, message: Message) -> None:
        stored = stored_directly(message)
        self.history.republished.append(Republished(stream, stored.seq, stored.uid, stored.subject))

    # -- reading ----------------------------------------------------------------------------------

    async def _last(self, stream: str, subject: str) -> int | None:
        found = await self._get(stream, "last", subject, 0, direct=False)
        if found is False:
            return None
        return found.seq if isinstance(found, Stored) else 0

    async def read(self, stream: str, how: str, subject: str, which: float, direct: bool) -> None:
        """Read a message, and note what was found."""
        acked = sorted({each.seq for each in self.history.publishes if each.stream == stream and each.seq})
        seq = acked[int(which * len(acked))] if acked else 1
        if how == "batch":
            await self._read_batch(stream, subject, seq)
            return
        await self._get(stream, how, subject if how in ("last", "next") else "", seq, direct=direct)

    async def _read_batch(self, stream: str, subject: str, seq: int) -> None:
        """Read several messages at once, and note them as if they were read one after the other."""
        await self.client.online()
        began = self.loop.now
        request = {"seq": seq, "next_by_subj": subject, "batch": AT_ONCE}
        answers = await direct_batch(self.client, stream, request)
        self.note("reads", len(answers), "of", stream, subject, "from", seq)
        for answer in answers:
            status = answer.headers.get("Status", "404")
            found = None if "Status" in answer.headers else stored_directly(answer)
            if found is None and not status.startswith(("404", "204")):
                return
            reading = Reading(began, stream, "next", subject, seq, self.loop.now, found, direct=True)
            self.history.readings.append(reading)
            seq = found.seq + 1 if found is not None else seq

    async def _get(
        self, stream: str, how: str, subject: str, seq: int, *, direct: bool
    ) -> Stored | bool | None:
        """Return a message, or None if there is none; False if that cannot be found out."""
        request: dict[str, Any] = {}
        if how == "last":
            request, seq = {"last_by_subj": subject}, 0
        elif how == "seq":
            request = {"seq": seq}
        elif how == "next":
            request = {"seq": seq, "next_by_subj": subject}
        await self.client.online()
        began = self.loop.now
        api = "DIRECT.GET" if direct else "STREAM.MSG.GET"
        body = json.dumps(request).encode()
        answer: Message | None = await self.client.ask(f"$JS.API.{api}.{stream}", body, None, PATIENCE_S)
        found: Stored | None = None
        if answer is None:
            return False
        status = answer.headers.get("Status", "")
        if direct and not status:
            found = stored_directly(answer)
        elif (direct and not status.startswith("404")) or (not direct and status):
            return False
        elif not direct:
            told = answer.json()
            if "error" in told and told["error"]["err_code"] != 10037:
                return False
            found = stored_message(told["message"]) if "message" in told else None
        self.note("reads", how, subject, seq, "of", stream, ":", found.seq if found else "nothing")
        self.history.readings.append(Reading(began, stream, how, subject, seq, self.loop.now, found, direct))
        return found


def _ttl_s(headers: dict[str, str]) -> int:
    """Return the seconds that a message may live; -1: for ever, 0: as long as any other."""
    if headers.get("Nats-TTL") == "never":
        return -1
    text = headers.get("Nats-TTL", "").rstrip("s")
    return int(text) if text.isdigit() else 0
