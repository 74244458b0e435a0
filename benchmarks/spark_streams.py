"""The streams that the rows of `spark` read: different messages, without and with headers.

Every payload has a number in front and random letters behind it, so that Parquet finds nothing to fold, and
ends with `MARK`, which stands nowhere else: the drain counts messages by it.
"""

import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from benchmarks import crew
from benchmarks.stream_load import WindowPublisher
from benchmarks.stream_wire import Messages, create, stored
from benchmarks.wire import Address, WireError
from tests.kits.reference import ServerKind, ServerProcess

MARK: Final = b"~end~~\r\n"
PAYLOAD: Final = 128
SUBJECTS: Final = 100
PLAIN: Final = "PLAIN"  # the streams
HEADED: Final = "HEADED"
_DIGITS: Final = 10
_SLICE: Final = 250_000  # messages made at a time
_LETTERS: Final = random.Random(7).choices(b"abcdefghijklmnopqrstuvwxyz0123456789", k=1 << 16)
_POOL: Final = bytes(_LETTERS) * 2


@dataclass(frozen=True, slots=True)
class Slice(Messages):
    """Some messages of a stream, from number `first` on."""

    first: int = 0
    headed: bool = False  # each has two headers

    def frame(self, number: int, body: bytes, inbox: bytes) -> bytes:
        number += self.first
        subject = b"%b.%07d" % (self.stream.encode(), number % self.subjects)
        reply = b"%b.%09d" % (inbox, number)
        start = number * 8191 % (1 << 16)
        body = b"%010d%b%b" % (number, _POOL[start : start + PAYLOAD - _DIGITS - len(MARK) + 2], MARK[:-2])
        if not self.headed:
            return b"PUB %b %b %d\r\n%b\r\n" % (subject, reply, len(body), body)
        block = b"NATS/1.0\r\nContent-Type: application/json\r\nOrder-Id: %010d\r\n\r\n" % number
        sizes = len(block), len(block) + len(body)
        return b"HPUB %b %b %d %d\r\n%b%b\r\n" % (subject, reply, *sizes, block, body)


@dataclass(frozen=True, slots=True)
class Site:
    """A server with streams, as readers see it."""

    kind: ServerKind
    address: Address
    pid: int

    @property
    def url(self) -> str:
        return f"nats://{self.address.host}:{self.address.port}"


@contextmanager
def site(kind: ServerKind) -> Iterator[Site]:
    with ServerProcess(kind, jetstream=True) as server:
        yield Site(kind, Address(server.host, server.port), server.pid)


def fill(where: Site, stream: str, count: int) -> None:
    """Make the stream and publish into it."""
    create(where.address, Messages(stream, PAYLOAD, 0), "file")
    for first in range(0, count, _SLICE):
        part = min(_SLICE, count - first)
        messages = Slice(stream, PAYLOAD, part, SUBJECTS, first=first, headed=stream == HEADED)
        crew.run([WindowPublisher(where.address, messages)])
    if (there := stored(where.address, stream)) != count:
        raise WireError(f"{there} of {count} messages were stored")
