"""A work queue whose consumer writes dead letters, on a disk that can lose power."""

from __future__ import annotations

import json
from random import Random
from typing import Any

from millstream.jetstream.account import AccountJetStream
from millstream.jetstream.api import AccountApi
from millstream.jsapi import letter_headers as names
from millstream.protocol import headers
from millstream.store.fs import FileSystem
from millstream.store.record import Record
from tests.kits.crashfs import CrashFileSystem, Keep
from tests.kits.fake_world import FakeWorld

NS = 1_000_000_000
METADATA = {"millstream.dead_letter": "dlq.{stream}.{consumer}"}


class LetterSite:
    """One process: stream ORDERS, consumer `c`, and stream DLQ for its letters."""

    def __init__(self, fs: FileSystem | None = None, *, now_ns: int = 0) -> None:
        self.fs = fs or CrashFileSystem()
        self.world = FakeWorld(now_ns) if now_ns else FakeWorld()
        self.account: AccountJetStream = self.world.account(fs=self.fs)
        self.api = AccountApi(self.account, "server", "2.15.1")
        if fs is not None:
            self.account.recover()
        self.api.start()
        self.world.settle()

    def ask(self, verb: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        answer = self.world.request(f"$JS.API.{verb}".encode(), json.dumps(body).encode() if body else b"")
        found: dict[str, Any] = json.loads(answer)
        return found

    def stream(self, name: str, *subjects: str, **fields: Any) -> dict[str, Any]:
        return self.ask(f"STREAM.CREATE.{name}", {"name": name, "subjects": list(subjects), **fields})

    def consumer(self, name: str = "c", stream: str = "ORDERS", **fields: Any) -> dict[str, Any]:
        config = {
            "durable_name": name,
            "ack_policy": "explicit",
            "ack_wait": 10 * NS,
            "max_deliver": 2,
            "metadata": METADATA,
            **fields,
        }
        return self.ask(f"CONSUMER.CREATE.{stream}.{name}", {"stream_name": stream, "config": config})

    def set_up(self, retention: str = "workqueue", **fields: Any) -> None:
        self.stream("ORDERS", "orders.*", retention=retention)
        self.stream("DLQ", "dlq.>")
        assert "error" not in self.consumer(**fields)

    def take(self, count: int = 1, stream: str = "ORDERS", **fields: Any) -> list[tuple[bytes, bytes]]:
        """Pull; return payloads and ack subjects."""
        self.world.delivered.clear()
        body = json.dumps({"batch": count, "no_wait": True, **fields}).encode()
        subject = f"$JS.API.CONSUMER.MSG.NEXT.{stream}.c".encode()
        self.world.send(subject, body, reply=b"_INBOX.me")
        self.world.settle()
        return [(each.payload, each.reply) for each in self.world.delivered]

    def say(self, ack: bytes, what: bytes, reply: bytes = b"") -> None:
        self.world.send(ack, what, reply=reply)
        self.world.settle()

    def info(self) -> dict[str, Any]:
        return self.ask("CONSUMER.INFO.ORDERS.c")

    def letters(self) -> list[tuple[bytes, dict[str, str]]]:
        """Return the payload and the headers of each letter that is stored and committed."""
        log, record, found = self.account.streams["DLQ"].log, Record(), []
        for seq in log.sequences(1, log.committed):
            assert log.get(seq, record)
            found.append((record.payload(), dict(headers.read_pairs(record.headers()))))
        return found

    def origins(self) -> list[int]:
        """Return the sequences of the messages that became letters, in the order of the letters."""
        return [int(block[names.ORIG_SEQ]) for _, block in self.letters()]

    def kept(self) -> list[int]:
        log = self.account.streams["ORDERS"].log
        return list(log.sequences(1, log.last_seq))

    def after_power_cut(self, keep: Keep = Keep.NOTHING, seed: int = 0) -> LetterSite:
        assert isinstance(self.fs, CrashFileSystem)
        return LetterSite(self.fs.crash(keep, Random(seed)), now_ns=self.world.time_ns)
