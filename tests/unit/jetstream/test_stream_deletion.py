"""Deleting a stream with many consumers, which end in slices."""

from __future__ import annotations

import json
from typing import Any

import pytest

from millstream.jetstream.ports import ClientRequest
from millstream.store.errors import StoreError
from tests.kits.fake_world import FakeRequester
from tests.kits.jetstream.stream import Site

COUNT = 200  # consumers, more than one slice ends


@pytest.fixture
def site() -> Site:
    site = Site()
    site.create()
    for number in range(COUNT):
        config = {"durable_name": f"d{number}", "ack_policy": "explicit"}
        site.ask(f"CONSUMER.DURABLE.CREATE.S.d{number}", {"stream_name": "S", "config": config})
    site.publish("s.1")
    return site


def send(site: Site, endpoint: str, body: Any = b"") -> None:
    """Send a request and do not wait for its answer, which goes to an inbox of its own."""
    text = body if isinstance(body, bytes) else json.dumps(body).encode()
    site.world.send(f"$JS.API.{endpoint}".encode(), text, reply=b"_INBOX." + endpoint.encode())


def answers(site: Site, endpoint: str) -> list[dict[str, Any]]:
    return [json.loads(each.payload) for each in site.sent(b"_INBOX." + endpoint.encode())]


def pull(site: Site, name: str) -> None:
    body = b'{"batch":1,"expires":60000000000}'
    site.world.send(f"$JS.API.CONSUMER.MSG.NEXT.S.{name}".encode(), body, reply=f"_INBOX.{name}".encode())


def test_the_answer_comes_when_all_consumers_have_ended(site: Site) -> None:
    send(site, "STREAM.DELETE.S")
    assert 0 < len(site.account.streams["S"].consumers) < COUNT
    assert answers(site, "STREAM.DELETE.S") == []
    site.world.settle()
    assert [each["success"] for each in answers(site, "STREAM.DELETE.S")] == [True]
    assert site.account.streams == {}
    assert site.account.consumers == 0
    assert site.restarted().account.streams == {}


def test_requests_that_wait_are_told_before_the_answer(site: Site) -> None:
    pull(site, "d7")  # takes the message
    pull(site, "d7")
    send(site, "STREAM.DELETE.S")
    site.world.settle()
    subjects = [each.subject for each in site.world.published]
    told = [each for each in site.sent(b"_INBOX.d7") if b"Consumer Deleted" in each.headers]
    assert len(told) == 1
    last = len(subjects) - 1 - subjects[::-1].index(b"_INBOX.d7")
    assert last < subjects.index(b"_INBOX.STREAM.DELETE.S")


def test_a_stream_that_is_created_meanwhile_is_another_one(site: Site) -> None:
    send(site, "STREAM.DELETE.S")
    send(site, "STREAM.CREATE.S", {"name": "S", "subjects": ["other"]})
    site.world.settle()
    assert [each["success"] for each in answers(site, "STREAM.DELETE.S")] == [True]
    assert [each["config"]["subjects"] for each in answers(site, "STREAM.CREATE.S")] == [["other"]]
    assert list(site.account.streams) == ["S"]
    assert len(site.account.streams["S"].consumers) == 0


def test_a_second_deletion_finds_no_stream(site: Site) -> None:
    send(site, "STREAM.DELETE.S")
    send(site, "STREAM.DELETE.S")
    site.world.settle()
    found = answers(site, "STREAM.DELETE.S")
    assert sorted("error" in each for each in found) == [False, True]


def test_a_stream_that_cannot_be_deleted_keeps_its_consumers(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise StoreError("move", "S", "the disk is broken")

    monkeypatch.setattr("millstream.jetstream.stream.meta.put_away", fail)
    assert "error" in site.ask("STREAM.DELETE.S")
    assert len(site.account.streams["S"].consumers) == COUNT
    assert site.account.consumers == COUNT
    pull(site, "d150")
    site.world.settle()
    assert len(site.sent(b"_INBOX.d150")) == 1  # the message
    monkeypatch.undo()
    assert site.ask("STREAM.DELETE.S")["success"]


def test_a_server_that_stops_in_the_middle_keeps_all_consumers_and_their_acks(site: Site) -> None:
    pull(site, "d3")
    site.world.settle()
    site.world.send(b"$JS.ACK.S.d3.1.1.1.0.0", b"+ACK")
    send(site, "STREAM.DELETE.S")
    assert len(site.account.streams["S"].consumers) < COUNT
    again = site.restarted()
    assert len(again.account.streams["S"].consumers) == COUNT
    assert again.ask("CONSUMER.INFO.S.d3")["ack_floor"]["stream_seq"] == 1


def test_a_client_that_leaves_does_not_stop_the_deletion(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    subject, client = b"$JS.API.STREAM.DELETE.S", FakeRequester(site.world)
    site.api.answer(subject, ClientRequest(subject, b"_INBOX.gone", b"", b"", client))
    assert site.account.streams
    client.closed = True
    monkeypatch.setattr(site.world, "has_interest", lambda _: False)
    site.world.settle()
    assert site.account.streams == {}
