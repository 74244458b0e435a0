"""Monitoring documents about JetStream, as recorded from nats-server 2.15.1."""

from __future__ import annotations

import json
from collections.abc import Iterator
from http import HTTPStatus
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from millstream.base.slices import finish
from millstream.jetstream.engine import Engine
from millstream.jetstream.options import AccountJetStreamOptions, JetStreamLimits, JetStreamOptions
from millstream.server.jetstream_view import EngineView
from millstream.server.monitor.exposition import table_text
from millstream.server.monitor.formats import compact
from millstream.server.monitor.healthz import HealthErrorType, HealthzOptions
from millstream.server.monitor.json_page import render
from millstream.server.monitor.jsz import JszOptions
from millstream.store.errors import StoreError
from tests.kits.fake_world import FakeWorld

MEBIBYTE = 1024 * 1024


def text_of(document: Any) -> bytes:
    return b"".join(finish(render(document, pretty=False)))


class Site:
    """An engine with two accounts that have JetStream, each in a world of its own."""

    def __init__(self, folder: Path, **options: Any) -> None:
        self.worlds: dict[str, FakeWorld] = {}
        accounts = {
            "A": AccountJetStreamOptions(max_memory=MEBIBYTE, max_store=2 * MEBIBYTE),
            "C": AccountJetStreamOptions(),
        }
        defaults: dict[str, Any] = {"max_memory": 100 * MEBIBYTE, "max_file": 200 * MEBIBYTE}
        chosen = {"enabled": True, "store_dir": str(folder), "accounts": accounts} | defaults | options
        self.engine = Engine(
            JetStreamOptions(**chosen),
            self._world,
            server_name="ref",
            server_id="ID",
            server_version="2.15.1",
            system_account="SYS",
        )
        self.engine.start()
        self.view = EngineView(self.engine)

    def _world(self, account: str) -> FakeWorld:
        return self.worlds.setdefault(account, FakeWorld())

    def request(self, account: str, subject: str, body: Any = None) -> Any:
        text = json.dumps(body).encode() if body is not None else b""
        return json.loads(self.worlds[account].request(subject.encode(), text))

    def jsz(self, **options: Any) -> Any:
        document = json.loads(text_of(finish(self.view.jsz(JszOptions(**options)))))
        assert document.pop("now")
        return document


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    site = Site(tmp_path, domain="hub", sync_interval_s=120.0)
    site.request("A", "$JS.API.STREAM.CREATE.S", {"name": "S", "subjects": ["s.>"]})
    site.request("A", "s.a", 1)
    site.request("C", "$JS.API.STREAM.CREATE.R", {"name": "R", "max_bytes": 100})
    site.request("C", "$JS.API.STREAM.INFO.NO")
    yield site
    site.engine.stop()


def config(site: Site) -> dict[str, Any]:
    return {
        "max_memory": 104857600,
        "max_storage": 209715200,
        "store_dir": site.engine.folder,
        "sync_interval": 120000000000,
        "domain": "hub",
        "compress_ok": True,
        "strict": True,
    }


STATS = {
    "memory": 0,
    "storage": 34,
    "reserved_memory": 0,
    "reserved_storage": 100,
    "accounts": 2,
    "ha_assets": 0,
    "api": {"level": 5, "total": 3, "errors": 1},
}
OF_A = {
    "name": "A",
    "id": "A",
    "memory": 0,
    "storage": 34,
    "reserved_memory": 1048576,
    "reserved_storage": 2097152,
    "accounts": 0,
    "ha_assets": 0,
    "api": {"level": 0, "total": 1, "errors": 0},
}


def test_varz_has_configuration_use_and_limits(site: Site) -> None:
    document = json.loads(compact(site.view.varz()))
    assert document == {
        "config": config(site),
        "stats": STATS,
        "limits": {"default_max_consumers": 1000},
    }


