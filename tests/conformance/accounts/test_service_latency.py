"""Measurements of service requests: what is measured, and what the measurements say."""

from typing import Any
from unittest.mock import ANY

import pytest

from tests.kits.conformance.clients import Dial, Message, ServerFactory, login, publish, text_block
from tests.kits.reference import ServerProcess
from tests.kits.wire import WireClient

ACCOUNTS = """
accounts {
  SHOP {
    users: [ { user: shop, password: p } ]
    exports: [
      { service: "all.*", latency: "lat.all" }
      { service: "percent", latency: { sampling: "100%", subject: "lat.percent" } }
      { service: "headers", latency: { sampling: headers, subject: "lat.headers" } }
      { service: "slow", response_threshold: "200ms", latency: { sampling: 100, subject: "lat.slow" } }
      { service: "plain" }
    ]
  }
  GUEST {
    users: [ { user: guest, password: p } ]
    imports: [
      { service: { account: SHOP, subject: "all.*" } }
      { service: { account: SHOP, subject: "all.shared" }, to: "shared", share: true }
      { service: { account: SHOP, subject: "percent" } }
      { service: { account: SHOP, subject: "headers" } }
      { service: { account: SHOP, subject: "slow" } }
      { service: { account: SHOP, subject: "plain" } }
    ]
  }
}
"""
TYPE = "io.nats.server.metric.v1.service_latency"


@pytest.fixture
def server(shared_server: ServerFactory) -> ServerProcess:
    return shared_server(config=ACCOUNTS)


@pytest.fixture
def ears(server: ServerProcess, join: Dial) -> WireClient:
    """A client of the exporting account that hears the measurements."""
    client = login(join, server, "shop")
    client.round_trip(b"SUB lat.> 9\r\n")
    return client


@pytest.fixture
def shop(server: ServerProcess, join: Dial) -> WireClient:
    return login(join, server, "shop", name="the shop", lang="tests", version="1")


@pytest.fixture
def guest(server: ServerProcess, join: Dial) -> WireClient:
    client = login(join, server, "guest", name="a guest", lang="tests", version="2")
    client.round_trip(b"SUB inbox.* 1\r\n")
    return client


def answer(shop: WireClient, *bodies: bytes) -> None:
    """Answer the next request."""
    request = Message.read(shop.read_frame())
    for body in bodies:
        shop.round_trip(publish(request.reply, body))


def measured(ears: WireClient) -> dict[str, Any]:
    """Return the next measurement without what differs from run to run, and its subject."""
    message = Message.read(ears.read_frame())
    found: dict[str, Any] = message.json
    assert list(found)[:4] == ["type", "id", "timestamp", "status"]
    assert found.pop("type") == TYPE
    assert found.pop("id")
    assert found.pop("timestamp") > found.pop("start") > "2020"
    return {"on": message.subject, **found}


def times(found: dict[str, Any]) -> tuple[int, int, int]:
    return found.pop("service"), found.pop("system"), found.pop("total")


def test_a_response_ends_a_measurement(ears: WireClient, shop: WireClient, guest: WireClient) -> None:
    shop.round_trip(b"SUB all.x 2\r\n")
    guest.send(publish("all.x", b"?", "inbox.1"))
    answer(shop, b"!")
    assert Message.read(guest.read_frame()).payload == b"!"
    found = measured(ears)
    service, system, total = times(found)
    assert service >= 0
    assert system >= 0
    assert total > 0
    responder = found.pop("responder")
    assert found == {"on": "lat.all", "status": 200, "requestor": {"acc": "GUEST", "rtt": ANY}}
    assert total >= found["requestor"]["rtt"]
    for changing in ("start", "host", "id", "rtt", "server"):
        assert responder.pop(changing)
    assert responder == {
        "acc": "SHOP",
        "user": "shop",
        "name": "the shop",
        "lang": "tests",
        "ver": "1",
        "kind": "Client",
        "client_type": "nats",
    }


def test_a_shared_import_tells_who_asks(ears: WireClient, shop: WireClient, guest: WireClient) -> None:
    shop.round_trip(b"SUB all.shared 2\r\n")
    guest.send(publish("shared", b"?", "inbox.1"))
    answer(shop, b"!")
    requestor = measured(ears)["requestor"]
    assert (requestor["acc"], requestor["name"], requestor["user"]) == ("GUEST", "a guest", "guest")
    assert set(requestor) >= {"start", "host", "id", "rtt", "server", "kind", "client_type", "lang", "ver"}


