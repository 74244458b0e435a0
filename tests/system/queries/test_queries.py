"""SQL over streams and buckets of either server: the rows, what is pushed down, and what goes wrong."""

import asyncio
import json
import threading
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import nats
import pandas
import polars
import pyarrow
import pytest

import millstream
from millstream.lake.errors import TableMissing
from millstream.queries.errors import SqlCancelled, SqlError, SqlLimit, SqlRefused
from millstream.queries.limits import SqlLimits
from millstream.queries.process import RunningQuery
from millstream.tables.errors import NotAllowed, SourceUnavailable, StreamMissing
from millstream.tables.source import TableSource
from millstream.tables.stream_range import Fetching
from millstream.tables.table import connection_to
from tests.conftest import ServerFactory
from tests.kits.patience import PATIENCE_S
from tests.kits.queries import ITEMS, PATIENT, ask, ask_with_statistics, fill, new_name, source_of
from tests.kits.reference import ServerKind


@pytest.fixture
def url(shared_server: ServerFactory) -> str:
    return shared_server(jetstream=True).client_url


@pytest.fixture
def orders(url: str) -> str:
    name = new_name()
    fill(url, name)
    return name


def test_the_rows_are_the_messages(url: str, orders: str) -> None:
    before = datetime.now(UTC)
    rows = ask(url, f"select * from {orders} order by seq")
    assert [list(row) for row in rows[:1]] == [
        ["stream", "subject", "seq", "time", "headers", "data", "size"]
    ]
    assert [row["seq"] for row in rows] == list(range(1, 31))
    assert all(row["time"] <= before and row["stream"] == orders for row in rows)
    place = "us"
    assert rows[0] | {"time": None} == {
        "stream": orders,
        "subject": f"{orders}.{place}",
        "seq": 1,
        "time": None,
        "headers": {"Place": [place]},
        "data": '{"item": "apple", "n": 0}',
        "size": 25,
    }


def test_the_first_question_of_everybody(url: str, orders: str) -> None:
    query = (
        f"select subject, count(*), max(size) from {orders} where time > now() - interval 1 hour group by 1"
    )
    assert sorted(tuple(row.values()) for row in ask(url, query)) == [
        (f"{orders}.eu", 20, 25),
        (f"{orders}.us", 10, 26),
    ]


def test_payloads_are_json_where_they_are(url: str) -> None:
    name = new_name()
    fill(url, name, [b'{"item": "apple"}', b"no JSON", b"\xff\xfe", b"", b'{"item": {"of": "pear"}}'])
    rows = ask(url, f"select data->>'$.item' as item, data->>'$.item.of' as part from {name} order by seq")
    assert [row["item"] for row in rows] == ["apple", None, None, None, '{"of":"pear"}']
    assert [row["part"] for row in rows] == [None, None, None, None, "pear"]
    with pytest.raises(
        SqlError, match=r'^Invalid Input Error: Malformed JSON .* Input: "no JSON"; a path of ->>'
    ):
        ask(url, f"select data->'item' from {name}")
    assert ask(url, f"select data from {name} where seq = 3") == [{"data": "\ufffd\ufffd"}]
    assert ask(url, f"select data, size from raw.{name} where seq = 3") == [{"data": b"\xff\xfe", "size": 2}]


