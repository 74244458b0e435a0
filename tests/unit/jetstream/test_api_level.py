"""Levels of the API are numbers as Go reads them."""

import pytest

from millstream.jetstream.api_requests import beyond_ours
from millstream.protocol import headers


def block(level: bytes) -> bytes:
    return headers.make((b"Nats-Required-Api-Level", level))


@pytest.mark.parametrize(
    "level", [b"0", b"5", b"+5", b"-1", b"05", b"0" * 5000 + b"5", b"-9223372036854775808"]
)
def test_a_level_that_we_have(level: bytes) -> None:
    assert not beyond_ours(block(level))


@pytest.mark.parametrize(
    "level",
    [b"6", b"+6", b"five", b"5.0", b"0x5", b"5_0", b"9" * 5000, b"-9223372036854775809", "\u0665".encode()],
)
def test_a_level_that_we_have_not(level: bytes) -> None:
    assert beyond_ours(block(level))


def test_most_requests_do_not_ask() -> None:
    assert not beyond_ours(b"")
    assert not beyond_ours(headers.make((b"Other", b"9")))
