"""Runs one target on many inputs, and keeps those that it should not have failed on.

A *finding* is an input that ends the process, raises what the target does not list as a refusal, or takes
too long.  An input whose outcome was not seen before joins the corpus, so later inputs start from it.

The input at hand lies in a mapped file, where it survives the process that dies of it.
"""

from __future__ import annotations

import hashlib
import logging
import mmap
import re
import signal
import time
import traceback
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from types import FrameType
from typing import Final

from millstream.base.errors import MillstreamError
from tests.fuzz.mutation import MOST_BYTES, Mutator

MOST_KEPT: Final = 3000  # inputs of a corpus
SLOW_S: Final = 10.0  # processor time of one input, under sanitizers on a busy machine
_VARYING: Final = re.compile(r"[0-9]+|'.*'|\".*\"|`.*`", re.DOTALL)


@dataclass(frozen=True)
class Target:
    """Something that takes bytes from outside."""

    name: str
    check: Callable[[bytes], Hashable]  # returns what the input did, in few words; raises if that is wrong
    seeds: Callable[[], Iterable[bytes]]  # valid inputs, made by the product where it can
    refusals: tuple[type[Exception], ...] = (MillstreamError,)
    words: tuple[bytes, ...] = ()


class TooSlow(Exception):
    """An input takes longer than inputs may."""


@dataclass
class Outcome:
    """The result of a run of a target."""

    cases: int = 0
    behaviours: int = 0
    findings: list[str] = field(default_factory=list)


class Folder:
    """A folder of inputs that were found: one file each, with a text beside it that says what it did."""

    def __init__(self, path: Path, target: str) -> None:
        self._path = path / target

    def keep(self, data: bytes, story: str) -> Path:
        self._path.mkdir(parents=True, exist_ok=True)
        path = self._path / hashlib.sha256(data).hexdigest()[:16]
        path.write_bytes(data)
        path.with_suffix(".txt").write_text(story)
        return path

    def inputs(self) -> list[Path]:
        return sorted(path for path in self._path.glob("*") if path.suffix != ".txt")


class Cockpit:
    """The input at hand, where another process can read it."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("wb") as file:
            file.truncate(8 + 2 * MOST_BYTES)
        with path.open("r+b") as file:
            self._map = mmap.mmap(file.fileno(), 0)

    def show(self, data: bytes) -> None:
        self._map[: 8 + len(data)] = len(data).to_bytes(8, "little") + data

    @staticmethod
    def read(path: Path) -> bytes:
        data = path.read_bytes()
        return data[8 : 8 + int.from_bytes(data[:8], "little")]


class _Complaints(logging.Handler):
    """Exceptions that were caught and logged because nobody expected them."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.found: list[BaseException] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info and record.exc_info[1] is not None:
            self.found.append(record.exc_info[1])


def run_one(target: Target, data: bytes) -> Hashable:
    """Run `data` and return its behaviour; raise a finding, also if the product caught and logged it."""
    complaints, logger = _Complaints(), logging.getLogger("millstream")
    logger.addHandler(complaints)
    try:
        did = target.check(data)
    except target.refusals as refusal:
        did = type(refusal).__name__, _VARYING.sub("", str(refusal))[:80]
    finally:
        logger.removeHandler(complaints)
    for complaint in complaints.found:
        raise complaint
    return did


def run(
    target: Target,
    seed: int,
    *,
    seconds: float = 0.0,
    cases: int = 0,
    folder: Folder | None = None,
    cockpit: Cockpit | None = None,
) -> Outcome:
    """Run `target` for so many `seconds` or `cases`; without a `folder`, the first finding is raised."""
    mutator = Mutator(Random(seed), target.words)
    corpus = [bytes(each)[:MOST_BYTES] for each in target.seeds()]
    seen: set[Hashable] = set()
    places: set[Hashable] = set()
    outcome = Outcome()
    signal.signal(signal.SIGVTALRM, _too_slow)
    waiting = list(corpus)
    end = time.monotonic() + seconds
    while outcome.cases < cases or ((outcome.cases & 15 or time.monotonic() < end) and not cases):
        data = waiting.pop() if waiting else mutator.mutate(corpus)
        outcome.cases += 1
        if cockpit is not None:
            cockpit.show(data)
        signal.setitimer(signal.ITIMER_VIRTUAL, SLOW_S)
        try:
            did = run_one(target, data)
        except Exception as error:
            if folder is None:
                raise
            place = (
                type(error),
                *((each.filename, each.lineno) for each in traceback.extract_tb(error.__traceback__)[-2:]),
            )
            if place not in places:
                places.add(place)
                outcome.findings.append(str(folder.keep(data, f"seed {seed}\n{traceback.format_exc()}")))
            continue
        finally:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        if did not in seen:
            seen.add(did)
            if len(corpus) < MOST_KEPT:
                corpus.append(data)
    outcome.behaviours = len(seen)
    return outcome


def _too_slow(number: int, frame: FrameType | None) -> None:
    raise TooSlow(f"an input takes more than {SLOW_S} s")
