"""Message traces: who asks for one is told what becomes of a message, and gets it delivered or not."""

import base64
import gzip
import itertools
import json
from collections.abc import Mapping
from typing import Any

import pytest

from tests.kits.conformance.clients import (
    Dial,
    Message,
    ServerFactory,
    header_block,
    login,
    publish,
    publish_refused,
)
from tests.kits.reference import ServerProcess
from tests.kits.wire import WireClient

CONFIG = """
accounts {
  MAKER {
    jetstream: enabled
    users: [
      { user: maker, password: p }
      { user: limited, password: p
        permissions: { publish: { deny: [never, told.not] }, subscribe: { deny: dark.x } } }
    ]
    mappings: { "old.*": "new.$1" }
    exports: [
      { stream: "news.>" }
      { stream: "notes.>" }
      { service: "open.>", allow_trace: true }
      { service: "closed.>" }
    ]
  }
  TAKER {
    jetstream: enabled
    users: [ { user: taker, password: p } ]
    imports: [
      { stream: { account: MAKER, subject: "news.>" }, to: "seen.>", allow_trace: true }
      { stream: { account: MAKER, subject: "notes.>" }, to: "unseen.>" }
      { service: { account: MAKER, subject: "open.>" }, to: "ask.>" }
      { service: { account: MAKER, subject: "closed.>" }, to: "beg.>" }
    ]
  }
  TRACED {
    users: [ { user: traced, password: p } ]
    msg_trace: { dest: "told.all", sampling: "100%" }
  }
}
"""

PARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-"
ONLY = {"Nats-Trace-Only": "true"}
_numbers = itertools.count(1)


@pytest.fixture
def name() -> str:
    """Return the name of a stream that does not exist yet."""
    return f"TRACED{next(_numbers)}"


@pytest.fixture
def server(shared_server: ServerFactory) -> ServerProcess:
    return shared_server(config=CONFIG, jetstream=True)


class Publisher:
    """Publishes messages that ask for a trace, and hears what is told."""

    def __init__(self, server: ServerProcess, join: Dial, user: str = "maker", **options: object) -> None:
        self.client = login(join, server, user, **{"name": user, "headers": True, **options})
        self._ear = login(join, server, {"limited": "maker"}.get(user, user), headers=True)
        self._ear.round_trip(b"SUB told.> 1\r\n")

    def publish(
        self, subject: str, headers: Mapping[str, str] | None = None, *, reply: str = "", dest: str = "told"
    ) -> bytes:
        """Publish a message with a trace destination, and return what the publisher receives at once."""
        block = header_block({"Nats-Trace-Dest": f"told.{dest}", **(headers or {})})
        return self.client.round_trip(publish(subject, b"hello", reply, block))

    def told(self) -> Message:
        return Message.read(self._ear.read_frame())

    def trace(self, subject: str, headers: Mapping[str, str] | None = None, **how: Any) -> list[Any]:
        """The events of a message's trace, without times and numbers."""
        self.publish(subject, headers, **how)
        return events(self.told())

    def check_silence(self) -> None:
        """Assert that no trace was sent: the next trace is that of another message."""
        assert self.trace("end", ONLY)[0]["subj"] == "end"


def events(told: Message) -> list[Any]:
    found = told.json["events"]
    assert [event.pop("ts")[-1] for event in found] == ["Z"] * len(found)
    assert all(event.pop("cid") for event in found if event["type"] in ("in", "eg"))
    return found  # type: ignore[no-any-return]


def came(user: str, account: str, subject: str, **more: str) -> dict[str, Any]:
    return {"type": "in", "kind": 0, "name": user, "acc": account, "subj": subject, **more}


def went(user: str, subscription: str, **more: str) -> dict[str, Any]:
    return {"type": "eg", "kind": 0, "name": user, "sub": subscription, **more}


@pytest.fixture
def maker(server: ServerProcess, join: Dial) -> Publisher:
    return Publisher(server, join)


@pytest.fixture
def reader(server: ServerProcess, join: Dial) -> WireClient:
    return login(join, server, "maker", name="reader", headers=True)


@pytest.mark.parametrize("value", ["true", "1", "on", "TRUE", "On"])
def test_a_message_that_is_only_traced_is_not_delivered(
    maker: Publisher, reader: WireClient, value: str
) -> None:
    reader.round_trip(b"SUB only.* 1\r\nSUB only.q q 2\r\n")
    assert maker.trace("only.q", {"Nats-Trace-Only": value}) == [
        came("maker", "MAKER", "only.q"),
        went("reader", "only.*"),
        went("reader", "only.q", queue="q"),
    ]
    assert reader.round_trip() == b""


