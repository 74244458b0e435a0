"""A callback of the event loop fails alone, and its messages are sent when it has ended."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from millstream.base.clock import SystemClock
from millstream.broker.broker import Broker
from millstream.broker.close_reason import CloseReason
from millstream.protocol.parser import make_frame
from millstream.server.jetstream_world import AccountWorld
from tests.kits.broker import client, loop_of, make_broker

PACKAGES = Path(__file__).parents[3] / "src" / "millstream"
# Whoever asks the loop to call back: turns itself, what runs before or beside the broker, and transports.
MAY_ASK = {
    "broker/turns.py",
    "broker/listener.py",  # tasks of its own
    "broker/strangers.py",  # forgets tasks that have ended
    "broker/password_checks.py",  # every check ends in `Connection.process`
    "broker/tls_accept.py",
    "broker/websocket.py",  # timers that end a transport
    "server/app.py",  # signals
    "server/blocking_server.py",
    "server/commit_journal.py",  # whose ends are given to turns by `Workers`, and so are those of
    "server/disk_writers.py",
    "server/journal_files.py",  # sends nothing
    "server/workers.py",
}
BESIDE = "server/arrow/"  # sends nothing over NATS
ASKS = re.compile(
    r"loop\.(call_later|call_at|call_soon|call_soon_threadsafe|add_reader|add_writer|add_signal_handler)\b"
    r"|\.add_done_callback\b"
)


def test_nobody_but_turns_asks_the_loop_to_call_back() -> None:
    found = {
        str(path.relative_to(PACKAGES))
        for package in ("broker", "jetstream", "server")
        for path in (PACKAGES / package).rglob("*.py")
        if ASKS.search(path.read_text())
    }
    assert {path for path in found if not path.startswith(BESIDE)} - MAY_ASK == set()


def world_of(broker: Broker) -> AccountWorld:
    return AccountWorld(broker, broker.global_account, SystemClock(), workers=None)  # type: ignore[arg-type]


class Worker:
    """Ends everything at once, in a turn."""

    def __init__(self, turn: Callable[..., None]) -> None:
        self._turn = turn

    def submit(self, work: Any, done: Any) -> None:
        self._turn("work", done, None)


@pytest.mark.parametrize("way", ["call_later", "call_soon", "run_in_worker", "served", "watched"])
def test_whatever_calls_jetstream_back_flushes_what_it_sent(way: str) -> None:
    """JetStream sends through an outlet and does not ask for a flush."""
    broker = make_broker()
    listener = client(broker)
    listener.say(b"SUB inbox 1\r\n")
    workers: Any = Worker(broker.turns.run)
    world = AccountWorld(broker, broker.global_account, SystemClock(), workers)
    outlet = world.outlet(b"inbox")

    def send(*_: object) -> None:
        assert outlet.send(b"news", make_frame(b"", None, b"hi")) == 1

    if way == "call_later":
        world.call_later(0.5, send)
    elif way == "call_soon":
        world.call_soon(send)
    elif way == "run_in_worker":
        world.run_in_worker(lambda: None, send)
    elif way == "served":
        world.serve(b"ask", send)
        client(broker).say(b"PUB ask 0\r\n\r\n")
    else:
        world.watch(b"there", lambda: world.call_soon(send))
        client(broker).say(b"SUB there 1\r\n")
    loop_of(broker).advance(1.0)
    assert listener.heard() == b"MSG news 1 2\r\nhi\r\n"


def test_a_timer_that_fails_is_reported_once_and_the_next_one_runs(caplog: pytest.LogCaptureFixture) -> None:
    broker = make_broker()
    ran: list[int] = []

    def fail() -> None:
        raise RuntimeError("a timer of this test")

    for number in range(3):
        broker.turns.later(1.0, fail)
        broker.turns.later(1.0, ran.append, number)
    loop_of(broker).advance(2.0)
    assert ran == [0, 1, 2]
    assert len([record for record in caplog.records if "a timer of this test" in record.getMessage()]) == 1


def test_a_client_whose_transport_raises_does_not_keep_others_from_writing() -> None:
    broker = make_broker()
    clients = [client(broker) for _ in range(3)]
    for each in clients:
        each.say(b"SUB news 1\r\n")

    def broken(data: bytes) -> None:
        raise RuntimeError("no transport")

    clients[1].transport.write = broken  # type: ignore[method-assign]
    clients[0].say(b"PUB news 2\r\nhi\r\nPING\r\n")
    assert clients[2].heard() == b"MSG news 1 2\r\nhi\r\n"
    assert clients[1].connection.closed
    assert not clients[0].closed
    clients[0].say(b"PUB news 2\r\nho\r\n")
    assert clients[2].heard() == b"MSG news 1 2\r\nho\r\n"


def test_a_receiver_that_raises_costs_neither_the_sender_nor_other_receivers() -> None:
    broker = make_broker()
    first, second, third = (client(broker) for _ in range(3))
    for each in (first, second, third):
        each.say(b"SUB news 1\r\nSUB work q 2\r\n")

    class Permissions:
        def delivery_denied(self, *_: object) -> bool:
            raise RuntimeError("nobody knows")

    first.connection.permissions = Permissions()
    first.connection.filters_deliveries = True
    assert second.say(b"PUB news 2\r\nhi\r\n") == b"MSG news 1 2\r\nhi\r\n"
    assert third.heard() == b"MSG news 1 2\r\nhi\r\n"
    assert first.connection.closed
    assert not second.closed


def test_an_operation_that_raises_closes_its_own_connection_and_flushes_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    broker = make_broker()
    listener, rude = client(broker), client(broker)
    listener.say(b"SUB news 1\r\n")

    def fail(*_: object) -> None:
        raise RuntimeError("no pong")

    monkeypatch.setattr(broker.commands, "after_pong", fail)
    rude.say(b"PUB news 2\r\nhi\r\nPING\r\n")
    assert rude.closed
    assert not listener.closed
    assert listener.heard() == b"MSG news 1 2\r\nhi\r\n"
    assert rude.connection.session.reason is CloseReason.INTERNAL_ERROR


def test_a_service_that_raises_answers_500_and_a_capture_refuses(caplog: pytest.LogCaptureFixture) -> None:
    broker = make_broker()
    world = world_of(broker)
    asker = client(broker, headers=True)

    def fail(*_: object) -> None:
        raise RuntimeError("no answer")

    world.serve(b"ask", fail)
    world.capture(b"store", fail, refuse=lambda reply: world.publish(reply, b"refused"))
    answer = asker.say(b"SUB inbox 1\r\nPUB ask inbox 0\r\n\r\n")
    loop_of(broker).advance(0.0)
    answer += asker.heard()
    assert b"NATS/1.0 500 Internal Error" in answer
    asker.say(b"PUB store inbox 0\r\n\r\n")
    loop_of(broker).advance(0.0)
    assert not asker.closed
