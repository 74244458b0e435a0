"""A range has come to its end when the leader says so, not when a replica has nothing to show.

A replica that lags cannot be had on demand, so a scripted server plays one: it answers a pull with "no
messages" although its leader has more.
"""

from types import SimpleNamespace
from typing import Any

import pytest

from millstream.link.options import LinkOptions, parse_servers
from millstream.tables.connections import close_idle_links
from millstream.tables.errors import RangeNotFinished, StreamAccessError
from millstream.tables.readers import ranges
from millstream.tables.readers.ranges import read_range
from millstream.tables.schema import stream_schema
from millstream.tables.stream_range import DIRECT, PULL, Fetching, StreamRange
from tests.kits.spark.scripted_server import ScriptedServer, api, delivered, status

SCHEMA = stream_schema(("seq", "data"))
NOT_FOUND = api({"error": {"code": 404, "err_code": 10037, "description": "no message found"}})
INFO = api(
    {
        "config": {"name": "S"},
        "created": "then",
        "state": {"first_seq": 1, "last_seq": 9, "messages": 9, "bytes": 9},
    }
)


def direct(seq: int) -> bytes:
    block = (
        f"NATS/1.0\r\nNats-Stream: S\r\nNats-Subject: a.b\r\nNats-Sequence: {seq}\r\n"
        "Nats-Time-Stamp: 2026-01-02T03:04:05Z\r\nNats-Num-Pending: 0\r\nNats-Last-Sequence: 0\r\n\r\n"
    ).encode()
    return b"HMSG {reply} {sid} %d %d\r\n%b\r\n" % (len(block), len(block), block)


class LaggingReplica:
    """Shows one message more with each request; the leader has all up to `last`."""

    def __init__(self, last: int, shown: list[int]) -> None:
        self.last = last
        self.shown = iter(shown)
        self.consumer = ""
        self.sent = 0

    def __call__(self, subject: str, request: dict[str, Any]) -> list[bytes]:
        if "STREAM.INFO" in subject:
            return [INFO]
        if "CONSUMER.CREATE" in subject:
            self.consumer = subject.rpartition(".")[2]
            self.sent = 0
            return [api({"name": self.consumer})]
        if "CONSUMER.DELETE" in subject:
            return [api({"success": True})]
        if "MSG.GET" in subject:
            found = request["seq"] <= self.last
            return [api({"message": {"seq": request["seq"], "subject": "a.b"}}) if found else NOT_FOUND]
        seq = next(self.shown, None)
        if "MSG.NEXT" in subject:
            if seq is None:
                return [status("404 No Messages")]
            self.sent += 1
            return [delivered("S", self.consumer, seq, self.sent), status("408 Request Timeout")]
        assert "DIRECT.GET" in subject
        return [status("404 Message Not Found")] if seq is None else [direct(seq), status("204 EOB")]


def read(
    server: ScriptedServer, transport: str, high: int, timeout_s: float = 60, retries: int = 3
) -> list[int]:
    partition = StreamRange("S", 1, high, transport=transport)
    connection = LinkOptions(servers=parse_servers(server.url))
    try:
        found = []
        for batch in read_range(
            partition, connection, Fetching(timeout=timeout_s, retries=retries), SCHEMA, "test"
        ):
            found += batch.column("seq").to_pylist()
        return found
    finally:
        close_idle_links()


@pytest.mark.parametrize("transport", [PULL, DIRECT])
def test_no_messages_is_no_end_while_the_leader_has_more(transport: str) -> None:
    with ScriptedServer(LaggingReplica(5, [1, 2, 3, 4, 5])) as server:
        assert read(server, transport, 5) == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("transport", [PULL, DIRECT])
def test_no_messages_is_the_end_when_the_leader_has_none_either(transport: str) -> None:
    with ScriptedServer(LaggingReplica(3, [1, 2, 3])) as server:
        assert read(server, transport, 9) == [1, 2, 3]
        assert any("MSG.GET" in subject for subject, _ in server.requests)


