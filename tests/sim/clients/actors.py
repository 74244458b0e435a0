"""Clients of a simulation: they publish, read, remove, and note everything in the history."""

from __future__ import annotations

import json
from typing import Any

from tests.sim.checks.damage_checks import note_erased
from tests.sim.clients.client import Message, SimClient, ack_words
from tests.sim.history import (
    AckSent,
    BatchOutcome,
    Change,
    ConsumerLook,
    Delivery,
    History,
    Publish,
    Removal,
    StateLook,
)
from tests.sim.machine.loop import SimFuture, SimLoop
from tests.sim.plans.plan import ConsumerPlan, Op

PATIENCE_S = 10.0  # for an answer
TRIES = 4
MOST_NAKS = 4  # of one message; then it is acknowledged


def payload_of(uid: int, size: int) -> bytes:
    return b"%d " % uid + b"x" * size


def uid_of(payload: bytes) -> int:
    if payload.startswith(b"{"):  # a counter, which is known by its value
        return int(json.loads(payload)["val"])
    return int(payload.split(b" ", 1)[0] or b"0")


class Actor:
    """A client that performs operations of the plan, one after the other."""

    def __init__(self, client: SimClient, history: History) -> None:
        self.client = client
        self.history = history
        self.loop: SimLoop = client.loop
        self.done = False

    async def run(self, ops: list[Op]) -> None:
        for op in ops:
            if op.at > self.loop.now:
                await self.loop.sleep(op.at - self.loop.now)
            await getattr(self, op.kind)(**op.args)
        self.done = True

    def note(self, *words: object) -> None:
        self.history.note(self.loop.now, self.client.name, *words)

    # -- publishing -------------------------------------------------------------------------------

    def _send(
        self, stream: str, subject: str, size: int, headers: dict[str, str], **more: Any
    ) -> tuple[Publish, SimFuture]:
        uid = more.pop("uid", None) or self.history.next_uid()
        payload = more.pop("payload", None)
        record = Publish(
            uid, self.client.name, stream, subject, self.loop.now, self.client.connections, **more
        )
        record.headers = headers
        record.size = size if payload is None else -1
        record.sent = self.client.connected
        record.size = size
        self.history.publishes.append(record)
        future = self.client.ask(
            subject, payload_of(uid, size) if payload is None else payload, headers, PATIENCE_S
        )
        self.note("sends", uid, "to", subject, headers or "", "" if record.sent else "(not connected)")
        return record, future

    def _answered(self, record: Publish | BatchOutcome | Removal, message: Message | None) -> None:
        if message is None or message.headers.get("Status") or not message.payload:
            return
        record.answered_at = self.loop.now
        record.answer = message.json()
        what = record.uid if isinstance(record, Publish) else type(record).__name__
        self.note("is answered for", what, ":", record.answer)

    async def publish(
        self, stream: str, subject: str, count: int, size: int, ids: bool, again: bool, ttl_s: int = 0
    ) -> None:
        """Publish some messages at once; those with ids are sent again if no answer comes."""
        await self.client.online()
        sent = []
        for _ in range(count):
            uid = self.history.next_uid()
            msg_id = f"id{uid}" if ids else ""
            headers = {"Nats-Msg-Id": msg_id} if ids else {}
            if ttl_s:
                headers["Nats-TTL"] = f"{ttl_s}s"
            sent.append(self._send(stream, subject, size, headers, uid=uid, msg_id=msg_id, ttl_s=ttl_s))
        for record, future in sent:
            self._answered(record, await future)
        for record, _ in sent:
            await self._try_again(record, size, again)

    async def _try_again(self, record: Publish, size: int, again: bool) -> None:
        for _ in range(TRIES):
            if not record.msg_id or (record.answer is not None and not again):
                return
            again = False
            await self.client.online()
            another, future = self._send(
                record.stream,
                record.subject,
                size,
                {"Nats-Msg-Id": record.msg_id},
                uid=record.uid,
                msg_id=record.msg_id,
            )
            self._answered(another, await future)
            record = another

    async def expect(self, stream: str, subject: str, expects: str, stale: bool) -> None:
        """Publish with an expected last sequence, of the stream or of the subject."""
        last = await self._last(stream, subject if expects == "subject" else ">")
        if last is None:
            return
        await self._send_expecting(stream, subject, expects, max(0, last - 1) if stale else last)

    async def _send_expecting(self, stream: str, subject: str, expects: str, last: int) -> None:
        name = "Nats-Expected-Last-Sequence"
        if expects == "subject":
            name = "Nats-Expected-Last-Subject-Sequence"
        await self.client.online()
        record, future = self._send(stream, subject, 20, {name: str(last)}, expected=last, expects=expects)
        self._answered(record, await future)

    async def _last(self, stream: str, subject: str) -> int | None:
        """Return the last sequence of a subject; None if it cannot be found out."""
        found = await self.client.api(f"STREAM.MSG.GET.{stream}", {"last_by_subj": subject})
        if found is None:
            return None
        if "error" in found:
            return 0 if found["error"]["err_code"] == 10037 else None
        return int(found["message"]["seq"])

    async def cas(self, stream: str, subject: str, stale: bool) -> None:
        """Compare and set a key, as a key-value bucket does."""
        last = await self._last(stream, subject)
        if last is not None:
            await self._send_expecting(stream, subject, "subject", max(0, last - 1) if stale else last)

    async def put(self, stream: str, subject: str, stale: bool) -> None:
        await self.client.online()
        record, future = self._send(stream, subject, 5, {})
        self._answered(record, await future)

    async def batch(self, stream: str, subject: str, count: int, size: int) -> None:
        """Publish an atomic batch."""
        await self.client.online()
        name = f"b{self.history.next_uid()}"
        outcome = BatchOutcome(name, stream, [], self.loop.now)
        self.history.batches.append(outcome)
        future: SimFuture | None = None
        for number in range(1, count + 1):
            headers = {"Nats-Batch-Id": name, "Nats-Batch-Sequence": str(number)}
            if number == count:
                headers["Nats-Batch-Commit"] = "1"
            uid = self.history.next_uid()
            outcome.uids.append(uid)
            record = Publish(
                uid, self.client.name, stream, subject, self.loop.now, self.client.connections, batch=name
            )
            record.headers, record.size = headers, size
            self.history.publishes.append(record)
            if number == count:
                future = self.client.ask(subject, payload_of(uid, size), headers, PATIENCE_S)
            elif number == 1:
                answer = await self.client.ask(subject, payload_of(uid, size), headers, PATIENCE_S)
                if answer is None or answer.payload:
                    self.note("gives up batch", name, answer)
                    return
            else:
                self.client.publish(subject, payload_of(uid, size), "", headers)
        self.note("sends batch", name, outcome.uids)
        if future is not None:
            self._answered(outcome, await future)

    # -- removing and looking ---------------------------------------------------------------------

    async def delete(self, stream: str, which: float, no_erase: bool, **_: Any) -> None:
        acked = sorted({each.seq for each in self.history.publishes if each.stream == stream and each.seq})
        if acked:
            seq = acked[int(which * len(acked))]
            await self._remove(stream, "STREAM.MSG.DELETE", {"seq": seq, "no_erase": no_erase})

    async def purge(self, stream: str, which: float, way: str, keep: int, **args: Any) -> None:
        request: dict[str, Any] = {}
        if way == "filter":
            request = {"filter": args["filter"]}
        elif way == "keep":
            request = {"keep": keep}
        elif way == "filter keep":
            request = {"filter": args["filter"], "keep": keep}
        elif way in ("seq", "filter seq"):
            acked = sorted(
                {each.seq for each in self.history.publishes if each.stream == stream and each.seq}
            )
            if not acked:
                return
            request = {"seq": acked[int(which * len(acked))]}
            if way == "filter seq":
                request["filter"] = args["filter"]
        await self._remove(stream, "STREAM.PURGE", request)

    async def _remove(self, stream: str, endpoint: str, request: dict[str, Any]) -> None:
        await self.client.online()
        record = Removal(stream, self.loop.now, {"endpoint": endpoint, **request})
        self.history.removals.append(record)
        self.note("asks", endpoint, stream, request)
        future = self.client.ask(
            f"$JS.API.{endpoint}.{stream}", json.dumps(request).encode(), None, PATIENCE_S
        )
        self._answered(record, await future)
        note_erased(self.client.machine, self.history, record)

    async def _change(self, name: str, endpoint: str, body: Any, values: dict[str, Any]) -> None:
        """Ask for another configuration."""
        record = Change(name, self.loop.now, values)
        self.history.changes.append(record)
        answer = await self.client.api(endpoint, body)
        if answer is not None and "error" not in answer:
            record.answered_at = self.loop.now
        self.note("is told", "nothing" if answer is None else answer.get("error", "ok"))

    async def update(self, stream: str, subject: str, max_msgs: int) -> None:
        """Change the limit of a stream; from now on the smallest one that was asked for may have ruled."""
        self.history.limits.append(max_msgs)
        config = {"name": stream, "subjects": [f"{stream.lower()}.>"], "max_msgs": max_msgs}
        self.note("asks for max_msgs", max_msgs)
        await self._change(stream, f"STREAM.UPDATE.{stream}", config, {"max_msgs": max_msgs})

    async def look(self, stream: str, subject: str) -> None:
        """Ask for the state of a stream."""
        await self.client.online()
        began = self.loop.now
        found = await self.client.api(f"STREAM.INFO.{stream}")
        if found is not None and "state" in found:
            self.history.states.append(StateLook(began, self.loop.now, stream, found["state"]))


