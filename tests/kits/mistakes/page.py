"""Texts of the page: words in capitals stand for what differs from case to case."""

import re
from typing import Final

from tests.kits.paths import DOCS

PAGE: Final = DOCS / "troubleshooting.md"
_WORDS: Final = {
    **dict.fromkeys(("HOST", "FILE", "FOLDER", "SERVER", "STREAM", "PACKAGE"), r"[^\s']+"),
    **dict.fromkeys(("PORT", "LINE", "COLUMN", "NUMBER"), r"\d+"),
    **dict.fromkeys(("FIELD", "KEY", "JOB", "SUBJECT"), r"[\w.]+"),
    "REASON": r"[^\n]+",
}
_WORD: Final = re.compile(rf"\b({'|'.join(_WORDS)})\b")


def pattern_of(line: str) -> re.Pattern[str]:
    """Return what a line as the page has it stands for."""
    parts = _WORD.split(line)
    return re.compile("".join(_WORDS[part] if part in _WORDS else re.escape(part) for part in parts))


def rows() -> dict[str, list[tuple[str, str]]]:
    """Return the entries of the page by section: what is seen, and what to do."""
    found: dict[str, list[tuple[str, str]]] = {}
    section = ""
    for line in re.sub(r"\n  ", " ", PAGE.read_text()).splitlines():
        if line.startswith("## "):
            section = line.removeprefix("## ")
        elif entry := re.match(r"\* (`+)(.*?)\1: (.*)$", line):
            found.setdefault(section, []).append((entry[2].strip(), entry[3]))
    return found
