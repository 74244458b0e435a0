"""A short run of every target, and every input that was ever found."""

from pathlib import Path

import pytest

from tests.fuzz.harness import Folder, run, run_one
from tests.fuzz.table import TARGETS

FOUND = Path(__file__).parent / "found"
INPUTS = [path for name in TARGETS for path in Folder(FOUND, name).inputs()]


@pytest.mark.parametrize("name", TARGETS)
def test_a_target_finds_nothing_in_a_few_inputs(name: str) -> None:
    assert run(TARGETS[name], seed=1, cases=150).cases == 150


@pytest.mark.parametrize("path", INPUTS, ids=lambda path: f"{path.parent.name}-{path.name}")
def test_an_input_that_was_found_is_taken_or_refused(path: Path) -> None:
    run_one(TARGETS[path.parent.name], path.read_bytes())


@pytest.mark.parametrize("name", TARGETS)
@pytest.mark.parametrize("data", [b"", b"\x00", b"\n", b"\xff" * 100], ids=["empty", "zero", "line", "ones"])
def test_any_bytes_are_an_input(name: str, data: bytes) -> None:
    run_one(TARGETS[name], data)


def test_every_found_input_belongs_to_a_target() -> None:
    assert {path.name for path in FOUND.iterdir() if path.is_dir()} <= set(TARGETS)


@pytest.mark.soak
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", TARGETS)
def test_a_target_finds_nothing_in_a_minute(name: str) -> None:
    run(TARGETS[name], seed=2, seconds=60.0)
