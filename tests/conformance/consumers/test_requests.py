"""Requests about consumers: what their subjects, bodies and headers may be, and in which order it is checked.

What a configuration may say is compared in js_config.
"""

from typing import Any

import pytest

from tests.kits.conformance.clients import eventually
from tests.kits.conformance.consumers import FUTURE, Client

TYPES = "io.nats.jetstream.api.v1."
NOT_EMPTY = (10038, "expected an empty request payload")
NO_STREAM = (10059, "stream not found")
NO_CONSUMER = (10014, "consumer not found")
LEVEL = (10185, "JetStream minimum api level required")
CUT_SHORT = (10025, "invalid JSON: unexpected EOF")
BEYOND = {"Nats-Required-Api-Level": "6"}
NO_FIELD = "invalid JSON: json: cannot unmarshal {} into Go struct field {} of type {}"
NO_ARRAY = "invalid JSON: json: cannot unmarshal array into Go value of type server."


@pytest.mark.parametrize(
    ("verb", "kind", "rest"),
    [
        ("CONSUMER.CREATE.S", "consumer_create_response", {}),
        ("CONSUMER.CREATE.S.c", "consumer_create_response", {}),
        ("CONSUMER.CREATE.S.c.s.x", "consumer_create_response", {}),
        ("CONSUMER.DURABLE.CREATE.S.c", "consumer_create_response", {}),
        ("CONSUMER.INFO.S.c", "consumer_info_response", {}),
        ("CONSUMER.DELETE.S.c", "consumer_delete_response", {}),
        ("CONSUMER.UNPIN.S.c", "consumer_unpin_response", {}),
        (
            "CONSUMER.PAUSE.S.c",
            "consumer_pause_response",
            {"paused": False, "pause_until": "0001-01-01T00:00:00Z"},
        ),
        (
            "CONSUMER.NAMES.S",
            "consumer_names_response",
            {"total": 0, "offset": 0, "limit": 0, "consumers": []},
        ),
        ("CONSUMER.LIST.S", "consumer_list_response", {"total": 0, "offset": 0, "limit": 0, "consumers": []}),
    ],
)
def test_a_refusal_has_the_type_of_what_was_asked(
    js: Client, verb: str, kind: str, rest: dict[str, Any]
) -> None:
    told = js.answer(
        verb, '{"stream_name":"S","group":"A","config":{"durable_name":"c","filter_subject":"s.x"}}'
    )
    assert told.json["type"] == TYPES + kind
    assert {key: value for key, value in told.json.items() if key not in ("type", "error")} == rest
    assert told.json["error"]["code"] in (400, 404)


@pytest.mark.parametrize("body", ["x", " ", "[]", "null", '{"a":1}', "{} {}"])
@pytest.mark.parametrize("verb", ["INFO", "DELETE"])
def test_info_and_delete_want_an_empty_body(js: Client, verb: str, body: str) -> None:
    js.stream()
    js.create()
    for place in ("S.c", "S.nobody", "T.c"):
        assert js.refusal(f"CONSUMER.{verb}.{place}", body) == NOT_EMPTY


@pytest.mark.parametrize("body", ["", "{}", " {\n} "])
def test_an_object_of_nothing_is_empty(js: Client, body: str) -> None:
    js.stream()
    js.create()
    assert js.ask("CONSUMER.INFO.S.c", body)["name"] == "c"
    assert js.ask("CONSUMER.DELETE.S.c", body)["success"] is True


@pytest.mark.parametrize(
    ("verb", "body"),
    [("INFO", ""), ("DELETE", ""), ("PAUSE", ""), ("PAUSE", "x"), ("UNPIN", '{"group":"A"}')],
)
def test_stream_and_consumer_must_be_there(js: Client, verb: str, body: str) -> None:
    assert js.refusal(f"CONSUMER.{verb}.S.c", body) == NO_STREAM
    js.stream()
    assert js.refusal(f"CONSUMER.{verb}.S.c", body) == NO_CONSUMER


@pytest.mark.parametrize("verb", ["NAMES", "LIST"])
def test_the_stream_must_be_there(js: Client, verb: str) -> None:
    assert js.refusal(f"CONSUMER.{verb}.S") == NO_STREAM
    assert js.refusal(f"CONSUMER.{verb}.S", "{") == CUT_SHORT


@pytest.mark.parametrize(
    ("verb", "bad_body", "before"),
    [
        ("CREATE.S.c", "{", CUT_SHORT),
        ("CREATE.S", "{", CUT_SHORT),
        ("DURABLE.CREATE.S.c", "{", CUT_SHORT),
        ("PAUSE.S.c", "{", CUT_SHORT),
        ("INFO.S.c", "x", NOT_EMPTY),
        ("DELETE.S.c", "x", LEVEL),
        ("UNPIN.S.c", "{", LEVEL),
        ("RESET.S.c", "{", LEVEL),
        ("NAMES.S", "{", LEVEL),
        ("LIST.S", "{", LEVEL),
    ],
)
def test_some_look_at_the_body_before_they_look_at_the_level(
    js: Client, verb: str, bad_body: str, before: tuple[int, str]
) -> None:
    js.stream()
    js.create()
    assert js.refusal(f"CONSUMER.{verb}", bad_body, BEYOND) == before
    assert js.refusal(f"CONSUMER.{verb}", "", BEYOND) == LEVEL


def test_a_level_is_checked_before_the_subject(js: Client) -> None:
    assert js.refusal("CONSUMER.CREATE.S.c", {"stream_name": "T"}, BEYOND) == LEVEL


