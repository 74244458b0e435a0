"""Clients that do not keep up: they wait, and nobody else does."""

from typing import Any

import pytest

from millstream.jetstream.ports import MessageLimits
from tests.kits.jetstream.stream import Site

PULL = b"$JS.API.CONSUMER.MSG.NEXT.S.c"
HALF_A_MEGABYTE = bytes(512 * 1024)


class Counted(set[bytes]):
    """Counts how often somebody looks."""

    looks = 0

    def __contains__(self, each: object) -> bool:
        self.looks += 1
        return super().__contains__(each)


@pytest.fixture
def site() -> Site:
    site = Site()
    site.create(subjects=["a"])
    return site


def consumer(site: Site, **config: Any) -> None:
    config = {"durable_name": "c", "ack_policy": "none", **config}
    site.ask("CONSUMER.CREATE.S.c", {"stream_name": "S", "config": config})


def publish(site: Site, *payloads: bytes) -> None:
    for payload in payloads:
        site.world.send(b"a", payload)
    site.world.settle()


def receivers(site: Site) -> list[bytes]:
    return [each.to for each in site.world.delivered]


@pytest.mark.compiled
def test_a_large_batch_is_given_out_in_parts_so_that_its_client_can_fall_behind(site: Site) -> None:
    consumer(site)
    publish(site, *[HALF_A_MEGABYTE] * 8)
    site.world.send(PULL, b"8", reply=b"me")
    first = len(receivers(site))
    assert 0 < first < 8
    site.world.behind.add(b"me")
    site.world.settle()
    assert len(receivers(site)) == first
    site.world.behind.clear()
    site.world.advance(1)
    assert len(receivers(site)) == 8


@pytest.mark.compiled
def test_a_message_that_is_larger_than_a_part_is_given_out(site: Site) -> None:
    consumer(site)
    site.world.limits = MessageLimits(payload=8 * 1024 * 1024, subject=4096)
    publish(site, HALF_A_MEGABYTE * 3, HALF_A_MEGABYTE * 3)
    site.world.send(PULL, b"2", reply=b"me")
    site.world.settle()
    assert len(receivers(site)) == 2


def test_a_client_that_is_behind_leaves_its_turn_to_others(site: Site) -> None:
    consumer(site)
    site.world.behind.add(b"slow")
    site.world.send(PULL, b"2", reply=b"slow")
    site.world.send(PULL, b"2", reply=b"quick")
    publish(site, b"1", b"2", b"3", b"4")
    assert receivers(site) == [b"quick", b"quick"]
    site.world.send(PULL, b"1", reply=b"late")
    assert receivers(site) == [b"quick", b"quick", b"late"]
    site.world.behind.clear()
    site.world.advance(1)
    assert receivers(site) == [b"quick", b"quick", b"late", b"slow"]


@pytest.mark.parametrize("config", [{}, {"deliver_subject": "me"}], ids=["pull", "push"])
def test_a_client_that_stays_behind_is_looked_at_less_and_less_often(site: Site, config: Any) -> None:
    site.world.behind = looked = Counted([b"me"])
    consumer(site, **config)
    site.world.send(PULL, b"1", reply=b"me")
    publish(site, b"1")
    site.world.advance(1)
    assert receivers(site) == []
    assert looked.looks < 60
    looked.clear()
    site.world.advance(0.1)
    assert receivers(site) == [b"me"]
