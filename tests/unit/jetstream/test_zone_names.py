"""A time zone's name from a message's headers is looked up only if it can be one."""

import pytest

from millstream.jetstream.publish.cron import zone_of


@pytest.mark.parametrize(
    "name", ["Europe/Berlin", "America/Argentina/Buenos_Aires", "Etc/GMT+10", "EST5EDT", "UTC"]
)
def test_real_zones_are_found(name: str) -> None:
    assert zone_of(name) is not None


@pytest.mark.parametrize(
    "name",
    ["a/" * 3000 + "a", "Europe" + "/x" * 30_000, "../etc/passwd", "Europe/Ber lin", "\0", "x" * 100_000, ""],
)
def test_what_can_be_no_zone_is_none(name: str) -> None:
    assert zone_of(name) is None
