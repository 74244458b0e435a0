"""Iceberg tables in SQL: alone, and with the stream that they archive as one relation."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nats
import pytest

import millstream
from millstream.lake.catalog import CatalogSettings
from millstream.lake.errors import LakeError, TableMissing, TableRefused
from millstream.lake.library import TableLibrary
from millstream.lake.places import local_path
from millstream.queries.statistics import QueryStatistics
from millstream.queries.table_access import TableAccess
from millstream.tables.errors import NotAllowed
from millstream.tables.source import TableSource
from tests.conftest import ServerFactory
from tests.kits.lake import archive
from tests.kits.patience import PATIENCE_S
from tests.kits.queries import PATIENT, ask_with_statistics, fill, new_name, source_of


@pytest.fixture
def url(shared_server: ServerFactory) -> str:
    return shared_server(jetstream=True).client_url


@pytest.fixture
def lake(tmp_path: Path) -> CatalogSettings:
    return CatalogSettings(warehouse=str(tmp_path / "lake"))


@pytest.fixture
def library(lake: CatalogSettings) -> Iterator[TableLibrary]:
    library = TableLibrary(lake)
    yield library
    library.close()


@pytest.fixture
def orders(url: str, lake: CatalogSettings) -> str:
    """A stream of 30 messages whose first 20 are in two files of the table `shop.<stream>`."""
    name = new_name()
    fill(url, name)
    for first in (1, 11):
        archive(url, name, lake, f"shop.{name.lower()}", first, first + 9)
    return name


def purge(url: str, stream: str, before: int) -> None:
    async def work() -> None:
        async with await nats.connect(url) as connection:
            await connection.jetstream(timeout=PATIENCE_S).purge_stream(stream, seq=before)

    asyncio.run(work())


def asked(
    url: str, library: TableLibrary, query: str, **options: Any
) -> tuple[list[dict[str, Any]], QueryStatistics]:
    return ask_with_statistics(source_of(url), query, tables=TableAccess(library), **options)


def test_a_stream_and_its_archive_are_one_relation(url: str, orders: str, library: TableLibrary) -> None:
    everything, _ = asked(url, library, f"select * from {orders} order by seq")
    for before in (1, 11, 21):  # the stream has all, a part of what is archived, nothing of it
        purge(url, orders, before)
        rows, found = asked(url, library, f"select * from whole.{orders} order by seq")
        assert rows == everything
        assert [(scan.transport == "iceberg", scan.messages) for scan in found.scans] == [
            (True, 20),
            (False, 10),
        ]
        assert found.messages == 30
    counts, _ = asked(url, library, f"select count(*) as n, sum(size) as s from whole.{orders}")
    assert counts == [{"n": 30, "s": sum(row["size"] for row in everything)}]


def test_conditions_skip_files_and_the_stream(url: str, orders: str, library: TableLibrary) -> None:
    def read(condition: str) -> tuple[list[int], int, int, int]:
        rows, found = asked(url, library, f"select seq from whole.{orders} where {condition} order by 1")
        table = [scan for scan in found.scans if scan.transport == "iceberg"]
        stream = sum(scan.messages for scan in found.scans if scan.transport != "iceberg")
        return (
            [row["seq"] for row in rows],
            sum(s.files for s in table),
            sum(s.messages for s in table),
            stream,
        )

    assert read("seq between 12 and 14") == ([12, 13, 14], 1, 3, 0)
    assert read("seq >= 25 and seq < 27") == ([25, 26], 0, 0, 2)
    assert read("seq in (9, 21)") == ([9, 21], 2, 12, 1)
    us = f"subject = '{orders}.us'"
    assert read(f"{us} and seq < 6") == ([1, 4], 1, 2, 0)
    assert read(us) == (list(range(1, 31, 3)), 2, 7, 3)
    assert read("subject = 'nobody'") == ([], 0, 0, 0)
    middle = asked(url, library, f"select time from {orders} where seq = 15")[0][0]["time"]
    assert read(f"time > timestamptz '{middle.isoformat()}'")[0] == list(range(16, 31))


def test_tables_alone_are_relations_by_their_own_names(url: str, orders: str, library: TableLibrary) -> None:
    name = f"shop.{orders.lower()}"
    rows, found = asked(
        url, library, f"select data->>'item' as item, count(*) as n from {name} group by 1 order by 1"
    )
    assert [tuple(row.values()) for row in rows] == [("apple", 7), ("pear", 7), ("plum", 6)]
    [scan] = found.scans
    assert (scan.table, scan.files, scan.columns) == (name, 2, ["data"])
    assert scan.bytes > 0
    assert scan.file_bytes > 0
    _, found = asked(url, library, f"select seq from {name} where seq > 15")
    assert [(scan.files, scan.messages) for scan in found.scans] == [(1, 5)]
    rows, _ = asked(
        url, library, f"select max(t.seq) as last from SHOP.{orders} t join {orders} s using (seq)"
    )
    assert rows == [{"last": 20}]


def test_in_python_the_lake_is_an_argument(
    url: str, orders: str, lake: CatalogSettings, tmp_path: Path
) -> None:
    query = f"select count(*), max(seq) from whole.{orders}"
    assert millstream.sql(query, server=url, lake=lake.warehouse, **PATIENT).fetchall() == [(30, 30)]
    file = tmp_path / "pipeline.toml"
    file.write_text(f'[catalog]\nwarehouse = "{lake.warehouse}"\n')
    assert millstream.sql(query, server=url, lake=file, **PATIENT).fetchall() == [(30, 30)]
    file.write_text("[catalog]\nplace = 1\n")
    with pytest.raises(LakeError, match=r"needs a section \[catalog\] with name, properties"):
        millstream.sql(query, server=url, lake=file, **PATIENT)


def test_an_archive_that_goes_on_and_purges_meanwhile_loses_no_row(
    url: str, orders: str, lake: CatalogSettings, library: TableLibrary, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The table is loaded, then the archive commits and purges what was to come from the stream."""
    plan = TableSource.plan
    turns = [0]

    def late(self: TableSource, stream: str, selection: Any) -> Any:
        turns[0] += 1
        if turns[0] == 1:
            archive(url, orders, lake, f"shop.{orders.lower()}", 21, 26)
            purge(url, orders, 27)
        return plan(self, stream, selection)

    monkeypatch.setattr(TableSource, "plan", late)
    rows, found = asked(url, library, f"select seq from whole.{orders} order by seq")
    assert [row["seq"] for row in rows] == list(range(1, 31))
    assert [gap for scan in found.scans for gap in scan.gaps] == []
    assert turns[0] == 3  # the query, the archive, the query again


