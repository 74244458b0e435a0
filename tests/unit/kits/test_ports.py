"""Ports that are kept for servers: before they start, and while they are down."""

import socket

import pytest

from tests.kits.ports import free_ports, reserve_port


def test_ports_are_different_and_servers_can_listen_on_them_again_and_again() -> None:
    found = free_ports(50)
    assert len(set(found)) == 50
    for port in [*found, *found]:
        with socket.create_server(("127.0.0.1", port)), socket.create_connection(("127.0.0.1", port)):
            pass


def test_nobody_answers_on_a_port_that_is_only_kept() -> None:
    [port] = free_ports(1)
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port))


def test_the_system_gives_a_kept_port_to_nobody() -> None:
    with reserve_port() as holder:
        with socket.create_server(("127.0.0.1", holder.getsockname()[1])):
            pass  # which is gone
        others = [reserve_port() for _ in range(500)]
        assert holder.getsockname() not in [other.getsockname() for other in others]
        for other in others:
            other.close()
