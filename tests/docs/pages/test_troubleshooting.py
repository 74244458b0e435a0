"""`docs/troubleshooting.md` has every mistake of the tables, and no other; GOLDEN_UPDATE=1 writes them."""

import os
from itertools import groupby

from tests.kits.docs.generated import entry
from tests.kits.mistakes.page import PAGE, rows
from tests.kits.mistakes.python import PROGRAMS
from tests.kits.mistakes.sql import SQL
from tests.kits.mistakes.table import MISTAKES


def wanted() -> dict[str, list[tuple[str, str]]]:
    """Return the rows by section, each once."""
    found: dict[str, dict[tuple[str, str], None]] = {}
    for each in (*MISTAKES, *SQL, *PROGRAMS):
        found.setdefault(each.section, {})[each.line, each.advice] = None
    return {section: list(entries) for section, entries in found.items()}


def written(text: str) -> str:
    """Return the page with the wanted entries in place of those that it has."""
    lines, section = [], ""
    for is_row, group in groupby(text.splitlines(), lambda line: line.startswith(("* `", "  "))):
        if not is_row:
            lines += list(group)
            section = next((line[3:] for line in reversed(lines) if line.startswith("## ")), "")
            continue
        for line, advice in wanted()[section]:
            quotes = "``" if "`" in line else "`"
            pad = " " if line.endswith("`") else ""
            lines.append(entry(f"{quotes}{pad}{line}{pad}{quotes}: {advice}"))
    return "\n".join(lines) + "\n"


def test_the_page_has_every_mistake_and_no_other() -> None:
    if os.environ.get("GOLDEN_UPDATE") == "1":
        PAGE.write_text(written(PAGE.read_text()))
    assert PAGE.read_text() == written(PAGE.read_text())
    assert rows().keys() == wanted().keys()
