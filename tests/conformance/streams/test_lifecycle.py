"""Creating, updating, looking at and deleting streams: whole answers, and what is wrong with requests."""

from typing import Any

import pytest

from tests.kits.conformance.clients import ServerFactory
from tests.kits.conformance.streams import OpenSession, Session

ENDPOINTS = (
    "STREAM.CREATE.S",
    "STREAM.UPDATE.S",
    "STREAM.NAMES",
    "STREAM.LIST",
    "STREAM.INFO.S",
    "STREAM.DELETE.S",
    "STREAM.PURGE.S",
    "STREAM.MSG.GET.S",
    "STREAM.MSG.DELETE.S",
    "INFO",
)
CLUSTER_ONLY = (
    "STREAM.LEADER.STEPDOWN.S",
    "STREAM.PEER.REMOVE.S",
    "STREAM.PEER.EVACUATE.S",
    "STREAM.CANCEL_MOVE.S",
    "CONSUMER.LEADER.STEPDOWN.S.C",
    "CONSUMER.PEER.REMOVE.S.C",
    "CONSUMER.PEER.EVACUATE.S.C",
)
LENIENT = """
jetstream: {max_mem: 1GB, max_file: 4GB, strict: false}
accounts: {a0: {jetstream: enabled, users: [{user: a0, password: p}]}}
"""


def test_the_life_of_a_stream(js: Session) -> None:
    config = {"name": "S", "subjects": ["a.>"], "max_msgs": 3, "description": "<a> & b"}
    js.ask("STREAM.INFO.S")
    js.ask("STREAM.CREATE.S", config)
    js.ask("STREAM.INFO.S")
    js.fill("a.1", "a.2", "a.3", "a.4")
    js.ask("STREAM.CREATE.S", config)
    js.ask("STREAM.CREATE.S", config | {"max_msgs": 4})
    js.ask("STREAM.UPDATE.S", config | {"max_msgs": 2})
    js.ask("STREAM.INFO.S")
    js.ask("STREAM.DELETE.S")
    js.ask("STREAM.INFO.S")
    js.ask("STREAM.DELETE.S")
    js.ask("STREAM.UPDATE.S", config)
    js.ask_subject("a.1", "nobody")


@pytest.mark.parametrize("storage", ["file", "memory"])
def test_a_deleted_stream_can_be_created_anew(js: Session, storage: str) -> None:
    js.create("OLD", subjects=["a"], storage=storage, first_seq=100)
    js.note(js.publish("a"), asked="the first sequence")
    js.do("STREAM.DELETE.OLD")
    js.create("NEW", subjects=["a"], storage="memory")
    js.note(js.publish("a"), asked="the first sequence")
    js.state("NEW")


@pytest.mark.parametrize("endpoint", ENDPOINTS)
@pytest.mark.parametrize(
    "body",
    [
        "",
        "{}",
        " \n{}\t",
        "[]",
        "null",
        "{",
        "[",
        "}",
        "{}{}",
        "{} x",
        "text",
        "1",
        '"text"',
        '{"unknown": 1}',
        '{"name": 5}',
        '{"name": "S", "name": "T"}',
        '{"NAME": "S", "Offset": 0, "SEQ": 1}',
        '{"name": "S",}',
        '{"name": "S"',
        "{'name': 'S'}",
        '{"name": "\\ud800"}',
        '{"name": "S\u0000"}',
        '{"offset": "1", "seq": "1", "name": "S", "max_msgs": "1"}',
        '{"offset": 1.5, "seq": 1.5, "name": "S", "max_msgs": 1.5}',
        '{"offset": 1e2, "seq": 1e2, "name": "S", "max_msgs": 1e2}',
        '{"offset": 99999999999999999999, "seq": 99999999999999999999}',
        "\u00ef\u00bb\u00bf{}",
    ],
)
def test_bodies(js: Session, endpoint: str, body: str) -> None:
    if endpoint not in ("STREAM.CREATE.S", "STREAM.NAMES", "STREAM.LIST", "INFO"):
        js.create(storage="memory")
        js.publish("S", "x")
    js.ask(endpoint, body)


@pytest.mark.parametrize("endpoint", ENDPOINTS)
@pytest.mark.parametrize("level", ["5", "6", "x"])
def test_levels(js: Session, endpoint: str, level: str) -> None:
    js.ask(endpoint, {"name": "S"} if "CREATE" in endpoint else b"", {"Nats-Required-Api-Level": level})


def test_levels_come_before_everything_else(js: Session) -> None:
    for endpoint in (*ENDPOINTS, *CLUSTER_ONLY):
        js.ask(endpoint, "{", {"Nats-Required-Api-Level": "6"})


