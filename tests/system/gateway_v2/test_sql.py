"""`POST /v2/sql`: rows in every form, problems with their status, and the limits of queries."""

import base64
import csv
import io
import json
from collections.abc import Callable
from typing import Any

import httpx
import pyarrow as pa
import pytest

from tests.kits.gateway.v2 import Gateway, eventually
from tests.kits.reference import ServerProcess

ENDLESS = "with recursive t(n) as (select 1 union all select n + 1 from t) select max(n) from t"
CONFIG = """
authorization {
  users = [
    {user: own, password: own-password}
    {user: alice, password: alice-password, permissions: {publish: ["$JS.API.INFO"], subscribe: ["_INBOX.>"]}}
  ]
}
no_auth_user: own
"""
ALICE = {"Authorization": "Basic " + base64.b64encode(b"alice:alice-password").decode()}


async def ask(gateway: Gateway, query: str, accept: str = "", **more: Any) -> httpx.Response:
    headers = {"Accept": accept} if accept else {}
    return await gateway.http.post("/v2/sql", json={"query": query, **more}, headers=headers)


@pytest.fixture
async def orders(gateway: Gateway) -> Gateway:
    await gateway.add_stream()
    await gateway.publish('{"item": "apple"}', "no JSON", '{"item": "pear"}')
    return gateway


async def test_rows_come_in_the_form_that_is_accepted(orders: Gateway) -> None:
    query = f"select seq, data->>'$.item' as item from {orders.stream} order by seq"
    rows = [{"seq": 1, "item": "apple"}, {"seq": 2, "item": None}, {"seq": 3, "item": "pear"}]
    found = (await ask(orders, query)).json()
    assert found["rows"] == rows
    assert found["columns"] == [{"name": "seq", "type": "int64"}, {"name": "item", "type": "string"}]
    assert found["statistics"]["messages"] == 3
    assert found["statistics"]["scans"][0]["columns"] == ["seq", "data"]
    lines = (await ask(orders, query, "application/x-ndjson")).text.splitlines()
    assert [json.loads(line) for line in lines] == rows
    answer = await ask(orders, query, "text/csv")
    assert list(csv.reader(io.StringIO(answer.text))) == [
        ["seq", "item"],
        ["1", "apple"],
        ["2", ""],
        ["3", "pear"],
    ]
    answer = await ask(orders, query, "application/vnd.apache.arrow.stream")
    assert answer.headers["content-type"] == "application/vnd.apache.arrow.stream"
    assert pa.ipc.open_stream(answer.content).read_all().to_pylist() == rows
    assert (await ask(orders, query, "image/png")).status_code == 406


async def test_values_of_every_type_have_a_form_in_json(gateway: Gateway) -> None:
    query = (
        "select 1::hugeint << 100 as big, 1.50::decimal(9, 2) as price, 'x'::blob as raw, "
        "map {'a': [1]} as m, "
        "timestamptz '2026-01-02 03:04:05+00' as t, date '2026-01-02' as d, "
        "'nan'::double as nothing, 1 as a, 2 as a"
    )
    (row,) = (await ask(gateway, query)).json()["rows"]
    assert row == {
        "big": str(1 << 100),
        "price": "1.50",
        "raw": "eA==",
        "m": {"a": [1]},
        "t": "2026-01-02T03:04:05Z",
        "d": "2026-01-02",
        "nothing": None,
        "a": 1,
        "a_2": 2,
    }