@pytest.mark.parametrize(
    ("verb", "body", "complaint"),
    [
        ("PAUSE.S.c", "[]", NO_ARRAY + "JSApiConsumerPauseRequest"),
        ("PAUSE.S.c", '{"z":1}', 'invalid JSON: json: unknown field "z"'),
        (
            "PAUSE.S.c",
            '{"pause_until":"x"}',
            'invalid JSON: parsing time "x" as "2006-01-02T15:04:05Z07:00": cannot parse "x" as "2006"',
        ),
        ("UNPIN.S.c", "", "invalid JSON: unexpected end of JSON input"),
        ("UNPIN.S.c", "x", "invalid JSON: invalid character 'x' looking for beginning of value"),
        ("UNPIN.S.c", "{}", "invalid JSON: consumer group not specified"),
        ("UNPIN.S.c", "[]", NO_ARRAY + "JSApiConsumerUnpinRequest"),
        ("RESET.S.c", "x", "invalid JSON: invalid character 'x' looking for beginning of value"),
        ("RESET.S.c", "[]", NO_ARRAY + "JSApiConsumerResetRequest"),
        (
            "RESET.S.c",
            '{"seq":-1}',
            NO_FIELD.format("number -1", "JSApiConsumerResetRequest.seq", "uint64"),
        ),
        ("NAMES.S", "[]", NO_ARRAY + "JSApiConsumersRequest"),
        (
            "LIST.S",
            '{"offset":"1"}',
            NO_FIELD.format("string", "JSApiConsumersRequest.offset", "int"),
        ),
        ("LIST.S", '{"z":1}', 'invalid JSON: json: unknown field "z"'),
    ],
)
def test_a_body_that_can_not_be_read_is_refused(js: Client, verb: str, body: str, complaint: str) -> None:
    js.stream()
    js.create()
    assert js.refusal(f"CONSUMER.{verb}", body) == (10025, complaint)


@pytest.mark.parametrize(
    "verb",
    [
        "CONSUMER.INFO.S",
        "CONSUMER.INFO.S.c.d",
        "CONSUMER.DELETE.S",
        "CONSUMER.NAMES",
        "CONSUMER.LIST.S.c",
        "CONSUMER.CREATE",
        "CONSUMER.DURABLE.CREATE.S",
        "CONSUMER.DURABLE.CREATE.S.c.d",
        "CONSUMER.RESET.S.nobody",
        "CONSUMER.RESET.T.c",
        "CONSUMER.WHAT.S.c",
    ],
)
def test_a_subject_for_which_there_is_nobody_gets_no_answer(js: Client, verb: str) -> None:
    js.stream()
    js.create()
    js.unanswered(verb)


def test_what_nobody_waits_for_is_done_all_the_same(js: Client) -> None:
    js.stream()
    js.send("$JS.API.CONSUMER.CREATE.S.c", {"stream_name": "S", "config": {"durable_name": "c"}})
    eventually(lambda: js.ask("CONSUMER.NAMES.S")["consumers"] == ["c"], "the consumer")
    js.send("$JS.API.CONSUMER.PAUSE.S.c", {"pause_until": FUTURE})
    eventually(lambda: "paused" in js.info(), "the pause")
    js.send("$JS.API.CONSUMER.DELETE.S.c")
    eventually(lambda: js.ask("CONSUMER.NAMES.S")["consumers"] == [], "the deletion")


def test_a_reset_that_nobody_waits_for_is_not_done(js: Client) -> None:
    js.stream()
    js.publish("s.1", "s.2")
    js.create(ack_policy="none")
    js.fetch().next()
    js.send("$JS.API.CONSUMER.RESET.S.c", {"seq": 1})
    assert js.info()["delivered"]["stream_seq"] == 1


def test_a_consumer_of_a_mirror_learns_which_stream_it_has(js: Client) -> None:
    js.stream()
    config = {"direct": True, "deliver_subject": "d"}
    told = js.answer("CONSUMER.CREATE.S.c", {"stream_name": "S", "config": config})
    identity = told.headers["Nats-Stream-Identity"]
    assert len(identity) == 8
    again = js.answer(
        "CONSUMER.CREATE.S.e", {"stream_name": "S", "config": config}, {"Nats-Stream-Identity": identity}
    )
    assert again.headers["Nats-Stream-Identity"] == identity
    refused = js.refusal(
        "CONSUMER.CREATE.S.f", {"stream_name": "S", "config": config}, {"Nats-Stream-Identity": "no"}
    )
    assert refused == (10225, f"consumer's stream identity does not match: {identity}")


def test_other_consumers_are_not_told_which_stream_they_have(js: Client) -> None:
    js.stream()
    body = {"stream_name": "S", "config": {"durable_name": "c"}}
    told = js.answer("CONSUMER.CREATE.S.c", body, {"Nats-Stream-Identity": "no"})
    assert told.json["name"] == "c"
    assert told.headers == {}
    assert js.answer("CONSUMER.RESET.S.c").headers == {}
    assert (
        len(js.answer("CONSUMER.RESET.S.c", "", {"Nats-Stream-Identity": ""}).headers["Nats-Stream-Identity"])
        == 8
    )


def test_direct_sourcing_gets_another_name_every_time(js: Client) -> None:
    js.stream()
    config = {"direct": True, "sourcing": True, "deliver_subject": "d"}
    names = {js.ask("CONSUMER.CREATE.S.c", {"stream_name": "S", "config": config})["name"] for _ in range(3)}
    assert len(names) == 3
    assert all(name.startswith("c-") and len(name) == len("c-") + 8 for name in names)
