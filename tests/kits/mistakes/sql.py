"""Mistakes in the SQL and the schemas of a pipeline, which Spark finds."""

from dataclasses import dataclass

from tests.kits.mistakes.table import PIPELINE


@dataclass(frozen=True)
class Sql:
    """One row of the page, and the job that makes it."""

    sql: str
    line: str
    advice: str
    json: str = "id long, price double"
    section: str = PIPELINE

    def __str__(self) -> str:
        return self.sql


SQL = (
    Sql(
        "selec * from orders",
        'FILE:LINE: job "JOB": key "sql": Syntax error at or near \'selec\' (line NUMBER, column NUMBER)',
        "Line and column are those of the query.",
    ),
    Sql(
        "select value.prize from orders",
        'FILE:LINE: job "JOB": key "sql": No such struct field `prize` in `id`, `price` (line NUMBER, column '
        "NUMBER)",
        "The columns of an input are those of [messages](spark.md), and `value` with the fields of `json`.",
    ),
    Sql(
        "select * from oders",
        'FILE:LINE: job "JOB": key "sql": The table or view `oders` cannot be found. REASON',
        "Views have the names of `[job.input.NAME]`.",
    ),
    Sql(
        "select 1",
        'FILE:LINE: job "JOB": input "orders": key "json": Unsupported data type "DUBBLE" (line NUMBER, '
        "column NUMBER)",
        "Types are those of Spark's SQL: `string`, `long`, `double`, `timestamp`, …",
        json="id long, price dubble",
    ),
)
