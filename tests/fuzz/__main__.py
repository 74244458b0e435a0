"""Fuzz everything that takes bytes from outside: ``make fuzz``.

    python -m tests.fuzz [TARGET …] [--seconds 10] [--seed N]      each target for so long
    python -m tests.fuzz --replay [FILE …]                         inputs found here and in build/fuzz

Each target runs in a process of its own, so that one that dies is a finding, and the rest goes on.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from random import SystemRandom

from tests.fuzz.harness import Cockpit, Folder, Outcome, run, run_one
from tests.fuzz.table import TARGETS

HERE = Path(__file__).parent
FOUND = HERE / "found"
WORK = HERE.parents[1] / "build" / "fuzz"
PATIENCE_S = 120.0  # beyond its time a target may still be busy with its last input


def main() -> int:
    arguments = argparse.ArgumentParser(
        prog="tests.fuzz", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    arguments.add_argument("names", nargs="*", metavar="TARGET")
    arguments.add_argument("--seconds", type=float, default=10.0)
    arguments.add_argument("--seed", type=int, default=SystemRandom().randrange(1 << 32))
    arguments.add_argument("--replay", action="store_true")
    arguments.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    chosen = arguments.parse_args()
    if chosen.child:
        (name,) = chosen.names
        outcome = run(
            TARGETS[name],
            chosen.seed,
            seconds=chosen.seconds,
            folder=Folder(WORK, name),
            cockpit=Cockpit(_place(name)),
        )
        print(json.dumps(dataclasses.asdict(outcome)))
        return 0
    if chosen.replay:
        return _replay([Path(name) for name in chosen.names])
    unknown = set(chosen.names) - set(TARGETS)
    if unknown:
        arguments.error(f"no such target: {', '.join(sorted(unknown))}; there are {', '.join(TARGETS)}")
    sanitizers = "on" if "ASAN_OPTIONS" in os.environ else "off"
    print(f"seed {chosen.seed}, {chosen.seconds:g} s for each target, sanitizers {sanitizers}", flush=True)
    findings = 0
    for name in chosen.names or TARGETS:
        outcome = _fuzz(name, chosen.seed, chosen.seconds)
        counts = f"{outcome.cases:9,} cases  {outcome.behaviours:6,} behaviours"
        print(
            f"{name:18} {counts}  {len(outcome.findings)} findings",
            *outcome.findings,
            sep="\n    ",
            flush=True,
        )
        findings += len(outcome.findings)
    return 1 if findings else 0


def _fuzz(name: str, seed: int, seconds: float) -> Outcome:
    """Run a target in a process; begin again behind an input that ends it."""
    total = Outcome()
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        command = [
            sys.executable,
            "-m",
            "tests.fuzz",
            name,
            "--child",
            "--seed",
            str(seed),
            "--seconds",
            str(left),
        ]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as child:
            try:
                output, errors = child.communicate(timeout=left + PATIENCE_S)
            except subprocess.TimeoutExpired:
                child.kill()
                output, errors = child.communicate()
                errors += f"\nno end after {left + PATIENCE_S} s"
        if child.returncode == 0:
            part = Outcome(**json.loads(output.splitlines()[-1]))
            total.cases += part.cases
            total.behaviours = max(total.behaviours, part.behaviours)
            total.findings += part.findings
            break
        story = f"seed {seed}, exit {child.returncode}\n{errors}"
        if child.returncode > 0 or child.returncode == -signal.SIGINT:
            raise SystemExit(story)  # no input did that: the target itself is wrong, or somebody stopped us
        total.findings.append(str(Folder(WORK, name).keep(Cockpit.read(_place(name)), story)))
        seed += 1
    return total


def _replay(paths: list[Path]) -> int:
    """Run inputs that were found; a crash ends this process,
    and the last name printed is that of the input."""
    chosen = paths or [
        path for folder in (FOUND, WORK) for name in TARGETS for path in Folder(folder, name).inputs()
    ]
    failed = 0
    for path in chosen:
        print(path, end=" ", flush=True)
        try:
            print(run_one(TARGETS[path.parent.name], path.read_bytes()))
        except Exception as error:
            failed += 1
            print(f"FAILS: {type(error).__name__}: {error}")
    print(f"{len(chosen)} inputs, {failed} fail")
    return 1 if failed else 0


def _place(name: str) -> Path:
    return WORK / f"{name}.input"


if __name__ == "__main__":
    sys.exit(main())
