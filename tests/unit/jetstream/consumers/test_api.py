"""Requests about consumers where disk and order matter; `tests/conformance` has what they say."""

import json
from typing import Any

import pytest

from millstream.jetstream.advisories import Advisories
from millstream.jetstream.api import AccountApi, DisabledApi
from tests.kits.fake_world import FakeWorld
from tests.kits.jetstream.stream import NO_SPACE, Site, block, parts

INBOX = b"_INBOX.test"
FUTURE = "2100-01-01T00:00:00Z"


def body(**config: Any) -> dict[str, Any]:
    return {"stream_name": "S", "config": {"durable_name": "c", **config}}


def send(site: Site, verb: str, request: Any = b"") -> None:
    text = request if isinstance(request, bytes) else json.dumps(request).encode()
    site.world.send(f"$JS.API.{verb}".encode(), text, reply=INBOX)


def answers(site: Site) -> list[dict[str, Any]]:
    return [json.loads(each.payload) for each in site.sent(INBOX)]


CHANGES = [
    ("CONSUMER.CREATE.S.c", body(description="new")),
    ("CONSUMER.PAUSE.S.c", {"pause_until": FUTURE}),
    ("CONSUMER.RESET.S.c", {"seq": 1}),
    ("CONSUMER.DELETE.S.c", b""),
]


@pytest.mark.parametrize(("verb", "request_body"), CHANGES)
def test_a_change_is_answered_when_it_is_durable(verb: str, request_body: Any) -> None:
    site = Site()
    site.create()
    site.ask("CONSUMER.CREATE.S.c", body())
    before = len(answers(site))
    send(site, verb, request_body)
    assert len(answers(site)) == before
    site.world.settle()
    (answer,) = answers(site)[before:]
    assert "error" not in answer


@pytest.mark.parametrize(("verb", "request_body"), CHANGES)
def test_a_change_that_can_not_be_kept_is_refused(verb: str, request_body: Any) -> None:
    site = Site()
    site.create()
    site.ask("CONSUMER.CREATE.S.c", body())
    site.disk.full = True
    code, number, text = site.error(verb, request_body)
    assert (code, number) == (500, 10104)
    assert NO_SPACE in text


def test_a_consumer_that_can_not_be_kept_is_not_there() -> None:
    site = Site()
    site.create()
    site.ask("CONSUMER.CREATE.S.c", body())
    site.disk.full = True
    request = {"stream_name": "S", "config": {"durable_name": "e"}}
    assert site.error("CONSUMER.CREATE.S.e", request)[1] == 10104
    assert site.ask("CONSUMER.NAMES.S")["consumers"] == ["c"]
    site.disk.full = False
    site.world.advance(5)
    site.world.settle()
    assert site.ask("CONSUMER.CREATE.S.e", request)["name"] == "e"
    again = site.restarted()
    assert again.ask("CONSUMER.NAMES.S")["consumers"] == ["c", "e"]


def test_what_is_only_in_memory_waits_for_no_disk() -> None:
    site = Site()
    site.create(storage="memory")
    send(site, "CONSUMER.CREATE.S.c", body())
    assert answers(site)[-1]["name"] == "c"


def test_a_request_counts_what_was_published_before_it() -> None:
    site = Site()
    site.create()
    site.world.send(b"s.1", b"", reply=b"pub")
    send(site, "CONSUMER.CREATE.S.c", body())
    send(site, "CONSUMER.INFO.S.c")
    site.world.settle()
    assert [each["num_pending"] for each in answers(site)[-2:]] == [1, 1]


def test_a_server_that_is_not_strict_ignores_what_it_does_not_know() -> None:
    site = Site(strict=False)
    site.create()
    assert site.ask("CONSUMER.CREATE.S.c", body() | {"what": 1})["name"] == "c"
    assert site.ask("CONSUMER.NAMES.S", {"what": 1})["consumers"] == ["c"]


def test_resets_are_neither_counted_nor_audited() -> None:
    site = Site()
    site.create()
    site.ask("CONSUMER.CREATE.S.c", body())
    site.world.heard.append(b"$JS.EVENT.ADVISORY.API")
    before = site.account.api_total
    site.ask("CONSUMER.RESET.S.c")
    assert site.account.api_total == before
    assert site.sent(b"$JS.EVENT.ADVISORY.API") == []
    site.ask("CONSUMER.INFO.S.c")
    assert site.account.api_total == before + 1
    assert len(site.sent(b"$JS.EVENT.ADVISORY.API")) == 1


def test_nobody_resets_consumers_of_an_account_that_has_none() -> None:
    world = FakeWorld()
    DisabledApi(world, Advisories(world, account="B")).start()
    world.send(b"$JS.API.CONSUMER.RESET.S.c", reply=INBOX)
    assert world.published == []
    answer = json.loads(world.request(b"$JS.API.CONSUMER.PAUSE.S.c"))
    assert parts(answer["error"])[1] == 10039


def test_more_requests_than_may_wait_are_not_answered() -> None:
    site = Site()
    site.create()
    site.api.stop()
    AccountApi(site.account, "server", "2.15.1", request_queue_limit=2).start()
    before = len(answers(site))
    for name in "abc":
        send(site, f"CONSUMER.CREATE.S.{name}", {"stream_name": "S", "config": {"durable_name": name}})
    site.world.settle()
    assert [each["name"] for each in answers(site)[before:]] == ["a", "b"]
    assert site.ask("CONSUMER.NAMES.S")["consumers"] == ["a", "b", "c"]


def test_a_consumer_is_announced_when_it_is_durable() -> None:
    site = Site()
    site.create()
    created = b"$JS.EVENT.ADVISORY.CONSUMER.CREATED.S.c"
    site.world.heard.append(created)
    send(site, "CONSUMER.CREATE.S.c", body())
    assert site.sent(created) == []
    site.world.settle()
    assert len(site.sent(created)) == 1


def test_the_identity_of_a_stream_is_that_of_its_creation() -> None:
    site = Site(world=FakeWorld(1_700_000_000_000_000_000))
    site.create()
    headers = block(Nats_Stream_Identity="x")
    config = {"direct": True, "deliver_subject": "d"}
    refusal = site.error("CONSUMER.CREATE.S.c", {"stream_name": "S", "config": config}, headers)
    # The hash of 2023-11-14T22:13:20Z.
    assert refusal == (400, 10225, "consumer's stream identity does not match: pWIxM78Y")