def test_what_a_query_does_not_need_is_not_read(url: str, orders: str, server_kind: ServerKind) -> None:
    def read(query: str) -> tuple[int, int, list[str], list[str]]:
        _, found = ask_with_statistics(source_of(url), query)
        (scan,) = found.scans
        assert scan.transport == ("arrow" if server_kind is ServerKind.MILLSTREAM else "pull")
        assert (found.messages, found.bytes) == (scan.messages, scan.bytes)
        return scan.first, scan.messages, scan.subjects, scan.columns

    everything = ["stream", "subject", "seq", "time", "headers", "data", "size"]
    assert read(f"from {orders}") == (1, 30, [], everything)
    assert read(f"select data from {orders} where seq between 11 and 15") == (11, 5, [], ["seq", "data"])
    assert read(f"select seq from {orders} where seq in (4, 9)") == (4, 6, [], ["seq"])
    only = f"{orders}.us"
    assert read(f"select seq from {orders} where subject = '{only}'") == (1, 10, [only], ["subject", "seq"])
    middle = ask(url, f"select time from {orders} where seq = 21")[0]["time"]
    query = f"select count(*) from {orders} where time >= timestamptz '{middle.isoformat()}'"
    assert read(query) == (21, 10, [], ["stream", "time"])


def test_conditions_that_no_message_fits_read_nothing(url: str, orders: str) -> None:
    for condition in (
        "seq > 5 and seq < 5",
        "subject = 'with blank'",
        "subject = ''",
        "seq > 1000",
        "stream = 'X'",
    ):
        rows, found = ask_with_statistics(source_of(url), f"select seq from {orders} where {condition}")
        assert (rows, found.messages) == ([], 0), condition
    assert ask(url, f"select count(*) as n from {orders} where time > now()") == [{"n": 0}]


def test_streams_are_joined_with_themselves_and_with_buckets(url: str, orders: str) -> None:
    bucket = new_name()

    async def write() -> None:
        async with await nats.connect(url) as connection:
            jetstream = connection.jetstream(timeout=PATIENCE_S)
            entries = await jetstream.create_key_value(bucket=bucket, history=5)
            for item in ITEMS:
                await entries.put(f"names.{item}", b"old")
                await entries.put(f"names.{item}", item.upper().encode())
            await entries.delete("names.plum")

    asyncio.run(write())
    rows = ask(url, f"select * exclude (time) from kv.{bucket} order by key")
    assert [tuple(row.values()) for row in rows] == [
        ("names.apple", "APPLE", 2, "put"),
        ("names.pear", "PEAR", 4, "put"),
        ("names.plum", None, 7, "delete"),
    ]
    _, found = ask_with_statistics(source_of(url), f"select value from kv.{bucket} where key = 'names.pear'")
    assert [(scan.subjects, scan.messages) for scan in found.scans] == [([f"$KV.{bucket}.names.pear"], 2)]
    joined = ask(
        url,
        f"select value, count(*) as n from {orders} o join kv.{bucket} k "
        "on k.key = 'names.' || (o.data->>'item') where operation = 'put' group by 1 order by 1",
    )
    assert joined == [{"value": "APPLE", "n": 10}, {"value": "PEAR", "n": 10}]


def test_joins_by_common_columns_know_their_streams(url: str, orders: str) -> None:
    query = f"select count(*) as n from {orders} a join {orders} b using (seq, subject)"
    assert ask(url, query) == [{"n": 30}]
    query = f"with late as (select seq from {orders} where seq > 20) from late natural join {orders}"
    assert len(ask(url, query)) == 10
    with pytest.raises(SqlError, match='Column "nothing" does not exist'):
        ask(url, f"from {orders} a join {orders} b using (nothing)")


def test_names_need_quotes_as_everywhere_in_sql(url: str) -> None:
    name = f"{new_name()}-x'y"
    fill(url, name, [b"1"])
    assert ask(url, f'select count(*) as n from "{name}"') == [{"n": 1}]
    assert ask(url, f'select count(*) as n from "{name.lower()}"') == [{"n": 1}]
    assert ask(url, f'select s.size from "{name}" as s tablesample 100%') == [{"size": 1}]
    with pytest.raises(SqlError, match="differ only in case"):
        ask(url, f'select * from "{name}", "{name.lower()}"')


