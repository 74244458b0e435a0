"""A consumer delivers long messages without a copy, or with one, and they are the same."""

from __future__ import annotations

import pytest

from millstream.jetstream.consumers.delivery import DONE, NOBODY, Delivery
from millstream.jetstream.consumers.ledger import Ledger
from millstream.jsapi.stream_types import StreamConfig
from millstream.protocol.outlet import LONG, Outlet
from millstream.protocol.parser import Frame
from millstream.store.cursor import Cursor
from tests.kits.fake_world import FakeWorld

BLOCK = b"NATS/1.0\r\nA: b\r\n\r\n"


class Ear(Outlet):
    """Keeps what is sent, while somebody listens."""

    def __init__(self) -> None:
        self.listens = True
        self.heard: list[tuple[bytes, bytes, bytes, bytes]] = []

    def send(self, subject: bytes, frame: Frame) -> int:
        if self.listens:
            assert frame.buf.endswith(b"\r\n")
            self.heard.append((subject, frame.reply(), frame.headers(), frame.payload()))
        return self.listens


class PartsEar(Ear):
    def send_parts(self, subject: bytes, reply: bytes, block: bytes, parts: list[bytes], size: int) -> int:
        assert sum(map(len, parts)) == size >= LONG
        if self.listens:
            self.heard.append((subject, reply, block, b"".join(parts)))
        return self.listens


def cursor_over(*messages: tuple[bytes, bytes]) -> Cursor:
    world = FakeWorld()
    stream = world.account().add(StreamConfig(name="S", subjects=["s"]))
    for block, payload in messages:
        world.send(b"s", payload, headers=block)
    world.settle()
    return Cursor(stream.log)


def delivered(ear: Ear, *, headers_only: bool = False, extra: bytes = b"") -> Delivery:
    delivery = Delivery(Ledger(), b"$JS.ACK.S.C.")
    delivery.headers_only, delivery.extra_header = headers_only, extra
    sizes = (10, LONG, LONG + 1, LONG - 1)
    cursor = cursor_over(*((block, b"x" * size) for size in sizes for block in (b"", BLOCK)))
    ear.listens = False
    assert delivery.run(cursor, ear, 100, 1 << 30, 0) == NOBODY
    ear.listens = True
    assert delivery.run(cursor, ear, 8, 1 << 30, 0) == DONE
    return delivery


@pytest.mark.parametrize("headers_only", [False, True])
@pytest.mark.parametrize("extra", [b"", b"Nats-Pin-Id: p\r\n"])
def test_messages_in_parts_are_those_that_are_copied(headers_only: bool, extra: bytes) -> None:
    copied, in_parts = Ear(), PartsEar()
    counts = [
        (delivery.sent, delivery.sent_bytes)
        for delivery in (delivered(ear, headers_only=headers_only, extra=extra) for ear in (copied, in_parts))
    ]
    assert copied.heard == in_parts.heard
    assert counts[0] == counts[1]
    if not headers_only:
        assert [len(payload) for *_, payload in copied.heard] == [
            10, 10, LONG, LONG, LONG + 1, LONG + 1, LONG - 1, LONG - 1,
        ]  # fmt: skip
