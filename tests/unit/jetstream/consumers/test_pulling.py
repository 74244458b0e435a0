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


def test_requests_expire_while_the_original_pace_is_kept() -> None:
    site = Site()
    site.create(subjects=["a"])
    for pause_s in (100, 0):
        site.world.send(b"a", b"x")
        site.world.settle()
        site.world.advance(pause_s)
    consumer(site, replay_policy="original")
    ask_together(site, (b"first", b'{"batch":2,"expires":1000000000}'))
    site.world.advance(2)
    ask_together(site, (b"second", b'{"batch":1,"expires":5000000000,"idle_heartbeat":2000000000}'))
    before = len(site.world.published)
    site.world.advance(6)
    told = [each.headers.splitlines()[0] for each in site.world.published[before:] if each.headers]
    assert told == [b"NATS/1.0 100 Idle Heartbeat"] * 2 + [b"NATS/1.0 408 Request Timeout"]