def test_a_member_of_a_very_large_group_gets_a_traced_message(maker: Publisher, reader: WireClient) -> None:
    reader.round_trip(b"".join(b"SUB large.x q %d\r\n" % number for number in range(1, 5001)))
    maker.publish("large.x")
    assert Message.read(reader.read_frame()).payload == b"hello"
    assert reader.round_trip() == b""
    reader.round_trip(b"".join(b"UNSUB %d\r\n" % number for number in range(1, 5001)))
    maker.told()


@pytest.mark.parametrize("headers", [{}, {"Nats-Trace-Only": "no"}])
def test_another_is(maker: Publisher, reader: WireClient, headers: dict[str, str]) -> None:
    reader.round_trip(b"SUB also 1\r\n")
    assert maker.trace("also", headers) == [came("maker", "MAKER", "also"), went("reader", "also")]
    found = Message.read(reader.round_trip())
    assert (found.payload, found.headers["Nats-Trace-Dest"]) == (b"hello", "told.told")


def test_what_is_told_begins_with_the_server_and_the_request(maker: Publisher) -> None:
    maker.publish("nobody", {"B": "2", "A": "1", "b": "x", **ONLY})
    told = maker.told().json
    assert list(told) == ["server", "request", "events"]
    assert {"name", "host", "id", "ver", "seq", "time"} <= set(told["server"])
    expected = {
        "A": ["1"],
        "B": ["2"],
        "Nats-Trace-Dest": ["told.told"],
        "Nats-Trace-Only": ["true"],
        "b": ["x"],
    }
    assert list(told["request"]["header"].items()) == list(expected.items())
    block = header_block({"Nats-Trace-Dest": "told.told", "B": "2", "A": "1", "b": "x", **ONLY})
    assert told["request"]["msgsize"] == len(block) + 5


def test_who_has_no_name_is_told_without(server: ServerProcess, join: Dial) -> None:
    publisher = Publisher(server, join, name="")
    assert publisher.trace("nobody", ONLY) == [
        {"type": "in", "kind": 0, "acc": "MAKER", "subj": "nobody"},
    ]


def test_no_responders_are_told_as_ever(server: ServerProcess, join: Dial) -> None:
    publisher = Publisher(server, join, no_responders=True)
    publisher.client.round_trip(b"SUB box 7\r\nSUB there 8\r\n")
    assert Message.read(publisher.publish("nobody", ONLY, reply="box")).status == "503"
    assert publisher.publish("there", ONLY, reply="box") == b""


def test_mappings_are_told(maker: Publisher, reader: WireClient) -> None:
    reader.round_trip(b"SUB new.* 1\r\n")
    assert maker.trace("old.7", ONLY) == [
        came("maker", "MAKER", "old.7"),
        {"type": "sm", "to": "new.7"},
        went("reader", "new.*"),
    ]


# -- who does not get it ----------------------------------------------------------------------------


def test_one_that_does_not_want_its_own_messages(server: ServerProcess, join: Dial) -> None:
    publisher = Publisher(server, join, echo=False)
    publisher.client.round_trip(b"SUB mine 1\r\n")
    error = "Not delivered because of no echo"
    assert publisher.trace("mine") == [came("maker", "MAKER", "mine"), went("maker", "mine", error=error)]


def test_one_that_may_not_have_it(server: ServerProcess, join: Dial, maker: Publisher) -> None:
    limited = login(join, server, "limited", name="limited", headers=True)
    limited.round_trip(b"SUB dark.* 1\r\n")
    error = "Not delivered because subscription denies this subject"
    assert maker.trace("dark.x")[1:] == [went("limited", "dark.*", error=error)]
    assert limited.round_trip() == b""


def test_a_message_that_may_not_be_published(server: ServerProcess, join: Dial) -> None:
    limited = Publisher(server, join, "limited")
    assert limited.publish("never") == publish_refused("never")
    error = 'Permissions Violation for Publish to "never"'
    assert events(limited.told()) == [came("limited", "MAKER", "never", error=error)]


def test_a_trace_goes_only_where_its_publisher_may_publish(
    server: ServerProcess, join: Dial, reader: WireClient
) -> None:
    reader.round_trip(b"SUB fine 1\r\n")
    limited = Publisher(server, join, "limited")
    assert limited.publish("fine", dest="not") == publish_refused("told.not")
    assert reader.round_trip() == b""
    limited.check_silence()


