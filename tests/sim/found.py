"""The seeds that broke a promise once; each is a test from then on."""

from __future__ import annotations

from pathlib import Path

FILE = Path(__file__).with_name("found.txt")


def read_found() -> list[tuple[int, int]]:
    """Return the seeds, each with the generation of its plan."""
    lines = [line.split() for line in FILE.read_text().splitlines() if not line.startswith("#")]
    return [(int(seed), int(generation)) for seed, generation in lines]


def keep(seed: int, generation: int) -> None:
    """Add a seed, unless it is there."""
    if (seed, generation) not in read_found():
        with FILE.open("a") as file:
            file.write(f"{seed} {generation}\n")
