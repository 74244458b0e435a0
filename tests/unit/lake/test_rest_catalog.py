"""Commits through a REST catalog that answers late or never, and catalogs whose packages are missing."""

import socket
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import CommitFailedException, CommitStateUnknownException

from millstream.lake.catalog import CatalogSettings, open_catalog
from millstream.lake.errors import LakeError, LakeMissing, LakeUnavailable, TableMissing, TableRefused
from millstream.lake.library import TableLibrary
from millstream.lake.table import LakeTable
from millstream.lake.upkeep import expire, merge_files
from tests.kits.lake import FORM, SIZE, add, after, files_of, rows, sequences
from tests.kits.rest_catalog import FaultyRestCatalog, hasty, rest_catalog


@pytest.fixture
def served(tmp_path: Path) -> Iterator[FaultyRestCatalog]:
    with rest_catalog(tmp_path / "lake") as served:
        yield served


@pytest.fixture
def catalog(served: FaultyRestCatalog) -> Iterator[Catalog]:
    with open_catalog(served.settings) as catalog:
        yield catalog


@pytest.fixture
def table(catalog: Catalog) -> LakeTable:
    return LakeTable.ensure(catalog, "lake.orders", FORM)


def add_hastily(table: LakeTable, batch: int) -> None:
    """Add a batch without patience for the answers to its commits."""
    paths = files_of(table, batch, rows(batch * SIZE + 1))
    with hasty(table.catalog):
        table.commit_batch("q", batch, paths, advance=after("q", batch))


@pytest.mark.parametrize("fault", ["before", "after"])
def test_a_commit_whose_outcome_is_unknown_is_looked_for(
    served: FaultyRestCatalog, table: LakeTable, fault: str
) -> None:
    add(table, 0)
    served.faults.append(fault)
    before = served.commits
    add(table, 1)
    assert sequences(table) == list(range(1, 21))
    assert served.commits - before == (1 if fault == "after" else 2)


@pytest.mark.parametrize("fault", ["silent", "silent-after"])
def test_a_commit_without_an_answer_ends_and_is_made_once(
    served: FaultyRestCatalog, table: LakeTable, fault: str
) -> None:
    add(table, 0)
    served.faults.append(fault)
    add_hastily(table, 1)
    assert sequences(table) == list(range(1, 21))


def test_a_commit_that_arrives_late_is_refused(served: FaultyRestCatalog, table: LakeTable) -> None:
    add(table, 0)
    served.faults.append("late")
    add_hastily(table, 1)
    [late] = served.releases
    with pytest.raises(CommitFailedException):
        late()
    assert sequences(table) == list(range(1, 21))


def test_a_commit_that_arrives_late_but_first_is_found(served: FaultyRestCatalog, table: LakeTable) -> None:
    """The first of two lost commits arrives before the table is looked at again."""
    add(table, 0)
    served.faults += ["late", "late"]
    load = table.catalog.load_table

    def load_late(name: str) -> object:
        if len(served.releases) == 2:
            served.releases.pop(0)()
        return load(name)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(table.catalog, "load_table", load_late)
        add_hastily(table, 1)
    assert sequences(table) == list(range(1, 21))
    assert len(served.releases) == 1
    with pytest.raises(CommitFailedException):
        served.releases.pop()()


def test_without_the_look_at_the_progress_a_lost_commit_doubles_its_batch(
    served: FaultyRestCatalog, table: LakeTable
) -> None:
    """The control: PyIceberg alone, as a driver that repeats what failed."""
    paths = files_of(table, 0, rows(1))
    served.faults.append("after")
    with pytest.raises(CommitStateUnknownException):
        table.load().add_files(paths)
    table.load().add_files(paths, check_duplicate_files=False)
    assert len(sequences(table)) == 2 * SIZE


def test_two_archives_on_one_table_commit_through_conflicts(
    served: FaultyRestCatalog, table: LakeTable
) -> None:
    def write(stream: str) -> None:
        with open_catalog(served.settings) as catalog:
            own = LakeTable.open(catalog, "lake.orders")
            for batch in range(5):
                add(own, batch, query=f"q{stream}", stream=stream)

    served.faults += ["after", "", "before", "", "after"]
    threads = [threading.Thread(target=write, args=(stream,)) for stream in "AB"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = table.load().scan().to_arrow()
    pairs = set(zip(found["stream"].to_pylist(), found["seq"].to_pylist(), strict=True))
    assert (found.num_rows, len(pairs)) == (100, 100)


def test_upkeep_works_through_the_catalog(served: FaultyRestCatalog, table: LakeTable) -> None:
    for batch in range(3):
        add(table, batch)
    served.faults.append("after")
    assert merge_files(table, least=2, large_bytes=2**20).after == 1
    assert expire(table, keep=1) == 3
    assert sequences(table) == list(range(1, 31))


def test_a_catalog_that_stays_silent_is_told(served: FaultyRestCatalog, catalog: Catalog) -> None:
    LakeTable.ensure(catalog, "lake.orders", FORM)
    table = LakeTable(catalog, "lake.orders", patience_s=0)
    served.faults.append("silent")
    with pytest.raises(LakeUnavailable, match=r"catalog remote does not answer: .*timed out"):
        add_hastily(table, 0)
    assert sequences(table) == []


def test_a_catalog_that_does_not_even_greet_is_told() -> None:
    with socket.create_server(("127.0.0.1", 0)) as mute:
        uri = f"http://127.0.0.1:{mute.getsockname()[1]}"
        properties = {"rest.client.socket-timeout-ms": "100"}
        with pytest.raises(LakeUnavailable, match="catalog lake does not answer"):
            open_catalog(CatalogSettings(uri=uri, properties=properties))
        with pytest.raises(LakeError, match="connection-timeout-ms of the catalog is a number of milli"):
            open_catalog(CatalogSettings(uri=uri, properties={"rest.client.connection-timeout-ms": "1s"}))
    with pytest.raises(LakeUnavailable, match="catalog lake does not answer"):
        open_catalog(CatalogSettings(uri=uri, properties=properties))


def test_a_reader_finds_archives_through_the_catalog(served: FaultyRestCatalog, table: LakeTable) -> None:
    add(table, 0)
    library = TableLibrary(served.settings)
    assert library.archive_of("S").name() == ("lake", "orders")
    with pytest.raises(TableMissing):
        library.load(("lake",), "none")
    library.close()


def test_a_table_of_others_is_refused(served: FaultyRestCatalog, catalog: Catalog) -> None:
    catalog.create_namespace("lake")
    catalog.create_table("lake.foreign", schema=pa.schema([("id", pa.int64())]))
    with pytest.raises(TableRefused, match=r"lake.foreign was not made by Millstream \(columns: id\)"):
        LakeTable.ensure(catalog, "lake.foreign", FORM)


@pytest.mark.parametrize(("kind", "module"), [("glue", "boto3"), ("hive", "thrift")])
def test_a_catalog_whose_package_is_missing_names_it(
    kind: str, module: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    monkeypatch.delitem(sys.modules, f"pyiceberg.catalog.{kind}", raising=False)
    settings = CatalogSettings(type=kind, uri="thrift://127.0.0.1:1" if kind == "hive" else "")
    with pytest.raises(LakeMissing, match=rf"catalog lake: .* pip install 'pyiceberg\[{kind}\]'"):
        open_catalog(settings)


def test_a_kind_of_catalog_that_does_not_exist_is_told() -> None:
    with pytest.raises(LakeError, match=r"catalog lake: .*'glu'"):
        open_catalog(CatalogSettings(type="glu", uri="http://127.0.0.1:1"))