@pytest.mark.parametrize("only", [True, False])
@pytest.mark.parametrize("dest", ["*", "x y", "x\ty", "x\nMSG told.x 1 0", ".x", "x..y", ">"])
def test_a_place_that_is_none_is_not_told(
    maker: Publisher, reader: WireClient, dest: str, only: bool
) -> None:
    reader.round_trip(b"SUB odd 1\r\n")
    maker.publish("odd", ONLY if only else None, dest=dest)
    assert bool(reader.round_trip()) is not only
    maker.check_silence()


def test_a_place_is_what_is_written(maker: Publisher) -> None:
    block = "NATS/1.0\r\nNats-Trace-Dest:  told.\xff \r\nNats-Trace-Only: 1\r\n\r\n".encode("latin-1")
    maker.client.round_trip(publish("nobody", b"", "", block))
    frame = maker._ear.read_frame()
    assert frame.startswith(b"MSG told.\xff 1 ")


@pytest.mark.parametrize(
    "headers",
    [
        {"Nats-Trace-Dest": "trace disabled"},
        {"Nats-Trace-Dest": "", **ONLY},
        {"nats-trace-dest": "told.x"},
        {"traceparent": PARENT + "01"},
    ],
)
def test_what_asks_for_no_trace_is_like_any_other(
    maker: Publisher, reader: WireClient, headers: dict[str, str]
) -> None:
    reader.round_trip(b"SUB plain 1\r\n")
    maker.client.round_trip(publish("plain", b"x", "", header_block(headers)))
    assert Message.read(reader.round_trip()).headers == headers
    maker.check_silence()


def test_a_status_is_no_message_that_asks(maker: Publisher, reader: WireClient) -> None:
    reader.round_trip(b"SUB status 1\r\n")
    block = header_block({"Nats-Trace-Dest": "told.x", **ONLY}).replace(b"/1.0", b"/1.0 100 Idle")
    maker.client.round_trip(publish("status", b"", "", block))
    assert Message.read(reader.round_trip()).status == "100 Idle"
    maker.check_silence()


# -- other accounts ---------------------------------------------------------------------------------


@pytest.mark.parametrize("only", [True, False])
def test_streams_that_another_account_imports(
    server: ServerProcess, join: Dial, maker: Publisher, only: bool
) -> None:
    taker = login(join, server, "taker", name="taker", headers=True)
    taker.round_trip(b"SUB seen.> 1\r\n")
    assert maker.trace("news.x", ONLY if only else None)[1:] == [
        {"type": "se", "acc": "TAKER", "to": "seen.x"},
        went("taker", "news.>", acc="TAKER"),
    ]
    assert bool(taker.round_trip()) is not only


@pytest.mark.parametrize("only", [True, False])
def test_streams_whose_importer_does_not_tell(
    server: ServerProcess, join: Dial, maker: Publisher, only: bool
) -> None:
    taker = login(join, server, "taker", name="taker", headers=True)
    taker.round_trip(b"SUB unseen.> 1\r\n")
    assert maker.trace("notes.x", ONLY if only else None)[1:] == [
        {"type": "se", "acc": "TAKER", "to": "unseen.x"}
    ]
    assert bool(taker.round_trip()) is not only


@pytest.mark.parametrize(("published", "seen_as"), [("news", "seen"), ("notes", "unseen")])
@pytest.mark.parametrize("only", [True, False])
def test_streams_of_jetstream_that_store_what_their_account_imports(
    server: ServerProcess, join: Dial, maker: Publisher, name: str, published: str, seen_as: str, only: bool
) -> None:
    taker = login(join, server, "taker", headers=True)
    ask(taker, f"STREAM.CREATE.{name}", {"name": name, "subjects": [f"{seen_as}.{name}"]})
    export = {"type": "se", "acc": "TAKER", "to": f"{seen_as}.{name}"}
    told = [stored(name, subject=f"{seen_as}.{name}")] if seen_as == "seen" else []
    assert maker.trace(f"{published}.{name}", ONLY if only else None)[1:] == [export, *told]
    assert ask(taker, f"STREAM.INFO.{name}")["state"]["messages"] == (0 if only else 1)


@pytest.mark.parametrize("only", [True, False])
def test_services_of_another_account(
    server: ServerProcess, join: Dial, reader: WireClient, only: bool
) -> None:
    taker = Publisher(server, join, "taker")
    reader.round_trip(b"SUB open.* 1\r\n")
    assert taker.trace("ask.x", ONLY if only else None, reply="box") == [
        came("taker", "TAKER", "ask.x"),
        {"type": "si", "acc": "MAKER", "from": "ask.x", "to": "open.x"},
        went("reader", "open.*", acc="MAKER"),
    ]
    assert bool(reader.round_trip()) is not only


