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
    # Streams: ours syncs before each acknowledgement; "synced" means that theirs does, too.
    "publish-128": 1.5,
    "publish-128 synced": 30.0,
    "publish-1024": 1.5,
    "publish-1024 synced": 30.0,
    "publish-id-128": 1.2,
    "publish-id-1024": 1.2,
    "publish-memory": 1.0,
    "one-at-a-time synced": 1.0,
    "fifty-at-a-time": 0.5,
    "fifty-at-a-time synced": 5.0,
    "atomic-batch": 1.0,
    "million-subjects rate": 1.0,
    "million-subjects resident": 1.0,
    "restart time": 1.0,
    "restart resident": 0.5,
    "restart disk": 1.0,
    # Consumers.
    "push-stored": 0.8,
    "pull-explicit": 1.0,
    "pull-all": 0.9,
    "pull-none": 0.9,
    "publish-and-push": 1.2,
    "publish-and-push median": 0.5,
    "hundred-filters": 1.5,
    "idle-durables made one by one": 1.0,
    "idle-durables made 100 at once": 1.0,
    "idle-durables resident": 1.0,
    "idle-durables publish": 1.0,
    "needles time": 2.0,
}

# What ours should reach by itself, whatever theirs does: messages a second with everything on two cores.
FLOORS: Final[dict[str, float]] = {
    "gateway-post": 5_000.0,
    "gateway-post-v1": 5_000.0,
    "gateway-batch": 100_000.0,
}
