"""The whole server on a few hundred seeds; `make sim` runs more of them."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from millstream.base.build import pure_requested
from tests.kits.paths import ROOT
from tests.sim.__main__ import describe
from tests.sim.run import run_seed
from tests.sim.shrink import shrink

PARTS = 10
SEEDS = 60 if pure_requested() else 300
FOUND: tuple[int, ...] = ()  # seeds that found a bug once


@pytest.mark.parametrize("part", range(PARTS))
def test_every_promise_is_kept_whatever_fails(part: int) -> None:
    for seed in range(part, SEEDS, PARTS):
        outcome = run_seed(seed)
        if outcome.violations:
            pytest.fail(describe(shrink(outcome)))


@pytest.mark.parametrize("seed", FOUND)
def test_a_seed_that_found_a_bug_finds_none(seed: int) -> None:
    outcome = run_seed(seed)
    assert not outcome.violations, describe(outcome)


@pytest.mark.soak
def test_a_seed_gives_the_same_history_again() -> None:
    one, two = (run_seed(17).history.lines for _ in range(2))
    assert one == two


@pytest.mark.soak
def test_a_seed_gives_the_same_history_in_another_process() -> None:
    told = [_history(seed=23, hash_seed=hash_seed) for hash_seed in ("1", "2")]
    assert told[0] == told[1]
    assert "every promise was kept" in told[0]


def _history(seed: int, hash_seed: str) -> str:
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
    command = [sys.executable, "-m", "tests.sim", "--seed", str(seed)]
    ended = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=120)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


@pytest.mark.soak
@pytest.mark.parametrize("name", ["sync_left_out", "ack_before_commit", "confirmed_before_durable"])
def test_a_deliberate_bug_is_found(name: str) -> None:
    command = [sys.executable, "-m", "tests.sim.mutations", name, "--seeds", "60"]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=240)
    assert ended.returncode == 0, ended.stdout + ended.stderr
