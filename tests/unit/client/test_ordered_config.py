"""Settings of an ordered consumer, one by one."""

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from millstream.client.config import StartAt, ordered_config
from millstream.client.errors import Check, OrderedConfigError
from millstream.golang.time import Time, parse_time
from millstream.jsapi.consumer_types import ConsumerConfig
from millstream.jsapi.enums import AckPolicy, DeliverPolicy, PriorityPolicy, ReplayPolicy

HOURS_22 = 22 * 3600 * 10**9
SECONDS_5 = 5 * 10**9


def complete(**fields: Any) -> ConsumerConfig:
    """Return the defaults of an ordered consumer with `fields`."""
    return ConsumerConfig(
        **{
            "ack_policy": AckPolicy.NONE,
            "max_deliver": 1,
            "flow_control": True,
            "mem_storage": True,
            "num_replicas": 1,
            "idle_heartbeat": SECONDS_5,
            "ack_wait": HOURS_22,
            **fields,
        }
    )


@pytest.mark.parametrize("said", [None, {}, ConsumerConfig()])
def test_everything_needed_is_set_without_being_said(said: Any) -> None:
    assert ordered_config(said) == complete()


@pytest.mark.parametrize(
    "said",
    [
        {"ack_policy": "none"},
        {"ack_policy": AckPolicy.NONE},
        {"max_deliver": 1},
        {"flow_control": True},
        {"mem_storage": True},
        {"durable_name": "", "num_replicas": 0, "deliver_subject": None, "description": None},
        ConsumerConfig(max_deliver=1, flow_control=True, mem_storage=True),
    ],
)
def test_a_value_that_is_set_anyway_may_be_said(said: Any) -> None:
    assert ordered_config(said) == complete()


@pytest.mark.parametrize(
    ("said", "check"),
    [
        ({"durable_name": "d"}, Check.DURABLE_NAME),
        ({"deliver_subject": "s"}, Check.DELIVER_SUBJECT),
        ({"ack_policy": "explicit"}, Check.ACK_POLICY),
        ({"ack_policy": AckPolicy.ALL}, Check.ACK_POLICY),
        ({"max_deliver": 2}, Check.MAX_DELIVER),
        ({"max_deliver": -1}, Check.MAX_DELIVER),
        ({"flow_control": False}, Check.FLOW_CONTROL),
        ({"mem_storage": False}, Check.MEM_STORAGE),
        ({"num_replicas": 1}, Check.NUM_REPLICAS),
        ({"num_replicas": 3}, Check.NUM_REPLICAS),
        ({"deliver_group": "workers"}, Check.DELIVER_GROUP),
        ({"name": "existing"}, Check.BIND),
        ({"direct": True}, Check.DIRECT),
        ({"sourcing": True}, Check.DIRECT),
        ({"max_waiting": 5}, Check.PULL),
        ({"max_batch": 5}, Check.PULL),
        ({"max_expires": 5}, Check.PULL),
        ({"max_bytes": 5}, Check.PULL),
        ({"priority_groups": ["A"]}, Check.PULL),
        ({"priority_policy": "overflow"}, Check.PULL),
        (ConsumerConfig(durable_name="d"), Check.DURABLE_NAME),
        (ConsumerConfig(ack_policy=AckPolicy.EXPLICIT), Check.ACK_POLICY),
        (ConsumerConfig(num_replicas=1), Check.NUM_REPLICAS),
        (ConsumerConfig(priority_policy=PriorityPolicy.OVERFLOW), Check.PULL),
    ],
)
def test_what_an_ordered_consumer_can_not_be_is_refused_with_its_own_error(said: Any, check: Check) -> None:
    with pytest.raises(OrderedConfigError) as refusal:
        ordered_config(said)
    assert refusal.value.check is check
    assert refusal.value.field in str(refusal.value)
    assert check.value in str(refusal.value)


def test_every_check_has_its_own_text() -> None:
    assert len({check.value for check in Check}) == len(Check)


@pytest.mark.parametrize(
    ("said", "problem"),
    [
        ({"flow": True}, 'unknown field "flow"'),
        ({"idle_heartbeat": "soon"}, "idle_heartbeat"),
        ({"metadata": object()}, "object is no part"),
    ],
)
def test_a_configuration_that_can_not_be_read_is_refused(said: Any, problem: str) -> None:
    with pytest.raises(OrderedConfigError, match=problem) as refusal:
        ordered_config(said)
    assert refusal.value.check is Check.UNREADABLE


