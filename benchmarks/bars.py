"""The bars: which ratio to nats-server each row should reach.  Printed beside the ratio, never asserted.

A ratio is ours to theirs for rates and theirs to ours for times, so higher is always better.
A benchmark on a shared machine is evidence, not a gate: see ``README.md``.
"""

from typing import Final

GOAL: Final = 1.0  # behind every row: no slower than nats-server

BARS: Final[dict[str, float]] = {
    "one-to-one-128": 0.5,
    "one-to-twenty": 0.5,
    "request-1 median": 0.8,
    "request-50 median": 0.8,
}
