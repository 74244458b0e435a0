"""Shapes of JSON documents: which keys exist and of what type the values are, compared with recordings.

Recordings lie in `shapes/`, one file for each document, taken from nats-server with
`pytest tests/compat --server=nats-server --record-shapes`.  Running the tests on nats-server checks that
a recording is still right, running them on Millstream checks that we give the same document.
"""

import json
from pathlib import Path
from typing import Any, Final

RECORDINGS: Final = Path(__file__).parent / "shapes"

# Present or absent by chance or by build: not measured yet, a Go build's commit.
OPTIONAL_KEYS: Final = frozenset({"rtt", "git_commit", "cache_hit_rate"})

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

    def __init__(self, *, record: bool) -> None:
        self._record = record

    def check(self, name: str, document: Any) -> None:
        path = RECORDINGS / f"{name}.json"
        shape = shape_of(document)
        if self._record:
            RECORDINGS.mkdir(exist_ok=True)
            path.write_text(json.dumps(shape, indent=1) + "\n")
            return
        assert path.exists(), f"no recording of {name}; take one with --record-shapes"
        recorded = json.loads(path.read_text())
        differences = list(_differences(recorded, shape, name))
        assert not differences, "\n".join(differences)


def _differences(expected: Any, actual: Any, where: str) -> list[str]:
    if isinstance(expected, dict) and isinstance(actual, dict):
        found = [f"{where}.{key} is missing" for key in expected.keys() - actual.keys()]
        found += [f"{where}.{key} is too many" for key in actual.keys() - expected.keys()]
        for key in sorted(expected.keys() & actual.keys()):
            found += _differences(expected[key], actual[key], f"{where}.{key}")
        return sorted(found)
    if isinstance(expected, list) and isinstance(actual, list) and expected and actual:
        return _differences(expected[0], actual[0], f"{where}[]")
    return [] if expected == actual else [f"{where} is {actual!r}, expected {expected!r}"]