def test_results_have_a_limit_of_rows(url: str, orders: str) -> None:
    rows, found = ask_with_statistics(source_of(url), f"select seq from {orders} order by seq", rows=4)
    assert [row["seq"] for row in rows] == [1, 2, 3, 4]
    assert found.truncated
    rows, found = ask_with_statistics(source_of(url), f"select seq from {orders} limit 4", rows=4)
    assert len(rows) == 4
    assert not found.truncated


@pytest.mark.parametrize(
    ("query", "kind", "text"),
    [
        (
            "select * from NOWHERE",
            StreamMissing,
            r"^there is no stream NOWHERE on nats://127\.0\.0\.1:\d+; create it",
        ),
        ("select * from kv.NOWHERE", StreamMissing, "^there is no bucket NOWHERE on "),
        (
            "select * from plant.readings",
            TableMissing,
            r"^there is no table plant.readings: no catalog of tab",
        ),
        ("select * from information_schema.nothing", SqlError, "^Catalog Error: "),
        ("select nothing from {}", SqlError, 'Referenced column "nothing" not found'),
        ("selec 1", SqlError, "syntax error"),
        ("select (data->>'n')::date from {}", SqlError, "^Conversion Error: "),
        ("", SqlRefused, "^there is no statement$"),
        ("select 1; select 2", SqlRefused, "^one statement at a time, not 2$"),
        ("drop table {}", SqlRefused, "^DROP is not allowed; queries are SELECT"),
    ],
)
def test_mistakes_get_one_line(url: str, orders: str, query: str, kind: type[Exception], text: str) -> None:
    with pytest.raises(kind, match=text) as caught:
        ask(url, query.format(orders))
    assert "\n" not in str(caught.value)


def test_a_query_that_runs_away_ends_in_time_and_can_be_cancelled(url: str) -> None:
    endless = "with recursive t(n) as (select 1 union all select n + 1 from t) select max(n) from t"
    with pytest.raises(SqlLimit, match=r"^the query took longer than 0\.5 s$"):
        ask(url, endless, time_s=0.5)
    with RunningQuery(endless, source_of(url), SqlLimits(time_s=PATIENCE_S)) as running:
        threading.Timer(0.2, running.cancel).start()
        with pytest.raises(SqlCancelled):
            list(running.batches())


