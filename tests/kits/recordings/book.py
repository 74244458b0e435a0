"""Answers of nats-server in `tests/golden`: compared with what a server says now, or recorded anew.

A recording is a list of lines.  `make oracle` runs the tests on nats-server with `--record`: what differs
from its recording may be a race of nats-server, so the test is run again, and only what still differs at the
last try is kept.  Several workers may keep recordings in one file.
"""

import difflib
import fcntl
import functools
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

_SECTION: Final = "== "

Lines = list[str]


class Judge:
    """Compares what one test has heard with its recording."""

    def __init__(self, item: pytest.Item) -> None:
        self._records: bool = item.config.getoption("--record")
        again = item.get_closest_marker("flaky")
        tries = 1 + again.kwargs["reruns"] if again is not None else 1
        # pytest-rerunfailures counts the tries of a test in its item
        self._last_try = getattr(item, "execution_count", tries) >= tries

    def compare(self, name: str, recorded: Lines | None, heard: Lines, keep: Callable[[Lines], None]) -> None:
        """Fail if the lines differ; while recording, keep them instead if this is the last try."""
        if heard == recorded:
            return
        if self._records and (recorded is None or self._last_try):
            keep(heard)
            return
        assert recorded is not None, f"{name} was never recorded; `make oracle` does so"
        differences = difflib.unified_diff(recorded, heard, "recorded", "now", lineterm="", n=3)
        raise AssertionError("\n" + "\n".join(differences))


class Book:
    """A file with the recordings of several tests: under the name of each test, its lines."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def compare(self, item: pytest.Item, name: str, heard: Lines) -> None:
        """Let the judge of a test compare what it has heard with what is recorded under a name."""
        Judge(item).compare(name, self.find(name), heard, functools.partial(self.keep, name))

    def find(self, name: str) -> Lines | None:
        return _sections(self._path).get(name)

    def keep(self, name: str, lines: Lines) -> None:
        """Replace one recording; the others stay where they are."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._path.open("a+") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            file.seek(0)
            sections = _parse(file.read()) | {name: lines}
            file.truncate(0)
            file.write("\n".join(_SECTION + "\n".join([name, *each, ""]) for name, each in sections.items()))


@functools.cache
def _sections(path: Path) -> dict[str, Lines]:
    return _parse(path.read_text()) if path.exists() else {}


def _parse(text: str) -> dict[str, Lines]:
    found: dict[str, Lines] = {}
    for section in f"\n{text}".split(f"\n{_SECTION}")[1:]:
        name, *lines = section.rstrip("\n").split("\n")
        found[name] = lines
    return found