def test_only_the_first_response_counts(ears: WireClient, shop: WireClient, guest: WireClient) -> None:
    shop.round_trip(b"SUB percent 2\r\n")
    guest.send(publish("percent", b"?", "inbox.1"))
    answer(shop, b"1", b"2", b"3")
    assert measured(ears)["on"] == "lat.percent"
    assert ears.round_trip() == b""


def test_a_service_without_latency_is_not_measured(
    ears: WireClient, shop: WireClient, guest: WireClient
) -> None:
    shop.round_trip(b"SUB plain 2\r\n")
    guest.send(publish("plain", b"?", "inbox.1"))
    answer(shop, b"!")
    guest.read_frame()
    assert ears.round_trip() == b""


@pytest.mark.parametrize(
    ("asked", "status", "description"),
    [("inbox.1", 503, "Service Unavailable"), ("", 400, "Bad Request")],
)
def test_a_request_that_fails_at_once_is_told(
    ears: WireClient, shop: WireClient, guest: WireClient, asked: str, status: int, description: str
) -> None:
    if status == 400:
        shop.round_trip(b"SUB all.x 2\r\n")
    guest.send(publish("all.x", b"?", asked))
    assert measured(ears) == {
        "on": "lat.all",
        "status": status,
        "description": description,
        "requestor": {"acc": "GUEST", "rtt": ANY},
        "service": 0,
        "system": 0,
        "total": 0,
    }


def test_a_service_that_does_not_answer_is_told(
    ears: WireClient, shop: WireClient, guest: WireClient
) -> None:
    shop.round_trip(b"SUB slow 2\r\n")
    guest.send(publish("slow", b"?", "inbox.1"))
    request = Message.read(shop.read_frame())
    found = measured(ears)
    assert (found["on"], found["status"], found["description"]) == ("lat.slow", 504, "Service Timeout")
    shop.round_trip(publish(request.reply, b"late"))
    assert guest.round_trip() == b""
    assert ears.round_trip() == b""


@pytest.mark.parametrize("leaves", [False, True])
def test_a_requester_that_does_not_wait_is_told(
    ears: WireClient, shop: WireClient, guest: WireClient, leaves: bool
) -> None:
    shop.round_trip(b"SUB all.x 2\r\n")
    guest.send(publish("all.x", b"?", "inbox.1"))
    shop.read_frame()
    if leaves:
        guest.close()
    else:
        guest.round_trip(b"UNSUB 1\r\n")
    found = measured(ears)
    assert (found["status"], found["description"]) == (408, "Request Timeout")
    assert (found["service"], found["total"]) == (0, 0)


B3 = {"X-B3-Sampled": ["1"], "X-B3-Traceid": ["80f1"]}


@pytest.mark.parametrize(
    ("asking", "header"),
    [
        ("A: b", None),
        ("Uber-Trace-Id: 4:5:4:1\r\nuberctx-x: y", {"Uber-Trace-Id": ["4:5:4:1"], "Uberctx-X": ["y"]}),
        ("Uber-Trace-Id: 4:5:4:0", None),
        ("Uber-Trace-Id: 4:5:1", None),
        ("X-B3-Sampled: 1\r\nX-B3-TraceId: 80f1\r\nA: b", B3),
        ("X-B3-Sampled: 0\r\nX-B3-TraceId: 80f1", None),
        ("X-B3-TraceId: 80f1", {"X-B3-Traceid": ["80f1"]}),
        ("B3: 80f1-e457-1-05e3", {"B3": ["80f1-e457-1-05e3"]}),
        ("B3: 80f1-e457-0", None),
        ("B3: 0", None),
        ("traceparent: 00-4bf9-00f0-01\r\ntracestate: a=b",
         {"Traceparent": ["00-4bf9-00f0-01"], "Tracestate": ["a=b"]}),
        ("traceparent: 00-4bf9-00f0-00", None),
        ("traceparent: 00-4bf9-00f0-ff", None),
        ("traceparent: junk", None),
    ],
)  # fmt: skip
def test_headers_ask_for_a_measurement(
    ears: WireClient, shop: WireClient, guest: WireClient, asking: str, header: dict[str, list[str]] | None
) -> None:
    shop.round_trip(b"SUB headers 2\r\n")
    guest.send(publish("headers", b"?", "inbox.1", text_block(asking)))
    answer(shop, b"!")
    guest.read_frame()
    if header is None:
        assert ears.round_trip() == b""
    else:
        assert measured(ears)["header"] == header