def test_a_server_that_goes_between_plan_and_rows_ends_the_query(
    own_server: ServerFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = own_server(jetstream=True)
    fill(server.client_url, "GONE", [b"x" * 1000] * 200)
    read = TableSource.read

    def cut(self: TableSource, *what: Any) -> Any:
        server.stop()
        return read(self, *what)

    monkeypatch.setattr(TableSource, "read", cut)
    connection = connection_to(server.client_url, {"connect_timeout_s": 0.2, "request_timeout_s": 0.5})
    fetching = Fetching(fail_on_data_loss=False, timeout=1.0, retries=0)
    source = TableSource(connection, name="test", fetching=fetching)
    with (
        pytest.raises(SourceUnavailable),
        RunningQuery("select count(*) from GONE", source, SqlLimits(time_s=PATIENCE_S)) as running,
    ):
        list(running.batches())
    assert running.statistics.rows == 0


def test_a_server_that_is_away_ends_a_query(
    own_server: ServerFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("millstream.tables.source._PATIENCE_S", 0.5)
    server = own_server(jetstream=True)
    fill(server.client_url, "GONE", [b"x" * 1000] * 200)
    source = source_of(server.client_url, connect_timeout_s=0.2, request_timeout_s=0.5)
    assert source.facts("GONE").messages == 200
    server.stop()
    with (
        pytest.raises(SourceUnavailable, match=r"cannot connect|refused"),
        RunningQuery("select * from GONE", source, SqlLimits(time_s=PATIENCE_S)) as running,
    ):
        list(running.batches())


USERS = """
jetstream {{ store_dir: "{store}" }}
authorization {{
  users = [
    {{ user: all, password: secret }}
    {{ user: few, password: secret, permissions: {{
        publish: {{ allow: ["$JS.API.INFO", "$JS.API.STREAM.INFO.OPEN", "$JS.API.STREAM.MSG.GET.OPEN",
                          "$JS.API.CONSUMER.*.OPEN.>", "$JS.API.CONSUMER.*.OPEN",
                          "$JS.API.CONSUMER.MSG.NEXT.OPEN.>", "$MILLSTREAM.ARROW.INFO"] }}
        subscribe: {{ allow: ["_INBOX.>"] }}
    }} }}
  ]
}}
"""


def test_permissions_of_the_user_decide(own_server: ServerFactory, tmp_path: object) -> None:
    server = own_server(config=USERS.format(store=tmp_path))
    for name in ("OPEN", "CLOSED"):
        fill(server.client_url, name, [b"{}"], user="all", password="secret")
    few = {"user": "few", "password": "secret", "request_timeout_s": 1.0}
    rows, _ = ask_with_statistics(source_of(server.client_url, **few), "select count(*) as n from OPEN")
    assert rows == [{"n": 1}]
    with pytest.raises((NotAllowed, SourceUnavailable), match="CLOSED"):
        ask_with_statistics(source_of(server.client_url, **few), "select count(*) from OPEN, CLOSED")
    with pytest.raises(NotAllowed, match="Authorization Violation"):
        ask_with_statistics(source_of(server.client_url, user="few", password="wrong"), "select * from OPEN")


def test_in_python_a_query_is_a_relation_of_duckdb(url: str, orders: str, tmp_path: Path) -> None:
    import duckdb  # at the top of a test module, it complains of leaks at the end

    names = duckdb.sql("select 'apple' as item, 'red' as colour")
    colours = names.arrow()  # noqa: F841  # the query reads the variable
    query = f"select colour, count(*) as n from {orders} join colours on item = data->>'item' group by 1"
    relation = millstream.sql(query, server=url, **PATIENT)
    assert isinstance(relation, duckdb.DuckDBPyRelation)
    assert relation.fetchall() == [("red", 10)]
    assert millstream.sql(f"select max(seq) from {orders}", server=url, **PATIENT).fetchall() == [(30,)]
    with pytest.raises(StreamMissing, match="there is no stream NOWHERE"):
        millstream.sql("select * from NOWHERE", server=url, **PATIENT)
    for query in (
        "create table x(i int)",
        "copy (select 1) to '{}'",
        "explain analyze copy (select 1) to '{}'",
        "with x as (copy (select 1) to '{}') from x",
        "select 1; copy (select 1) to '{}'",
        "attach '{}'",
    ):
        with pytest.raises(SqlRefused):
            millstream.sql(query.format(tmp_path / "written"), server=url, **PATIENT)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["query", "server", "options", "source", "connection", "reader", "tables"])
def test_in_python_a_table_may_have_any_name(url: str, name: str) -> None:
    with pytest.raises(StreamMissing, match=f"^there is no stream {name} on "):
        millstream.sql(f"select * from {name}", server=url, **PATIENT)
    scope = {name: pyarrow.table({"n": [1, 2]}), "ask": millstream.sql, "url": url, "patient": PATIENT}
    assert eval(f"ask('select sum(n) from {name}', server=url, **patient)", scope).fetchall() == [(3,)]


def test_in_python_tables_of_outer_functions_and_libraries_are_relations(url: str) -> None:
    kept = polars.DataFrame({"n": [1, 2]})  # noqa: F841  # the query reads the variables

    def ask() -> Any:
        query = "select (select sum(n) from kept) + (select sum(n) from other)"
        return millstream.sql(query, server=url, **PATIENT).fetchall()

    other = pandas.DataFrame({"n": [4]})  # noqa: F841
    assert ask() == [(7,)]


def test_orders_in_json(url: str, orders: str) -> None:
    rows = ask(url, f"select data from {orders} where seq = 2")
    assert json.loads(rows[0]["data"]) == {"item": "pear", "n": 1}
