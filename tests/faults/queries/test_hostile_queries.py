"""Queries that want more than the rows of streams: files, the network, settings, the whole machine."""

import os
from pathlib import Path

import pytest

from millstream.queries.errors import SqlError, SqlLimit, SqlRefused
from millstream.tables.errors import StreamMissing
from tests.conftest import ServerFactory
from tests.kits.queries import ask, fill

SECRET = "a secret of the parent"


@pytest.fixture
def url(shared_server: ServerFactory, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("MILLSTREAM_SECRET", SECRET)
    return shared_server(jetstream=True).client_url


@pytest.mark.parametrize(
    "query",
    [
        "select * from read_csv('{file}')",
        "select * from '{file}'",
        'select * from "{file}"',
        "select * from read_text('{file}')",
        "select * from read_blob('{file}')",
        "select * from read_json('{file}')",
        "select * from read_json('/proc/self/environ')",
        "select * from parquet_scan('{file}')",
        "select * from sniff_csv('{file}')",
        "select * from glob('{folder}/*')",
        "select * from query('select * from read_text(''{file}'')')",
        "select * from 'http://127.0.0.1:1/x.csv'",
        "select * from read_csv('https://127.0.0.1:1/x.csv')",
        "select * from 's3://bucket/x.parquet'",
        "select getenv('MILLSTREAM_SECRET')",
        "select getvariable('x') from read_text('{file}')",
        "with x as (select * from read_text('{file}')) select * from x",
        "explain analyze select * from read_text('{file}')",
        "describe select * from read_text('{file}')",
        "summarize '{file}'",
        "select * from read_text(['{file}'])",
        "select * from read_text('file://{file}')",
        "select * from read_text('/dev/fd/0')",
        "select * from read_duckdb('{file}')",
        "select * from query_table('{file}')",
        "select * from query('select 1; copy (select 1) to ''{file}'' ')",
        "select * from parquet_metadata('{file}')",
        "select * from duckdb_extensions() where installed",
        "select * from duckdb_extension_repositories()",
        "select * from duckdb_secrets(redact := false)",
        "select * from destroy_external_resource('read_text', '{file}')",
        "select * from enable_logging(storage := 'file', storage_path := '{folder}')",
        "select * from enable_profiling(save_location := '{folder}/x', format := 'json')",
        "select * from arrow_scan(1, 2, 3)",
        "select * from iceberg_scan('{folder}')",
        "select * from sqlite_scan('{file}', 't')",
        "select * from 'hf://datasets/x/y.csv'",
        "select * from 'cat {file} |'",
    ],
)
def test_nothing_outside_is_read(url: str, query: str, tmp_path: Path) -> None:
    file = tmp_path / "secret.csv"
    file.write_text(SECRET)
    with pytest.raises(SqlError) as caught:
        ask(url, query.format(file=file, folder=tmp_path))
    assert SECRET not in str(caught.value)
    assert not isinstance(caught.value, SqlLimit)
    assert list(tmp_path.iterdir()) == [file]


def test_a_query_inside_a_value_has_no_more_rights(url: str, tmp_path: Path) -> None:
    file = tmp_path / "secret.csv"
    file.write_text(SECRET)
    [row] = ask(url, f"select json_serialize_sql('select * from read_text(''{file}'')')::varchar as tree")
    with pytest.raises(SqlError, match="file system operations are disabled"):
        ask(url, f"select * from json_execute_serialized_sql('{row['tree']}')")


@pytest.mark.parametrize("name", ["connection", "start", "scans", "sys", "SECRET", "ask"])
def test_variables_of_the_process_are_no_relations(url: str, name: str) -> None:
    with pytest.raises(StreamMissing, match=f"^there is no stream {name} on "):
        ask(url, f"select * from {name}")


@pytest.mark.parametrize(
    "query",
    [
        "copy (select 1) to '{file}'",
        "copy (select 1) to '{file}' (format parquet)",
        "export database '{file}'",
        "attach '{file}'",
        "install httpfs",
        "load '{file}'",
        "force install httpfs from 'http://127.0.0.1:1'",
        "set enable_external_access = true",
        "reset lock_configuration",
        "pragma enable_profiling",
        "call pragma_version()",
        "create table t as select 1",
        "create macro f() as 1",
        "create secret (type s3)",
        "prepare p as select 1",
        "execute p",
        "begin",
        "use kv",
        "checkpoint",
        "vacuum",
        "select 1; copy (select 1) to '{file}'",
        "select 1; set enable_external_access = true; select * from read_text('/etc/hostname')",
        "insert into kv.x values (1)",
        "delete from x",
        "explain analyze copy (select 1) to '{file}'",
        "explain (format json) copy (select 1) to '{file}'",
        "/* */ explain/**/analyze copy (select 1) to '/:memory:'",
        "explain analyze create table t as select 1",
        "explain execute p",
        "with x as (copy (select 1) to '{file}') select 1",
        "with x as (copy (select 1) to '/:memory:') from x",
        "explain analyze with x as (copy (select 1) to '{file}') select 1",
        "with x as (insert into t values (1) returning *) from x",
        "merge into t using u on true when matched then delete",
        "import database '{folder}'",
        "copy from database a to b",
        "comment on table t is 'x'",
        "set variable x = 1",
        "pivot (select 1 as a, 2 as b) on a using sum(b)",
    ],
)
def test_statements_that_are_no_queries_are_refused(url: str, query: str, tmp_path: Path) -> None:
    with pytest.raises(SqlRefused):
        ask(url, query.format(file=tmp_path / "written", folder=tmp_path))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "query",
    [
        "select count(*) from range(1000000000) a, range(1000000000) b where hash(a, b) = 1",
        "with recursive t(n) as (select 1 union all select n + 1 from t) select max(n) from t",
        "select length(string_agg(repeat('x', 1000000), '')) from range(100000)",
        "select list(range) from range(1000000000)",
        "select sum(length(repeat('x', 4000000000 + i::int))) from range(4) t(i)",
        "select * from range(2000000000) order by hash(range)",
        "select " + ", ".join(map(str, range(30_000))),
        "select pg_sleep(1000)",
        "select sum(length(regexp_replace(repeat('ab', 9999 + i), '(.*)*b', ''))) from range(99999) t(i)",
        "select sum(1) over (order by range) from range(1000000000)",
        "select count(distinct range) from range(10000000000)",
    ],
    ids=[
        "cross join",
        "endless recursion",
        "long text",
        "long list",
        "huge texts",
        "huge sort",
        "many columns",
        "sleep",
        "regular expression",
        "huge window",
        "huge set",
    ],
)
def test_a_query_that_wants_everything_meets_its_limits(url: str, query: str) -> None:
    with pytest.raises(
        SqlLimit, match=r"^the query (needs more than 128 MiB of memory|took longer than 3 s)$"
    ):
        ask(url, query, memory_mib=128, time_s=3)


