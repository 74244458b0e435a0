"""The ids of a long duplicate window: publishing, memory, and restarts after a stop and after a kill.

python -m benchmarks.scale_ids                        # 100,000 and 1,000,000 ids
python -m benchmarks.scale_ids --sizes 10000000 --rounds 1
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from typing import Final

from benchmarks.scale_bytes import processor_s
from benchmarks.scale_reads import Caller, Figures, report, resident_mib
from tests.kits.reference import ServerKind, ServerProcess

_DAY_NS: Final = 86_400 * 1_000_000_000
_STREAM: Final = {"name": "S", "subjects": ["s.>"], "storage": "file", "duplicate_window": 3 * _DAY_NS}
_PROBES: Final = 20_000


def _publications(payload: bytes, first: int, end: int) -> Iterator[bytes]:
    for number in range(first, end):
        block = b"NATS/1.0\r\nNats-Msg-Id: orders-%012d\r\n\r\n" % number
        size = len(block) + len(payload)
        yield b"HPUB s.x _INBOX.ack %d %d\r\n%b%b\r\n" % (len(block), size, block, payload)


def measure(server: ServerProcess, size: int) -> Figures:
    """Publish messages with ids to a fresh server, stop and kill it, and publish some of them again."""
    caller = Caller(server.port)
    caller.ask("STREAM.CREATE.S", _STREAM)
    before = processor_s(server.pid)
    figures: Figures = {"publish": caller.publish(_publications(caller.payload, 0, size), size)}
    figures["processor us, publish"] = (processor_s(server.pid) - before) / size * 1e6
    figures["memory in MiB"] = resident_mib(server.pid)
    figures["publish duplicates"] = caller.publish(_publications(caller.payload, 0, _PROBES), _PROBES)
    caller.close()
    for end, name in ((server.stop, "stop"), (server.kill, "kill")):
        end()
        began = time.monotonic()
        server.start()
        figures[f"ms, restart after a {name}"] = (time.monotonic() - began) * 1e3
        figures[f"memory in MiB after a {name}"] = resident_mib(server.pid)
        caller = Caller(server.port)
        caller.publish(_publications(caller.payload, size - _PROBES, size), _PROBES)
        stored = caller.ask("STREAM.INFO.S")["state"]["messages"]
        if stored != size:
            raise ValueError(f"{stored:,} messages instead of {size:,}: ids were forgotten")
        caller.close()
    return figures


def main() -> None:
    """Print a table for each size: the best of each server's rounds, the ratio, and the growth."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="+", default=[100_000, 1_000_000])
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    first: dict[str, tuple[float, float]] = {}
    for size in options.sizes:
        found: dict[ServerKind, list[Figures]] = {kind: [] for kind in ServerKind}
        for _ in range(options.rounds):
            for kind in ServerKind:
                with ServerProcess(kind, jetstream=True) as server:
                    found[kind].append(measure(server, size))
        ours, theirs = found[ServerKind.MILLSTREAM], found[ServerKind.NATS_SERVER]
        best: dict[str, tuple[float, float]] = {}
        for name in ours[0]:
            pick = max if name.startswith("publish") else min
            best[name] = (pick(each[name] for each in ours), pick(each[name] for each in theirs))
        first = first or best
        report(size, best, first)


if __name__ == "__main__":
    main()
