"""Order by key: which messages go out, what is refused, and how little is remembered."""

from __future__ import annotations

import pytest

from millstream.jetstream.consumers.key_order import narrowed
from tests.kits.jetstream.letters import LetterSite

PER_KEY = "millstream.max_ack_pending_per_subject"


def site_with(*subjects: str, limit: str = "1", **fields: object) -> LetterSite:
    site = LetterSite()
    site.stream("ORDERS", "orders.>")
    metadata = {PER_KEY: limit, **fields.pop("more", {})}  # type: ignore[dict-item]
    assert "error" not in site.consumer(metadata=metadata, max_deliver=-1, **fields)
    for number, subject in enumerate(subjects):
        site.world.send(f"orders.{subject}".encode(), b"%s%d" % (subject.encode(), number))
    site.world.settle()
    return site


def test_one_message_of_each_key_is_in_flight() -> None:
    site = site_with("a", "a", "b", "a", "c")
    first = site.take(10)
    assert [payload for payload, _ in first] == [b"a0", b"b2", b"c4"]
    assert site.info()["num_pending"] == 2
    assert site.take(10) == []
    site.say(first[0][1], b"+ACK")
    ((payload, ack),) = site.take(10)
    assert payload == b"a1"
    site.say(ack, b"-NAK")
    assert [payload for payload, _ in site.take(10)] == [b"a1"]  # before a3


def test_the_key_is_a_token() -> None:
    site = site_with("x.a", "y.a", "x.b", more={"millstream.key_token": "2"})
    assert [payload for payload, _ in site.take(10)] == [b"x.a0", b"y.a1"]


def test_memory_does_not_grow_with_parked_messages() -> None:
    site = site_with(*["hot"] * 2000, *map(str, range(300)), max_ack_pending=50)
    feed = site.account.streams["ORDERS"].consumers["c"].feed
    assert len(site.take(50)) == 50
    assert feed.keys is not None
    assert len(feed.keys) == 50
    assert len(site.account.streams["ORDERS"].consumers["c"].ledger.heads()) == 1


@pytest.mark.parametrize(
    ("metadata", "fields", "problem"),
    [
        ({PER_KEY: "0"}, {}, f"{PER_KEY} must be a number from 1 on"),
        ({PER_KEY: "many"}, {}, f"{PER_KEY} must be a number from 1 on"),
        ({"millstream.key_token": "1"}, {}, f"millstream.key_token needs {PER_KEY}"),
        (
            {PER_KEY: "1"},
            {"ack_policy": "all"},
            f"{PER_KEY} needs the ack policy explicit and max_ack_pending",
        ),
        (
            {PER_KEY: "1"},
            {"replay_policy": "original"},
            f"{PER_KEY} excludes the policies last_per_subject and original",
        ),
        (
            {PER_KEY: "1", "millstream.key_token": "3"},
            {"filter_subject": "orders.*"},
            "millstream.key_token: not every subject has 3 tokens",
        ),
    ],
)
def test_what_cannot_work_is_refused(metadata: dict[str, str], fields: dict[str, str], problem: str) -> None:
    site = LetterSite()
    site.stream("ORDERS", "orders.>")
    assert site.consumer(metadata=metadata, **fields)["error"]["description"] == problem


def test_an_update_may_change_the_number_alone() -> None:
    site = site_with("a", "a", "a")
    assert len(site.take(1)) == 1
    answer = site.consumer(metadata={}, max_deliver=-1)
    assert answer["error"]["description"] == f"{PER_KEY} can not be set or removed by an update"
    assert "error" in site.consumer(metadata={PER_KEY: "1"}, filter_subject="orders.a", max_deliver=-1)
    assert "error" not in site.consumer(metadata={PER_KEY: "2"}, max_deliver=-1)
    assert [payload for payload, _ in site.take(5)] == [b"a1"]


def test_patterns_of_a_key() -> None:
    assert narrowed(b"a.*.c", 1, b"k") == [b"a.k.c"]
    assert narrowed(b"a.>", 2, b"k") == [b"a.*.k", b"a.*.k.>"]
    assert narrowed(b"a.b.c", 1, b"k") == []
    assert narrowed(b">", 0, b"k") == [b"k", b"k.>"]
