"""A world in which what is said is heard: streams that read other streams, on a clock in the test's hand."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from millstream.jetstream.account import AccountJetStream
from millstream.jetstream.api import AccountApi
from millstream.jetstream.ports import Sink, Traced
from millstream.jetstream.stream.stream import Stream
from millstream.protocol.outlet import Outlet
from millstream.protocol.parser import Frame
from millstream.store.fs import FileSystem
from millstream.store.record import Record
from millstream.subjects.match import matches
from tests.kits.fake_world import FakeWorld, Published

SECOND = 1_000_000_000
START_NS = 1_700_000_000 * SECOND


class LoudOutlet(Outlet):
    """Delivers to whoever captures the destination."""

    def __init__(self, world: LoudWorld, to: bytes) -> None:
        self._world = world
        self._to = to

    def send(self, subject: bytes, frame: Frame) -> int:
        if self._world.cut is not None and self._world.cut(subject, frame):
            return 1
        sinks = self._world.sinks_of(self._to)
        for sink in sinks:
            sink(subject, frame)
        return len(sinks)

    def has_interest(self) -> bool:
        return bool(self._world.sinks_of(self._to))

    def behind(self) -> bool:
        return False


class LoudWorld(FakeWorld):
    """Deliver what JetStream publishes to what JetStream subscribes to; ``cut`` drops deliveries."""

    def __init__(self, now_ns: int = START_NS) -> None:
        super().__init__(now_ns)
        self.cut: Callable[[bytes, Frame], bool] | None = None
        self.lost: list[bytes] = []  # prefixes of subjects that reach nobody
        self.requests: list[tuple[float, Published]] = []  # for consumers, with their times
        self._since = self.time_ns

    def sinks_of(self, subject: bytes) -> list[Sink]:
        return [sink for pattern, sink in list(self._sinks) if matches(subject, pattern)]

    def publish(
        self, subject: bytes, payload: bytes, reply: bytes = b"", headers: bytes | None = None
    ) -> None:
        super().publish(subject, payload, reply, headers)
        if b".CONSUMER." in subject:
            self.requests.append(((self.time_ns - self._since) / SECOND, self.published[-1]))
        if not subject.startswith(tuple(self.lost)):
            self.send(subject, payload, reply=reply, headers=headers)

    def outlet(self, subject: bytes, queue: bytes | None = None) -> LoudOutlet:  # type: ignore[override]
        return LoudOutlet(self, subject)

    def capture(
        self,
        subject: bytes,
        sink: Sink,
        traced: Traced | None = None,
        refuse: Callable[[bytes], None] | None = None,
        *,
        from_clients: bool = False,
    ) -> Any:
        handle = super().capture(subject, sink, traced)
        self._tell(subject)
        return handle

    def release(self, handle: Any) -> None:
        super().release(handle)
        self._tell(handle[0])

    def _tell(self, subject: bytes) -> None:
        for watched, changed in list(self._watchers):
            if watched == subject:
                changed()


class Place:
    """An account with its API."""

    def __init__(self, fs: FileSystem | None = None, domain: str = "", now_ns: int = START_NS) -> None:
        self.world = LoudWorld(now_ns)
        self.account: AccountJetStream = self.world.account(fs=fs, domain=domain)
        self.account.recover()
        AccountApi(self.account, "server", "2.15.1").start()

    def ask(self, request: str, body: Any = None) -> Any:
        payload = b"" if body is None else json.dumps(body).encode()
        return json.loads(self.world.request(f"$JS.API.{request}".encode(), payload))

    def stream(self, name: str, **config: Any) -> Stream:
        answer = self.ask(f"STREAM.CREATE.{name}", {"name": name, **config})
        assert "error" not in answer, answer
        return self.account.streams[name]

    def change(self, name: str, **config: Any) -> None:
        before = self.ask(f"STREAM.INFO.{name}")["config"]
        changed = {key: value for key, value in {**before, **config}.items() if value is not None}
        answer = self.ask(f"STREAM.UPDATE.{name}", changed)
        assert "error" not in answer, answer

    def publish(self, subject: str, *payloads: str, headers: bytes | None = None) -> None:
        for payload in payloads:
            self.world.send(subject.encode(), payload.encode(), headers=headers)
        self.world.settle()

    def run(self, seconds: float = 0.5) -> None:
        self.world.advance(seconds)
        self.world.settle()

    def info(self, name: str) -> Any:
        return self.ask(f"STREAM.INFO.{name}")

    def payloads(self, name: str) -> dict[int, str]:
        """Return the payloads of a stream by sequence."""
        log, record = self.account.streams[name].log, Record()
        found = {}
        for seq in log.sequences(1, log.last_seq):
            assert log.get(seq, record)
            found[seq] = record.payload().decode()
        return found
