"""``python -m benchmarks.leaf``: messages over a leaf link, for each kind of server at each end.

A publisher at the spoke writes batches, a subscriber at the hub counts bytes; all four pairs of servers run
at the same time, and take turns.  The clients are sockets, so that they cost little beside the servers.
"""

import socket
import statistics
import threading
import time
from contextlib import ExitStack
from typing import Annotated, Final

import typer

from tests.kits.leaf import PAIRS, Linked, client, linked

_BATCH: Final = 500  # messages of one write
_READ: Final = 256 * 1024


def measure(pair: Linked, messages: int, size: int) -> float:
    """Return the messages in a second."""
    with client(pair.hub) as far, client(pair.spoke) as near:
        far.round_trip(b"SUB bench 1\r\n")
        pair.until_asked(pair.spoke, "bench")
        payload = b"x" * size
        frame = b"MSG bench 1 %d\r\n%b\r\n" % (size, payload)
        batch = b"PUB bench %d\r\n%b\r\n" % (size, payload) * _BATCH
        batches = messages // _BATCH
        publisher = threading.Thread(target=near.send, args=(batch * batches,))
        began = time.perf_counter()
        publisher.start()
        _read(far.stream, batches * _BATCH * len(frame))
        took = time.perf_counter() - began
        publisher.join()
    pair.until_not_asked(pair.spoke, "bench")
    return batches * _BATCH / took


def _read(stream: object, left: int) -> None:
    assert isinstance(stream, socket.socket)
    buffer = bytearray(_READ)
    while left > 0:
        count = stream.recv_into(buffer)
        if not count:
            raise SystemExit("the server closed the connection")
        left -= count if not buffer.startswith(b"PING") else count - 6


def main(
    messages: Annotated[int, typer.Option(min=_BATCH)] = 200_000,
    size: Annotated[int, typer.Option(min=1)] = 128,
    rounds: Annotated[int, typer.Option(min=1)] = 5,
    compression: Annotated[str, typer.Option(help="as in the configuration")] = "off",
) -> None:
    """Print the median of the rounds of each pair."""
    said = f"compression: {compression}"
    found: dict[str, list[float]] = {}
    with ExitStack() as stack:
        pairs = {
            f"{hub} hub, {spoke} spoke": stack.enter_context(linked((hub, spoke), hub_leaf=said, remote=said))
            for hub, spoke in PAIRS
        }
        for pair in pairs.values():
            measure(pair, messages // 5, size)  # warms up
        for _ in range(rounds):
            for name, pair in pairs.items():
                found.setdefault(name, []).append(measure(pair, messages, size))
    for name, values in found.items():
        lowest, middle, highest = min(values), statistics.median(values), max(values)
        print(f"{name}: {middle:,.0f} messages/s ({lowest:,.0f} to {highest:,.0f})")


if __name__ == "__main__":
    typer.run(main)
