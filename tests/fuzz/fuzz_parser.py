"""Fuzz target: the parser against the naive one, guided by coverage where atheris is installed.

    python tests/fuzz/fuzz_parser.py [atheris's flags]      with atheris, until something is found
    python tests/fuzz/fuzz_parser.py --runs 100000          without it, random streams

``MILLSTREAM_PURE=1`` makes atheris see every line.  The first bytes of the input choose the limits and
the sizes of the chunks; the rest is what a client sends.
"""

import argparse
import random
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "model"))

from naive_parser import Limits, naive_events, real_events

_LINES = (8, 20, 64, 4096)
_PAYLOADS = (0, 5, 32, 1000)
_WORDS = (
    b"PUB ", b"HPUB ", b"SUB ", b"UNSUB ", b"CONNECT ", b"PING", b"PONG", b"INFO ", b"+OK", b"-ERR ",
    b"\r\n", b"\n", b" ", b"\t", b"foo", b"a.b", b"*", b">", b"0", b"1", b"5", b"12", b"999999999",
    b"hello\r\n", b"NATS/1.0\r\n\r\n", b"{}", b"PUB foo 5\r\nhello\r\n",
    b"HPUB a 12 14\r\nNATS/1.0\r\n\r\nhi\r\n",
)  # fmt: skip


def check(data: bytes) -> None:
    """Raise if the two parsers disagree, or the real one fails."""
    if len(data) < 3:
        return
    choice, first_size, step = data[0], data[1], data[2]
    limits = Limits(
        max_control_line=_LINES[choice & 3],
        max_payload=_PAYLOADS[choice >> 2 & 3],
        headers_allowed=bool(choice & 16),
        connect_first=bool(choice & 32),
    )
    stream = data[3:]
    chunks = []
    size = first_size
    while stream:
        size = size % 61 + 1
        chunks.append(stream[:size])
        stream = stream[size:]
        size += step
    expected = naive_events(data[3:], limits)
    found = real_events(chunks, limits)
    if found != expected:
        raise AssertionError(f"{limits}\n{chunks}\nexpected {expected}\nfound    {found}")


def random_input(generator: random.Random) -> bytes:
    """A stream that is nearly right, which pure noise would never be."""
    parts = [generator.randbytes(3)]
    for _ in range(generator.randrange(20)):
        if generator.random() < 0.85:
            parts.append(generator.choice(_WORDS))
        else:
            parts.append(generator.randbytes(generator.randrange(6)))
    return b"".join(parts)


def run_random(runs: int, seed: int) -> None:
    generator = random.Random(seed)
    for _ in range(runs):
        check(random_input(generator))


def main() -> None:
    try:
        import atheris
    except ImportError:
        arguments = argparse.ArgumentParser(description=__doc__)
        arguments.add_argument("--runs", type=int, default=100_000)
        arguments.add_argument("--seed", type=int, default=random.randrange(1 << 32))
        chosen = arguments.parse_args()
        print(f"no atheris: {chosen.runs} random streams, seed {chosen.seed}")
        run_random(chosen.runs, chosen.seed)
        return
    atheris.instrument_all()
    atheris.Setup(sys.argv, check)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
