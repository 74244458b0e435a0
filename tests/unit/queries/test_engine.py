"""The process of a query tells what failed."""

import duckdb
import pytest

from millstream.queries.engine import _kind_of


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (
            duckdb.SerializationException('Failed to parse JSON string: {"exception_type":"Out of Memory"}'),
            "memory",
        ),
        (duckdb.Error("Failed to allocate block of 8192 bytes (bad allocation)"), "memory"),
        (RuntimeError("std::bad_alloc"), "memory"),
        (ValueError("malloc of size 64 failed"), "memory"),
        (duckdb.ParserException("syntax error"), "error"),
    ],
)
def test_no_memory_is_told_whatever_duckdb_raises(error: Exception, kind: str) -> None:
    assert _kind_of(error) == kind