def test_jsz_without_options_has_only_sums(site: Site) -> None:
    document = site.jsz()
    assert document == STATS | {
        "server_id": "ID",
        "config": config(site),
        "limits": {"default_max_consumers": 1000},
        "streams": 2,
        "consumers": 0,
        "messages": 1,
        "bytes": 34,
        "total": 2,
    }
    assert list(document)[:8] == [*STATS, "server_id"]


def test_jsz_tells_accounts_in_order_and_page_by_page(site: Site) -> None:
    first, second = site.jsz(accounts=True)["account_details"]
    assert first == OF_A
    assert list(first) == list(OF_A)
    assert second["name"] == "C"
    assert second["reserved_memory"] == second["reserved_storage"] == 2**64 - 1  # no limit
    assert [each["name"] for each in site.jsz(accounts=True, limit=1, offset=1)["account_details"]] == ["C"]
    assert "account_details" not in site.jsz(account="ZZ")
    assert "account_details" not in site.jsz(accounts=True, offset=9)


def test_jsz_tells_streams_of_one_account_or_of_all(site: Site) -> None:
    (account,) = site.jsz(account="A", streams=True)["account_details"]
    (stream,) = account["stream_detail"]
    assert list(stream) == ["name", "created", "cluster", "state"]
    assert stream["cluster"] == {"leader": "ref"}
    assert stream["state"]["messages"] == 1
    everything = site.jsz(consumer=True, config=True)["account_details"]
    streams = [each["stream_detail"][0] for each in everything]
    assert [each["config"]["name"] for each in streams] == ["S", "R"]
    assert streams[0]["config"]["metadata"] == {"_nats.req.level": "0"}


def test_this_server_leads_all_that_it_has(site: Site) -> None:
    document = site.jsz(raft=True)
    assert document["streams_leader"] == 2
    assert "consumers_leader" not in document


def test_everything_that_is_configured_is_told(tmp_path: Path) -> None:
    limits = JetStreamLimits(
        max_ack_pending=5,
        max_ha_assets=6,
        max_request_batch=7,
        duplicate_window_s=8,
        batch_max_inflight_per_stream=1,
        batch_max_inflight_total=2,
        batch_max_messages=3,
        batch_timeout_s=4,
    )
    site = Site(tmp_path, limits=limits, strict=False, unique_tag="az")
    document = json.loads(compact(site.view.varz()))
    site.engine.stop()
    assert document["limits"] == {
        "max_request_batch": 7,
        "max_ack_pending": 5,
        "max_ha_assets": 6,
        "max_duplicate_window": 8000000000,
        "max_batch_inflight_per_stream": 1,
        "max_batch_inflight_total": 2,
        "max_batch_size": 3,
        "max_batch_timeout": 4000000000,
        "default_max_consumers": 1000,
    }
    assert document["config"] == {
        "max_memory": 104857600,
        "max_storage": 209715200,
        "store_dir": site.engine.folder,
        "sync_interval": 120000000000,
        "sync_always": True,
        "compress_ok": True,
        "unique_tag": "az",
    }


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"account": "Z"}, 'JetStream account "Z" not found'),
        ({"account": "A", "stream": "NO"}, 'JetStream stream "NO" not found on account "A"'),
        (
            {"account": "A", "stream": "S", "consumer": "x"},
            'JetStream consumer "x" not found for stream "S" on account "A"',
        ),
    ],
)
def test_what_does_not_exist_is_not_healthy(site: Site, options: dict[str, str], error: str) -> None:
    status, problems = finish(site.view.health(HealthzOptions(**options)))
    assert status is HTTPStatus.NOT_FOUND
    assert [problem.error for problem in problems] == [error]
    assert finish(site.view.health(HealthzOptions(js_enabled_only=True, **options))) == (HTTPStatus.OK, [])


def test_a_stream_that_cannot_be_written_is_not_healthy(site: Site) -> None:
    assert finish(site.view.health(HealthzOptions())) == (HTTPStatus.OK, [])
    site.engine.accounts["A"].streams["S"].failure = StoreError("write", "file", "no space")
    status, (problem,) = finish(site.view.health(HealthzOptions()))
    assert status is HTTPStatus.SERVICE_UNAVAILABLE
    assert problem.type is HealthErrorType.STREAM
    assert problem.error == "JetStream stream 'A > S' write error: cannot write file: no space"
    assert finish(site.view.health(HealthzOptions(account="C")))[1] == []


