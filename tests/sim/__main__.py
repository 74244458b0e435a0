"""Simulate the whole server, one seed after another: ``make sim``.

    python -m tests.sim --seeds 1000           seeds 0 to 999
    python -m tests.sim --seeds 5000:6000      these
    python -m tests.sim --seed 4711            one, with its history
    python -m tests.sim --minutes 10           as many as fit, from a seed on

A failure prints its seed, the promises that were broken, and the shortest plan and history that breaks them.
"""

from __future__ import annotations

import argparse
import sys
import time

from tests.sim.run import Outcome, run_seed
from tests.sim.shrink import shrink

SHOWN = 200  # lines of a history
_EVERY_S = 60.0


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="tests.sim", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", default="0:1000", help="how many, or FIRST:END")
    parser.add_argument("--seed", type=int, help="run one seed and print its history")
    parser.add_argument("--minutes", type=float, help="end after this time")
    parser.add_argument("--no-shrink", action="store_true")
    chosen = parser.parse_args()
    if chosen.seed is not None:
        outcome = run_seed(chosen.seed)
        print(describe(outcome, most=10**9))
        return bool(outcome.violations)
    first, _, end = chosen.seeds.rpartition(":")
    return run_many(int(first or 0), int(end), chosen.minutes, shrinks=not chosen.no_shrink)


def run_many(first: int, end: int, minutes: float | None, *, shrinks: bool) -> int:
    began = shown = time.monotonic()
    simulated_s, faults, checked, writes, failed = 0.0, 0, 0, 0, 0
    seed = first
    while seed < end or minutes is not None:
        if minutes is not None and time.monotonic() - began > 60 * minutes:
            break
        outcome = run_seed(seed)
        seed += 1
        simulated_s += outcome.simulated_s
        faults += outcome.history.faults
        checked += outcome.history.operations
        writes += outcome.operations
        if outcome.violations:
            failed += 1
            print(describe(shrink(outcome) if shrinks else outcome), flush=True)
        if time.monotonic() - shown > _EVERY_S:
            shown = time.monotonic()
            print(f"{seed - first} seeds, {failed} failed", flush=True)
    took = time.monotonic() - began
    print(
        f"{seed - first} seeds from {first} in {took:.0f} s: {simulated_s / 60:.0f} simulated minutes, "
        f"{faults} faults, {writes} operations of the disk, {checked} operations of clients checked, "
        f"{failed} seeds failed"
    )
    return bool(failed)


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
