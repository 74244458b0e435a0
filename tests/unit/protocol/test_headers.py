"""Header blocks that may be appended to as they are."""

from random import Random

import pytest

from millstream.protocol.headers import is_sound

_KEY = b"Nats-Msg-Size"
_PIECES = (
    b"A: b",
    b"Nats-Msg-Size: 3",
    b"nats-msg-sizes:",
    b"x",
    b"\r",
    b"\n",
    b"\r\n",
    b"\r\n\r\n",
    b"Nats-Msg-",
)


def naive(block: bytes) -> bool:
    """Return True if the block is well-formed and has no such text, in any case."""
    stray = block.replace(b"\r\n", b"")
    return (
        block.startswith(b"NATS/1.0")
        and block.find(b"\r\n\r\n") == len(block) - 4
        and b"\r" not in stray
        and b"\n" not in stray
        and _KEY.lower() not in block.lower()
    )


@pytest.mark.parametrize(
    "lines",
    [
        b"",
        b"A: b\r\n",
        b"Nats-Msg-Siz: 1\r\nB:\r\n",
        b"X: nats-msg-siz\r\n",
        b"Y: " + bytes(range(128, 200)) + b"\r\n",
    ],
)
def test_a_block_without_the_key_is_sound(lines: bytes) -> None:
    assert is_sound(b"NATS/1.0\r\n%b\r\n" % lines, _KEY)


@pytest.mark.parametrize(
    "name", [b"Nats-Msg-Size", b"NATS-MSG-SIZE", b"x-nats-msg-size", b"Nats-Msg-Size-Too"]
)
def test_a_block_with_the_key_is_not(name: bytes) -> None:
    assert not is_sound(b"NATS/1.0\r\nA: b\r\n%b: 1\r\nC: d\r\n\r\n" % name, _KEY)
    assert not is_sound(b"NATS/1.0\r\n%b\r\n\r\n" % name, _KEY)


def test_it_is_what_a_naive_search_finds() -> None:
    chance = Random(4)
    for _ in range(5_000):
        pieces = b"".join(chance.choices(_PIECES, k=chance.randrange(6)))
        for block in (b"NATS/1.0\r\n%b\r\n\r\n" % pieces, b"NATS/1.0%b" % pieces, pieces):
            assert is_sound(block, _KEY) == naive(block), block
