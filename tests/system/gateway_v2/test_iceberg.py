"""`/v2/iceberg`: PyIceberg attaches the tables, permissions of streams decide, writes are refused."""

import asyncio
import base64
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa
import pytest
from pyiceberg.catalog import load_catalog
from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError, RESTError

from millstream.gateway.settings import Lake
from millstream.lake.catalog import CatalogSettings
from tests.conftest import ServerFactory
from tests.kits.engines.installed import run
from tests.kits.gateway.v2 import Gateway
from tests.kits.lake import archive
from tests.kits.queries import fill, new_name
from tests.kits.reference import ServerProcess

SPACES = "/v2/iceberg/v1/namespaces"


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(warehouse=str(tmp_path / "lake"))


@pytest.fixture
async def served(start_gateway: Any, shared_server: Callable[..., ServerProcess], lake: Lake) -> Gateway:
    """A gateway whose stream of 30 messages has 20 in the table `plant.readings`."""
    nats = shared_server(jetstream=True)
    gateway: Gateway = await start_gateway(nats, lake=lake)
    gateway.stream = new_name()
    settings = CatalogSettings(warehouse=lake.warehouse)
    await asyncio.to_thread(fill, nats.client_url, gateway.stream)
    await asyncio.to_thread(archive, nats.client_url, gateway.stream, settings, "plant.readings", 1, 20)
    return gateway


def attach(gateway: Gateway) -> Any:
    return load_catalog("gateway", type="rest", uri=f"{gateway.http.base_url}/v2/iceberg")


async def test_pyiceberg_attaches_the_catalog_and_reads_a_table(served: Gateway) -> None:
    def read() -> None:
        catalog = attach(served)
        assert catalog.list_namespaces() == [("plant",)]
        assert catalog.list_tables("plant") == [("plant", "readings")]
        assert catalog.namespace_exists("plant")
        assert catalog.table_exists("plant.readings")
        assert not catalog.table_exists("plant.nothing")
        table = catalog.load_table("plant.readings")
        assert table.scan(row_filter="seq > 15").to_arrow().column("seq").to_pylist() == [16, 17, 18, 19, 20]
        assert table.properties["millstream.table"] == "archive"
        with pytest.raises(NoSuchTableError):
            catalog.load_table("plant.nothing")
        with pytest.raises(NoSuchNamespaceError):
            catalog.list_tables("nowhere")

    await asyncio.to_thread(read)


async def test_what_would_change_the_catalog_is_refused_in_its_protocol(served: Gateway) -> None:
    before = (await served.http.get(f"{SPACES}/plant/tables/readings")).json()

    def write() -> None:
        catalog = attach(served)
        rows = pa.table({"seq": pa.array([99], pa.int64())})
        for change in (
            lambda: catalog.create_namespace("mine"),
            lambda: catalog.drop_namespace("plant"),
            lambda: catalog.create_table("plant.mine", schema=rows.schema),
            lambda: catalog.drop_table("plant.readings"),
            lambda: catalog.rename_table("plant.readings", "plant.mine"),
            lambda: catalog.load_table("plant.readings").update_spec().remove_field("time_day").commit(),
        ):
            with pytest.raises((RESTError, NotImplementedError)):
                change()

    await asyncio.to_thread(write)
    for method, path in (
        ("POST", SPACES),
        ("DELETE", f"{SPACES}/plant"),
        ("POST", f"{SPACES}/plant/properties"),
        ("POST", f"{SPACES}/plant/tables"),
        ("POST", f"{SPACES}/plant/register"),
        ("POST", f"{SPACES}/plant/tables/readings"),
        ("DELETE", f"{SPACES}/plant/tables/readings"),
        ("DELETE", f"{SPACES}/plant/tables/readings?purgeRequested=false"),  # as DuckDB asks
        ("POST", "/v2/iceberg/v1/tables/rename"),
        ("POST", "/v2/iceberg/v1/transactions/commit"),
    ):
        answer = await served.http.request(method, path, json={})
        assert answer.status_code == 406, path
        assert answer.json()["error"] == {
            "message": "this catalog is read-only: pipelines write its tables",
            "type": "UnsupportedOperationException",
            "code": 406,
        }
    assert (await served.http.get(f"{SPACES}/plant/tables/readings")).json() == before


@pytest.mark.soak
async def test_duckdb_attaches_the_catalog_and_reads_a_table(served: Gateway) -> None:
    queries = (
        "select count(*), max(seq) from lake.plant.readings",
        "select seq from lake.plant.readings where seq > 18 order by seq",
        "select * from lake.plant.nothing",
        "drop table lake.plant.readings",
    )
    address = f"{served.http.base_url}/v2/iceberg"
    counts, rows, missing, refused = json.loads(
        await asyncio.to_thread(run, "duckdb", "duckdb_reader", address, *queries)
    )
    assert (counts, rows) == ([[20, 20]], [[19], [20]])
    assert "Table with name nothing does not exist" in missing
    assert "this catalog is read-only: pipelines write its tables" in refused


