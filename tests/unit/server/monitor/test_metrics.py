"""Metrics for Prometheus."""

from collections.abc import Iterator

import pytest
from prometheus_client.parser import text_string_to_metric_families

from millstream.server.blocking_server import BlockingServer
from tests.kits.server.monitor import get
from tests.kits.wire import WireClient


@pytest.fixture
def server() -> Iterator[BlockingServer]:
    with BlockingServer(monitor=True) as running:
        yield running


def scrape(server: BlockingServer) -> dict[str, float]:
    """Values by name and labels, as `name{a=b}`."""
    status, headers, body = get(f"{server.monitor_url}/metrics")
    assert status == 200
    assert headers["content-type"].startswith("text/plain; version=")
    values = {}
    for family in text_string_to_metric_families(body.decode()):
        for sample in family.samples:
            labels = ",".join(f"{key}={value}" for key, value in sorted(sample.labels.items()))
            values[f"{sample.name}{{{labels}}}" if labels else sample.name] = sample.value
    return values


def test_traffic_is_counted(server: BlockingServer) -> None:
    before = scrape(server)
    assert before["millstream_connections"] == 0
    with WireClient.connect(server.port) as client:
        client.handshake()
        client.round_trip(b"SUB foo 1\r\nSUB foo 2\r\n" + b"PUB foo 5\r\nhello\r\n" * 3)
        values = scrape(server)
    expected = {
        "millstream_connections": 1,
        "millstream_accepted_connections_total": 1,
        "millstream_received_messages_total": 3,
        "millstream_received_bytes_total": 15,
        "millstream_sent_messages_total": 6,
        "millstream_sent_bytes_total": 30,
        "millstream_slow_consumers_total": 0,
        "millstream_stalled_producers_total": 0,
        "millstream_account_connections{account=$G}": 1,
        "millstream_account_received_messages_total{account=$G}": 3,
        "millstream_account_sent_bytes_total{account=$G}": 30,
        "millstream_account_connections{account=$SYS}": 0,
        "millstream_ready": 1,
        "millstream_http_requests_total{path=/metrics}": 2,
    }
    assert {name: values[name] for name in expected} == expected
    assert values["millstream_subscriptions"] == before["millstream_subscriptions"] + 2
    assert values["millstream_uptime_seconds"] > 0
    assert values["process_resident_memory_bytes"] > 1_000_000


def test_every_metric_is_explained_and_named_once(server: BlockingServer) -> None:
    _, _, body = get(f"{server.monitor_url}/metrics")
    families = list(text_string_to_metric_families(body.decode()))
    names = [family.name for family in families]
    assert len(names) == len(set(names))
    assert [family.name for family in families if not family.documentation.endswith(".")] == []
    assert {name.split("_")[0] for name in names} == {"millstream", "process"}


def test_build_and_server_are_told(server: BlockingServer) -> None:
    names = scrape(server)
    assert any(name.startswith("millstream_build_info{") and "nats_version=" in name for name in names)
    assert any(name.startswith("millstream_server_info{") and "server_id=N" in name for name in names)
