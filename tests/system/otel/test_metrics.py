"""A collector gets what `/metrics` answers."""

import asyncio
import urllib.request
from pathlib import Path
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from millstream import Server
from millstream.config.load import load
from millstream.gateway.server import GatewayServer
from millstream.gateway.settings import Listener, Nats, Settings
from millstream.otel.options import OtelOptions
from tests.kits.collector import Collector, plain

CONFIG = """
listen: "127.0.0.1:-1"
server_name: "box-7"
http: "127.0.0.1:-1"
jetstream {{ store_dir: {store} }}
millstream {{ otel {{
  endpoint: "{url}", interval: "1s", service_name: "orders", headers {{ "api-key": "secret" }}
}} }}
"""


def kind(metric: Any) -> str:
    found: str = metric.WhichOneof("data")
    return {"sum": "counter"}.get(found, found)


async def test_metrics_of_a_server(tmp_path: Path, collector: Collector) -> None:
    path = tmp_path / "server.conf"
    path.write_text(CONFIG.format(store=tmp_path / "store", url=collector.url))
    async with Server(options=load(path)) as server:
        scraped = await asyncio.to_thread(scrape, server.monitor_url)
        await asyncio.to_thread(collector.wait, lambda each: scraped.keys() <= each.metrics.keys())
        server_id = server.broker.identity.server_id
    assert {name: kind(collector.metrics[name]) for name in scraped} == scraped
    assert collector.resource["service.name"] == "orders"
    assert collector.resource["service.instance.id"] == server_id
    assert collector.resource["millstream.server.name"] == "box-7"
    assert collector.headers["api-key"] == "secret"
    requests = collector.metrics["millstream_received_messages"].sum
    assert requests.is_monotonic
    assert requests.aggregation_temporality == 2  # cumulative
    [steps] = collector.metrics["millstream_loop_step_seconds"].histogram.data_points[:1]
    assert steps.count == sum(steps.bucket_counts)
    assert len(steps.bucket_counts) == len(steps.explicit_bounds) + 1
    assert "millstream_otel_spans" in scraped


def scrape(url: str) -> dict[str, str]:
    """Return the kind of each metric that has a value."""
    with urllib.request.urlopen(f"{url}/metrics") as answer:
        text = answer.read().decode()
    return {each.name: each.type for each in text_string_to_metric_families(text) if each.samples}


async def test_metrics_of_a_gateway(collector: Collector) -> None:
    async with Server() as server:
        settings = Settings(
            nats=Nats.at(server.client_url),
            listeners=(Listener(port=0),),
            otel=OtelOptions(endpoint=collector.url, interval_s=1, traces=False),
        )
        async with GatewayServer(settings):
            up = "millstream_gateway_nats_up"
            await asyncio.to_thread(collector.wait, lambda each: up in each.metrics)
    assert collector.resource["service.name"] == "millstream-gateway"
    assert plain(collector.metrics[up].gauge.data_points[0].attributes) == {}
