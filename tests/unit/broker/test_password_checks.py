"""The order of password checks, their bound, and who is not checked at all."""

import logging
import socket
import time
from collections.abc import Callable, Iterator

import pytest

from millstream.broker.auth import Identity
from millstream.broker.password_checks import PasswordCheck, PasswordChecks, has_hung_up
from tests.kits.fake_transport import FakeLoop


class Desk:
    """Checks that a test ends one by one, and what became of them."""

    def __init__(self, most: int = 64, threads: int = 1) -> None:
        self.loop = FakeLoop()
        self.checks = PasswordChecks(self.loop, threads=threads, most=most)  # type: ignore[arg-type]
        self.begun: list[str] = []
        self.outcomes: dict[str, object] = {}
        self.gone: set[str] = set()

    def submit(self, name: str, source: str = "10.0.0.1", user: str = "ann") -> None:
        def verify() -> Identity:
            self.begun.append(name)
            return Identity(user=name)

        def done(identity: Identity | None) -> None:
            self.outcomes[name] = identity.user if identity is not None else None

        check = PasswordCheck(
            verify, lambda: name in self.gone, done, lambda: self.outcomes.setdefault(name, "gone")
        )
        self.checks.submit((source, user), check)

    def finish(self) -> None:
        while self.loop.jobs:
            self.loop.finish_jobs()


@pytest.fixture
def desk() -> Desk:
    return Desk()


def test_the_newest_of_a_source_comes_first(desk: Desk) -> None:
    for name in ("first", "second", "third", "last"):
        desk.submit(name)
    desk.finish()
    assert desk.begun == ["first", "last", "third", "second"]  # the first had nobody before it
    assert desk.outcomes["last"] == "last"


@pytest.mark.parametrize("other", [("10.0.0.2", "ann"), ("10.0.0.1", "bob")], ids=["address", "user"])
def test_a_flood_from_one_source_does_not_delay_another(desk: Desk, other: tuple[str, str]) -> None:
    for number in range(60):
        desk.submit(f"flood {number}")
    desk.submit("good", *other)
    for number in range(60, 120):
        desk.submit(f"flood {number}")
    desk.finish()
    assert desk.begun.index("good") <= 2
    assert desk.outcomes["good"] == "good"


def test_whoever_is_gone_is_not_checked(desk: Desk) -> None:
    for number in range(50):
        desk.submit(f"rude {number}")
        if number:  # the first began at once
            desk.gone.add(f"rude {number}")
    desk.submit("good")
    desk.finish()
    assert desk.begun == ["rude 0", "good"]
    assert all(desk.outcomes[f"rude {number}"] == "gone" for number in range(1, 50))


def test_beyond_the_bound_the_oldest_of_the_busiest_is_refused(caplog: pytest.LogCaptureFixture) -> None:
    desk = Desk(most=10)
    desk.submit("good", "10.0.0.2")
    desk.submit("also good", "10.0.0.3")
    with caplog.at_level(logging.WARNING):
        for number in range(1_000):
            desk.submit(f"flood {number}")
    assert len([name for name, outcome in desk.outcomes.items() if outcome is None]) > 900
    assert len(caplog.records) == 1  # and not one for each
    assert "from 10.0.0.1" in caplog.text
    desk.finish()
    assert (desk.outcomes["good"], desk.outcomes["also good"]) == ("good", "also good")
    assert desk.outcomes["flood 999"] == "flood 999"


def test_not_more_run_at_once_than_threads_were_given() -> None:
    desk = Desk(threads=2)
    for number in range(10):
        desk.submit(f"{number}")
    assert len(desk.loop.jobs) == 2


def test_a_check_that_fails_refuses_and_the_next_goes_on(
    desk: Desk, caplog: pytest.LogCaptureFixture
) -> None:
    def broken() -> Identity:
        raise RuntimeError("no memory")

    outcomes: list[object] = []
    check = PasswordCheck(broken, lambda: False, outcomes.append, lambda: None)
    desk.checks.submit(("10.0.0.1", "ann"), check)
    desk.submit("good")
    desk.finish()
    assert outcomes == [None]
    assert desk.outcomes["good"] == "good"
    assert "no memory" in caplog.text


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        theirs = socket.create_connection(listening.getsockname())
        ours, _ = listening.accept()
    with theirs, ours:
        yield ours, theirs


class _Transport:
    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock

    def is_closing(self) -> bool:
        return False

    def get_extra_info(self, name: str) -> socket.socket:
        return self._sock


@pytest.mark.parametrize("unread", [b"", b"PING\r\n"])
def test_a_client_that_hung_up_is_noticed_without_reading(
    pair: tuple[socket.socket, socket.socket], unread: bytes
) -> None:
    ours, theirs = pair
    theirs.sendall(unread)
    assert not has_hung_up(_Transport(ours))
    theirs.close()
    _wait_for(lambda: has_hung_up(_Transport(ours)))


def _wait_for(claim: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not claim():
        assert time.monotonic() < deadline
        time.sleep(0.001)
