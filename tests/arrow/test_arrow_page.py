"""The examples of docs/arrow.md: each is run, and gives what it should."""

import asyncio
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nats
import pytest

from millstream.testing.reference import ServerKind, ServerProcess

PAGE = Path(__file__).parents[2] / "docs" / "arrow.md"
EXAMPLE = re.compile(r"```python\n(.*?)```(?:\n```text\n(.*?)```)?", re.DOTALL)
ORDERS = [("eu", 3), ("us", 5), ("eu", 7), ("us", 11), ("eu", 13), ("eu", 17)]
USERS = """
    authorization { users: [{user: guest, password: guest}, {user: reader, password: secret}] }
    no_auth_user: guest
"""


@pytest.fixture(scope="module")
def names() -> Iterator[dict[str, Any]]:
    """What the examples presuppose: a server, and a stream of orders."""
    with ServerProcess(ServerKind.MILLSTREAM, config=USERS, jetstream=True) as server:
        asyncio.run(_order(server.client_url))
        base = server.wait_for_log(r"Serving streams as Arrow on (\S+)").group(1)
        yield {"url": f"{base}/arrow/v1/streams/ORDERS", "server": server.client_url, "__name__": "__main__"}


async def _order(url: str) -> None:
    connection = await nats.connect(url)
    streams = connection.jetstream()
    await streams.add_stream(name="ORDERS", subjects=["orders.>"])
    for place, amount in ORDERS:
        await streams.publish(f"orders.{place}", b'{"amount": %d}' % amount)
    await connection.close()


def run(number: int, names: dict[str, Any]) -> dict[str, Any]:
    program, _ = EXAMPLE.findall(PAGE.read_text())[number]
    found = dict(names)
    exec(compile(program, PAGE.name, "exec"), found)
    return found


def test_there_is_an_example_for_each_library() -> None:
    page = PAGE.read_text()
    for library in ("pyarrow", "Polars", "DuckDB", "pandas"):
        assert f"## {library}\n" in page
    assert len(EXAMPLE.findall(page)) == page.count("```python") == 8


def test_the_simple_ones_have_three_lines_besides_imports() -> None:
    for number in (0, 1, 2, 3, 4):
        program, _ = EXAMPLE.findall(PAGE.read_text())[number]
        lines = [line for line in program.splitlines() if line and not line.startswith(("from ", "import "))]
        assert len(lines) <= 3


def test_pyarrow_reads_a_stream(names: dict[str, Any]) -> None:
    table = run(0, names)["table"]
    assert table.column("seq").to_pylist() == [1, 2, 3, 4, 5, 6]
    assert table.column("data").to_pylist() == [b'{"amount": %d}' % amount for _, amount in ORDERS]
    assert run(1, names)["rows"] == 6


def test_polars_reads_a_stream(names: dict[str, Any]) -> None:
    frame = run(2, names)["frame"]
    assert frame["seq"].to_list() == [1, 3, 5, 6]
    assert frame["subject"].unique().to_list() == ["orders.eu"]


def test_duckdb_reads_a_stream(names: dict[str, Any]) -> None:
    assert sorted(run(3, names)["totals"]) == [("orders.eu", 4, 40), ("orders.us", 2, 16)]


def test_pandas_reads_a_stream(names: dict[str, Any]) -> None:
    frame = run(4, names)["frame"]
    assert frame["seq"].tolist() == [3, 4, 5]
    assert str(frame["time"].dt.tz) == "UTC"


def test_credentials_are_taken(names: dict[str, Any]) -> None:
    assert run(5, names)["table"].num_rows == 6


def test_a_ticket_is_had_over_nats(names: dict[str, Any]) -> None:
    assert run(6, names)["table"].num_rows == 6


def test_the_end_is_told(names: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    run(7, names)
    _, printed = EXAMPLE.findall(PAGE.read_text())[7]
    assert capsys.readouterr().out == printed
