"""Simulate the whole server, one seed after another: ``make sim``.

    python -m tests.sim --seeds 1000           seeds 0 to 999
    python -m tests.sim --seeds 5000:6000      these
    python -m tests.sim --seed 4711            one, with its history
    python -m tests.sim --minutes 10           as many as fit, from a seed on
    python -m tests.sim --jobs 1               in one process at a time; otherwise in one for each core

    python -m tests.sim --seed 4711 --keep     one that failed, which is a test from now on

A failure prints its seed, the promises that were broken, and the shortest plan and history that breaks them.
"""

from __future__ import annotations

import argparse
import gc
import itertools
import operator
import os
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from typing import NamedTuple

from tests.sim.found import keep
from tests.sim.plans.draw import GENERATION
from tests.sim.run import Outcome, run_seed
from tests.sim.shrink import shrink

SHOWN = 200  # lines of a history
SEEDS_AT_ONCE = 100  # in one process
_EVERY_S = 60.0


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="tests.sim", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", default="0:1000", help="how many, or FIRST:END")
    parser.add_argument("--seed", type=int, help="run one seed and print its history")
    parser.add_argument("--generation", type=int, default=GENERATION, help="of the plan of --seed")
    parser.add_argument("--keep", action="store_true", help="make --seed a test, if it fails")
    parser.add_argument("--minutes", type=float, help="end after this time")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--no-shrink", action="store_true")
    chosen = parser.parse_args()
    if chosen.seed is not None:
        outcome = run_seed(chosen.seed, chosen.generation)
        print(describe(outcome, most=10**9))
        if outcome.violations and chosen.keep:
            keep(chosen.seed, chosen.generation)
        return bool(outcome.violations)
    first, _, end = chosen.seeds.rpartition(":")
    return run_many(int(first or 0), int(end), chosen.minutes, chosen.jobs, shrinks=not chosen.no_shrink)


class Part(NamedTuple):
    """The sums of some seeds, and the descriptions of those that failed."""

    seeds: int
    simulated_s: float
    faults: int
    writes: int
    checked: int
    failed: list[str]


def run_part(seeds: range, *, shrinks: bool) -> Part:
    simulated_s, faults, writes, checked = 0.0, 0, 0, 0
    failed: list[str] = []
    gc.disable()  # what is left of the servers ends with the process
    for seed in seeds:
        outcome = run_seed(seed)
        simulated_s += outcome.simulated_s
        faults += outcome.history.faults
        checked += outcome.history.operations
        writes += outcome.operations
        if outcome.violations:
            failed.append(describe(shrink(outcome) if shrinks else outcome))
    return Part(len(seeds), simulated_s, faults, writes, checked, failed)


def run_many(first: int, end: int, minutes: float | None, jobs: int, *, shrinks: bool) -> int:
    began = shown = time.monotonic()
    total = Part(0, 0.0, 0, 0, 0, [])
    starts = iter(itertools.count(first, SEEDS_AT_ONCE) if minutes else range(first, end, SEEDS_AT_ONCE))
    while rounds := list(itertools.islice(starts, jobs)):
        if minutes and time.monotonic() - began > 60 * minutes:
            break
        parts = [
            range(start, start + SEEDS_AT_ONCE if minutes else min(start + SEEDS_AT_ONCE, end))
            for start in rounds
        ]
        # In processes of their own, because a server that is killed breaks no cycles, and the garbage
        # collector does not look for them (``base.untracked``).
        with ProcessPoolExecutor(jobs, mp_context=get_context("fork")) as pool:
            for part in pool.map(partial(run_part, shrinks=shrinks), parts):
                for text in part.failed:
                    print(text, flush=True)
                total = Part(*map(operator.add, total, part))
        if time.monotonic() - shown > _EVERY_S:
            shown = time.monotonic()
            print(f"{total.seeds} seeds, {len(total.failed)} failed", flush=True)
    took = time.monotonic() - began
    print(
        f"{total.seeds} seeds from {first} in {took:.0f} s: {total.simulated_s / 60:.0f} simulated minutes, "
        f"{total.faults} faults, {total.writes} operations of the disk, "
        f"{total.checked} operations of clients checked, {len(total.failed)} seeds failed"
    )
    if total.failed:
        print('To keep one as a test: make sim SIM_FLAGS="--seed SEED --keep"')
    return bool(total.failed)


def describe(outcome: Outcome, most: int = SHOWN) -> str:
    lines = [f"seed {outcome.plan.seed}: {'FAILED' if outcome.violations else 'every promise was kept'}"]
    lines += outcome.violations[:20]
    lines += ["", "plan:", str(outcome.plan), "", "history:"]
    history = outcome.history.lines
    if len(history) > most:
        lines += [*history[: most // 2], "…", *history[-most // 2 :]]
    else:
        lines += history
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
