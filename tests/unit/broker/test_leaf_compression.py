"""The layer that compresses a link: agreements, turns, and what a stranger may send."""

import json
import os
import re

import pytest

from millstream.archive.frames import S2_BLOCK_SIZE, PackLevel, s2_frames
from millstream.broker.leaf import compression
from millstream.broker.leaf.login import BadLogin
from millstream.broker.options import CompressionOptions
from tests.kits.broker import client, loop_of
from tests.kits.fake_spoke import FakeSpoke, connect_line, hub


@pytest.mark.parametrize(
    ("own", "other", "agreed"),
    [
        ("s2_fast", "", "not supported"),
        ("s2_fast", "not supported", "not supported"),
        ("s2_fast", "off", "off"),
        ("s2_fast", "accept", "s2_fast"),
        ("s2_fast", "s2_best", "s2_fast"),
        ("s2_fast", "s2_uncompressed", "s2_fast"),
        ("accept", "accept", "off"),
        ("accept", "s2_auto", "s2_fast"),
        ("accept", "s2_best", "s2_best"),
        ("off", "s2_fast", "off"),
        ("off", "", "not supported"),
        ("not supported", "s2_fast", "not supported"),
        ("s2_auto", "s2_best", "s2_better"),
    ],
)
def test_agreements(own: str, other: str, agreed: str) -> None:
    assert compression.agree(CompressionOptions(mode=own), other, 0.06) == agreed


def test_an_unknown_mode_is_refused() -> None:
    with pytest.raises(BadLogin, match='unsupported compression mode "zstd"'):
        compression.agree(CompressionOptions(), "zstd", 0.0)


@pytest.mark.parametrize(
    ("thresholds", "round_trip", "mode"),
    [
        ((0.01, 0.05, 0.1), 0.0, "s2_uncompressed"),
        ((0.01, 0.05, 0.1), 0.01, "s2_uncompressed"),
        ((0.01, 0.05, 0.1), 0.02, "s2_fast"),
        ((0.01, 0.05, 0.1), 0.1, "s2_better"),
        ((0.01, 0.05, 0.1), 7.0, "s2_best"),
        ((0.0, 0.0, 0.02), 0.0, "s2_better"),
        ((0.0, 0.0, 0.02), 0.03, "s2_best"),
        ((0.01, 0.02), 0.03, "s2_fast"),
        ((0.01,), 0.03, "s2_uncompressed"),
    ],
)
def test_modes_by_round_trip(thresholds: tuple[float, ...], round_trip: float, mode: str) -> None:
    assert compression.by_round_trip(CompressionOptions(rtt_thresholds_s=thresholds), round_trip) == mode


def test_a_login_and_messages() -> None:
    broker = hub("s2_fast")
    spoke = FakeSpoke(broker, stranger=True, packed=True)
    [info] = re.findall(rb"INFO (\{.*\})", spoke.heard())
    assert json.loads(info)["compression"] == "s2_fast"
    assert b'"connect_info":true' in spoke.say(connect_line(), run=False)
    user = client(broker)
    user.say(b"SUB > 1\r\n")
    payload = os.urandom(300_000) + b"x" * 300_000
    spoke.say(b"LMSG a %d\r\n%b\r\n" % (len(payload), payload))
    assert user.say(b"") == b"MSG a 1 %d\r\n%b\r\n" % (len(payload), payload)
    spoke.say(b"LS+ b\r\n")
    user.say(b"PUB b %d\r\n%b\r\n" % (len(payload), payload))
    assert spoke.say(b"") == b"LMSG b %d\r\n%b\r\n" % (len(payload), payload)


def test_every_write_is_packed_at_once() -> None:
    broker = hub("s2_best")
    spoke = FakeSpoke(broker, packed=True)
    assert spoke.say(b"PING\r\n").endswith(b"PONG\r\n")


