"""Advisories about a consumer: their receivers and their fields."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from millstream.golang.time import Time
from millstream.jetstream.advisories import Advisories, ConsumerAdvisories
from tests.kits.fake_world import FakeWorld

NAMES = {"stream": "S", "consumer": "c"}
OF_MESSAGES = {"consumer_seq": 3, "stream_seq": 7, "deliveries": 2}
EVENTS: list[tuple[str, str, Callable[[ConsumerAdvisories], None], dict[str, Any]]] = [
    (
        "ADVISORY.CONSUMER.CREATED",
        "advisory.v1.consumer_action",
        lambda told: told.created(),
        {"action": "create"},
    ),
    (
        "ADVISORY.CONSUMER.DELETED",
        "advisory.v1.consumer_action",
        lambda told: told.deleted(),
        {"action": "delete"},
    ),
    (
        "ADVISORY.CONSUMER.PAUSE",
        "advisory.v1.consumer_pause",
        lambda told: told.paused(Time(0), paused=True),
        {"paused": True, "pause_until": "1970-01-01T00:00:00Z"},
    ),
    (
        "ADVISORY.CONSUMER.PAUSE",
        "advisory.v1.consumer_pause",
        lambda told: told.paused(None, paused=False),
        {"paused": False, "pause_until": "0001-01-01T00:00:00Z"},
    ),
    (
        "ADVISORY.CONSUMER.MAX_DELIVERIES",
        "advisory.v1.max_deliver",
        lambda told: told.max_deliveries(7, 2),
        {"stream_seq": 7, "deliveries": 2},
    ),
    ("ADVISORY.CONSUMER.MSG_NAKED", "advisory.v1.nak", lambda told: told.naked(3, 7, 2), OF_MESSAGES),
    (
        "ADVISORY.CONSUMER.MSG_TERMINATED",
        "advisory.v1.terminated",
        lambda told: told.terminated(3, 7, 2),
        OF_MESSAGES,
    ),
    (
        "ADVISORY.CONSUMER.MSG_TERMINATED",
        "advisory.v1.terminated",
        lambda told: told.terminated(3, 7, 2, "bad"),
        {**OF_MESSAGES, "reason": "bad"},
    ),
    (
        "METRIC.CONSUMER.ACK",
        "metric.v1.consumer_ack",
        lambda told: told.acked(3, 7, 99, 2),
        {**OF_MESSAGES, "ack_time": 99},
    ),
    (
        "ADVISORY.CONSUMER.PINNED",
        "advisory.v1.consumer_group_pinned",
        lambda told: told.pinned("A", "id"),
        {"account": "acc", "group": "A", "pinned_id": "id"},
    ),
    (
        "ADVISORY.CONSUMER.UNPINNED",
        "advisory.v1.consumer_group_unpinned",
        lambda told: told.unpinned("A", "admin"),
        {"account": "acc", "group": "A", "reason": "admin"},
    ),
]


@pytest.mark.parametrize(("subject", "kind", "tell", "fields"), EVENTS)
@pytest.mark.parametrize("domain", ["", "hub"])
def test_those_who_listen_are_told(
    subject: str, kind: str, tell: Callable[[ConsumerAdvisories], None], fields: dict[str, Any], domain: str
) -> None:
    world = FakeWorld()
    world.heard.append(f"$JS.EVENT.{subject}.S.c".encode())
    tell(Advisories(world, account="acc", domain=domain).of_consumer("S", "c"))
    (event,) = world.published
    told = json.loads(event.payload)
    assert event.subject == f"$JS.EVENT.{subject}.S.c".encode()
    assert told.pop("type") == f"io.nats.jetstream.{kind}"
    assert told.pop("id")
    assert told.pop("timestamp").startswith("2023-11-14T")
    assert told == NAMES | fields | ({"domain": domain} if domain else {})


@pytest.mark.parametrize(("subject", "kind", "tell", "fields"), EVENTS)
def test_nothing_is_sent_to_nobody(
    subject: str, kind: str, tell: Callable[[ConsumerAdvisories], None], fields: dict[str, Any]
) -> None:
    world = FakeWorld()
    world.heard.append(b"$JS.EVENT.*.CONSUMER.*.S.other")
    tell(Advisories(world, account="acc").of_consumer("S", "c"))
    assert world.published == []
