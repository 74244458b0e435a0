"""Order by key in random lives: publishers, workers, power cuts; no loss, order by key, no key starved."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from millstream.store.record import Record
from tests.kits.crashfs import CrashFileSystem, Keep
from tests.kits.jetstream.letters import NS, LetterSite

KEYS = 6


class Life:
    """One life of a consumer with order by key, and what its workers saw of it."""

    def __init__(self, seed: int) -> None:
        self.random = random = Random(seed)
        self.limit = random.choice([1, 1, 2, 3])
        self.by_token = random.random() < 0.5
        self.site = LetterSite()
        metadata = {"millstream.max_ack_pending_per_subject": str(self.limit)}
        if self.by_token:
            metadata["millstream.key_token"] = "2"
        self.site.stream("ORDERS", "orders.>", retention=random.choice(["workqueue", "limits"]))
        answer = self.site.consumer(
            metadata=metadata,
            max_deliver=-1,
            max_ack_pending=random.choice([2, 5, 100]),
            filter_subject=random.choice(["orders.>", ""]),
        )
        assert "error" not in answer, answer
        self.key_of: dict[int, str] = {}  # of committed messages, by sequence
        self.first: dict[str, int] = {}  # the last message of each key that was delivered for the first time
        self.seen: set[int] = set()
        self.held: dict[int, bytes] = {}  # messages of workers, and their ack subjects
        self.done: set[int] = set()  # acknowledged, and answered
        self.said: set[int] = set()  # acknowledged

    def subject(self) -> str:
        key = f"k{min(int(self.random.expovariate(0.6)), KEYS - 1)}"
        return f"orders.{key}.{self.random.choice('abc')}" if self.by_token else f"orders.{key}"

    def publish(self) -> None:
        for _ in range(self.random.randint(1, 6)):
            self.site.world.send(self.subject().encode(), b"x")
        if self.random.random() < 0.8:
            self.site.world.settle()

    def note_committed(self) -> None:
        log, record = self.site.account.streams["ORDERS"].log, Record()
        for seq in log.sequences(max(self.key_of, default=0) + 1, log.committed):
            assert log.get(seq, record)
            self.key_of[seq] = record.subject().decode().split(".")[1]

    def take(self) -> None:
        body = b'{"batch":%d,"expires":%d}' % (self.random.randint(1, 5), self.random.choice([1, 5]) * NS)
        self.site.world.send(b"$JS.API.CONSUMER.MSG.NEXT.ORDERS.c", body, reply=b"_INBOX.me")
        self.settle()
        self.look()

    def look(self) -> None:
        """Check what was delivered."""
        self.note_committed()
        delivered, self.site.world.delivered = self.site.world.delivered, []
        for _, _, _, ack, _ in delivered:
            sseq = int(ack.split(b".")[5])
            key = self.key_of[sseq]
            assert sseq not in self.done, f"{sseq} was acknowledged"
            if sseq not in self.seen:
                assert sseq > self.first.get(key, 0), f"{sseq} of {key} after {self.first[key]}"
                self.first[key] = sseq
                earlier = [each for each, of in self.key_of.items() if of == key and each < sseq]
                assert all(each in self.seen for each in earlier), f"{sseq} of {key} before an earlier one"
            self.seen.add(sseq)
            self.held[sseq] = ack
            counts = Counter(self.key_of[each] for each in self.held)
            assert max(counts.values()) <= self.limit, counts

    def answer(self) -> None:
        for sseq in self.random.sample(sorted(self.held), self.random.randint(0, len(self.held))):
            ack = self.held[sseq]
            what = self.random.choice(
                [b"+ACK", b"+ACK", b"+ACK", b"-NAK", b"+TERM", b"+WPI", b'-NAK {"delay":1}']
            )
            reply = b"_INBOX.a%d" % sseq if what == b"+ACK" and self.random.random() < 0.5 else b""
            self.site.world.send(ack, what, reply=reply)
            if what in (b"+ACK", b"+TERM"):
                self.said.add(sseq)
                del self.held[sseq]
            elif what != b"+WPI":
                del self.held[sseq]
        if self.random.random() < 0.7:
            self.settle()

    def settle(self) -> None:
        self.site.world.settle()
        replies = [each.subject for each in self.site.world.published]
        self.done |= {int(each[8:]) for each in replies if each.startswith(b"_INBOX.a")}

    def wait(self) -> None:
        for _ in range(self.random.choice([1, 4, 23])):
            self.site.world.advance(0.5)
            self.look()
        self.settle()
        self.held.clear()  # they may have timed out, so others may be delivered

    def crash(self) -> None:
        self.settle()
        self.look()
        assert isinstance(self.site.fs, CrashFileSystem)
        if self.random.random() < 0.3:
            self.site.account.stop()
            self.site = LetterSite(self.site.fs, now_ns=self.site.world.time_ns)
        else:
            keep = self.random.choice(list(Keep))
            self.site = self.site.after_power_cut(keep, self.random.randrange(1000))
        self.held.clear()

    def finish(self) -> None:
        """Acknowledge everything; nothing may be left."""
        self.site.world.settle()
        for _ in range(400):
            self.note_committed()
            if self.said | self.done >= set(self.key_of):
                break
            self.take()
            for sseq, ack in self.held.items():
                self.said.add(sseq)
                self.site.world.send(ack, b"+ACK")
            if not self.held:
                self.wait()
            self.held.clear()
        assert self.seen >= set(self.key_of), f"never delivered: {set(self.key_of) - self.seen}"
        self.site.world.settle()
        info = self.site.info()
        feed = self.site.account.streams["ORDERS"].consumers["c"].feed
        assert feed.keys is not None
        feed.keys.settle()
        assert len(feed.keys) <= info["num_ack_pending"]


@pytest.mark.parametrize("seed", range(60))
def test_random_lives(seed: int) -> None:
    life = Life(seed)
    steps = [life.publish, life.publish, life.take, life.take, life.take, life.answer, life.answer, life.wait]
    for _ in range(life.random.randint(20, 120)):
        life.random.choice([*steps, life.crash] if life.random.random() < 0.3 else steps)()
    life.finish()