def bomb(content: bytes, size: int) -> bytes:
    """Return a few bytes that stand for `size` bytes."""
    return s2_frames(content * (size // len(content)), PackLevel.BEST)


def test_a_stranger_cannot_send_much() -> None:
    broker = hub("s2_fast")
    spoke = FakeSpoke(broker, stranger=True, packed=True)
    frame = bomb(b"PING\r\n", 60_000)
    assert len(frame) < 100
    for _ in range(3):
        spoke.transport.receive(frame)
    assert spoke.link.closed
    assert b"too much compressed input before the login" in spoke.heard()


def test_empty_frames_of_a_stranger_count() -> None:
    broker = hub("s2_fast")
    spoke = FakeSpoke(broker, stranger=True, packed=True)
    spoke.transport.receive(b"\xfe\x00\x00\x00" * 1000)
    assert spoke.link.closed


def test_a_bomb_is_unpacked_in_turns() -> None:
    """Others are served in between, and no more than a block is unpacked ahead."""
    broker = hub("s2_fast")
    spoke, user = FakeSpoke(broker, packed=True), client(broker)
    user.say(b"SUB a 1\r\n")
    frame = bomb(b"LMSG a 50\r\n" + b"y" * 50 + b"\r\n", S2_BLOCK_SIZE)
    frames = 10
    spoke.transport.receive(frame * frames)
    assert not spoke.transport.reading
    rounds = 0
    while not spoke.transport.reading:
        loop_of(broker).run_one_round()
        rounds += 1
        assert rounds < 10_000
    assert rounds >= frames
    assert spoke.link.in_messages == frames * (S2_BLOCK_SIZE // 63)


@pytest.mark.parametrize(
    "data",
    [
        b"LMSG a 1\r\nx\r\n",
        b"\xff\x06\x00\x00sNaPpX",
        b"\x00\x09\x00\x00abcdefghi",
        b"\x01\x07\x00\x00\x00\x00\x00\x00abc",
        b"\x02\x01\x00\x00a",
        b"\x00\xff\xff\xff",
        b"\xfe\xff\xff\xff",
        s2_frames(b"PING\r\n" * 10, PackLevel.NONE)[:-1] + b"?",
    ],
    ids=["in clear", "name", "packing", "checksum", "kind", "a huge block", "huge padding", "a flipped byte"],
)
def test_what_is_not_s2_ends_the_link(data: bytes) -> None:
    broker = hub("s2_fast")
    spoke = FakeSpoke(broker, packed=True)
    spoke.transport.receive(data)
    assert spoke.link.closed
    assert b"-ERR 's2: " in spoke.heard()


def test_a_block_that_claims_too_much() -> None:
    broker = hub("s2_fast")
    spoke = FakeSpoke(broker, packed=True)
    body = bytes(4) + b"\x80\x80\x80\x02"  # a length of 4 MiB
    spoke.transport.receive(b"\x00" + len(body).to_bytes(3, "little") + body)
    assert spoke.link.closed


def test_a_link_in_clear_stays_so() -> None:
    broker = hub("off")
    spoke = FakeSpoke(broker, stranger=True)
    spoke.transport.receive(b'INFO {"compression": "s2_fast"}\r\n')
    assert b"connect_info" in spoke.say(connect_line(), run=False)
    spoke.transport.receive(b'INFO {"compression": "s2_fast"}\r\n')
    assert spoke.say(b"PING\r\n").endswith(b"PONG\r\n")


def test_compression_is_agreed_once() -> None:
    broker = hub("s2_fast")
    spoke = FakeSpoke(broker, packed=True)
    assert spoke.say(b'INFO {"compression": "off"}\r\nPING\r\n').endswith(b"PONG\r\n")


def test_links_that_are_lost_leave_nothing() -> None:
    broker = hub("s2_fast")
    spoke = FakeSpoke(broker, packed=True)
    spoke.transport.receive(bomb(b"PING\r\n", S2_BLOCK_SIZE) * 5)
    spoke.transport.peer_closes()
    loop_of(broker).run_ready()
    assert spoke.link.closed
    assert not broker.leafs.all()  # type: ignore[union-attr]


def test_an_unknown_mode_ends_the_login() -> None:
    broker = hub("s2_fast")
    spoke = FakeSpoke(broker, stranger=True)
    spoke.transport.receive(b'INFO {"compression": "zstd"}\r\n')
    assert spoke.link.closed
    assert b'unsupported compression mode "zstd"' in spoke.heard()
