"""Compression of links: what the ends agree on, and that everything arrives, with servers of both kinds."""

import os

import pytest

from tests.kits.leaf import PAIR_NAMES, PAIRS, Linked, client, leafz, linked
from tests.kits.reference import ServerKind
from tests.kits.server.monitor import eventually
from tests.kits.wire import WireClient

Kinds = tuple[ServerKind, ServerKind]
both_ways = pytest.mark.parametrize("kinds", PAIRS, ids=PAIR_NAMES)


def modes(pair: Linked) -> tuple[str, str]:
    """Return what the hub and the spoke say about the link."""
    [hub], [spoke] = leafz(pair.hub)["leafs"], leafz(pair.spoke)["leafs"]
    return hub["compression"], spoke["compression"]


@both_ways
@pytest.mark.parametrize(
    ("hub", "spoke", "agreed"),
    [
        ("{ rtt: [30s] }", "{ mode: auto, rtts: [30s, 60s] }", ("s2_uncompressed", "s2_uncompressed")),
        ("s2_fast", "best", ("s2_fast", "s2_best")),
        ("s2_better", "accept", ("s2_better", "s2_better")),
        ("accept", "s2_better", ("s2_better", "s2_better")),
        ("accept", "accept", ("off", "off")),
        ("off", "s2_fast", ("off", "off")),
        ("true", "off", ("off", "off")),
        ("not_supported", "s2_fast", ("not supported", "not supported")),
        ("{ mode: auto, rtts: [0s, 0s, 30s] }", "{ mode: auto, rtts: [0s, 10s] }", ("s2_better", "s2_fast")),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_the_ends_agree_on(kinds: Kinds, hub: str, spoke: str, agreed: tuple[str, str]) -> None:
    with linked(kinds, hub_leaf=f"compression: {hub}", remote=f"compression: {spoke}") as pair:
        assert modes(pair) == agreed
        with client(pair.hub) as far, client(pair.spoke) as near:
            exchange(pair, far, near)


def exchange(pair: Linked, far: WireClient, near: WireClient) -> None:
    """Send messages of many sizes both ways: those that can be packed, and those that cannot."""
    for wire, other, server in ((far, near, pair.spoke), (near, far, pair.hub)):
        wire.round_trip(b"SUB x 1\r\n")
        pair.until_asked(server, "x")
        for size in (0, 10, 5_000, 300_000, 1_000_000):
            for payload in (b"some words " * (size // 11), os.urandom(size)):
                other.send(b"PUB x %d\r\n%b\r\n" % (len(payload), payload))
                frame = b"MSG x 1 %d\r\n%b\r\n" % (len(payload), payload)
                assert wire.read_exactly(len(frame)) == frame
        wire.round_trip(b"UNSUB 1\r\n")
        pair.until_not_asked(server, "x")


@both_ways
def test_packing_follows_the_round_trip(kinds: Kinds) -> None:
    """The first choice is a guess; a ping tells the round trip."""
    auto = "compression: { mode: s2_auto, rtt_thresholds: [0s, 0s, 0s, 1ns] }"
    with linked(kinds, hub_leaf=auto, remote=auto) as pair:
        eventually(lambda: modes(pair) == ("s2_best", "s2_best"))


@both_ways
def test_thousands_of_subscriptions_when_the_link_begins(kinds: Kinds) -> None:
    """The hub's confirmation may come with all of them in one block."""
    subjects = [f"a.long.subject.of.many.tokens.{number}" for number in range(5000)]
    with linked(kinds, hub_leaf="compression: s2_fast", links=0) as pair, client(pair.hub) as far:
        far.round_trip("".join(f"SUB {subject} {at}\r\n" for at, subject in enumerate(subjects)).encode())
        pair.spoke.restart()
        pair.until_ready()
        eventually(lambda: leafz(pair.spoke)["leafs"][0]["subscriptions"] >= len(subjects))
