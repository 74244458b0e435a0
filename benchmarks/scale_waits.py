"""The wait of other clients during an operation whose cost grows with size.

Each row prepares a server (streams, messages, subscriptions, connections) and runs one operation, while a
client in a process of its own sends PING after PING.  The longest round trip of that client is the figure,
beside the time that the operation took.  The longest round trip while nothing happens is measured right
before: it is the noise of the machine.

    python -m benchmarks.scale_waits                      # every row on both servers, one after the other
    python -m benchmarks.scale_waits --only jsz --scale 0.1
    python -m benchmarks.scale_waits --ours --thread-clock   # steps in processor time, for a busy machine
"""

from __future__ import annotations

import argparse
import contextlib
import json
import multiprocessing
import statistics
import time
from collections.abc import Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Final

from benchmarks.waits import accounts, clients, consumers, ends, extras, links, lookups, setup, streams
from benchmarks.waits.site import ANSWER_S, Prepare, Row, Site
from benchmarks.waits.thread_clock import ThreadClockServer
from benchmarks.wire import Address, WireError, dial, flush
from tests.kits.reference import ServerKind, ServerProcess, ServerProcessError

_MS: Final = 1000.0
_GAP_S: Final = 0.0005  # between a PONG and the next PING
_SHOWN: Final = 3  # steps
_QUIET_S: Final = 1.0  # for which nothing happens


@dataclass(frozen=True, slots=True)
class Waits:
    """Figures of one row on one server, in milliseconds."""

    longest: float  # wait of the other client while the operation was under way
    noise: float  # the same while nothing happened
    took: float  # the operation
    steps: str = ""  # the slowest steps of our event loop in that time, as it says itself


# -- the other client -----------------------------------------------------------------------------


def _ping(address: Address, control: Connection) -> None:
    """Send PINGs until told to stop; report the longest round trip, in seconds."""
    with dial(address) as connection:
        control.send("ready")
        longest = 0.0
        while not control.poll():
            sent = time.perf_counter()
            flush(connection)
            longest = max(longest, time.perf_counter() - sent)
            time.sleep(_GAP_S)
        control.send(longest)


@contextlib.contextmanager
def _pinging(address: Address) -> Iterator[list[float]]:
    """A list that has the longest round trip, in milliseconds, when the block has ended."""
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=_ping, args=(address, theirs), daemon=True)
    process.start()
    found: list[float] = []
    try:
        if not ours.poll(ANSWER_S):
            raise WireError("the client that waits did not start")
        ours.recv()
        yield found
        ours.send("stop")
        if not ours.poll(ANSWER_S):
            raise WireError("the client that waits got no answer")
        found.append(ours.recv() * _MS)
    finally:
        process.join(5)
        if process.is_alive():
            process.kill()
            process.join()


def measure(site: Site, prepare: Prepare, size: int) -> Waits:
    """Prepare, wait, run: the figures of one row."""
    with contextlib.ExitStack() as kept:
        operation = prepare(site, size, kept)
        with _pinging(site.address) as noise:
            time.sleep(_QUIET_S)
        _slowest_steps(site, "")  # forgets what came before, on the thread's clock
        with _pinging(site.address) as longest:
            began = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime())
            started = time.perf_counter()
            operation()
            took = time.perf_counter() - started
            time.sleep(0.2)  # what follows from it counts, too
        steps = _slowest_steps(site, began)
    return Waits(longest[0], noise[0], took * _MS, steps)


def _slowest_steps(site: Site, began: str) -> str:
    """The slowest steps from a time on, from `/varz`; nats-server has no such thing."""
    steps = json.loads(site.get("/varz")).get("event_loop", {}).get("slowest", [])
    slowest = [each for each in steps if each["at"] >= began]
    return "; ".join(f"{each['step']}, {each['longest'] / 1e6:.1f} ms" for each in slowest[:_SHOWN])


_THEMES: Final = (lookups, streams, consumers, ends, extras, clients, accounts, links, setup)
ROWS: Final[dict[str, Row]] = {name: row for theme in _THEMES for name, row in theme.ROWS.items()}


def on_fresh_server(kind: ServerKind, name: str, scale: float, *, thread_clock: bool = False) -> Waits:
    """One row on a server that was started for it."""
    row = ROWS[name]
    process = ThreadClockServer if thread_clock and kind is ServerKind.MILLSTREAM else ServerProcess
    config = row.config() if callable(row.config) else row.config
    with process(kind, jetstream=True, monitor=True, config=config) as server:
        return measure(Site(server), row.prepare, max(int(row.size * scale), 1))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--only", nargs="*", choices=ROWS, default=list(ROWS))
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--ours", action="store_true", help="leave nats-server out")
    parser.add_argument("--thread-clock", action="store_true", help="our steps in processor time")
    options = parser.parse_args()
    servers = [ServerKind.MILLSTREAM] if options.ours else [ServerKind.MILLSTREAM, ServerKind.NATS_SERVER]
    print("| row | size | ours: longest wait (noise), took | nats-server: the same | ratio | slowest steps |")
    print("| --- | ---: | ---: | ---: | ---: | --- |")
    for name in options.only:
        try:
            row = _compared(name, servers if ROWS[name].both else servers[:1], options)
        except (OSError, WireError, ServerProcessError) as error:
            row = f"| {name} | | failed: {error} |"
        print(row, flush=True)


def _compared(name: str, servers: list[ServerKind], options: argparse.Namespace) -> str:
    """Run a row on each server in turn; its line of the table."""
    found: dict[ServerKind, list[Waits]] = {kind: [] for kind in servers}
    for number in range(options.rounds):
        for kind in servers[:: -1 if number % 2 else 1]:
            found[kind].append(on_fresh_server(kind, name, options.scale, thread_clock=options.thread_clock))
    ours, *others = (_median(found[kind]) for kind in servers)
    size = max(int(ROWS[name].size * options.scale), 1)
    compared = [f"{_shown(each)} | {each.longest / ours.longest:.2f}" for each in others] or ["- | -"]
    return f"| {' | '.join((name, f'{size:,}', _shown(ours), *compared, ours.steps))} |"


def _median(waits: list[Waits]) -> Waits:
    longest, noise, took = (
        statistics.median(getattr(each, field) for each in waits) for field in ("longest", "noise", "took")
    )
    return Waits(longest, noise, took, waits[-1].steps)


def _shown(waits: Waits) -> str:
    return f"{waits.longest:.1f} ms ({waits.noise:.1f}), {waits.took:.0f} ms"


if __name__ == "__main__":
    main()
