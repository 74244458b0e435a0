"""Errors of SQL queries, each one line.

    SqlError                 the query is wrong, or failed in DuckDB
    ├── SqlRefused           a statement that is not a single query
    ├── SqlLimit             the query needs more memory, time or rows than it may have
    └── SqlCancelled         the query was cancelled

Errors of the streams that a query reads are those of `tables.errors`.
"""

from millstream.base.errors import MillstreamError


class SqlError(MillstreamError):
    """The query is wrong, or it failed."""


class SqlRefused(SqlError):
    """The statement is not a single query."""


class SqlLimit(SqlError):
    """The query needs more than it may have."""


class SqlCancelled(SqlError):
    """The query was cancelled."""
