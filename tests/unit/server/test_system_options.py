"""Bodies of system requests; complaints are those that nats-server 2.15 gave to the same bodies."""

import asyncio
from collections.abc import Iterator

import pytest

from millstream.broker.broker import Broker
from millstream.broker.options import BrokerOptions
from millstream.server.monitor.connz import ConnzOptions
from millstream.server.monitor.queries import BadQuery
from millstream.server.system.options import Filters, NoOptions, decode

COMPLAINTS = {
    "[]": "json: cannot unmarshal array into Go value of type server.ConnzEventOptions",
    "3": "json: cannot unmarshal number into Go value of type server.ConnzEventOptions",
    '{"server_name":3}': "number into Go struct field ConnzEventOptions.server_name of type string",
    '{"cid":"x"}': "string into Go struct field ConnzEventOptions.cid of type uint64",
    '{"subscriptions":"yes"}': "string into Go struct field ConnzEventOptions.subscriptions of type bool",
    '{"state":"x"}': "string into Go struct field ConnzEventOptions.state of type server.ConnState",
    '{"limit":1.5}': "number 1.5 into Go struct field ConnzEventOptions.limit of type int",
    '{"tags":"x"}': "string into Go struct field ConnzEventOptions.tags of type []string",
    '{"a":1}x': "invalid character 'x' after top-level value",
    "[" * 100_000: "exceeded max depth",
}


@pytest.mark.parametrize(("body", "complaint"), COMPLAINTS.items())
def test_wrong_body_is_refused_in_the_words_of_the_reference(body: str, complaint: str) -> None:
    with pytest.raises(BadQuery) as refusal:
        decode(body.encode(), "ConnzEventOptions", ConnzOptions)
    assert str(refusal.value).endswith(complaint)


def test_options_and_filters_share_a_body() -> None:
    body = b'{"auth":true,"acc":"A","Limit":7,"server_name":"x","unknown":1,"user":null}'
    options, filters = decode(body, "ConnzEventOptions", ConnzOptions)
    assert options == ConnzOptions(username=True, account="A", limit=7)
    assert filters == Filters(server_name="x")


@pytest.mark.parametrize("body", [b"", b"{}", b"null"])
def test_nothing_set_is_the_default(body: bytes) -> None:
    assert decode(body, "VarzEventOptions", NoOptions) == (NoOptions(), Filters())


@pytest.fixture
def broker() -> Iterator[Broker]:
    loop = asyncio.new_event_loop()
    options = BrokerOptions(host="127.0.0.1", server_name="probe", server_tags=("a:b", "foo"))
    yield Broker(options, server_id="NID", loop=loop)
    loop.close()


@pytest.mark.parametrize(
    ("filters", "accepted"),
    [
        (Filters(), True),
        (Filters(server_name="pro"), True),
        (Filters(server_name="pro", exact_match=True), False),
        (Filters(server_name="probe", host="127.0.0.1", exact_match=True), True),
        (Filters(host="127"), True),
        (Filters(host="10."), False),
        (Filters(cluster="x"), False),
        (Filters(tags=["a:b"]), True),
        (Filters(tags=["Foo", "a:b"]), True),
        (Filters(tags=["foo", "other"]), False),
        (Filters(domain="d"), False),
    ],
)
def test_filters_choose_the_server(broker: Broker, filters: Filters, accepted: bool) -> None:
    assert filters.accept(broker) is accepted
