"""`millstream sql`: ask streams and buckets with SQL, once or at a prompt."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from millstream.base.errors import MillstreamError
from millstream.cli.connection import talks_to_a_server
from millstream.cli.endings import FAILED, NO_SERVER, NOT_FOUND, NOT_PERMITTED, Ending, UsageError, need
from millstream.cli.output.readings import read_duration, read_size
from millstream.cli.output.tables import CommandOutput, JsonOption, on_terminal
from millstream.cli.output.texts import safe, size_text
from millstream.link.login import check_files
from millstream.link.options import LinkOptions

if TYPE_CHECKING:
    from millstream.queries.limits import SqlLimits
    from millstream.queries.process import RunningQuery
    from millstream.queries.table_access import TableAccess
    from millstream.tables.source import TableSource

_SHOWN_ROWS: Final = 1_000  # of a table; other forms have all rows
_WIDEST_CELL: Final = 80


@talks_to_a_server
def sql(
    *,
    server: LinkOptions,
    query: Annotated[
        str,
        typer.Argument(
            metavar="QUERY",
            help="One query; `-` reads it from standard input. Without it, a prompt begins.",
            show_default=False,
        ),
    ] = "",
    json: JsonOption = False,
    ndjson: Annotated[bool, typer.Option("--ndjson", help="Print one JSON object for each row.")] = False,
    csv: Annotated[bool, typer.Option("--csv", help="Print CSV.")] = False,
    arrow: Annotated[
        bool, typer.Option("--arrow", help="Print an Arrow IPC stream; not on a terminal.")
    ] = False,
    rows: Annotated[
        int,
        typer.Option(metavar="NUMBER", min=0, help="Most rows of the result; 0 is all, or 1,000 in a table."),
    ] = 0,
    time: Annotated[str, typer.Option(metavar="TIME", help="Longest time of a query; 0 is no limit.")] = "0",
    memory: Annotated[str, typer.Option(metavar="SIZE", help="Most memory of a query.")] = "1GB",
    lake: Annotated[
        str,
        typer.Option(
            metavar="PLACE",
            help="Iceberg tables to ask, too: a warehouse folder, or a TOML file with [catalog].",
            show_default=False,
        ),
    ] = "",
) -> None:
    """Ask streams and buckets with SQL.

    Streams are tables with the columns stream, subject, seq, time, headers, data and size; buckets are
    kv.NAME with key, value, revision, operation and time. DuckDB runs the query, in a process of its own
    without files and network. Statistics on standard error say how much was read. With --lake, Iceberg
    tables are NAMESPACE.TABLE, and whole.NAME is a stream with its archive.

    \b
    Examples:
      millstream sql "select subject, count(*) from ORDERS group by 1"
      millstream sql "select data->>'$.item' as item from ORDERS where seq > 1000" --csv
      millstream sql "select * from kv.CONFIG" --json
      millstream sql "select min(time) from whole.ORDERS" --lake data/lake
      millstream sql
    """
    need("sql", "duckdb", "pyarrow")
    if lake:
        need("lake", "pyiceberg")
    forms = [
        form
        for form, chosen in (("json", json), ("ndjson", ndjson), ("csv", csv), ("arrow", arrow))
        if chosen
    ]
    if len(forms) > 1:
        raise UsageError(f"--{forms[0]} and --{forms[1]} exclude each other")
    if arrow and on_terminal():
        raise UsageError("--arrow is not for terminals: write to a file or a pipe")
    check_files(server)
    from millstream.queries.limits import MIB, SqlLimits
    from millstream.tables.source import TableSource

    limits = SqlLimits(
        memory_mib=max(1, read_size(memory, "--memory") // MIB),
        time_s=0.0 if time == "0" else read_duration(time, "--time") / 1e9,
        rows=rows,
    )
    source = TableSource(server, name="millstream sql")
    tables = _tables(lake) if lake else None
    form = forms[0] if forms else ""
    if query == "-" or (not query and not sys.stdin.isatty()):
        query = sys.stdin.read()
    if query:
        answer(query, source, limits, form, tables)
        return
    from millstream.cli.commands.sql_prompt import SqlPrompt

    SqlPrompt(source, lambda text: answer(text, source, limits, form, tables)).run()


def _tables(lake: str) -> TableAccess:
    from millstream.lake.catalog import catalog_at
    from millstream.lake.library import TableLibrary
    from millstream.queries.table_access import TableAccess

    try:
        return TableAccess(TableLibrary(catalog_at(lake)))
    except MillstreamError as error:
        raise UsageError(str(error)) from None


def answer(
    query: str, source: TableSource, limits: SqlLimits, form: str, tables: TableAccess | None = None
) -> None:
    """Run a query and print its result; raise Ending with the exit code of its failure."""
    import msgspec

    from millstream.queries import formats
    from millstream.queries.process import RunningQuery

    if not form:
        limits = msgspec.structs.replace(limits, rows=limits.rows or _SHOWN_ROWS)
    try:
        with RunningQuery(query, source, limits, tables=tables) as running:
            if form:
                kind = {"json": formats.JSON, "ndjson": formats.NDJSON, "csv": formats.CSV}
                for piece in formats.WRITERS[kind.get(form, formats.ARROW)](running):
                    sys.stdout.buffer.write(piece)
                sys.stdout.buffer.flush()
            else:
                _print_table(running)
    except MillstreamError as error:
        raise Ending(str(error), _code_of(error)) from None
    _print_statistics(running)


def _print_table(running: RunningQuery) -> None:
    from millstream.queries.formats import cell_text, rows_of, unique_names

    batches = running.batches()
    schema = next(batches)
    names = unique_names(schema)
    titles = [
        f"#{name}" if _is_number(kind) else name for name, kind in zip(names, schema.types, strict=True)
    ]
    found = [row for batch in batches for row in rows_of(batch, names)]
    if names == ["explain_key", "explain_value"]:
        CommandOutput().raw("".join(f"{row['explain_value']}\n" for row in found).encode())
        return
    cells = ([safe(cell_text(value), _WIDEST_CELL) for value in row.values()] for row in found)
    CommandOutput().table(None, titles, cells)


def _is_number(kind: Any) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def _print_statistics(running: RunningQuery) -> None:
    found = running.statistics
    rows = f"{found.rows:,} row{'' if found.rows == 1 else 's'}"
    more = ", and there are more: see --rows" if found.truncated else ""
    read = "".join(_scans(running))
    print(f"({rows}{more}; {found.seconds:.2f} s{read})", file=sys.stderr, flush=True)


def _scans(running: RunningQuery) -> Iterator[str]:
    for scan in running.statistics.scans:
        if scan.table:
            files = f"{scan.files} file{'' if scan.files == 1 else 's'} of {size_text(scan.file_bytes)}"
            yield f"; {safe(scan.table)}: {scan.messages:,} rows, {size_text(scan.bytes)} from {files}"
            continue
        over = "as Arrow" if scan.transport == "arrow" else "over the wire"
        yield f"; {safe(scan.stream)}: {scan.messages:,} messages, {size_text(scan.bytes)} {over}"
        if scan.gaps:
            yield f"; missing in stream and table: {', '.join(f'{low} to {high}' for low, high in scan.gaps)}"


def _code_of(error: MillstreamError) -> int:
    from millstream.lake.errors import TableMissing
    from millstream.tables.errors import NotAllowed, SourceUnavailable, StreamMissing

    match error:
        case StreamMissing() | TableMissing():
            return NOT_FOUND
        case SourceUnavailable():
            return NO_SERVER
        case NotAllowed():
            return NOT_PERMITTED
    return FAILED
