"""A handler that fails fails alone: a reload revokes for all, a request is answered, a timer goes on."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from millstream.broker import handshake, reload
from millstream.broker.broker import Broker
from millstream.broker.options import Authorization, BrokerOptions, Permissions, SubjectRules, User
from millstream.jetstream.publish.schedule import Schedules
from millstream.jetstream.publish.slow_path import Publishing
from millstream.server.blocking_server import BlockingServer
from tests.kits.fake_transport import FakeClient, FakeLoop
from tests.kits.patience import PATIENCE_S
from tests.kits.security.gate import Client, client, running
from tests.kits.wire import WireClient

_BEFORE = """
authorization { users: [
  {user: evil, password: evil}
  {user: bob, password: bob}
  {user: carol, password: carol}
]}
"""
_AFTER = """
max_payload: 1000
NO_SECRETS: {subscribe: {deny: ["secret.>"]}, publish: {deny: ["secret.>"]}}
authorization { users: [
  {user: evil, password: evil, permissions: {subscribe: {deny: ["evil.>"]}, publish: ">"}}
  {user: bob, password: bob, permissions: $NO_SECRETS}
  {user: carol, password: carol, permissions: $NO_SECRETS}
]}
"""
_ODD = [b"evil.\xff\xfe", b"evil.\xc3", b"evil.%s%n", b"evil.\xed\xa0\x80", b"evil.{0}"]


def test_a_reload_revokes_for_everybody_whatever_others_subscribe_to() -> None:
    with (
        running(_BEFORE) as server,
        client(server, "evil") as evil,
        client(server, "bob") as bob,
        client(server, "carol") as carol,
    ):
        for number, subject in enumerate(_ODD):
            evil.round_trip(b"SUB %b %d\r\n" % (subject, number + 1))
            evil.round_trip(b"SUB %b q\xff %d\r\n" % (subject, number + 100))
        bob.round_trip(b"SUB secret.> 1\r\n")
        carol.round_trip(b"SUB secret.> 1\r\nSUB \xfe\xff.> 2\r\n")
        assert server.reload(_AFTER)
        assert evil.round_trip().count(b"Permissions Violation") == 2 * len(_ODD)
        for each in (bob, carol):
            assert b"Permissions Violation" in each.round_trip()
            assert b"Permissions Violation" in each.round_trip(b"PUB secret.b 2\r\nhi\r\n")
        evil.round_trip(b"PUB secret.a 2\r\nhi\r\n")
        assert bob.round_trip() == b""
        assert carol.round_trip() == b""


class _Server:
    """A server in this process, so that a test can break parts of it."""

    def __init__(self, folder: Path) -> None:
        self._server = BlockingServer(store_dir=str(folder))

    def __enter__(self) -> BlockingServer:
        self._server.start()
        return self._server

    def __exit__(self, *_: object) -> None:
        self._server.stop()


@pytest.fixture
def port(tmp_path: Path) -> Iterator[int]:
    with _Server(tmp_path) as server:
        yield server.port


def _join(port: int) -> Client:
    wire = WireClient.connect(port, timeout_s=PATIENCE_S)
    wire.handshake()
    return Client(wire)


def _fail(*_: object, **__: object) -> Any:
    raise RuntimeError("a defect of this test")


def test_an_api_handler_that_fails_answers_500_and_closes_nothing(
    port: int, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    user = _join(port)
    monkeypatch.setattr("millstream.jetstream.account.AccountJetStream.info", _fail)
    for _ in range(3):
        error = user.api("INFO")["error"]
        assert (error["code"], error["err_code"]) == (500, 10051)
    assert "error" not in user.api("STREAM.CREATE.S", {"name": "S", "subjects": ["in"]})
    told = [record for record in caplog.records if "a defect of this test" in record.getMessage()]
    assert len(told) == 1
    assert told[0].exc_info is not None


def test_a_publish_that_fails_is_answered_and_the_next_is_stored(
    port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    user, other = _join(port), _join(port)
    user.api("STREAM.CREATE.S", {"name": "S", "subjects": ["in"], "republish": {"src": "in", "dest": "out"}})
    with monkeypatch.context() as broken:
        broken.setattr(Publishing, "attempt", _fail)  # messages that are republished take the slow path
        error = user.call("in")["error"]
        assert (error["code"], error["err_code"]) == (500, 10051)
    assert user.call("in")["seq"] == 1
    assert other.call("in")["seq"] == 2


def test_a_schedule_that_fails_does_not_end_the_timer_of_the_others(
    port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    user = _join(port)
    config = {"name": "S", "subjects": ["in.>", "out.>"], "allow_msg_schedules": True}
    assert "error" not in user.api("STREAM.CREATE.S", config)
    real = Schedules._store

    def store(self: Schedules, subject: bytes, *rest: Any) -> None:
        if subject == b"in.bad":
            _fail()
        real(self, subject, *rest)

    monkeypatch.setattr(Schedules, "_store", store)
    user.round_trip(b"SUB out.> 1\r\n")
    consumer = {"stream_name": "S", "config": {"deliver_subject": "here", "filter_subject": "out.>"}}
    user.round_trip(b"SUB here 2\r\n")
    for name in (b"bad", b"good"):
        block = b"NATS/1.0\r\nNats-Schedule: @at 2020-01-01T00:00:00Z\r\n"
        block += b"Nats-Schedule-Target: out.%b\r\n\r\n" % name
        user.round_trip(b"HPUB in.%b %d %d\r\n%b\r\n" % (name, len(block), len(block), block))
    user.wire.send(b"PUB $JS.API.CONSUMER.CREATE.S %d\r\n%b\r\n" % _sized(consumer))
    assert b"out.good" in user.wire.read_until(b"out.good")


def _sized(body: object) -> tuple[int, bytes]:
    text = json.dumps(body).encode()
    return len(text), text


def test_what_waits_for_a_commit_is_told_although_another_one_fails(
    port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    user = _join(port)
    user.api("STREAM.CREATE.S", {"name": "S", "subjects": ["in"]})
    monkeypatch.setattr("millstream.jetstream.stream.retention.Retention.committed", _fail)
    monkeypatch.setattr("millstream.jetstream.consumers.manager.ConsumerManager.tell_gone", _fail)
    for seq in range(1, 4):
        assert user.call("in")["seq"] == seq
    assert user.api("STREAM.PURGE.S")["purged"] == 3


def test_a_reload_that_fails_for_one_connection_closes_it_and_is_applied_to_the_rest(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    users = [User(name=name, password=name) for name in ("evil", "bob", "carol")]
    before = BrokerOptions(authorization=Authorization(users=tuple(users)))
    denied = Permissions(subscribe=SubjectRules(deny=("secret.>",)))
    broker = Broker(before, server_id="N", loop=FakeLoop().as_loop())
    clients = []
    for name in ("evil", "bob", "carol"):
        each = FakeClient(broker)
        each.connect(user=name, **{"pass": name})
        each.say(b"SUB secret.a 1\r\n")
        clients.append(each)
    real = handshake.apply_limits

    def apply_limits(of: Broker, connection: Any) -> None:
        if connection.cid == clients[0].connection.cid:
            _fail()
        real(of, connection)

    monkeypatch.setattr(handshake, "apply_limits", apply_limits)
    after = tuple(msgspec.structs.replace(each, permissions=denied) for each in users)
    reload.apply(
        broker, msgspec.structs.replace(before, authorization=Authorization(users=after), max_connections=1)
    )
    assert clients[0].closed
    assert b"secret.a" in clients[1].heard()
    assert not clients[1].connection.subscriptions
    assert clients[2].closed  # by `max_connections`, the last step of the plan