class Reader(Actor):
    """A client that reads one consumer and acknowledges as the plan says."""

    def __init__(self, client: SimClient, history: History, consumer: ConsumerPlan) -> None:
        super().__init__(client, history)
        self.consumer = consumer
        self._acks: list[str] = [""]
        self._next_ack = 0
        self._wanted = 0
        self._got: SimFuture | None = None
        self._inbox = 0
        self.unconfirmed = 0  # acks whose confirmation is awaited
        if consumer.push:
            client.subscribe(consumer.config["deliver_subject"], self._delivered)
        else:
            client.subscribe(f"_PULL.{client.name}.*", self._delivered)

    async def listen(self, acks: list[str]) -> None:
        self._acks = acks

    async def reconfigure(self, **changes: int) -> None:
        config = self.consumer.config | changes
        request = {"stream_name": self.consumer.stream, "config": config}
        endpoint = f"CONSUMER.DURABLE.CREATE.{self.consumer.path}"
        await self._change(self.consumer.path, endpoint, request, changes)

    async def fetch(self, batch: int, acks: list[str]) -> int:
        """Pull some messages; return how many came."""
        self._acks = acks
        self._inbox += 1
        await self.client.online()
        options: dict[str, Any] = {"batch": batch, "expires": 1_000_000_000}
        if "priority_groups" in self.consumer.config:
            options |= {"group": "g", "priority": self._inbox % 3}
        request = json.dumps(options).encode()
        self._wanted = batch
        self._got = got = self.loop.future()
        reply = f"_PULL.{self.client.name}.{self._inbox}"
        self.note("pulls", batch, "of", self.consumer.path)
        self.client.publish(f"$JS.API.CONSUMER.MSG.NEXT.{self.consumer.path}", request, reply)
        self.loop.after(self.loop.clients, 4.0, got.set, None)
        await got
        return batch - self._wanted

    def _delivered(self, message: Message) -> None:
        if not message.reply.startswith("$JS.ACK."):
            if message.headers.get("Status", "").startswith("100"):
                if message.reply:
                    self.client.publish(message.reply)
            elif self._got is not None and message.subject.endswith(f".{self._inbox}"):
                self.note("is told", message.headers.get("Status"))
                self._got.set(None)
            return
        words = ack_words(message.reply)
        seq, count = int(words[3]), int(words[2])
        delivery = Delivery(
            self.loop.now,
            self.client.name,
            message.connection,
            words[0],
            words[1],
            seq,
            int(words[4]),
            count,
            uid_of(message.payload),
            message.subject,
        )
        self.history.deliveries.append(delivery)
        self.note("gets", delivery.uid, "seq", seq, "of", self.consumer.path, "for time", count)
        kind = self._acks[self._next_ack % len(self._acks)]
        self._next_ack += 1
        if kind.startswith("-NAK") and count > MOST_NAKS:
            kind = "+ACK!"
        self._wanted -= 1
        if self._wanted <= 0 and self._got is not None:
            self._got.set(None)
        if kind:
            self._acknowledge(delivery, message.reply, kind)

    def _acknowledge(self, delivery: Delivery, reply: str, kind: str) -> None:
        record = AckSent(
            self.loop.now,
            self.client.name,
            self.client.connections,
            delivery.stream,
            delivery.consumer,
            delivery.seq,
            kind.rstrip("!"),
        )
        if not self.client.connected:
            return
        self.history.acks.append(record)
        self.note("answers", record.kind, "to seq", delivery.seq, "of", self.consumer.path)
        if kind == "-NAK" and delivery.seq % 2:
            self.client.publish(reply, b'-NAK {"delay": 700000000}')
        elif kind.endswith("!"):
            self.unconfirmed += 1
            self.loop.spawn(self._confirm(record, reply))
        else:
            self.client.publish(reply, record.kind.encode())

    async def _confirm(self, record: AckSent, reply: str) -> None:
        answer = await self.client.ask(reply, record.kind.encode(), None, PATIENCE_S)
        self.unconfirmed -= 1
        if answer is not None and not answer.headers.get("Status"):
            record.confirmed_at = self.loop.now
            self.note("has the confirmation for seq", record.seq, "of", self.consumer.path)

    async def look_at_consumer(self) -> dict[str, Any] | None:
        """Return the consumer's info."""
        found = await self.client.api(f"CONSUMER.INFO.{self.consumer.path}")
        if found is not None and "error" not in found:
            self.history.looks.append(
                ConsumerLook(self.loop.now, self.consumer.stream, self.consumer.name, found)
            )
        return found

    async def drain(self) -> None:
        """Read and acknowledge until the consumer has nothing left."""
        self._acks = ["+ACK!"]
        until = self.loop.now + 300.0
        quiet = 0
        while quiet < 2:
            if self.loop.now > until:
                self.history.problems.append(f"{self.consumer.path} is not drained after 300 s")
                return
            if self.consumer.push:
                await self.loop.sleep(2.0)
            else:
                await self.fetch(20, ["+ACK!"])
            info = await self.look_at_consumer()
            if info is not None and "error" in info:
                if any(rot.stream == self.consumer.stream for rot in self.history.rot):
                    return  # the record of the consumer was damaged
                self.history.problems.append(f"{self.consumer.path} has no info: {info['error']}")
                return
            empty = info is not None and not info["num_pending"] and not info["num_ack_pending"]
            quiet = quiet + 1 if empty and not self.unconfirmed else 0