@pytest.mark.parametrize(
    ("query", "status", "detail"),
    [
        ("select * from NOWHERE", 404, "there is no stream NOWHERE on "),
        ("selec", 400, "syntax error"),
        ("select 'x'::int", 400, "Could not convert string 'x' to INT32"),
        ("drop table x", 400, "DROP is not allowed"),
        ("with x as (copy (select 1) to '/tmp/x') from x", 400, "COPY is not allowed"),
        ("explain analyze copy (select 1) to '/tmp/x'", 400, "COPY is not allowed"),
        ("select 1; attach '/tmp/x'", 400, "one statement at a time, not 2"),
        ("select * from '/etc/hosts.csv'", 400, "disabled by configuration"),
        ("select * from 'http://127.0.0.1:1/x.csv'", 400, "Permission Error"),
        ("select * from read_text('/etc/hostname')", 400, "disabled by configuration"),
        ("select list(range) from range(1000000000)", 422, "the query needs more than 512 MiB of memory"),
        ("", 400, "query"),
    ],
)
async def test_problems_have_their_status_and_one_line(
    gateway: Gateway, query: str, status: int, detail: str
) -> None:
    answer = await ask(gateway, query)
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    assert detail in answer.json()["detail"]
    assert "\n" not in answer.json()["detail"]


async def test_what_a_query_may_use_is_limited(
    start_gateway: Any, shared_server: Callable[..., ServerProcess]
) -> None:
    gateway = await start_gateway(shared_server(jetstream=True), sql_time_s=0.5, sql_rows=3)
    answer = await ask(gateway, ENDLESS)
    assert (answer.status_code, answer.json()["detail"]) == (422, "the query took longer than 0.5 s")
    gateway = await start_gateway(shared_server(jetstream=True), sql_rows=3)
    found = (await ask(gateway, "from range(10)")).json()
    assert (len(found["rows"]), found["statistics"]["truncated"]) == (3, True)
    found = (await ask(gateway, "from range(10)", rows=2)).json()
    assert (len(found["rows"]), found["statistics"]["truncated"]) == (2, True)
    with pytest.raises(httpx.RemoteProtocolError):  # a part must not be taken for the whole
        await ask(gateway, "from range(10)", "text/csv")
    assert (await ask(gateway, "from range(3)", "text/csv")).text == "range\n0\n1\n2\n"
    off = await start_gateway(shared_server(jetstream=True), sql_queries=0)
    assert (await ask(off, "select 1")).status_code == 403


async def test_a_caller_who_leaves_ends_the_query_and_makes_room_for_the_next(
    start_gateway: Any, shared_server: Callable[..., ServerProcess]
) -> None:
    gateway = await start_gateway(shared_server(jetstream=True), sql_queries=1, sql_time_s=0)
    with pytest.raises(httpx.ReadTimeout):
        await gateway.http.post("/v2/sql", json={"query": ENDLESS}, timeout=1.5)

    async def answered() -> bool:
        return (await ask(gateway, "select 1 as one")).status_code == 200

    await eventually(answered)


async def test_too_many_queries_at_once_are_refused(
    start_gateway: Any, shared_server: Callable[..., ServerProcess]
) -> None:
    gateway = await start_gateway(shared_server(jetstream=True), sql_queries=1, sql_time_s=0)
    async with gateway.http.stream("POST", "/v2/sql", json={"query": "from range(1000000000)"}) as answer:
        assert answer.status_code == 200
        refused = await ask(gateway, "select 1")
        assert (refused.status_code, refused.json()["detail"]) == (503, "1 queries run already; try again")


async def test_permissions_of_the_caller_decide(
    start_gateway: Any, shared_server: Callable[..., ServerProcess]
) -> None:
    gateway = await start_gateway(shared_server(jetstream=True, config=CONFIG), read_only=False)
    await gateway.add_stream()
    await gateway.publish("1")
    query = {"query": f"select count(*) as n from {gateway.stream}"}
    assert (await gateway.http.post("/v2/sql", json=query)).json()["rows"] == [{"n": 1}]
    denied = await gateway.http.post("/v2/sql", json=query, headers=ALICE)
    assert denied.status_code == 403, denied.text


async def test_a_read_only_gateway_answers_queries(
    start_gateway: Any, shared_server: Callable[..., ServerProcess]
) -> None:
    gateway = await start_gateway(shared_server(jetstream=True), read_only=True)
    assert (await ask(gateway, "select 1 as one")).json()["rows"] == [{"one": 1}]
