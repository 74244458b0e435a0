"""Order by key: what publishing and consuming cost beside no keys, some, and a million.

python -m benchmarks.key_order                    # 500,000 messages
python -m benchmarks.key_order --messages 1000000 --keys 1000 1000000

Messages have the keys in turn; order `none` is a consumer without the metadata.  Each batch is acknowledged
when it has come.  Figures are processor time of the server for each message, the lowest of some rounds in
turn, and its resident memory.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from itertools import pairwise
from typing import Final

from benchmarks.scale_bytes import processor_s
from benchmarks.scale_reads import Caller, resident_mib
from tests.kits.reference import ServerKind, ServerProcess

_STREAM: Final = {"name": "S", "subjects": ["k.*"], "storage": "file"}
_BATCH: Final = 500
_REPLY: Final = re.compile(rb" (\$JS\.ACK\.S\.C\.\S+) \d+\r\n")


class Worker(Caller):
    """A connection that pulls and acknowledges."""

    def consume(self, count: int) -> None:
        """Pull and acknowledge so many messages."""
        request = b'{"batch":%d}' % _BATCH
        while count > 0:
            self._socket.sendall(
                b"PUB $JS.API.CONSUMER.MSG.NEXT.S.C _INBOX.pull %d\r\n%b\r\n" % (len(request), request)
            )
            wanted, data = min(_BATCH, count), b""
            while len(replies := _REPLY.findall(data)) < wanted:
                data += self._more()
            self._socket.sendall(b"".join(b"PUB %b 0\r\n\r\n" % reply for reply in replies))
            count -= wanted


def _publications(payload: bytes, messages: int, keys: int) -> Iterator[bytes]:
    for number in range(messages):
        yield b"PUB k.%d _INBOX.ack %d\r\n%b\r\n" % (number % keys, len(payload), payload)


def measure(messages: int, keys: int, *, ordered: bool) -> tuple[float, float, float]:
    """Return processor time for a published and a consumed message in µs, and memory in MiB."""
    config: dict[str, object] = {"durable_name": "C", "ack_policy": "explicit", "max_ack_pending": 1000}
    if ordered:
        config["metadata"] = {"millstream.max_ack_pending_per_subject": "1"}
    with ServerProcess(ServerKind.MILLSTREAM, jetstream=True) as server:
        worker = Worker(server.port)
        worker.ask("STREAM.CREATE.S", _STREAM)
        worker.ask("CONSUMER.DURABLE.CREATE.S.C", {"stream_name": "S", "config": config})
        times = [processor_s(server.pid)]
        worker.publish(_publications(worker.payload, messages, keys), messages)
        times.append(processor_s(server.pid))
        worker.consume(messages)
        times.append(processor_s(server.pid))
        memory = resident_mib(server.pid)
        worker.close()
    published, consumed = ((end - begin) / messages * 1e6 for begin, end in pairwise(times))
    return published, consumed, memory


def main() -> None:
    """Print a row for each number of keys, with and without the order."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, default=500_000)
    parser.add_argument("--keys", type=int, nargs="+", default=[1_000, 1_000_000])
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    cases = [(keys, ordered) for keys in options.keys for ordered in (False, True)]
    found: dict[tuple[int, bool], list[tuple[float, float, float]]] = {case: [] for case in cases}
    for _ in range(options.rounds):
        for keys, ordered in cases:
            found[keys, ordered].append(measure(options.messages, keys, ordered=ordered))
    print(f"{options.messages:,} messages: published, consumed in µs; memory in MiB")
    for (keys, ordered), rows in found.items():
        published, consumed, memory = (min(column) for column in zip(*rows, strict=True))
        order = "by key" if ordered else "none"
        print(f"{keys:>10,} keys, order {order:7} {published:6.2f} {consumed:6.2f} {memory:7.0f}")


if __name__ == "__main__":
    main()