class OrderedReader(Actor):
    """A client with an ordered consumer: it makes a new one wherever something is missing."""

    def __init__(self, client: SimClient, history: History, stream: str) -> None:
        super().__init__(client, history)
        self.stream = stream
        self.seen: list[tuple[int, int]] = []
        history.ordered[client.name] = self.seen
        self._number = 0
        self._sid: int | None = None
        self._dseq = 0
        self._heard = 0.0
        self.last = 0

    async def run(self, ops: list[Op]) -> None:
        self.done = True
        while True:
            await self._begin()
            while self._sid is not None and self.loop.now - self._heard < 3.0:
                await self.loop.sleep(0.5)

    async def _begin(self) -> None:
        self._end()
        self._number += 1
        self._dseq = 0
        self._heard = self.loop.now
        subject = f"_ORDERED.{self.client.name}.{self._number}"
        await self.client.online()
        number = self._number
        self._sid = self.client.subscribe(subject, lambda message: self._take(message, number))
        config: dict[str, Any] = {
            "deliver_subject": subject,
            "ack_policy": "none",
            "flow_control": True,
            "idle_heartbeat": 1_000_000_000,
            "max_deliver": 1,
            "mem_storage": True,
            "inactive_threshold": 5_000_000_000,
            "deliver_policy": "by_start_sequence" if self.last else "all",
        }
        if self.last:
            config["opt_start_seq"] = self.last + 1
        answer = await self.client.api(
            f"CONSUMER.CREATE.{self.stream}", {"stream_name": self.stream, "config": config}
        )
        self.note("has an ordered consumer after", self.last, "" if answer else "(unknown)")
        if answer is None or "error" in answer:
            self._end()
            await self.loop.sleep(0.5)

    def _end(self) -> None:
        if self._sid is not None:
            self.client.unsubscribe(self._sid)
            self._sid = None

    def _take(self, message: Message, number: int) -> None:
        if number != self._number or self._sid is None:
            return
        self._heard = self.loop.now
        if not message.reply.startswith("$JS.ACK."):
            if message.reply:
                self.client.publish(message.reply)
            elif int(message.headers.get("Nats-Last-Consumer", "0")) > self._dseq:
                self._end()  # something is missing
            return
        words = ack_words(message.reply)
        seq, dseq = int(words[3]), int(words[4])
        if dseq != self._dseq + 1:
            self._end()
            return
        self._dseq = dseq
        self.last = seq
        self.seen.append((seq, uid_of(message.payload)))
        self.note("reads in order seq", seq)
