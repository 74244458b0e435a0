"""A purge that comes before a deletion is durable: consumers learn of both."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.kits.jetstream.stream import Site


@pytest.mark.parametrize("filter_subject", ["", "s.1"])
@pytest.mark.parametrize("purge", [{"seq": 3}, {"keep": 3}, {"filter": "s.1", "seq": 3}])
def test_a_deleted_message_behind_those_that_were_purged_is_settled(
    purge: dict[str, Any], filter_subject: str
) -> None:
    site = Site()
    site.create()
    config = {"durable_name": "C", "ack_policy": "explicit", "filter_subject": filter_subject}
    site.ask("CONSUMER.DURABLE.CREATE.S.C", {"stream_name": "S", "config": config})
    for _ in range(6):
        site.publish("s.1")
    site.world.send(b"$JS.API.CONSUMER.MSG.NEXT.S.C", b"6", reply=b"_INBOX.me")
    site.world.settle()
    assert site.ask("CONSUMER.INFO.S.C")["num_ack_pending"] == 6
    requests = (("STREAM.MSG.DELETE.S", {"seq": 5, "no_erase": True}), ("STREAM.PURGE.S", purge))
    for endpoint, body in requests:  # at once, so that the second is there before the first is durable
        place = f"$JS.API.{endpoint}".encode()
        site.world.send(place, json.dumps(body).encode(), reply=b"_INBOX.x")
    site.world.settle()
    left = site.state()["messages"]
    assert left in (2, 3)
    assert site.ask("CONSUMER.INFO.S.C")["num_ack_pending"] == left