@pytest.mark.parametrize("transport", [PULL, DIRECT])
def test_a_message_beyond_the_range_ends_it_without_asking(transport: str) -> None:
    with ScriptedServer(LaggingReplica(9, [1, 2, 9])) as server:
        assert read(server, transport, 5) == [1, 2]


@pytest.mark.parametrize("transport", [PULL, DIRECT])
def test_a_replica_that_never_catches_up_fails_the_task_and_gives_no_short_range(transport: str) -> None:
    late = pytest.raises(RangeNotFinished, match=r"messages behind 2, but none came within 0\.3 s")
    with ScriptedServer(LaggingReplica(5, [1, 2])) as server, late:
        read(server, transport, 5, timeout_s=0.3)


class RefusingServer(LaggingReplica):
    """Ends each request because of something that will not change."""

    def __call__(self, subject: str, request: dict[str, Any]) -> list[bytes]:
        if "MSG.NEXT" in subject:
            return [status("409 Exceeded MaxRequestBatch of 1")]
        return super().__call__(subject, request)


def test_a_server_that_refuses_again_and_again_is_asked_in_good_time_and_quoted() -> None:
    late = pytest.raises(RangeNotFinished, match=r"the server says: .*409 Exceeded MaxRequestBatch")
    with ScriptedServer(RefusingServer(5, [])) as server:
        with late:
            read(server, PULL, 5, timeout_s=2)
        assert 2 <= sum("CONSUMER.CREATE" in subject for subject, _ in server.requests) <= 20


class LeaderlessServer(LaggingReplica):
    """Refuses some requests of a kind: with 503, as while a leader is chosen, or with another code."""

    def __init__(self, last: int, refusals: int, kind: str = "CONSUMER.CREATE", code: int = 503) -> None:
        super().__init__(last, list(range(1, last + 1)))
        self.refusals = refusals
        self.kind = kind
        self.refusal = api({"error": {"code": code, "err_code": 10008, "description": "system unavailable"}})

    def __call__(self, subject: str, request: dict[str, Any]) -> list[bytes]:
        if self.kind in subject and self.refusals:
            self.refusals -= 1
            return [self.refusal]
        return super().__call__(subject, request)


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Replace the pauses of a task after refusals, and return their lengths."""
    made: list[float] = []
    monkeypatch.setattr(ranges, "time", SimpleNamespace(sleep=made.append))
    return made


@pytest.mark.parametrize(
    ("kind", "expected"),
    [("CONSUMER.CREATE", [1.0, 2.0, 3.0]), ("MSG.GET", [1.0, 1.0, 1.0])],
    ids=["before the first row", "with progress between"],
)
def test_a_refusal_that_may_pass_is_waited_out(pauses: list[float], kind: str, expected: list[float]) -> None:
    with ScriptedServer(LeaderlessServer(4, refusals=3, kind=kind)) as server:
        assert read(server, PULL, 4) == [1, 2, 3, 4]
    assert pauses == expected


def test_a_refusal_that_does_not_pass_fails_the_task_when_its_tries_are_used_up(pauses: list[float]) -> None:
    refused = pytest.raises(
        StreamAccessError, match=r"refused a request of stream S: .*system unavailable \(10008\)"
    )
    with ScriptedServer(LeaderlessServer(3, refusals=100)) as server:
        with refused:
            read(server, PULL, 3, retries=2)
        assert sum("CONSUMER.CREATE" in subject for subject, _ in server.requests) == 3
    assert len(pauses) == 2


def test_a_refusal_that_is_about_the_request_fails_the_task_at_once(pauses: list[float]) -> None:
    with (
        ScriptedServer(LeaderlessServer(3, refusals=1, code=400)) as server,
        pytest.raises(StreamAccessError),
    ):
        read(server, PULL, 3)
    assert pauses == []
