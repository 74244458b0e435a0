"""Real clients that publish, read, acknowledge and remove while power goes, and note it all.

Each action waits for its answers, over a connection of nats-py that may break at any time.
"""

from __future__ import annotations

import json
import time
from random import Random
from typing import Any

from nats.aio.client import Client
from nats.aio.msg import Msg

from tests.sim.clients.actors import payload_of, uid_of
from tests.sim.history import AckSent, BatchOutcome, Delivery, History, Publish, Removal
from tests.sim.plans.plan import SECOND_NS, ConsumerPlan

STREAMS: dict[str, dict[str, Any]] = {
    "S": {"subjects": ["s.>"], "duplicate_window": 120 * SECOND_NS, "allow_atomic": True},
    "K": {"subjects": ["k.>"], "max_msgs_per_subject": 1},
    "W": {"subjects": ["w.>"], "retention": "workqueue"},
    "L": {"subjects": ["l.>"], "max_msgs": 8},
    "R": {"subjects": ["r.>"]},  # messages are removed from it
    "M": {"mirror": {"name": "S"}},
    "G": {"sources": [{"name": "S"}]},
    # So many that small commits go to the commit journal, too.
    **{f"J{number}": {"subjects": [f"j{number}.>"]} for number in range(10)},
}
CONSUMERS = tuple(
    ConsumerPlan(
        stream,
        name,
        {"durable_name": name, "ack_policy": "explicit", "ack_wait": SECOND_NS, "max_deliver": -1},
    )
    for stream, name in (("S", "c"), ("W", "w"))
)
PUBLISHED = tuple(name for name in STREAMS if name not in ("M", "G"))
TIMEOUT_S = 2.0


class Load:
    """The actions of clients, each on a connection with a number."""

    def __init__(self, history: History, random: Random) -> None:
        self.history = history
        self.random = random

    @property
    def now(self) -> float:
        return time.monotonic()

    def record(self, actor: str, stream: str, number: int, **more: Any) -> Publish:
        """Note a message that is about to be sent."""
        subject = f"{stream.lower()}.{self.random.randint(1, 3)}"
        uid = self.history.next_uid()
        published = Publish(uid, actor, stream, subject, self.now, number, **more)
        self.history.publishes.append(published)
        return published

    def payload(self, uid: int) -> bytes:
        return payload_of(uid, self.random.choice((0, 100, 2_000)))

    async def publish_something(self, actor: str, client: Client, number: int) -> None:
        """Publish a message, compare and set a key, or publish a batch."""
        chance = self.random.random()
        if chance < 0.1:
            await self.compare_and_set(actor, client, number)
        elif chance < 0.15:
            await self.publish_batch(actor, client, number)
        elif chance < 0.2:
            await self.remove(client)
        else:
            await self.publish(actor, client, number)

    async def publish(self, actor: str, client: Client, number: int) -> None:
        stream = self.random.choice(("S", "S", *PUBLISHED))
        published = self.record(actor, stream, number)
        headers = None
        if stream == "S":
            published.msg_id = f"id{published.uid}"
            headers = {"Nats-Msg-Id": published.msg_id}
        await self._send(client, published, headers)

    async def compare_and_set(self, actor: str, client: Client, number: int) -> None:
        """Publish to a key if nobody else did since its last message was read."""
        subject = f"k.{self.random.randint(1, 3)}"
        found = await self._api(client, "STREAM.MSG.GET.K", {"last_by_subj": subject})
        last = 0 if "error" in found else int(found["message"]["seq"])
        uid = self.history.next_uid()
        published = Publish(uid, actor, "K", subject, self.now, number, expected=last, expects="subject")
        self.history.publishes.append(published)
        await self._send(client, published, {"Nats-Expected-Last-Subject-Sequence": str(last)})

    async def _send(self, client: Client, published: Publish, headers: dict[str, str] | None) -> None:
        payload = self.payload(published.uid)
        answer = await client.request(published.subject, payload, timeout=TIMEOUT_S, headers=headers)
        published.answer, published.answered_at = json.loads(answer.data), self.now

    async def publish_batch(self, actor: str, client: Client, number: int) -> None:
        """Publish an atomic batch."""
        count = self.random.randint(2, 8)
        outcome = BatchOutcome(f"b{self.history.next_uid()}", "S", [], self.now)
        self.history.batches.append(outcome)
        subject = f"s.{self.random.randint(1, 3)}"
        for place in range(1, count + 1):
            headers = {"Nats-Batch-Id": outcome.name, "Nats-Batch-Sequence": str(place)}
            published = self.record(actor, "S", number, batch=outcome.name)
            published.subject = subject
            outcome.uids.append(published.uid)
            payload = self.payload(published.uid)
            if place == count:
                headers["Nats-Batch-Commit"] = "1"
            elif place > 1:
                await client.publish(subject, payload, headers=headers)
                continue
            answer = await client.request(subject, payload, timeout=TIMEOUT_S, headers=headers)
            if place == count:
                outcome.answer, outcome.answered_at = json.loads(answer.data), self.now
            elif answer.data:
                return  # the batch is refused

    async def remove(self, client: Client) -> None:
        """Delete a message that was acknowledged, or purge some."""
        acked = [each.seq for each in self.history.publishes if each.stream == "R" and each.seq]
        if not acked:
            return
        seq = self.random.choice(acked[-50:])
        endpoint, request = self.random.choice(
            (
                ("STREAM.MSG.DELETE", {"seq": seq, "no_erase": True}),
                ("STREAM.MSG.DELETE", {"seq": seq}),
                ("STREAM.PURGE", {"seq": seq}),
                ("STREAM.PURGE", {"filter": f"r.{self.random.randint(1, 3)}"}),
            )
        )
        removal = Removal("R", self.now, {"endpoint": endpoint, **request})
        self.history.removals.append(removal)
        answer = await self._api(client, f"{endpoint}.R", request)
        removal.answer, removal.answered_at = answer, self.now

    async def _api(self, client: Client, endpoint: str, body: Any) -> Any:
        answer = await client.request(f"$JS.API.{endpoint}", json.dumps(body).encode(), timeout=TIMEOUT_S)
        return json.loads(answer.data)

    async def fetch(self, consumer: ConsumerPlan, wait_s: float, client: Client, number: int) -> bool:
        """Take one message and settle it in some way; return False if there was none."""
        inbox = client.new_inbox()
        subscription = await client.subscribe(inbox)
        body = {"batch": 1, "expires": round(wait_s * 0.8 * SECOND_NS)}
        subject = f"$JS.API.CONSUMER.MSG.NEXT.{consumer.path}"
        await client.publish(subject, json.dumps(body).encode(), reply=inbox)
        message: Msg = await subscription.next_msg(timeout=wait_s + TIMEOUT_S)
        await subscription.unsubscribe()
        if not message.reply.startswith("$JS.ACK."):
            return False
        stream, name, count, seq, dseq = message.reply.split(".")[2:7]
        uid = uid_of(message.data)
        self.history.deliveries.append(
            Delivery(
                self.now, name, number, stream, name, int(seq), int(dseq), int(count), uid, message.subject
            )
        )
        kind = self.random.choice(("+ACK", "+ACK", "+ACK", "+ACK", "+TERM", "-NAK", "+WPI", ""))
        if not kind:
            return True  # it is delivered again
        record = AckSent(self.now, name, number, stream, name, int(seq), kind)
        self.history.acks.append(record)
        await client.request(message.reply, kind.encode(), timeout=TIMEOUT_S)
        record.confirmed_at = self.now
        return True
