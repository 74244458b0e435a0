"""A reader that creates, changes, pauses and deletes its consumer, and uses all options of pull requests."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from functools import partial
from typing import Any

from tests.sim.clients.actors import MOST_NAKS, Reader, uid_of
from tests.sim.clients.client import Message, SimClient, ack_words
from tests.sim.consumer_history import Beat, Change, Life, Pull
from tests.sim.history import AckSent, ConsumerLook, Delivery, History
from tests.sim.machine.loop import SECOND_NS, START_NS
from tests.sim.plans.plan import ConsumerPlan

NOT_FOUND = 10014


class WideReader(Reader):
    """The only reader of one consumer."""

    def __init__(self, client: SimClient, history: History, consumer: ConsumerPlan) -> None:
        super().__init__(client, history, consumer)
        self.life: Life | None = None
        self._settles = False  # everything is acknowledged from now on
        self._pins: dict[int, str] = {}  # of the two clients that the reader stands for

    # -- the consumer -----------------------------------------------------------------------------

    async def make(self, from_seq: int = 0, since_s: float = 0.0, **changes: Any) -> None:
        """Create the consumer, from a sequence on, or from a time before now."""
        if self.life is not None:
            return
        config = self.consumer.config | changes
        if config.get("deliver_policy") == "by_start_sequence":
            config["opt_start_seq"] = from_seq
        if config.get("deliver_policy") == "by_start_time":
            at_ns = START_NS + round((self.loop.now - since_s) * SECOND_NS)
            text = datetime.fromtimestamp(at_ns // SECOND_NS, UTC).strftime("%Y-%m-%dT%H:%M:%S")
            config["opt_start_time"] = f"{text}.{at_ns % SECOND_NS:09}Z"
        name = self.consumer.name
        await self.client.online()
        life = Life(self.consumer.stream, name, config, self.loop.now)
        self.history.wide.lives.append(life)
        self.note("creates", self.consumer.path, config)
        request = {"stream_name": self.consumer.stream, "config": config}
        while True:
            answer = await self.client.api(f"CONSUMER.DURABLE.CREATE.{self.consumer.path}", request)
            if answer is not None and "error" not in answer:
                break
            if answer is not None and answer["error"]["code"] == 400:
                self.history.problems.append(f"{self.consumer.path} is refused: {answer['error']}")
                return
            await self.loop.sleep(0.5)
        life.created = self.loop.now
        self.life = life
        self.note("has", self.consumer.path)

    async def remove(self) -> None:
        """Delete the consumer."""
        life = self.life
        if life is None:
            return
        await self.client.online()
        life.removing = self.loop.now
        self.note("deletes", self.consumer.path)
        while True:
            answer = await self.client.api(f"CONSUMER.DELETE.{self.consumer.path}")
            if answer is not None and answer.get("error", {}).get("err_code", NOT_FOUND) == NOT_FOUND:
                break
            await self.loop.sleep(0.5)
        life.removed = self.loop.now
        self.life = None
        self.note("has deleted", self.consumer.path)

    async def change(self, **config: Any) -> None:
        """Change the configuration, until that is confirmed."""
        life = self.life
        if life is None:
            return
        await self.client.online()
        now: dict[str, Any] = dict(life.config)
        for each in life.changes:
            now |= each.config
        change = Change(self.loop.now, config)
        life.changes.append(change)
        request = {"stream_name": self.consumer.stream, "config": now | config}
        self.note("changes", self.consumer.path, config)
        while change.confirmed is None:
            answer = await self.client.api(f"CONSUMER.DURABLE.CREATE.{self.consumer.path}", request)
            if answer is not None and "error" not in answer:
                change.confirmed = self.loop.now
            elif answer is not None and answer["error"]["code"] in (400, 404):
                self.history.problems.append(f"{self.consumer.path} cannot change: {answer['error']}")
                return
            else:
                await self.loop.sleep(0.5)

    async def pause(self, for_s: float) -> None:
        """Pause the consumer; less than nothing ends a pause."""
        life = self.life
        if life is None:
            return
        await self.client.online()
        until = int(self.loop.now + for_s)
        pause = Change(self.loop.now, {}, float(until))
        life.pauses.append(pause)
        text = datetime.fromtimestamp(START_NS // SECOND_NS + until, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        self.note("pauses", self.consumer.path, "until", until)
        answer = await self.client.api(f"CONSUMER.PAUSE.{self.consumer.path}", {"pause_until": text})
        if answer is not None and "error" not in answer:
            pause.confirmed = self.loop.now
            self.note("has paused", self.consumer.path)

    async def inspect(self) -> None:
        await self.look_at_consumer()

    async def look_at_consumer(self) -> dict[str, Any] | None:
        """Return the consumer's info, or its error."""
        await self.client.online()
        asked, connection = self.loop.now, self.client.connections
        found = await self.client.api(f"CONSUMER.INFO.{self.consumer.path}")
        if found is not None:
            self.note("is told of", self.consumer.path, _short(found))
            look = ConsumerLook(self.loop.now, self.consumer.stream, self.consumer.name, found)
            look.asked, look.connection = asked, connection
            if connection != self.client.connections:
                look.connection = 0
            self.history.wide.looks.append(look)
            if "error" not in found:
                self.history.looks.append(look)
        return found

    # -- messages ---------------------------------------------------------------------------------

    async def fetch(self, batch: int, acks: list[str]) -> int:
        pull = await self.pull(batch, 1.0, acks)
        while pull is not None and pull.ended is None and self.loop.now < pull.at + 4.0:
            await self.loop.sleep(0.2)
        return 0 if pull is None else len(pull.got)

    async def pull(
        self,
        batch: int,
        expires: float,
        acks: list[str],
        no_wait: bool = False,
        heartbeat: float = 0.0,
    ) -> Pull | None:
        """Ask for messages, and go on at once."""
        if self.life is None:
            return None
        self._acks = acks
        await self.client.online()
        options: dict[str, Any] = {"batch": batch}
        if expires:
            options["expires"] = round(expires * SECOND_NS)
        if no_wait:
            options["no_wait"] = True
        if heartbeat:
            options["idle_heartbeat"] = round(heartbeat * SECOND_NS)
        options |= self._of_group()
        pull, inbox = self._new_pull(batch, expires, no_wait, heartbeat)
        pull.least, pull.pin = options.get("min_pending", 0), options.get("id", "")
        self.note("pulls as", inbox, options)
        subject = f"$JS.API.CONSUMER.MSG.NEXT.{self.consumer.path}"
        self.client.publish(subject, json.dumps(options).encode(), inbox)
        return pull

    def _of_group(self) -> dict[str, Any]:
        """Return what a request says to a consumer with priorities; two clients take turns at one."""
        match self.consumer.config.get("priority_policy"):
            case "prioritized":
                return {"group": "g", "priority": self._inbox % 3}
            case "overflow":
                return {"group": "g", "min_pending": 3} if self._inbox % 2 else {"group": "g"}
            case "pinned_client":
                pin = self._pins.get(self._inbox % 2, "")
                return {"group": "g", "id": pin} if pin else {"group": "g"}
        return {}

    def _new_pull(self, batch: int, expires: float, no_wait: bool, heartbeat: float) -> tuple[Pull, str]:
        self._inbox += 1
        inbox = f"_WIDE.{self.client.name}.{self._inbox}"
        pull = Pull(
            self.consumer.path, self.loop.now, self.client.connections, batch, expires, no_wait, heartbeat
        )
        self.history.wide.pulls.append(pull)
        self.client.subscribe(inbox, partial(self._came, pull, self._inbox))
        return pull, inbox

    def _came(self, pull: Pull, number: int, message: Message) -> None:
        if message.reply.startswith("$JS.ACK."):
            pull.got.append(self.loop.now)
            if "Nats-Pin-Id" in message.headers:
                # Requests count from one, and options are drawn before that.
                self._pins[(number - 1) % 2] = message.headers["Nats-Pin-Id"]
            if len(pull.got) == pull.batch:
                pull.ended = self.loop.now
            self._take(message, pull)
        elif message.headers.get("Status", "").startswith("100"):
            pull.beats.append(self.loop.now)
        elif pull.ended is None and "Status" in message.headers:
            pull.ended = self.loop.now
            pull.status = message.headers["Status"]
            if pull.status.startswith("423"):
                self._pins.pop((number - 1) % 2, None)
            self.note("is told", pull.status, "for the request of", f"{pull.at:.4f}")

    def _delivered(self, message: Message) -> None:
        if message.reply.startswith("$JS.ACK."):
            self._take(message, None)
            return
        answer_to = message.reply or message.headers.get("Nats-Consumer-Stalled", "")
        if answer_to:
            self.client.publish(answer_to)
        else:
            self.history.wide.beats.append(Beat(self.consumer.path, self.loop.now))

    def _take(self, message: Message, pull: Pull | None) -> None:
        words = ack_words(message.reply)
        count, seq, dseq, stamp_ns, pending = (int(word) for word in words[2:7])
        headers = message.headers
        headless = bool(self.consumer.config.get("headers_only"))
        uid = int(headers.get("Nats-Msg-Id", "id0")[2:]) if headless else uid_of(message.payload)
        delivery = Delivery(
            self.loop.now,
            self.client.name,
            message.connection,
            words[0],
            words[1],
            seq,
            dseq,
            count,
            uid,
            message.subject,
            pending,
            len(message.payload),
            headers,
            stamp_ns,
            pull,
        )
        self.history.deliveries.append(delivery)
        self.note("gets", delivery.uid, "seq", seq, "of", self.consumer.path, "for time", count)
        kind = "+ACK!" if self._settles else self._acks[self._next_ack % len(self._acks)]
        self._next_ack += 1
        self._react(delivery, message.reply, kind)

    def _react(self, delivery: Delivery, reply: str, kind: str) -> None:
        """Answer a delivery: `late 3 +ACK` means after three seconds, `-NAK 2` with a delay of two."""
        if not kind or self.consumer.config["ack_policy"] == "none":
            return
        if self.life is None or delivery.at < self.life.asked:
            return  # the consumer is another one now
        if kind.startswith("late "):
            _, seconds, kind = kind.split(" ", 2)
            self.loop.after(self.loop.clients, float(seconds), self._react, delivery, reply, kind)
            return
        if kind.startswith("-NAK") and delivery.count > MOST_NAKS:
            kind = "+ACK!"
        if not self.client.connected:
            return
        kind, _, delay = kind.partition(" ")
        record = AckSent(
            self.loop.now,
            self.client.name,
            self.client.connections,
            delivery.stream,
            delivery.consumer,
            delivery.seq,
            kind.rstrip("!").replace("+NXT", "+ACK"),
            delay_s=float(delay or 0.0),
        )
        self.history.acks.append(record)
        self.note("answers", kind, delay, "to seq", delivery.seq, "of", self.consumer.path)
        if kind == "+NXT":
            _, inbox = self._new_pull(1, 3.0, no_wait=False, heartbeat=0.0)
            self.client.publish(reply, b'+NXT {"batch":1,"expires":3000000000}', inbox)
        elif delay:
            self.client.publish(reply, b'-NAK {"delay": %d}' % round(record.delay_s * SECOND_NS))
        elif kind.endswith("!"):
            self.unconfirmed += 1
            self.loop.spawn(self._confirm(record, reply))
        else:
            self.client.publish(reply, kind.encode())

    async def drain(self) -> None:
        """Read and acknowledge until nothing is left; or leave everything as it is."""
        if self.life is None or self.consumer.left:
            await self.look_at_consumer()
            return
        self._settles = True
        await super().drain()


def _short(found: dict[str, Any]) -> dict[str, Any]:
    """Return the part of an info that changes."""
    if "error" in found:
        return {"error": found["error"].get("err_code")}
    names = ("delivered", "ack_floor", "num_pending", "num_ack_pending", "num_redelivered", "num_waiting")
    return {name: found.get(name) for name in names}
