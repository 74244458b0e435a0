"""Answers that are made in pieces are the same as if they had been encoded at once."""

from __future__ import annotations

import json
from typing import Any

import pytest

from millstream.base import slices
from millstream.base.slices import finish
from millstream.jetstream.long_answers import listed, numbered
from millstream.jsapi.codec import encode
from millstream.jsapi.responses import ConsumerListResponse, StreamListResponse
from tests.kits.jetstream.stream import Site


def sites() -> Site:
    site = Site()
    for number in range(30):
        name = f"S{number * 7 % 30}"
        site.create(name, subjects=[f"{name}.>"], description='"streams":[] <&>', metadata={"streams": "[]"})
    for number in range(30):
        config = {
            "durable_name": f"d{number * 11 % 30}",
            "ack_policy": "explicit",
            "description": '"consumers":[]',
        }
        site.ask(
            f"CONSUMER.DURABLE.CREATE.S3.{config['durable_name']}", {"stream_name": "S3", "config": config}
        )
    return site


def test_a_list_has_the_same_text() -> None:
    site = sites()
    consumers = [each.info() for each in site.account.streams["S3"].consumers.values()]
    answer = ConsumerListResponse(total=30, offset=0, limit=256)
    whole = encode(ConsumerListResponse(total=30, offset=0, limit=256, consumers=consumers))
    assert finish(listed(answer, "consumers", [None, *consumers, None])).text == whole
    empty = StreamListResponse(total=0, offset=0, limit=256)
    assert finish(listed(empty, "streams", [])).text == encode(empty)


@pytest.mark.parametrize("most", [1, 20, 1024])
def test_lists_are_sorted_and_paged_whatever_a_slice_holds(
    most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slices, "MOST_ITEMS", most)
    site = sites()
    streams = sorted(f"S{number}" for number in range(30))
    consumers = sorted(f"d{number}" for number in range(30))

    def ask(endpoint: str, **body: Any) -> dict[str, Any]:
        return site.ask(endpoint, body)

    for offset in (0, 7, 29, 30, 99):
        at = min(offset, 30)
        for endpoint, field, expected in (
            ("STREAM.NAMES", "streams", streams),
            ("CONSUMER.NAMES.S3", "consumers", consumers),
        ):
            answer = ask(endpoint, offset=offset)
            assert (answer["total"], answer["offset"]) == (30, at)
            assert (answer[field] or []) == expected[offset:]
        listing = ask("STREAM.LIST", offset=offset)
        assert [each["config"]["name"] for each in listing["streams"]] == streams[offset:]
        listing = ask("CONSUMER.LIST.S3", offset=offset)
        assert [each["name"] for each in listing["consumers"]] == consumers[offset:]
    assert ask("STREAM.NAMES", subject="S3.>")["streams"] == ["S3"]


def test_streams_and_consumers_may_go_while_they_are_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slices, "MOST_ITEMS", 1)
    site = sites()
    site.world.send(b"$JS.API.STREAM.LIST", b"", reply=b"streams")
    site.world.send(b"$JS.API.CONSUMER.LIST.S3", b"", reply=b"consumers")
    for subject in (b"CONSUMER.DELETE.S3.d5", b"STREAM.DELETE.S7", b"STREAM.DELETE.S9"):
        site.world.send(b"$JS.API." + subject, b"", reply=b"me")
    site.world.settle()
    listing = json.loads(site.sent(b"streams")[0].payload)
    assert listing["total"] == 30
    assert {"S7", "S9"}.isdisjoint(each["config"]["name"] for each in listing["streams"])
    listing = json.loads(site.sent(b"consumers")[0].payload)
    assert len(listing["consumers"]) == 29


def test_numbers_are_a_list() -> None:
    assert finish(numbered([])) == b""
    numbers = list(range(5000))
    assert json.loads(b"[%b]" % finish(numbered(numbers))) == numbers