def test_a_stream_that_did_not_start_is_not_healthy_and_not_replaced(site: Site, tmp_path: Path) -> None:
    site.engine.stop()
    Path(site.engine.folder, "A", "streams", "S", "meta.json").write_bytes(b"damaged")
    again = Site(tmp_path)
    _, (problem,) = finish(again.view.health(HealthzOptions(account="A", stream="S")))
    assert problem.error == "JetStream stream 'A > S' could not be recovered"
    refused = again.request("A", "$JS.API.STREAM.CREATE.S", {"name": "S", "subjects": ["s.>"]})
    assert refused["error"]["err_code"] == 10049
    again.engine.stop()


def test_only_accounts_with_jetstream_have_it(site: Site) -> None:
    assert site.view.account_enabled("A")
    assert not site.view.account_enabled("B")


def test_an_account_without_jetstream_hears_that_from_the_engine(site: Site) -> None:
    site.engine.refuse("B")
    assert site.request("B", "$JS.API.INFO")["error"]["err_code"] == 10039


@pytest.mark.parametrize(
    ("endpoint", "kind"),
    [
        ("INFO", "account_info_response"),
        ("STREAM.NAMES", "system_response"),
        ("STREAM.LEADER.STEPDOWN.X", "system_response"),
        ("CONSUMER.NAMES.X", "system_response"),
    ],
)
def test_the_system_account_has_no_jetstream(site: Site, endpoint: str, kind: str) -> None:
    assert site.request("SYS", f"$JS.API.{endpoint}") == {
        "type": f"io.nats.jetstream.api.v1.{kind}",
        "error": {"code": 503, "err_code": 10039, "description": "JetStream not enabled for account"},
    }


def test_the_system_account_can_purge_an_account(site: Site) -> None:
    for name in ("A", "ZZ"):
        assert site.request("SYS", f"$JS.API.ACCOUNT.PURGE.{name}") == {
            "type": "io.nats.jetstream.api.v1.account_purge_response",
            "initiated": True,
        }
    assert site.request("A", "$JS.API.STREAM.NAMES")["streams"] is None
    assert site.request("C", "$JS.API.STREAM.NAMES")["streams"] == ["R"]
    with pytest.raises(AssertionError, match="0 answers"):
        site.request("A", "$JS.API.ACCOUNT.PURGE.A")


def test_metrics_tell_every_stream(site: Site) -> None:
    found = {
        (sample.name, *sample.labels.values()): sample.value
        for metric in site.view.metrics()
        for sample in metric.samples
    }
    assert found["millstream_jetstream_storage_bytes",] == 34
    assert found["millstream_jetstream_api_requests_total",] == 3
    lines = b"".join(finish(table_text(site.view.stream_metrics()))).decode().splitlines()
    assert 'millstream_stream_messages{account="A",stream="S"} 1.0' in lines
    assert 'millstream_stream_last_sequence{account="A",stream="S"} 1.0' in lines
    assert 'millstream_stream_bytes{account="C",stream="R"} 0.0' in lines


def test_two_engines_do_not_share_a_directory(site: Site, tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="another server uses this store"):
        Site(tmp_path)


def test_what_is_stored_may_stay_on_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = Site(tmp_path)
    before.request("A", "$JS.API.STREAM.CREATE.S", {"name": "S", "subjects": ["s.>"]})
    before.request("A", "s.a", "x" * 1000)
    before.engine.stop()
    monkeypatch.setattr("os.statvfs", lambda _: SimpleNamespace(f_bavail=0, f_frsize=4096))
    after = Site(tmp_path, max_file=None)
    try:
        stored = after.jsz()["storage"]
        assert stored > 1000
        assert after.jsz()["config"]["max_storage"] == stored
        assert after.request("A", "$JS.API.STREAM.INFO.S")["state"]["messages"] == 1
    finally:
        after.engine.stop()