def test_a_purge_behind_the_plan_loses_no_row(
    url: str, orders: str, lake: CatalogSettings, library: TableLibrary, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = TableSource.read
    turns = [0]

    def late(self: TableSource, part: Any, columns: Any) -> Any:
        turns[0] += 1
        if turns[0] == 1:
            archive(url, orders, lake, f"shop.{orders.lower()}", 21, 26)
            purge(url, orders, 27)
        return read(self, part, columns)

    monkeypatch.setattr(TableSource, "read", late)
    rows, _ = asked(url, library, f"select seq from whole.{orders} order by seq")
    assert [row["seq"] for row in rows] == list(range(1, 31))


def test_messages_that_neither_has_are_named(url: str, orders: str, library: TableLibrary) -> None:
    purge(url, orders, 25)
    rows, found = asked(url, library, f"select seq from whole.{orders} order by seq")
    assert [row["seq"] for row in rows] == [*range(1, 21), *range(25, 31)]
    assert [gap for scan in found.scans for gap in scan.gaps] == [(21, 24)]


def test_an_archive_that_began_late_leaves_the_beginning_to_the_stream(
    url: str, lake: CatalogSettings, library: TableLibrary
) -> None:
    name = new_name()
    fill(url, name)
    archive(url, name, lake, "shop.late", 11, 20)
    rows, found = asked(url, library, f"select seq from whole.{name} order by seq")
    assert [row["seq"] for row in rows] == list(range(1, 31))
    assert [scan.messages for scan in found.scans] == [10, 10, 10]


def test_mistakes_name_the_table(url: str, orders: str, lake: CatalogSettings, library: TableLibrary) -> None:
    other = new_name()
    fill(url, other, [b"1"])
    for query, kind, text in (
        ("select * from shop.nowhere", TableMissing, "^there is no table shop.nowhere in catalog lake"),
        ("select * from nowhere.orders", TableMissing, "^there is no table nowhere.orders in catalog lake"),
        (f"select * from whole.{other}", TableMissing, f"^catalog lake has no archive of stream {other}$"),
    ):
        with pytest.raises(kind, match=text):
            asked(url, library, query)
    with pytest.raises(LakeError, match=f"^whole.{orders} needs the catalog of the archive"):
        ask_with_statistics(source_of(url), f"select * from whole.{orders}")
    archive(url, orders, lake, "shop.second", 1, 5)
    with pytest.raises(TableRefused, match=r"has several archives, shop\.second and shop\.sql"):
        asked(url, TableLibrary(lake), f"select * from whole.{orders}")


def test_a_stream_that_was_made_again_is_not_that_of_the_table(
    url: str, orders: str, library: TableLibrary
) -> None:
    async def again() -> None:
        async with await nats.connect(url) as connection:
            jetstream = connection.jetstream(timeout=PATIENCE_S)
            await jetstream.delete_stream(orders)
            await jetstream.add_stream(name=orders, subjects=[f"{orders}.>"])

    asyncio.run(again())
    with pytest.raises(TableRefused, match=f"^stream {orders} was deleted and created again"):
        asked(url, library, f"select * from whole.{orders}")


def test_a_damaged_file_of_a_table_is_named(url: str, orders: str, library: TableLibrary) -> None:
    table = library.archive_of(orders)
    [first, second] = sorted(local_path(task.file.file_path) for task in table.scan().plan_files())
    first.write_bytes(first.read_bytes()[:100])
    with pytest.raises(
        LakeError, match=rf"^table shop\.{orders.lower()} cannot be read: .*{first.name}: .*Parquet"
    ):
        asked(url, library, f"select * from shop.{orders}")
    second.unlink()
    with pytest.raises(LakeError, match=rf"^table shop\.{orders.lower()} cannot be read: .*{second.name}: "):
        asked(url, library, f"select * from whole.{orders} where seq > 10")
    local_path(table.metadata_location).write_text("{")
    with pytest.raises(LakeError, match=rf"^table shop\.{orders.lower()} cannot be read: its metadata are"):
        asked(url, library, f"select * from shop.{orders}")


USERS = """
jetstream {{ store_dir: "{store}" }}
accounts {{
  A {{ jetstream: enabled, users: [
    {{ user: all, password: secret }}
    {{ user: few, password: secret, permissions: {{
        publish: {{ allow: ["$JS.API.INFO", "$JS.API.STREAM.INFO.*", "$MILLSTREAM.ARROW.INFO",
                            "$JS.API.STREAM.MSG.GET.OPEN", "$JS.API.CONSUMER.*.OPEN.>",
                            "$JS.API.CONSUMER.MSG.NEXT.OPEN.>"] }}
        subscribe: {{ allow: ["_INBOX.>"] }}
    }} }}
  ] }}
  B {{ jetstream: enabled, users: [ {{ user: other, password: secret }} ] }}
}}
"""


def test_permissions_of_streams_decide_about_tables(
    own_server: ServerFactory, lake: CatalogSettings, library: TableLibrary, tmp_path: Path
) -> None:
    url = own_server(config=USERS.format(store=tmp_path / "store")).client_url
    for name in ("OPEN", "CLOSED"):
        fill(url, name, [b"1", b"2"], user="all", password="secret")
        archive(url, name, lake, f"shop.{name.lower()}", 1, 1, user="all", password="secret")
    fill(url, "OPEN", [b"1"], user="other", password="secret")

    def ask(user: str, query: str) -> list[dict[str, Any]]:
        source = source_of(url, user=user, password="secret", request_timeout_s=1.0)
        judge = source_of(url, user=user, password="secret", request_timeout_s=1.0)
        return ask_with_statistics(source, query, tables=TableAccess(library, judge))[0]

    for user in ("all", "few"):
        assert ask(user, "select count(*) as n from whole.OPEN") == [{"n": 2}]
        assert ask(user, "select count(*) as n from shop.open") == [{"n": 1}]
    assert ask("all", "select count(*) as n from shop.closed") == [{"n": 1}]
    for query in ("select * from shop.closed", "select * from whole.CLOSED"):
        with pytest.raises(NotAllowed, match="CLOSED"):
            ask("few", query)
    for query in ("select * from shop.open", "select * from whole.OPEN"):
        with pytest.raises(NotAllowed, match="has messages of stream OPEN, which this account lacks"):
            ask("other", query)
    judge = source_of(url, user="few", password="secret", request_timeout_s=1.0)
    assert list(TableAccess(library, judge).visible(("shop",))) == ["open"]