def test_heartbeats_may_be_set_and_the_ack_wait_is_long_whatever_was_said() -> None:
    assert ordered_config({"idle_heartbeat": 10**9, "ack_wait": 1}) == complete(idle_heartbeat=10**9)
    assert ordered_config(heartbeat_s=0.25) == complete(idle_heartbeat=250_000_000)


@pytest.mark.parametrize(
    ("arguments", "fields"),
    [
        ({"subjects": ">"}, {}),
        ({"subjects": ["a.>"]}, {"filter_subject": "a.>"}),
        ({"subjects": "a.>"}, {"filter_subject": "a.>"}),
        ({"subjects": ("a", "b")}, {"filter_subjects": ["a", "b"]}),
        ({"headers_only": True}, {"headers_only": True}),
        ({"replay": ReplayPolicy.ORIGINAL}, {"replay_policy": ReplayPolicy.ORIGINAL}),
        ({"start": StartAt.NEW}, {"deliver_policy": DeliverPolicy.NEW}),
        ({"start": StartAt.LAST}, {"deliver_policy": DeliverPolicy.LAST}),
        (
            {"start": StartAt.by_sequence(7)},
            {"deliver_policy": DeliverPolicy.BY_START_SEQUENCE, "opt_start_seq": 7},
        ),
        (
            {"start": StartAt.by_time(datetime(2026, 1, 1, 12, microsecond=5, tzinfo=UTC))},
            {
                "deliver_policy": DeliverPolicy.BY_START_TIME,
                "opt_start_time": parse_time("2026-01-01T12:00:00.000005Z"),
            },
        ),
        (
            {"start": StartAt.LAST_PER_SUBJECT},
            {"deliver_policy": DeliverPolicy.LAST_PER_SUBJECT, "filter_subject": ">"},
        ),
        (
            {"start": StartAt.LAST_PER_SUBJECT, "subjects": ["a", "b"]},
            {"deliver_policy": DeliverPolicy.LAST_PER_SUBJECT, "filter_subjects": ["a", "b"]},
        ),
    ],
)
def test_arguments_become_fields(arguments: dict[str, Any], fields: dict[str, Any]) -> None:
    assert ordered_config(**arguments) == complete(**fields)


def test_fields_that_do_not_matter_to_the_order_are_the_users() -> None:
    said: dict[str, Any] = {
        "description": "d",
        "metadata": {"k": "v"},
        "inactive_threshold": 10**10,
        "rate_limit_bps": 1000,
        "opt_start_time": Time(0),
        "deliver_policy": "by_start_time",
        "filter_subjects": ["a", "b"],
    }
    expected = complete(**{**said, "deliver_policy": DeliverPolicy.BY_START_TIME})
    assert ordered_config(said) == expected


@pytest.mark.parametrize(
    ("said", "arguments"),
    [
        ({"filter_subject": "a"}, {"subjects": "b"}),
        ({"deliver_policy": "new"}, {"start": StartAt.LAST}),
        ({"opt_start_seq": 5}, {"start": StartAt.by_sequence(5)}),
        ({"idle_heartbeat": 10**9}, {"heartbeat_s": 1.0}),
        ({"headers_only": True}, {"headers_only": True}),
        ({"replay_policy": "original"}, {"replay": ReplayPolicy.ORIGINAL}),
    ],
)
def test_nothing_can_be_said_twice(said: dict[str, Any], arguments: dict[str, Any]) -> None:
    with pytest.raises(OrderedConfigError) as refusal:
        ordered_config(said, **arguments)
    assert refusal.value.check is Check.GIVEN_TWICE


def test_a_start_must_be_a_place_in_a_stream() -> None:
    with pytest.raises(ValueError, match="start at 1"):
        StartAt.by_sequence(0)
    with pytest.raises(ValueError, match="time zone"):
        StartAt.by_time(datetime(2026, 1, 1))
    east = datetime(2026, 1, 1, 2, tzinfo=timezone(timedelta(hours=2)))
    assert StartAt.by_time(east) == StartAt.by_time(datetime(2026, 1, 1, tzinfo=UTC))
