"""`millstream.table`: a stream of either server in pandas, Polars and pyarrow, with the same rows."""

from datetime import UTC, datetime, timedelta

import polars
import pytest

import millstream
from millstream.tables.errors import OptionError, SourceUnavailable, StreamMissing
from tests.conftest import ServerFactory
from tests.kits.queries import PATIENT, fill, new_name
from tests.kits.reference import ServerKind


@pytest.fixture
def url(shared_server: ServerFactory) -> str:
    return shared_server(jetstream=True).client_url


@pytest.fixture
def orders(url: str) -> str:
    name = new_name()
    fill(url, name, [b'{"n": 1}', b"\xff\x00", b""] * 5)
    return name


def test_one_line_gives_a_table_of_each_kind(url: str, orders: str) -> None:
    table = millstream.table(orders, server=url, **PATIENT).arrow()
    assert table.column_names == ["stream", "subject", "seq", "time", "headers", "data", "size"]
    assert table.column("data").to_pylist() == [b'{"n": 1}', b"\xff\x00", b""] * 5
    frame = millstream.table(orders, server=url, columns=["seq", "size"], **PATIENT).pandas()
    assert frame.to_dict("list") == {"seq": list(range(1, 16)), "size": [8, 2, 0] * 5}
    assert (
        millstream.table(orders, server=url, columns=["seq"], **PATIENT)
        .polars()
        .equals(polars.DataFrame({"seq": range(1, 16)}))
    )
    assert (
        polars.DataFrame(millstream.table(orders, server=url, columns=["size"], **PATIENT)).sum().item() == 50
    )
    assert sum(batch.num_rows for batch in millstream.table(orders, server=url, **PATIENT).batches()) == 15


def test_every_transport_gives_the_same_rows(url: str, orders: str, server_kind: ServerKind) -> None:
    columns = [
        "seq",
        "time",
        "time_ns",
        "subject",
        "tokens",
        "headers",
        "headers_raw",
        "msg_id",
        "data",
        "size",
    ]
    wire = millstream.table(orders, server=url, columns=columns, transport="pull", **PATIENT).arrow()
    assert wire.num_rows == 15
    assert millstream.table(orders, server=url, columns=columns, **PATIENT).arrow().equals(wire)
    if server_kind is ServerKind.MILLSTREAM:
        assert (
            millstream.table(orders, server=url, columns=columns, transport="arrow", **PATIENT)
            .arrow()
            .equals(wire)
        )


def test_a_part_of_a_stream(url: str, orders: str) -> None:
    def found(**part: object) -> list[int]:
        return (
            millstream.table(orders, server=url, columns=["seq"], **part, **PATIENT)
            .arrow()
            .column("seq")
            .to_pylist()
        )

    assert found(first=5, last=7) == [5, 6, 7]
    assert found(subjects=f"{orders}.none") == []
    assert found(subjects=[f"{orders}.*"], last=2) == [1, 2]
    assert len(found(since=timedelta(hours=1))) == 15
    assert found(until=datetime(2001, 1, 1, tzinfo=UTC)) == []
    assert found(since=datetime.now(UTC) + timedelta(days=1)) == []


def test_mistakes(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("millstream.tables.source._PATIENCE_S", 0.5)
    with pytest.raises(StreamMissing, match="there is no stream NOWHERE on nats://"):
        millstream.table("NOWHERE", server=url, **PATIENT).arrow()
    with pytest.raises(OptionError, match="a stream has no column 'sequence'; it has stream, subject, seq"):
        millstream.table("NOWHERE", columns=["sequence"])
    with pytest.raises(OptionError, match="there is no option 'usr'"):
        millstream.table("NOWHERE", usr="me")
    with pytest.raises(SourceUnavailable, match=r"127\.0\.0\.1:1"):
        millstream.table("ORDERS", server="nats://127.0.0.1:1", connect_timeout_s=0.2).arrow()
