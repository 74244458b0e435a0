"""Messages of sampled traces leave spans at a collector: publish, store, deliver."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import nats
import pytest
from nats.js import JetStreamContext

from millstream import Server
from millstream.config.load import load
from millstream.gateway.server import GatewayServer
from millstream.gateway.settings import Listener, Nats, Settings
from millstream.otel.options import OtelOptions
from tests.kits.collector import CollectedSpan, Collector
from tests.kits.gateway.v2 import is_up
from tests.kits.patience import PATIENCE_S

TRACE = "0af7651916cd43dd8448eb211c80319c"
CALLER = "b7ad6b7169203331"
SAMPLED = f"00-{TRACE}-{CALLER}-01"
UNSAMPLED = f"00-{TRACE}-{CALLER}-00"
# What is measured while messages flow would come in between.
CONFIG = """
listen: "127.0.0.1:-1"
jetstream {{ store_dir: {store} }}
millstream {{ otel {{ endpoint: "{url}", metrics: false, {more} }} }}
"""


@asynccontextmanager
async def traced_server(folder: Path, url: str, more: str = "") -> AsyncIterator[Server]:
    path = folder / "server.conf"
    path.write_text(CONFIG.format(store=folder / "store", url=url, more=more))
    async with Server(options=load(path)) as server:
        yield server


@asynccontextmanager
async def orders(server: Server) -> AsyncIterator[JetStreamContext]:
    async with await nats.connect(server.client_url) as connection:
        jetstream = connection.jetstream(timeout=PATIENCE_S)
        await jetstream.add_stream(name="ORDERS", subjects=["orders.>"])
        yield jetstream


async def spans_of(collector: Collector, count: int) -> dict[str, CollectedSpan]:
    """Wait for so many spans; return them by name and outcome."""
    await asyncio.to_thread(collector.wait, lambda each: len(each.spans) >= count)
    assert len(collector.spans) == count, collector.spans
    return {
        f"{span.name} {span.attributes.get('millstream.outcome', '')}".strip(): span
        for span in collector.spans
    }


async def test_a_message_is_followed_from_the_gateway_to_its_ack(
    tmp_path: Path, collector: Collector
) -> None:
    async with traced_server(tmp_path, collector.url) as server, orders(server) as jetstream:
        settings = Settings(
            nats=Nats.at(server.client_url),
            listeners=(Listener(port=0),),
            otel=OtelOptions(endpoint=collector.url, metrics=False),
        )
        async with (
            GatewayServer(settings) as gateway,
            httpx.AsyncClient(base_url="http://{}:{}".format(*gateway.addresses[0])) as http,
        ):
            await is_up(gateway)
            answer = await http.post(
                "/v2/subjects/orders.new", content=b"one", headers={"traceparent": SAMPLED}
            )
            assert answer.status_code == 200, answer.text
            pulled = await jetstream.pull_subscribe("orders.new", durable="packers")
            [message] = await pulled.fetch(1, timeout=PATIENCE_S)
            await message.ack_sync(timeout=PATIENCE_S)
    found = await spans_of(collector, 3)
    publish, store, deliver = (
        found[name] for name in ("publish", "store ORDERS", "deliver ORDERS/packers ack")
    )
    assert {span.trace_id for span in found.values()} == {TRACE}
    assert publish.parent_id == CALLER
    assert store.parent_id == deliver.parent_id == publish.span_id
    assert message.headers == {"traceparent": f"00-{TRACE}-{publish.span_id}-01"}
    assert publish.start_ns <= store.start_ns <= store.end_ns <= publish.end_ns
    assert store.end_ns <= deliver.start_ns <= deliver.end_ns
    assert (publish.service, store.service) == ("millstream-gateway", "millstream")
    assert store.attributes | {"messaging.destination.name": "orders.new"} == store.attributes
    assert deliver.attributes["millstream.sequence"] == store.attributes["millstream.sequence"] == 1
    assert deliver.attributes["messaging.consumer.group.name"] == "packers"
    assert store.attributes["messaging.message.body.size"] == len(b"one")


async def test_only_sampled_messages_have_spans(tmp_path: Path, collector: Collector) -> None:
    async with traced_server(tmp_path, collector.url) as server, orders(server) as jetstream:
        for headers in (None, {"other": SAMPLED}, {"traceparent": UNSAMPLED}, {"traceparent": "00-1-2-01"}):
            await jetstream.publish("orders.new", b"", headers=headers)
        await jetstream.publish("orders.new", b"", headers={"Traceparent": SAMPLED})
    found = await spans_of(collector, 1)
    assert found["store ORDERS"].attributes["millstream.sequence"] == 5


async def test_a_share_of_the_traces_is_recorded(tmp_path: Path, collector: Collector) -> None:
    half = 'sampling: "50%"'
    async with traced_server(tmp_path, collector.url, half) as server, orders(server) as jetstream:
        for last in ("0000000000000001", "7fffffffffffffff", "8000000000000000", "ffffffffffffffff"):
            traceparent = f"00-{TRACE[:16]}{last}-{CALLER}-01"
            await jetstream.publish("orders.new", b"", headers={"traceparent": traceparent})
    await asyncio.to_thread(collector.wait, lambda each: len(each.spans) >= 2)
    assert sorted(span.attributes["millstream.sequence"] for span in collector.spans) == [1, 2]


async def test_how_a_delivery_ended(tmp_path: Path, collector: Collector) -> None:
    async with traced_server(tmp_path, collector.url) as server, orders(server) as jetstream:
        for _ in range(4):
            await jetstream.publish("orders.new", b"", headers={"traceparent": SAMPLED})
        pulled = await jetstream.pull_subscribe("orders.new", durable="c")
        first, second, third, _ = await pulled.fetch(4, timeout=PATIENCE_S)
        await first.nak()
        await second.term()
        await third.in_progress()
        await third.ack_sync(timeout=PATIENCE_S)
        [again] = await pulled.fetch(1, timeout=PATIENCE_S)
        assert again.metadata.num_delivered == 2
        await again.ack_sync(timeout=PATIENCE_S)
    await asyncio.to_thread(collector.wait, lambda each: len(each.spans) >= 9)
    deliveries = sorted(
        (
            span.attributes["millstream.sequence"],
            span.attributes["millstream.deliveries"],
            span.attributes["millstream.outcome"],
        )
        for span in collector.spans
        if span.name == "deliver ORDERS/c"
    )
    assert deliveries == [(1, 1, "nak"), (1, 2, "ack"), (2, 1, "term"), (3, 1, "ack"), (4, 1, "unsettled")]


async def test_an_ack_of_all_ends_every_delivery_before(tmp_path: Path, collector: Collector) -> None:
    async with traced_server(tmp_path, collector.url) as server, orders(server) as jetstream:
        for _ in range(3):
            await jetstream.publish("orders.new", b"", headers={"traceparent": SAMPLED})
        config = nats.js.api.ConsumerConfig(ack_policy=nats.js.api.AckPolicy.ALL)
        pulled = await jetstream.pull_subscribe("orders.new", durable="c", config=config)
        messages = await pulled.fetch(3, timeout=PATIENCE_S)
        await messages[1].ack_sync(timeout=PATIENCE_S)
    await asyncio.to_thread(collector.wait, lambda each: len(each.spans) >= 6)
    outcomes = [span.attributes["millstream.outcome"] for span in collector.spans if "deliver" in span.name]
    assert outcomes == ["ack", "ack", "unsettled"]


async def test_without_acks_a_delivery_is_a_moment(tmp_path: Path, collector: Collector) -> None:
    async with traced_server(tmp_path, collector.url) as server, orders(server) as jetstream:
        await jetstream.publish("orders.new", b"", headers={"traceparent": SAMPLED})
        pushed = await jetstream.subscribe("orders.new", ordered_consumer=True)
        await pushed.next_msg(timeout=PATIENCE_S)
    await asyncio.to_thread(collector.wait, lambda each: len(each.spans) >= 2)
    [delivery] = [span for span in collector.spans if "deliver" in span.name]
    assert delivery.attributes["millstream.outcome"] == "no ack needed"
    assert delivery.start_ns == delivery.end_ns


async def test_a_refused_message_is_not_stored(tmp_path: Path, collector: Collector) -> None:
    async with traced_server(tmp_path, collector.url) as server, orders(server) as jetstream:
        await jetstream.update_stream(name="ORDERS", subjects=["orders.>"], max_msg_size=4)
        headers = {"traceparent": SAMPLED}
        with pytest.raises(nats.js.errors.APIError, match="maximum"):
            await jetstream.publish("orders.new", b"too large", headers=headers)
    assert (await spans_of(collector, 1)).keys() == {"store ORDERS not stored"}


async def test_traces_of_messages_are_as_before(tmp_path: Path, collector: Collector) -> None:
    """A message that asks for nats-server's trace gets it, and a span beside it."""
    async with traced_server(tmp_path, collector.url) as server, orders(server) as jetstream:
        connection = jetstream._nc
        traces = await connection.subscribe("traces")
        headers = {"traceparent": SAMPLED, "Nats-Trace-Dest": "traces"}
        ack = await jetstream.publish("orders.new", b"", headers=headers)
        trace = await traces.next_msg(timeout=PATIENCE_S)
        assert ack.seq == 1
        assert b'"stream":"ORDERS"' in trace.data
        only = headers | {"Nats-Trace-Only": "true"}
        await connection.publish("orders.new", b"", headers=only)
        await traces.next_msg(timeout=PATIENCE_S)
    found = await spans_of(collector, 1)
    assert found["store ORDERS"].attributes["millstream.sequence"] == 1
