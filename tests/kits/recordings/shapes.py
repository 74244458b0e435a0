"""Shapes of JSON documents: which keys exist and of what type the values are, compared with recordings.

Recordings lie in `tests/golden/shapes`, one file for each document.  `make oracle` takes them from
nats-server; running the tests on Millstream checks that we give the same document.
"""

import json
from pathlib import Path
from typing import Any, Final

from tests.kits.paths import GOLDEN
from tests.kits.recordings.book import Judge

_RECORDINGS: Final = GOLDEN / "shapes"

# Present or absent by chance or by build: not measured yet, a Go build's commit, what only Millstream tells.
OPTIONAL_KEYS: Final = frozenset({"rtt", "git_commit", "cache_hit_rate", "event_loop"})

# Maps whose keys are data: the paths that were asked for, the switches of a release.
OPAQUE_KEYS: Final = frozenset({"http_req_stats", "feature_flags", "memstats"})


def shape_of(value: Any) -> Any:
    """Return `value` with each scalar replaced by the name of its type, and each list by one element."""
    if isinstance(value, dict):
        return {
            key: "object" if key in OPAQUE_KEYS else shape_of(entry)
            for key, entry in sorted(value.items())
            if key not in OPTIONAL_KEYS
        }
    if isinstance(value, list):
        merged: Any = None
        for entry in value:
            merged = _merge(merged, shape_of(entry))
        return [] if merged is None else [merged]
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int | float):
        return "number"
    return "null" if value is None else "string"


def _merge(first: Any, second: Any) -> Any:
    if isinstance(first, dict) and isinstance(second, dict):
        return dict(sorted({**first, **second}.items()))
    return second


class ShapeBook:
    """Compares documents with the recordings, or makes the recordings."""

    def __init__(self, judge: Judge) -> None:
        self._judge = judge

    def check(self, name: str, document: Any) -> None:
        path = _RECORDINGS / f"{name}.json"
        recorded = path.read_text().splitlines() if path.exists() else None
        lines = json.dumps(shape_of(document), indent=1).splitlines()
        self._judge.compare(name, recorded, lines, lambda kept: _write(path, kept))


def _write(path: Path, lines: list[str]) -> None:
    path.write_text("\n".join([*lines, ""]))
