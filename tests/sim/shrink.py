"""Find the shortest plan that still fails: take parts away as long as the same promise is broken.

A plan whose parts are fewer draws other numbers, so a part that has nothing to do with the failure may still
be needed to provoke it.  Operations, faults, streams and consumers are tried in halves, then one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from tests.sim.plans.plan import Plan
from tests.sim.run import Outcome, run_plan

MOST_RUNS = 300


def kind_of(violation: str) -> str:
    """Return a violation without its numbers and names, to compare two of them."""
    text = violation.split("\n", 1)[0]
    return "".join(letter for letter in text if not letter.isdigit())


def shrink(outcome: Outcome, runs: int = MOST_RUNS, run: Callable[[Plan], Outcome] = run_plan) -> Outcome:
    """Return the smallest failing run that was found."""
    wanted = {kind_of(each) for each in outcome.violations}
    left = runs
    best = outcome
    again = True
    while again and left > 0:
        again = False
        for smaller in _smaller(best.plan):
            left -= 1
            tried = run(smaller)
            if wanted & {kind_of(each) for each in tried.violations}:
                best = tried
                again = True
                break
            if left <= 0:
                break
    return best


def _smaller(plan: Plan) -> Iterator[Plan]:
    for name in plan.streams:
        if name != "S" and not any(name in _origins(config) for config in plan.streams.values()):
            yield _without_stream(plan, name)
    for consumers in _parts(plan.consumers):
        gone = {each.path for each in plan.consumers} - {each.path for each in consumers}
        yield plan.without(consumers=consumers, ops=tuple(op for op in plan.ops if op.actor not in gone))
    if plan.ordered:
        yield plan.without(ordered=())
    for faults in _parts(plan.faults):
        yield plan.without(faults=faults)
    for ops in _parts(plan.ops):
        yield plan.without(ops=ops)


def _origins(config: dict[str, Any]) -> list[str]:
    """Return the names of the streams that a stream follows."""
    return [each["name"] for each in (config.get("mirror"), *config.get("sources", [])) if each]


def _without_stream(plan: Plan, name: str) -> Plan:
    streams = {key: value for key, value in plan.streams.items() if key != name}
    consumers = tuple(each for each in plan.consumers if each.stream != name)
    paths = {each.path for each in plan.consumers if each.stream == name}
    ops = tuple(op for op in plan.ops if op.args.get("stream") != name and op.actor not in paths)
    return plan.without(streams=streams, consumers=consumers, ops=ops)


def _parts(items: Sequence[Any]) -> Iterator[tuple[Any, ...]]:
    """Yield the items without a half, a quarter, … of them, the largest parts first."""
    size = len(items)
    while size > 0:
        for start in range(0, len(items), size):
            yield (*items[:start], *items[start + size :])
        size //= 2
