"""Results on standard output: tables and details on a terminal, plain columns in a pipe, JSON if asked for.

    output = CommandOutput(json=json)
    output.table(document, ("Name", "Messages"), rows)       # rows of texts; document is the JSON
    output.details(document, {"State": {"Messages": "1,234"}})
    output.event({"seq": 1}, "[1] orders.eu hello")          # one of many: a line, or a line of JSON

Columns of a pipe have no borders, and no more than one line for each row, so that other programs can read
them.  Every text is escaped here, whoever made it.
"""

from __future__ import annotations

import json as json_text
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, Final

import typer

from millstream.cli.endings import UsageError
from millstream.cli.output.texts import safe

JsonOption = Annotated[bool, typer.Option("--json", help="Print the result as JSON, and nothing else.")]
RawOption = Annotated[
    bool, typer.Option("--raw", help="Print payloads as they are, byte by byte; not on a terminal.")
]
_GAP: Final = "  "


def on_terminal() -> bool:
    """Return whether people read standard output."""
    return sys.stdout.isatty()


class CommandOutput:
    """Where a command writes its result; see the module."""

    def __init__(self, *, json: bool = False) -> None:
        self.json: Final = json

    def table(
        self, document: object, columns: Sequence[str], rows: Iterable[Sequence[str]], empty: str = ""
    ) -> None:
        """Print rows; a column whose name begins with ``#`` is of numbers.  `empty` is said if none is."""
        if self.json:
            self.document(document)
            return
        found = [[safe(cell) for cell in row] for row in rows]
        if not found and empty:
            self.note(empty)
        elif on_terminal():
            _rich_table(columns, found)
        else:
            _plain_table(columns, found)

    def details(self, document: object, sections: Mapping[str, Mapping[str, str]]) -> None:
        """Print names and values under headings; a section without any is left out."""
        if self.json:
            self.document(document)
            return
        width = max((len(name) for section in sections.values() for name in section), default=0)
        first = True
        for title, section in sections.items():
            if not section:
                continue
            if title:
                self.line(title if first else f"\n{title}", escape=False)
            first = False
            for name, value in section.items():
                self.line(f"  {safe(name):<{width}}  {safe(value)}", escape=False)

    def document(self, value: object) -> None:
        """Print JSON; everything beyond ASCII is escaped in it."""
        sys.stdout.write(json_text.dumps(value, indent=2, default=str) + "\n")
        sys.stdout.flush()

    def done(self, document: object, text: str) -> None:
        """Print what was done, in one line."""
        if self.json:
            self.document(document)
        else:
            self.line(text)

    def event(self, document: Mapping[str, Any], text: str) -> None:
        """Print one of many results at once; with JSON, one line for each."""
        if self.json:
            sys.stdout.write(json_text.dumps(document, default=str) + "\n")
            sys.stdout.flush()
        else:
            self.line(text)

    def line(self, text: str, *, escape: bool = True) -> None:
        """Print a line."""
        sys.stdout.write((safe(text) if escape else text) + "\n")
        sys.stdout.flush()

    def raw(self, payload: bytes) -> None:
        """Print bytes as they are; whoever asked for it was checked by `check_raw`."""
        sys.stdout.flush()
        sys.stdout.buffer.write(payload)
        sys.stdout.buffer.flush()

    def note(self, text: str) -> None:
        """Say something beside the result, on standard error."""
        if not self.json:
            print(safe(text), file=sys.stderr, flush=True)


def check_raw(raw: bool, json: bool = False) -> None:
    """Raise UsageError if bytes of others would reach a terminal as they are."""
    if raw and json:
        raise UsageError("--raw and --json exclude each other")
    if raw and on_terminal():
        raise UsageError("--raw is not for terminals, which act on some bytes: write to a file or a pipe")


def _title(column: str) -> str:
    return column.removeprefix("#")


def _plain_table(columns: Sequence[str], rows: list[list[str]]) -> None:
    heads = [_title(column).upper() for column in columns]
    widths = [max(map(len, cells)) for cells in zip(heads, *rows, strict=True)]
    lines = []
    for row in [heads, *rows]:
        cells = [
            cell.rjust(width) if column.startswith("#") else cell.ljust(width)
            for cell, width, column in zip(row, widths, columns, strict=True)
        ]
        lines.append(_GAP.join(cells).rstrip())
    sys.stdout.write("\n".join(lines) + "\n")


def _rich_table(columns: Sequence[str], rows: list[list[str]]) -> None:
    print_table(make_table(columns, rows))


def make_table(columns: Sequence[str], rows: Iterable[Sequence[str]], title: str = "") -> Any:
    """Return a table for a terminal; the texts have no markup in them."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, title=title or None, title_justify="left", pad_edge=False)
    for column in columns:
        table.add_column(_title(column), justify="right" if column.startswith("#") else "left")
    for row in rows:
        table.add_row(*(Text(safe(cell), overflow="fold") for cell in row))
    return table


def print_table(table: Any) -> None:
    """Print what `make_table` made."""
    from rich.console import Console

    Console(highlight=False, markup=False).print(table)