@pytest.mark.parametrize("endpoint", CLUSTER_ONLY)
def test_what_needs_a_cluster(js: Session, endpoint: str) -> None:
    js.ask(endpoint)
    js.ask(endpoint, "{}")
    js.ask(endpoint, "x")
    js.create()
    js.ask(endpoint)


@pytest.mark.parametrize(
    "verb",
    [
        "STREAM",
        "STREAM.CREATE",
        "STREAM.CREATE.a.b",
        "STREAM.create.S",
        "STREAM.INFO",
        "STREAM.INFO.a.b",
        "STREAM.NAMES.S",
        "STREAM.LIST.S",
        "STREAM.MSG.GET",
        "STREAM.MSG.PUT.S",
        "STREAM.MSG.GET.a.b",
        "STREAM.TEMPLATE.NAMES",
        "STREAM.TEMPLATE.CREATE.T",
        "STREAM.UNKNOWN.S",
        "CONSUMER",
        "CONSUMER.UNKNOWN.S",
        "CONSUMER.INFO.S",
        "CONSUMER.MSG.NEXT.S.C",
        "CONSUMER.MSG.NEXT.S",
        "CONSUMER.MSG.X.S.C",
        "DIRECT.GET.S",
        "DIRECT.GET",
        "DIRECT.PUT.S",
        "DIRECT",
        "INFO.x",
        "info",
        "UNKNOWN",
        "META.LEADER.STEPDOWN",
        "META.RESCUE",
        "META.x",
        "SERVER.REMOVE",
        "SERVER.EVACUATE",
        "SERVER.x",
        "ACCOUNT.PURGE.a0",
        "ACCOUNT.STREAM.MOVE.a.b",
        "ACCOUNT.x",
    ],
)
def test_subjects_that_are_no_endpoint(js: Session, verb: str) -> None:
    js.hear(verb)
    js.hear(verb, "{}", {"Nats-Required-Api-Level": "6"})


@pytest.mark.parametrize("subject", ["$JS.API", "$JS", "$JS.X", "$JS.hub.API.INFO", "$JS.FC.x", "$JS.ACK.x"])
def test_subjects_beside_the_api(js: Session, subject: str) -> None:
    js.hear_subject(subject)


@pytest.mark.parametrize(
    ("token", "name"), [("S", ""), ("S", "T"), ("S", "s"), ("a-b_c", "a-b_c"), ("é", "é"), ("S", "S ")]
)
def test_names_must_match(js: Session, token: str, name: str) -> None:
    body: dict[str, Any] = {"name": name} if name else {}
    js.ask(f"STREAM.CREATE.{token}", body)
    js.create("S")
    js.ask(f"STREAM.UPDATE.{token}", body)


@pytest.mark.parametrize(
    "body",
    [
        {"name": "S", "unknown": 1},
        {"name": "S", "max_age": "1h"},
        {"name": "S", "template_owner": "x"},
        {"name": "S", "retention": "forever"},
        {"name": "S", "storage": "FILE"},
        {"name": "S", "discard": "NEW", "max_msgs": 1},
        "{",
    ],
    ids=str,
)
def test_a_lenient_server_ignores_names_it_does_not_know(
    open_session: OpenSession, shared_server: ServerFactory, body: Any
) -> None:
    js = open_session(shared_server(config=LENIENT, jetstream=True))
    js.ask("STREAM.CREATE.S", body)
    js.ask("STREAM.NAMES", {"offset": 0, "unknown": 1})
    js.ask("STREAM.INFO.S", {"unknown": 1, "subjects_filter": ">"})
    js.ask("STREAM.PURGE.S", {"unknown": 1})
    js.ask("STREAM.MSG.GET.S", {"unknown": 1, "seq": 1})
    js.ask("STREAM.DELETE.S", {"unknown": 1})
    js.ask("STREAM.DELETE.S")


def test_requests_without_a_reply_are_done(js: Session) -> None:
    js.client.send(b'PUB $JS.API.STREAM.CREATE.S 12\r\n{"name":"S"}\r\n')
    js.eventually("STREAM.NAMES", lambda answer: answer["total"] == 1)
    js.publish("S", "x")
    js.client.send(b"PUB $JS.API.STREAM.PURGE.S 0\r\n\r\n")
    js.eventually("STREAM.INFO.S", lambda answer: answer["state"]["messages"] == 0)
    js.client.send(b"PUB $JS.API.STREAM.DELETE.S 0\r\n\r\n")
    js.eventually("STREAM.NAMES", lambda answer: answer["total"] == 0)
    js.ask("STREAM.INFO.S")


def test_deleting_needs_an_empty_body(js: Session) -> None:
    js.create()
    for body in ("x", "{ }", " {}", '{"a": 1}', "[]", "null", " "):
        js.ask("STREAM.DELETE.S", body)
        if js.do("STREAM.NAMES")["total"] == 0:
            js.create()
