"""Advisories about streams, field by field."""

from collections.abc import Callable

from tests.kits.conformance.clients import ServerFactory
from tests.kits.conformance.publishing import Scenario, config_text

STREAMS = "$JS.EVENT.ADVISORY.STREAM.>"
API = "$JS.EVENT.ADVISORY.API"
UNTOLD = ("STREAM.MSG.GET.S", {"seq": 1})  # the only request that is not told: it succeeds, and only reads


def test_creating_updating_and_deleting_a_stream_is_told(js: Scenario) -> None:
    js.listen(STREAMS)
    js.create()
    js.heard(STREAMS, 1)
    js.create()
    js.update(max_msgs=5)
    js.heard(STREAMS, 1)
    js.update(max_msgs=5)
    js.heard(STREAMS, 1)
    js.api("STREAM.PURGE.S")
    js.api("STREAM.DELETE.S")
    js.heard(STREAMS, 1)


def test_a_refused_request_is_no_event_of_a_stream(js: Scenario) -> None:
    js.listen(STREAMS)
    js.create("T", subjects=["t..x"])
    js.create("T", subjects=["t.>"], max_age=-1)
    js.api("STREAM.DELETE.none")
    js.create()
    js.heard(STREAMS, 1)


def test_requests_are_audited(js: Scenario) -> None:
    js.create()
    js.publish("s.a", b"1")
    js.listen(API)
    for request, body in (
        ("STREAM.NAMES", None),
        ("STREAM.INFO.S", None),
        ("STREAM.INFO.none", None),
        UNTOLD,
        ("STREAM.MSG.GET.S", {"seq": 9}),
        ("STREAM.MSG.DELETE.S", {"seq": 1}),
        ("STREAM.PURGE.S", {"filter": "é<"}),
        ("STREAM.PURGE.S", None),
        ("INFO", None),
        ("STREAM.UPDATE.S", {"name": "S", "subjects": ["s.>"], "storage": "memory", "max_msgs": 3}),
        ("STREAM.CREATE.T", {"name": "T", "subjects": ["t"], "storage": "memory"}),
        ("STREAM.CREATE.T", {"name": "U"}),
        ("STREAM.DELETE.S", None),
        ("STREAM.DELETE.S", {"not": "empty"}),
    ):
        js.ask(request, body)
        js.note(f"asked {request}")
        if (request, body) != UNTOLD:
            js.heard(API, 1)  # at once: nats-server keeps no order between those of several requests


def test_what_reads_directly_is_not_audited(js: Scenario) -> None:
    js.create(allow_direct=True)
    js.publish("s.a", b"1")
    js.listen(API)
    js.publish("$JS.API.DIRECT.GET.S.s.a")
    js.ask("STREAM.NAMES")
    js.heard(API, 1)


def test_the_client_that_asked_is_described(
    shared_server: ServerFactory, open_scenario: Callable[..., Scenario], account: str
) -> None:
    server = shared_server(config=config_text(), jetstream=True)
    js = open_scenario(server, account, name="who I am", lang="lisp", version="0.1")
    js.listen(API)
    js.ask("STREAM.NAMES")
    js.heard(API, 1)


def test_a_full_stream_is_no_event(js: Scenario) -> None:
    js.create(max_msgs=1, discard="new")
    js.publish("s.a")
    js.listen("$JS.EVENT.>")
    js.publish("s.a")
    js.ask("STREAM.NAMES")
    js.heard("$JS.EVENT.>", 1)


def test_a_stream_can_store_what_is_told(js: Scenario) -> None:
    js.create("EVENTS", subjects=["$JS.EVENT.ADVISORY.STREAM.>"])
    js.create()
    js.until("EVENTS", messages=2)
    js.api("STREAM.DELETE.S")
    js.until("EVENTS", messages=3)
    js.stored("EVENTS")