@pytest.mark.parametrize("only", [True, False])
def test_services_whose_exporter_does_not_tell(
    server: ServerProcess, join: Dial, reader: WireClient, only: bool
) -> None:
    taker = Publisher(server, join, "taker")
    reader.round_trip(b"SUB closed.* 1\r\n")
    assert taker.trace("beg.x", ONLY if only else None)[1:] == [
        {"type": "si", "acc": "MAKER", "from": "beg.x", "to": "closed.x"}
    ]
    request = reader.round_trip()
    assert bool(request) is not only
    if request:
        assert Message.read(request).headers["Nats-Trace-Dest"] == "trace disabled"


# -- streams of JetStream ---------------------------------------------------------------------------


def ask(client: WireClient, verb: str, body: object = None) -> Any:
    client.round_trip(b"SUB answers.api 99\r\n")
    client.send(publish(f"$JS.API.{verb}", json.dumps(body).encode() if body else b"", "answers.api"))
    answer = Message.read(client.read_frame()).json
    client.round_trip(b"UNSUB 99\r\n")
    assert "error" not in answer, answer
    return answer


def make(client: WireClient, name: str, **config: object) -> None:
    ask(client, f"STREAM.CREATE.{name}", {"name": name, "subjects": [f"{name}.>"], **config})


def stored(name: str, **more: object) -> dict[str, Any]:
    return {"type": "js", "stream": name, **more}


def test_a_stream_tells_that_it_would_store_it(maker: Publisher, reader: WireClient, name: str) -> None:
    make(reader, name)
    assert maker.trace(f"{name}.x", ONLY)[1:] == [stored(name, subject=f"{name}.x")]
    assert ask(reader, f"STREAM.INFO.{name}")["state"]["messages"] == 0


def test_a_stream_stores_what_is_traced_and_delivered(
    maker: Publisher, reader: WireClient, name: str
) -> None:
    make(reader, name, subject_transform={"src": f"{name}.*", "dest": f"{name}.to.$1"})
    assert maker.trace(f"{name}.x", {"Nats-Msg-Id": "1"})[1:] == [stored(name, subject=f"{name}.to.x")]
    assert maker.trace(f"{name}.x", {"Nats-Msg-Id": "1"})[1:] == [stored(name, error="msgid is duplicate")]
    assert maker.trace(f"{name}.x", {"Nats-Msg-Id": "1", **ONLY})[1:] == [
        stored(name, error="msgid is duplicate")
    ]
    assert ask(reader, f"STREAM.INFO.{name}")["state"]["messages"] == 1
    message = ask(reader, f"STREAM.MSG.GET.{name}", {"seq": 1})["message"]
    assert b"Nats-Trace-Dest: trace disabled\r\n" in base64.b64decode(message["hdrs"])


@pytest.mark.parametrize(
    ("headers", "error"),
    [
        ({"Nats-Expected-Last-Sequence": "7"}, "last sequence mismatch: 7 vs 1"),
        ({"Nats-Expected-Last-Subject-Sequence": "7"}, "last sequence by subject mismatch: 7 vs 1"),
        ({"Nats-Expected-Last-Msg-Id": "7"}, 'last msgid mismatch: "7" vs "1"'),
        ({"Nats-Expected-Stream": "OTHER"}, "expected stream does not match"),
        ({"Nats-TTL": "1s"}, "message TTL disabled"),
        ({"Nats-Rollup": "sub"}, "rollup not permitted"),
        ({"Long": "x" * 400}, "maximum payload exceeded"),
    ],
)
@pytest.mark.parametrize("only", [True, False])
def test_a_stream_tells_why_it_does_not(
    maker: Publisher, reader: WireClient, name: str, headers: dict[str, str], error: str, only: bool
) -> None:
    make(reader, name, max_msg_size=300)
    maker.trace(f"{name}.x", {"Nats-Msg-Id": "1"})
    assert maker.trace(f"{name}.x", headers | (ONLY if only else {}))[1:] == [stored(name, error=error)]
    assert ask(reader, f"STREAM.INFO.{name}")["state"]["messages"] == 1


