"""Pull requests and their deliveries, seen from the clients that send them."""

from typing import Any

import pytest

from tests.kits.jetstream.stream import Site


def ask_together(site: Site, *bodies: tuple[bytes, bytes]) -> list[bytes]:
    """Requests that come in one read, as (inbox, body); where the messages went."""
    for inbox, body in bodies:
        site.world.send(b"$JS.API.CONSUMER.MSG.NEXT.S.c", body, reply=inbox)
    site.world.settle()
    return [each.to for each in site.world.delivered]


@pytest.fixture
def site() -> Site:
    site = Site()
    site.create(subjects=["a"])
    for _ in range(3):
        site.world.send(b"a", b"x")
    site.world.settle()
    return site


def consumer(site: Site, **config: Any) -> None:
    config = {"durable_name": "c", "ack_policy": "none", **config}
    site.ask("CONSUMER.CREATE.S.c", {"stream_name": "S", "config": config})


def test_requests_that_come_together_are_served_by_priority(site: Site) -> None:
    consumer(site, priority_policy="prioritized", priority_groups=["A"])
    low = b'{"batch":2,"group":"A","priority":1,"expires":5000000000}'
    high = b'{"batch":2,"group":"A","priority":0,"expires":5000000000}'
    assert ask_together(site, (b"low", low), (b"high", high)) == [b"high", b"high", b"low"]


def test_requests_of_equal_right_are_served_in_turn(site: Site) -> None:
    consumer(site)
    body = b'{"batch":2,"expires":5000000000}'
    assert ask_together(site, (b"first", body), (b"second", body)) == [b"first", b"first", b"second"]
