"""A bounded run of the fuzz targets, so that they are known to work."""

import pytest
from fuzz_parser import check, run_random


def test_the_parsers_agree_on_random_streams() -> None:
    run_random(runs=4000, seed=1)


@pytest.mark.soak
@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", range(2, 6))
def test_the_parsers_agree_on_very_many_random_streams(seed: int) -> None:
    run_random(runs=300_000, seed=seed)


@pytest.mark.parametrize(
    "data", [b"", b"\x00", b"\x00\x00\x00", b"\xff" * 100, b"\x3f\x00\x00PUB foo 1\r\nx\r\n"]
)
def test_any_input_is_an_input(data: bytes) -> None:
    check(data)
