"""Results on standard output: tables and details on a terminal, plain columns in a pipe, JSON if asked for.

    output = CommandOutput(json=json)
    output.table(document, ("Name", "Messages"), rows)       # rows of texts; document is the JSON
    output.details(document, {"State": {"Messages": "1,234"}})
    output.event({"seq": 1}, "[1] orders.eu hello")          # one of many results: a line of text or of JSON

Columns in a pipe have no borders, and one line for each row, so that other programs can read them.  Every
text is escaped here.
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
    """Return whether standard output is a terminal."""
    return sys.stdout.isatty()


class CommandOutput:
    """The output of a command's result, as text or JSON."""

    def __init__(self, *, json: bool = False) -> None:
        self.json: Final = json

    def table(
        self, document: object, columns: Sequence[str], rows: Iterable[Sequence[str]], empty: str = ""
    ) -> None:
        """Print rows, or `empty` if there are none; a column whose name begins with ``#`` has numbers."""
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
        """Print names and values under headings; an empty section is left out."""
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
        """Print JSON in ASCII; other characters are escaped."""
        sys.stdout.write(json_text.dumps(value, indent=2, default=str) + "\n")
        sys.stdout.flush()

    def done(self, document: object, text: str) -> None:
        """Print the result of an action in one line."""
        if self.json:
            self.document(document)
        else:
            self.line(text)

    def event(self, document: Mapping[str, Any], text: str) -> None:
        """Print one of many results immediately; with JSON, one line for each."""
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
        """Print bytes unchanged; call `check_raw` first."""
        sys.stdout.flush()
        sys.stdout.buffer.write(payload)
        sys.stdout.buffer.flush()

    def note(self, text: str) -> None:
        """Print a note on standard error, beside the result."""
        if not self.json:
            print(safe(text), file=sys.stderr, flush=True)


def check_raw(raw: bool, json: bool = False) -> None:
    """Raise UsageError if unescaped payloads would reach a terminal."""
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
    """Return a table for a terminal; texts are not parsed as markup."""
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
    """Print a table of `make_table`."""
    from rich.console import Console

    Console(highlight=False, markup=False).print(table)
