"""The time from the start of a server's process to INFO, and from SIGTERM to its end.

Each function starts servers of one kind and returns figures by name; none compares servers.  ``python -m
benchmarks.scale_start`` runs them on both servers in turn and prints the ratios.  On a busy machine look at
processor time: how long a process waits for a core says nothing about it.
"""

import os
import signal
import socket
import statistics
import subprocess
import tempfile
import time
from typing import Annotated, Final

import typer

from tests.kits.ports import reserve_port
from tests.kits.reference import ServerKind, command_for, inherited_environment

ROUNDS: Final = 15
_HOST: Final = "127.0.0.1"
_PATIENCE_S: Final = 30.0
_LOOK_EVERY_S: Final = 0.0005

Figures = dict[str, float]


def start_and_stop(kind: ServerKind, *, jetstream: bool = False, clients: int = 1) -> Figures:
    """Start a server, connect so many clients, close them, stop it; returns milliseconds."""
    with tempfile.TemporaryDirectory() as folder, reserve_port() as holder:
        port = holder.getsockname()[1]
        command = [*command_for(kind), "-a", _HOST, "-p", str(port)]
        if jetstream:
            command += ["-js", "-sd", folder]
        began = time.monotonic()
        process = subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=inherited_environment()
        )
        try:
            connections = [_connected(port, began + _PATIENCE_S)]
            informed = time.monotonic()
            used_to_start = _processor_ms(process.pid)
            connections += [_connected(port, began + _PATIENCE_S) for _ in range(clients - 1)]
            for connection in connections:
                connection.close()
            closed = time.monotonic()
            process.send_signal(signal.SIGTERM)
            _, status, usage = os.wait4(process.pid, 0)
            ended = time.monotonic()
            process.returncode = os.waitstatus_to_exitcode(status)
        finally:
            if process.returncode is None:
                process.kill()
                process.wait()
    return {
        "start to INFO, ms": (informed - began) * 1e3,
        "start to INFO, ms of processor time": used_to_start,
        "last close to end, ms": (ended - closed) * 1e3,
        "whole life, ms of processor time": (usage.ru_utime + usage.ru_stime) * 1e3,
    }


def compared(
    *, rounds: int = ROUNDS, jetstream: bool = False, clients: int = 1
) -> dict[ServerKind, list[Figures]]:
    """Measure both servers in turn; returns the figures of every round."""
    found: dict[ServerKind, list[Figures]] = {kind: [] for kind in ServerKind}
    for _ in range(rounds):
        for kind in ServerKind:
            found[kind].append(start_and_stop(kind, jetstream=jetstream, clients=clients))
    return found


def median(figures: list[Figures]) -> Figures:
    """Return the median of every figure."""
    return {name: statistics.median(each[name] for each in figures) for name in figures[0]}


def best(figures: list[Figures]) -> Figures:
    """Return the least of every figure: what a loaded machine adds is left out as far as that goes."""
    return {name: min(each[name] for each in figures) for name in figures[0]}


def _connected(port: int, deadline: float) -> socket.socket:
    """Return a connection that has received INFO; tries again while nobody listens."""
    while True:
        try:
            connection = socket.create_connection((_HOST, port), timeout=_PATIENCE_S)
        except ConnectionRefusedError:
            if time.monotonic() > deadline:
                raise
            time.sleep(_LOOK_EVERY_S)
            continue
        if not connection.recv(4096).startswith(b"INFO "):
            raise ConnectionError("the server did not begin with INFO")
        return connection


def _processor_ms(pid: int) -> float:
    """Return the processor time that the process used so far."""
    total = 0
    for thread in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{thread}/schedstat") as file:
            total += int(file.read().split()[0])
    return total / 1e6


def run(rounds: Annotated[int, typer.Option(min=1, help="Starts of each server.")] = ROUNDS) -> None:
    """Measure both servers, with and without JetStream, and print medians, bests and their ratios."""
    for jetstream in (False, True):
        found = compared(rounds=rounds, jetstream=jetstream)
        print("with JetStream" if jetstream else "without JetStream")
        for title, pick in (("median", median), ("best", best)):
            ours, theirs = pick(found[ServerKind.MILLSTREAM]), pick(found[ServerKind.NATS_SERVER])
            for name, value in ours.items():
                ratio = theirs[name] / value
                print(
                    f"  {title:6}  {name:38} {value:8.1f}  nats-server {theirs[name]:6.1f}  ratio {ratio:.2f}"
                )


if __name__ == "__main__":
    typer.run(run)
