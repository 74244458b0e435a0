"""The fenced blocks of a page, with the marks that say how they are run.

A mark is an HTML comment right above the block, so it does not show when the page is rendered:

    <!-- not run: REASON -->      the block is a drawing, a layout, a command for another machine
    <!-- soak: REASON -->         the block is run by `make soak` alone
    <!-- file: NAME -->           the block is saved as NAME in the reader's folder; the page names the file
    <!-- continues -->            the Python block goes on with the program of the Python block before it
    <!-- until Ctrl-C -->         the last command of the block does not end by itself
    <!-- differs: 42, 4.2 s -->   these texts of the output differ from run to run

In an output, `…` stands for any text within a line, and a line `…` for any number of lines.  Where the output
has several blanks in a row, as tables have, their number does not matter.
"""

import re
import subprocess
from dataclasses import dataclass, field
from typing import Final

from tests.kits.paths import ROOT

MARKS: Final = {"not run", "soak", "file", "continues", "until Ctrl-C", "differs"}
WITH_VALUE: Final = {"not run", "soak", "file", "differs"}

_FENCE: Final = re.compile(r"^( *)(`{3,}|~{3,})\s*([\w+-]*)\s*$")
_MARK: Final = re.compile(r"^<!-- (?P<name>[^:]*?)(?:: (?P<value>.*?))? -->$")
_UNFINISHED: Final = re.compile(r"here-document .* delimited by end-of-file")


class PageError(Exception):
    """A block is written so that nobody can tell how to run it; the text names page and line."""


@dataclass
class Block:
    page: str
    line: int  # of the fence, counted from 1
    language: str
    text: str
    marks: dict[str, str] = field(default_factory=dict)
    output: "Block | None" = None  # the `text` block behind a program
    is_output: bool = False

    @property
    def place(self) -> str:
        return f"{self.page}:{self.line}"

    @property
    def differing(self) -> list[str]:
        return [each.strip() for each in self.marks.get("differs", "").split(",") if each.strip()]


@dataclass(frozen=True)
class Command:
    line: int
    text: str
    output: str
    is_last: bool


def pages() -> list[str]:
    """Return every page whose blocks are run, by its name in the repository."""
    fixed = ["README.md", "CONTRIBUTING.md", "SECURITY.md"]
    folders = ("benchmarks/*.md", "docs/**/*.md", "examples/**/README.md")
    found = [path for pattern in folders for path in ROOT.glob(pattern)]
    return [*fixed, *sorted(str(path.relative_to(ROOT)) for path in found)]


def read_page(name: str) -> list[Block]:
    return read_blocks(name, (ROOT / name).read_text())


def read_blocks(page: str, text: str) -> list[Block]:
    """Return the blocks of a page in their order; raise PageError for marks that nobody knows."""
    blocks: list[Block] = []
    lines = text.splitlines()
    before = 0  # where the text between this block and the one before begins
    number = 0
    while number < len(lines):
        fence = _FENCE.match(lines[number])
        if fence is None:
            number += 1
            continue
        indent, ticks, language = fence.groups()
        end = next(
            (each for each in range(number + 1, len(lines)) if lines[each].strip() == ticks),
            None,
        )
        if end is None:
            raise PageError(f"{page}:{number + 1}: the block has no end")
        body = "".join(line.removeprefix(indent) + "\n" for line in lines[number + 1 : end])
        between = [line.strip() for line in lines[before:number] if line.strip()]
        block = Block(page, number + 1, language, body, _marks(page, number, between))
        blocks.append(block)
        if language == "text" and len(blocks) > 1 and all(_MARK.match(line) for line in between):
            program = blocks[-2]
            if program.language == "python" and "not run" not in program.marks:
                program.output, block.is_output = block, True
        number = before = end + 1
    return blocks


def _marks(page: str, number: int, between: list[str]) -> dict[str, str]:
    marks: dict[str, str] = {}
    for line in reversed(between):
        mark = _MARK.match(line)
        if mark is None:
            break
        name, value = mark["name"], mark["value"] or ""
        if name not in MARKS or (name in WITH_VALUE) != bool(value):
            raise PageError(f"{page}:{number + 1}: nobody knows the mark {line}")
        marks[name] = value
    return marks


def commands(block: Block) -> list[Command]:
    """Split a console block: `$ ` begins a command, which goes on while the shell wants more of it."""
    lines = block.text.splitlines()
    found: list[tuple[int, str, list[str]]] = []
    number = 0
    while number < len(lines):
        if lines[number].startswith("$ "):
            first = number
            text = lines[number].removeprefix("$ ")
            while _wants_more(text):
                number += 1
                if number == len(lines):
                    raise PageError(f"{block.place}: the command {text.splitlines()[0]!r} has no end")
                text += "\n" + lines[number]
            found.append((block.line + 1 + first, text, []))
        elif found:
            found[-1][2].append(lines[number])
        elif lines[number].strip():
            raise PageError(f"{block.place}: the block begins with output; a command begins with `$ `")
        number += 1
    return [
        Command(line, text, "\n".join(output).strip("\n"), line == found[-1][0])
        for line, text, output in found
    ]


def _wants_more(text: str) -> bool:
    if text.endswith("\\"):
        return True
    said = subprocess.run(["bash", "-n", "-c", text], capture_output=True, text=True, check=False)
    return said.returncode != 0 or _UNFINISHED.search(said.stderr) is not None


def is_shown(printed: str, output: str, differing: list[str]) -> bool:
    """Tell whether a page that shows `output` is right about a program that printed this."""
    return as_pattern(output, differing).fullmatch(printed.strip("\n") + "\n") is not None


def as_pattern(output: str, differing: list[str]) -> re.Pattern[str]:
    """Return the expression for whole lines that are as the page shows them."""
    # The longest first: a text may be a part of another.
    texts = "|".join(re.escape(each) for each in sorted(differing, key=len, reverse=True))
    splitter = re.compile(rf"(?<!\w)(?:{texts})(?!\w)") if texts else None
    return re.compile("".join(_line(line, splitter) for line in output.strip("\n").split("\n")))


def _line(line: str, differing: re.Pattern[str] | None) -> str:
    if line.strip() == "…":
        return r"(?:.*\n)*?"
    line = line.rstrip()
    pattern, position = "", 0
    for found in differing.finditer(line) if differing else ():
        pattern += _literal(line[position : found.start()])
        pattern += r"\d+" if found[0].isdecimal() else r"\S.*?"
        position = found.end()
    return pattern + _literal(line[position:]) + r"[ \t]*\n"


def _literal(text: str) -> str:
    """Return the expression for a text; several blanks in a row, as in tables, stand for any number."""
    parts = (re.escape(part) for part in text.split("…"))
    return re.sub(r"(?:\\ ){2,}", " +", ".*".join(parts))
