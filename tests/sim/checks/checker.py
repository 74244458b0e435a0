"""Judge a history: a plain model of what JetStream promises, which knows nothing of the server's code.

Each function looks at one promise.  A request without an answer may have happened or not, and both are
right; what a client was told is true.  The promises are in ``stream_checks``, ``follower_checks``,
``consumer_checks`` and ``letters``.
"""

from __future__ import annotations

from collections.abc import Iterator

from tests.sim.checks.consumer_checks import check_consumer, check_damaged
from tests.sim.checks.damage_checks import check_damage
from tests.sim.checks.follower_checks import check_copy, check_follower, check_ordered
from tests.sim.checks.letters import check_letters
from tests.sim.checks.retention_checks import check_kept
from tests.sim.checks.state_checks import check_names
from tests.sim.checks.stream_checks import check_stream
from tests.sim.checks.stream_view import StreamView
from tests.sim.history import History
from tests.sim.plans.plan import Plan


def check(plan: Plan, history: History) -> list[str]:
    """Return what is wrong; empty if every promise was kept."""
    found: list[str] = list(_false_alarms(history))
    copies = {copy.name: copy for copy in history.copies}
    for name, final in history.final.items():
        if not final.complete and plan.streams.get(name, {}).get("storage") == "memory" and history.ends:
            continue  # a stream in memory ends with the server
        if not final.complete:
            found.append(f"{name}: cannot be read in the end")
            continue
        view = StreamView(plan, history, name)
        if name in copies:
            origin = StreamView(plan, history, copies[name].of)
            found += [f"{name}: {each}" for each in check_copy(view, origin, copies[name])]
            continue
        found += [f"{name}: {each}" for each in check_stream(view)]
        if name == "MM" and "M" in history.final:
            view.damages += StreamView(plan, history, "M").damages
        if view.follows:
            of = {"S", *(each["name"] for config in view.configs for each in config.get("sources", []))}
            origins = {each: StreamView(plan, history, each) for each in of}
            found += [f"{name}: {each}" for each in check_follower(view, origins)]
    for consumer in plan.consumers:
        view = StreamView(plan, history, consumer.stream)
        damaged = any(rot.stream == consumer.stream for rot in history.rot)
        promises = check_damaged if damaged else check_consumer
        found += [f"{consumer.stream}/{consumer.name}: {each}" for each in promises(view, consumer)]
    found += check_letters(plan, history)
    found += check_names(plan, history)
    found += check_damage(plan, history)
    found += check_kept(plan, history)
    if "S" in history.final:
        for reader, seen in history.ordered.items():
            found += [
                f"ordered {reader}: {each}" for each in check_ordered(StreamView(plan, history, "S"), seen)
            ]
    return found


def _false_alarms(history: History) -> Iterator[str]:
    """Check that no damage is reported where there was none; a torn write may look like it."""
    if not history.rot and not history.power_cuts:
        for line in history.reported:
            if "messages lost" in line:
                yield f"damage is reported, and there was none: {line}"