def test_a_stream_that_is_sealed(maker: Publisher, reader: WireClient, name: str) -> None:
    make(reader, name)
    config = ask(reader, f"STREAM.INFO.{name}")["config"]
    ask(reader, f"STREAM.UPDATE.{name}", {**config, "sealed": True})
    error = "invalid operation on sealed stream (10109)"
    assert maker.trace(f"{name}.x")[1:] == [stored(name, error=error)]


def test_an_expectation_that_is_no_text(maker: Publisher, reader: WireClient, name: str) -> None:
    make(reader, name)
    reader.round_trip(f"SUB {name}.x 5\r\n".encode())
    header = b"Nats-Trace-Dest: told.x\r\nNats-Expected-Last-Sequence: \xff\r\n"
    maker.client.round_trip(publish(f"{name}.x", b"hello", "", b"NATS/1.0\r\n" + header + b"\r\n"))
    assert Message.read(reader.round_trip()).payload == b"hello"
    told = events(maker.told())[1:]
    assert {event["type"]: "error" in event for event in told} == {"js": True, "eg": False}


def test_an_ack_that_is_only_traced_is_no_responder_s_fault(
    server: ServerProcess, join: Dial, reader: WireClient, name: str
) -> None:
    publisher = Publisher(server, join, no_responders=True)
    make(reader, name)
    config = {"durable_name": "C", "ack_policy": "explicit"}
    ask(reader, f"CONSUMER.CREATE.{name}.C", {"stream_name": name, "config": config})
    publisher.client.round_trip(b"SUB box 7\r\n")
    heard = publisher.publish(f"$JS.ACK.{name}.C.1.1.1.1.0", ONLY, reply="box")
    assert b"503" not in heard
    assert publisher.told().json["events"][0]["subj"].startswith("$JS.ACK.")


def test_a_stream_that_is_full(maker: Publisher, reader: WireClient, name: str) -> None:
    make(reader, name, max_msgs=1, discard="new")
    maker.trace(f"{name}.x")
    assert maker.trace(f"{name}.x")[1:] == [
        stored(name, subject=f"{name}.x", error="maximum messages exceeded")
    ]
    assert maker.trace(f"{name}.x", ONLY)[1:] == [stored(name, subject=f"{name}.x")]


@pytest.mark.parametrize("only", [True, False])
def test_a_stream_that_keeps_it_for_nobody(
    maker: Publisher, reader: WireClient, name: str, only: bool
) -> None:
    make(reader, name, retention="interest")
    assert maker.trace(f"{name}.x", ONLY if only else None)[1:] == [
        stored(name, subject=f"{name}.x", nointerest=True)
    ]


@pytest.mark.parametrize("only", [True, False])
def test_the_api_is_a_service_of_the_system_account(maker: Publisher, reader: WireClient, only: bool) -> None:
    reader.round_trip(b"SUB box 1\r\n")
    assert maker.trace("$JS.API.INFO", ONLY if only else None, reply="box")[1:] == [
        {"type": "si", "acc": "$SYS", "from": "$JS.API.INFO", "to": "$JS.API.INFO"}
    ]
    if not only:
        assert "memory" in Message.read(reader.read_frame()).json
    assert reader.round_trip() == b""


# -- other ways to ask, and to be told --------------------------------------------------------------


def test_it_may_be_packed(maker: Publisher) -> None:
    maker.publish("nobody", {"Accept-Encoding": "gzip", **ONLY})
    told = maker.told()
    assert told.headers == {"Content-Encoding": "gzip"}
    assert json.loads(gzip.decompress(told.payload))["events"][0]["subj"] == "nobody"


@pytest.mark.parametrize("header", ["traceparent", "TraceParent"])
def test_an_account_may_want_to_know_of_sampled_messages(
    server: ServerProcess, join: Dial, header: str
) -> None:
    traced = Publisher(server, join, "traced")
    traced.client.round_trip(b"SUB here 1\r\n")
    block = header_block({header: PARENT + "01", **ONLY})
    found = Message.read(traced.client.round_trip(publish("here", b"hello", "", block)))
    assert found.payload == b"hello"
    told = traced.told()
    assert told.subject == "told.all"
    assert events(told) == [came("traced", "TRACED", "here"), went("traced", "here")]


@pytest.mark.parametrize("parent", [PARENT + "00", PARENT + "1", "01", PARENT + "zz"])
def test_but_not_of_others(server: ServerProcess, join: Dial, parent: str) -> None:
    traced = Publisher(server, join, "traced")
    traced.client.round_trip(publish("here", b"hello", "", header_block({"traceparent": parent})))
    traced.check_silence()
