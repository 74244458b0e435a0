"""Ports that are chosen before their servers start."""

import random
import socket

import pytest

from millstream.testing import ports
from millstream.testing.ports import free_ports


def test_ports_are_different_free_and_not_those_that_the_system_gives_away() -> None:
    found = free_ports(50)
    assert len(set(found)) == 50
    assert all(20_000 <= port <= 32_000 for port in found)
    for port in found:
        with socket.create_server(("127.0.0.1", port)):
            pass


def test_a_port_that_is_taken_or_chosen_already_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = free_ports(2)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        wanted = iter([taken.getsockname()[1], first, first, second])
        monkeypatch.setattr(ports._choice, "randint", lambda low, high: next(wanted))
        assert free_ports(2) == [first, second]


def test_the_seed_of_a_test_does_not_choose_them() -> None:
    chosen = []
    for _ in range(2):
        random.seed(1)
        chosen.append(free_ports(5))
    assert chosen[0] != chosen[1]
