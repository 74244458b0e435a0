"""The prose of the project: docstrings and comments of the code, and pages, each with its place."""

import ast
import re
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

from tests.kits.paths import ROOT

CODE: Final = ("src", "tests", "benchmarks", "examples")


_COMMENT: Final = re.compile(r"(?:^|\s)# .*$")


class Prose(NamedTuple):
    place: str  # file and line
    owner: str  # of a docstring: its module, class or function
    text: str


@cache
def project_files() -> tuple[str, ...]:
    """Return the files of the project: those that git knows and those that it would add."""
    listed = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    found = subprocess.run(listed, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    return tuple(sorted(each for each in set(found) if (ROOT / each).exists()))


def code_files(*folders: str) -> list[Path]:
    """Return the Python files of some folders, or of the whole project."""
    wanted = tuple(f"{each}/" for each in folders or CODE)
    return [ROOT / each for each in project_files() if each.endswith(".py") and each.startswith(wanted)]


def docstrings(path: Path) -> Iterator[Prose]:
    """Yield the docstrings of a module, its classes and its functions."""
    name = str(path.relative_to(ROOT))
    waiting: list[ast.AST] = [ast.parse(path.read_text())]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            text = ast.get_docstring(node, clean=False)
            if text:
                owner = "" if isinstance(node, ast.Module) else node.name
                yield Prose(f"{name}:{node.body[0].lineno}", owner, text)
        for block in ("body", "orelse", "finalbody", "handlers"):
            waiting.extend(getattr(node, block, ()))


def comments(path: Path) -> Iterator[Prose]:
    """Yield the comments of a module, line by line; a text that looks like a comment is taken for one."""
    name = str(path.relative_to(ROOT))
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if "# " in line and (found := _COMMENT.search(line)):
            yield Prose(f"{name}:{number}", "", found[0])


def page_prose() -> Iterator[Prose]:
    """Yield the lines of all pages."""
    for each in project_files():
        if each.endswith(".md"):
            for number, line in enumerate((ROOT / each).read_text().splitlines(), 1):
                yield Prose(f"{each}:{number}", "", line)
