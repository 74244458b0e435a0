"""Notes to a service manager: what is told, when, and what happens if nobody reads."""

import os
import socket
from pathlib import Path

import pytest

from millstream.broker.connection import Tick
from millstream.broker.turns import Turns
from millstream.broker.watchdog import Watchdog
from millstream.server.supervisor import Supervisor
from tests.kits.fake_transport import FakeLoop


class Manager:
    """A service manager's socket."""

    def __init__(self, address: str) -> None:
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(address)
        self.socket.setblocking(False)

    def told(self) -> list[str]:
        notes = []
        while True:
            try:
                notes.append(self.socket.recv(4096).decode())
            except BlockingIOError:
                return notes


@pytest.fixture
def loop() -> FakeLoop:
    return FakeLoop()


@pytest.fixture
def turns(loop: FakeLoop) -> Turns:
    return Turns(loop.as_loop(), Tick(Watchdog(loop.time), loop.time))


@pytest.mark.parametrize("abstract", [False, True])
def test_every_change_of_state_is_told(tmp_path: Path, turns: Turns, abstract: bool) -> None:
    address = f"\0millstream-test-{os.getpid()}" if abstract else str(tmp_path / "notify")
    manager = Manager(address)
    with manager.socket:
        environment = {"NOTIFY_SOCKET": address.replace("\0", "@"), "HOME": "/"}
        supervisor = Supervisor(environment)
        assert environment == {"HOME": "/"}
        supervisor.ready("listens", turns)
        supervisor.reloading()
        supervisor.reloaded()
        supervisor.stopping()
        ready, reloading, reloaded, stopping = manager.told()
    assert ready == "READY=1\nSTATUS=listens"
    assert reloading.startswith("RELOADING=1\nMONOTONIC_USEC=")
    assert reloading.partition("USEC=")[2].isdigit()
    assert (reloaded, stopping) == ("READY=1", "STOPPING=1")


def test_signs_of_life_come_twice_in_each_interval(tmp_path: Path, loop: FakeLoop, turns: Turns) -> None:
    address = str(tmp_path / "notify")
    manager = Manager(address)
    with manager.socket:
        environment = {"NOTIFY_SOCKET": address, "WATCHDOG_USEC": "2000000", "WATCHDOG_PID": str(os.getpid())}
        supervisor = Supervisor(environment)
        assert not environment
        loop.advance(10)
        assert manager.told() == []
        supervisor.ready("listens", turns)
        loop.advance(3.5)
        assert manager.told()[1:] == ["WATCHDOG=1"] * 3


@pytest.mark.parametrize(
    "extra",
    [
        {},
        {"WATCHDOG_USEC": "0"},
        {"WATCHDOG_USEC": "soon"},
        {"WATCHDOG_USEC": "1000000", "WATCHDOG_PID": "1"},  # for another process
    ],
)
def test_without_an_interval_there_are_no_signs_of_life(
    tmp_path: Path, loop: FakeLoop, turns: Turns, extra: dict[str, str]
) -> None:
    address = str(tmp_path / "notify")
    manager = Manager(address)
    with manager.socket:
        Supervisor({"NOTIFY_SOCKET": address} | extra).ready("listens", turns)
        loop.advance(100)
        assert len(manager.told()) == 1


def test_a_manager_that_is_gone_is_named_once_and_harms_nobody(
    tmp_path: Path, turns: Turns, caplog: pytest.LogCaptureFixture
) -> None:
    supervisor = Supervisor({"NOTIFY_SOCKET": str(tmp_path / "nobody")})
    supervisor.ready("listens", turns)
    supervisor.stopping()
    assert [record.getMessage() for record in caplog.records] == [
        "The service manager cannot be told READY=1: No such file or directory"
    ]


def test_without_a_manager_nothing_is_told(turns: Turns, caplog: pytest.LogCaptureFixture) -> None:
    supervisor = Supervisor({"WATCHDOG_USEC": "1000000"})
    supervisor.ready("listens", turns)
    supervisor.stopping()
    assert not caplog.records