@pytest.mark.soak
async def test_clickhouse_attaches_the_catalog_and_reads_a_table(served: Gateway) -> None:
    queries = (
        "show tables from lake",
        "select count(*), max(seq) from lake.`plant.readings`",
        "select seq from lake.`plant.readings` where seq > 18 order by seq",
    )
    address = f"{served.http.base_url}/v2/iceberg"
    output = await asyncio.to_thread(run, "clickhouse", "clickhouse_reader", address, *queries)
    tables, counts, rows = json.loads(output)
    assert tables == [["plant.readings"]]
    assert [int(number) for number in counts[0]] == [20, 20]
    assert [int(number) for [number] in rows] == [19, 20]


async def test_answers_are_those_of_the_protocol(served: Gateway) -> None:
    http = served.http
    config = (await http.get("/v2/iceberg/v1/config?warehouse=x")).json()
    assert config["overrides"] == {}
    assert "GET /v1/{prefix}/namespaces/{namespace}/tables/{table}" in config["endpoints"]
    for path in (f"{SPACES}/plant", f"{SPACES}/plant/tables/readings"):
        assert (await http.head(path)).status_code == 204
    assert (await http.head(f"{SPACES}/nowhere")).status_code == 404
    assert (await http.get(f"{SPACES}?parent=plant")).json() == {"namespaces": []}
    assert (await http.get(f"{SPACES}/plant%1F/tables")).status_code == 400
    answer = await http.get(f"{SPACES}/plant/tables/nothing")
    assert (answer.status_code, answer.json()["error"]["type"]) == (404, "NoSuchTableException")
    assert answer.headers["content-type"] == "application/problem+json"
    metrics = await http.post(f"{SPACES}/plant/tables/readings/metrics", json={})
    assert metrics.status_code == 204


async def test_a_gateway_without_a_catalog_says_so(gateway: Gateway) -> None:
    answer = await gateway.http.get("/v2/iceberg/v1/config")
    assert answer.status_code == 404
    assert answer.json()["error"]["message"] == "this gateway serves no tables; see gateway.lake"


async def test_sql_of_the_gateway_reads_the_tables_too(served: Gateway) -> None:
    async def ask(query: str) -> httpx.Response:
        return await served.http.post("/v2/sql", json={"query": query})

    found = (await ask(f"select count(*) as n from whole.{served.stream}")).json()
    assert found["rows"] == [{"n": 30}]
    assert [(scan["table"], scan["messages"]) for scan in found["statistics"]["scans"]] == [
        ("plant.readings", 20),
        ("", 10),
    ]
    assert (await ask("select max(seq) as last from plant.readings")).json()["rows"] == [{"last": 20}]
    answer = await ask("select * from plant.nothing")
    assert (answer.status_code, answer.json()["detail"]) == (
        404,
        "there is no table plant.nothing in catalog lake; check the name",
    )
    for escape in ("select * from iceberg_scan('/tmp')", "select * from '/etc/passwd'", "attach 'x.db'"):
        assert (await ask(escape)).status_code == 400


CONFIG = """
jetstream {{ store_dir: "{store}" }}
accounts {{
  A {{ jetstream: enabled, users: [
    {{ user: own, password: secret }}
    {{ user: few, password: secret, permissions: {{
        publish: {{ allow: ["$JS.API.INFO", "$JS.API.STREAM.INFO.*", "$JS.API.STREAM.MSG.GET.OPEN"] }}
        subscribe: {{ allow: ["_INBOX.>"] }}
    }} }}
  ] }}
  B {{ jetstream: enabled, users: [ {{ user: other, password: secret }} ] }}
}}
no_auth_user: own
"""


def user(name: str) -> dict[str, str]:
    return {"Authorization": "Basic " + base64.b64encode(f"{name}:secret".encode()).decode()}


async def test_a_caller_sees_the_tables_of_the_streams_that_it_may_read(
    start_gateway: Any, own_server: ServerFactory, lake: Lake, tmp_path: Path
) -> None:
    nats = own_server(config=CONFIG.format(store=tmp_path / "store"))
    settings = CatalogSettings(warehouse=lake.warehouse)
    for name in ("OPEN", "CLOSED"):
        await asyncio.to_thread(fill, nats.client_url, name, [b"1"])
        await asyncio.to_thread(archive, nats.client_url, name, settings, f"plant.{name.lower()}", 1, 1)
    gateway = await start_gateway(nats, lake=lake)
    tables = f"{SPACES}/plant/tables"

    async def seen(headers: dict[str, str]) -> list[str]:
        answer = await gateway.http.get(tables, headers=headers)
        return [one["name"] for one in answer.json()["identifiers"]]

    assert await seen({}) == ["closed", "open"]
    assert await seen(user("few")) == ["open"]
    assert await seen(user("other")) == []
    assert (await gateway.http.get(f"{tables}/open", headers=user("few"))).status_code == 200
    for name, caller in (("closed", "few"), ("open", "other"), ("closed", "other")):
        answer = await gateway.http.get(f"{tables}/{name}", headers=user(caller))
        assert (answer.status_code, answer.json()["error"]["type"]) == (403, "ForbiddenException")
        assert "metadata" not in answer.json()
