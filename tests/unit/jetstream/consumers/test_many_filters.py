"""Streams with very many consumers, each with a filter: what concerns a few does not visit all."""

from __future__ import annotations

from typing import Any

import pytest

from millstream.jetstream.consumers.config import check_new
from millstream.jetstream.consumers.config_defaults import ConsumerLimits
from millstream.jetstream.consumers.config_sharing import CheckedConfigs
from millstream.jsapi.consumer_types import ConsumerConfig
from millstream.jsapi.enums import AckPolicy, RetentionPolicy
from millstream.jsapi.errors import ApiError, Err
from millstream.jsapi.stream_types import StreamConfig
from tests.kits.jetstream.stream import Site

MANY = 300


def create(site: Site, name: str, **config: Any) -> dict[str, Any]:
    body = {"stream_name": "S", "config": {"durable_name": name, "ack_policy": "explicit", **config}}
    answer: dict[str, Any] = site.ask(f"CONSUMER.DURABLE.CREATE.S.{name}", body)
    return answer


def test_a_purge_of_a_subject_visits_the_consumers_that_may_get_it() -> None:
    site = Site()
    site.create()
    for number in range(MANY):
        create(site, f"C{number}", filter_subject=f"s.{number}")
        site.publish(f"s.{number}")
    create(site, "all")
    create(site, "some", filter_subjects=["s.7", "s.8"])
    visited = site.account.streams["S"].consumers.interest.touched_by(b"s.7")
    assert sorted(consumer.name for consumer in visited) == ["C7", "all", "some"]
    assert site.ask("STREAM.PURGE.S", {"filter": "s.7"})["purged"] == 1
    left = {name: site.ask(f"CONSUMER.INFO.S.{name}")["num_pending"] for name in ("C6", "C7", "all", "some")}
    assert left == {"C6": 1, "C7": 0, "all": MANY - 1, "some": 1}


def test_a_work_queue_gives_each_subject_to_one_of_many_consumers() -> None:
    site = Site()
    site.create(retention="workqueue")
    for number in range(MANY):
        assert "error" not in create(site, f"C{number}", filter_subject=f"s.{number}")
    taken = Err.WORKQUEUE_CONSUMER_NOT_UNIQUE.value[1]
    for filters in (["s.7"], ["s.*"], ["s.x", "s.299"], [">"]):
        assert create(site, "late", filter_subjects=filters)["error"]["err_code"] == taken
    assert "error" not in create(site, "C7", filter_subject="s.7", description="updated")
    assert create(site, "C7", filter_subject="s.8")["error"]["err_code"] == taken
    site.ask("CONSUMER.DELETE.S.C8")
    assert "error" not in create(site, "C7", filter_subject="s.8")
    assert "error" not in create(site, "late", filter_subject="s.7")


def test_restored_consumers_are_not_compared_with_each_other() -> None:
    stream = StreamConfig(name="S", subjects=["s.>"], retention=RetentionPolicy.WORKQUEUE)
    checked = CheckedConfigs()
    compared = []
    for number in range(MANY):
        config = ConsumerConfig(
            durable_name=f"C{number}", ack_policy=AckPolicy.EXPLICIT, filter_subject=f"s.{number}"
        )
        new = check_new(config, stream, checked, ConsumerLimits(), counted=checked.counted)
        checked.add(f"C{number}", new)
        compared.append(len([*checked.sharing(f"s.{number}".encode())]))
    assert compared == [1] * MANY
    assert checked.counted == MANY
    with pytest.raises(ApiError):
        check_new(
            ConsumerConfig(durable_name="D", ack_policy=AckPolicy.EXPLICIT, filter_subject="s.*"),
            stream,
            checked,
            ConsumerLimits(),
            counted=checked.counted,
        )