def test_what_is_nested_or_long_beyond_reason_is_an_error(url: str) -> None:
    with pytest.raises(SqlError, match="depth"):
        ask(url, f"select {'(' * 5000}1{')' * 5000}")
    with pytest.raises(SqlRefused, match="longer than 256 KiB"):
        ask(url, f"select '{'x' * 300_000}'")


@pytest.mark.parametrize(
    "query",
    [
        "explain select 1",
        "-- a note\nexplain analyze select 1",
        "explain (analyze, format json) select 1",
        "explain (select 1)",
        "pivot (select 1 as a, 2 as b) on a in (1) using sum(b)",
        "with recursive t(n) as (select 1 union all select n + 1 from t where n < 3) from t limit 1",
        "with x as (from (values (1)) union select 1) from x",
        "with x as (describe select 1) from x",
        ";; select 1 -- ; copy (select 1) to 'x'",
        'select \'"query_node":{"type":"COPY_QUERY_NODE"\'',
    ],
)
def test_what_only_reads_is_answered(url: str, query: str) -> None:
    assert len(ask(url, query)) == 1


def test_the_configuration_is_locked_and_the_environment_empty(url: str) -> None:
    settings = ("lock_configuration", "enable_external_access", "autoload_known_extensions", "temp_directory")
    (row,) = ask(url, f"select {', '.join(f'current_setting({name!r})' for name in settings)}")
    assert list(row.values()) == [True, False, False, ""]
    assert ask(url, "select * from duckdb_secrets()") == []


def test_a_result_without_end_costs_no_memory(url: str) -> None:
    fill(url, "HOSTILE", [b"x" * 1000] * 50)
    rows = ask(url, "select a.data from HOSTILE a, HOSTILE b, HOSTILE c, HOSTILE d", memory_mib=128, rows=20)
    assert len(rows) == 20


def test_nothing_is_left_behind(url: str) -> None:
    before = set(os.listdir("/proc/self/fd"))
    for _ in range(2):
        with pytest.raises(SqlError):
            ask(url, "select * from read_text('/etc/hostname')")
    assert len(set(os.listdir("/proc/self/fd")) - before) <= 1
