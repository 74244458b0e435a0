"""Deliberate bugs, to show that the simulation finds bugs: ``python -m tests.sim.mutations``.

Each mutation breaks one thing in the server, by replacing a method of the interpreted build
(``MILLSTREAM_PURE=1``, which this program sets).  It is found if a seed below the limit fails.

    python -m tests.sim.mutations [NAME …] [--seeds 200]
"""

from __future__ import annotations

import os
import signal

os.environ["MILLSTREAM_PURE"] = "1"

import argparse
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from functools import partial
from multiprocessing import get_context

from tests.sim.mutations.basics import BASIC_MUTATIONS
from tests.sim.mutations.consumers import CONSUMER_MUTATIONS
from tests.sim.mutations.followers import FOLLOWER_MUTATIONS
from tests.sim.mutations.store import STORE_MUTATIONS
from tests.sim.mutations.streams import STREAM_MUTATIONS
from tests.sim.run import run_seed

LONGEST_RUN_S = 30.0
MUTATIONS = BASIC_MUTATIONS | CONSUMER_MUTATIONS | STREAM_MUTATIONS | FOLLOWER_MUTATIONS | STORE_MUTATIONS


@contextmanager
def applied(name: str) -> Iterator[None]:
    """Break the server while the context lasts."""
    replaced = MUTATIONS[name]()
    before = [(owner, attribute, getattr(owner, attribute)) for owner, attribute, _ in replaced]
    for owner, attribute, value in replaced:
        setattr(owner, attribute, value)
    try:
        yield
    finally:
        for owner, attribute, value in before:
            setattr(owner, attribute, value)


class Endless(BaseException):
    """A step of the server does not come to an end; no handler of the server catches this."""


@contextmanager
def _limited() -> Iterator[None]:
    """Raise Endless if a run takes more than ``LONGEST_RUN_S`` of processor time."""

    def end(*_: object) -> None:
        raise Endless(f"a seed takes more than {LONGEST_RUN_S} s of processor time")

    before = signal.signal(signal.SIGPROF, end)
    signal.setitimer(signal.ITIMER_PROF, LONGEST_RUN_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def seeds_until_found(name: str, most: int) -> tuple[int, str]:
    """Return how many seeds it took to find a mutation, and what was found; 0 if none did."""
    with applied(name):
        for seed in range(most):
            try:
                with _limited():
                    outcome = run_seed(seed)
            except (Exception, Endless) as error:
                return seed + 1, f"{type(error).__name__}: {error}"
            if outcome.violations:
                return seed + 1, outcome.violations[0].split("\n", 1)[0]
    return 0, ""


def main() -> int:
    parser = argparse.ArgumentParser(prog="tests.sim.mutations", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--seeds", type=int, default=200)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    chosen = parser.parse_args()
    missed = 0
    with ProcessPoolExecutor(chosen.jobs, mp_context=get_context("fork")) as pool:
        for found, line in pool.map(partial(_try, most=chosen.seeds), chosen.names or MUTATIONS):
            missed += not found
            print(line, flush=True)
    print(f"{missed} were not found")
    return bool(missed)


def _try(name: str, most: int) -> tuple[bool, str]:
    """Return whether a mutation is found, and a line about it."""
    began = time.process_time()
    seeds, how = seeds_until_found(name, most)
    told = f"seed {seeds - 1:4}  {how}" if seeds else f"NOT FOUND in {most} seeds"
    return seeds > 0, f"{name:30} {told}  ({time.process_time() - began:.0f} s)"


if __name__ == "__main__":
    sys.exit(main())
