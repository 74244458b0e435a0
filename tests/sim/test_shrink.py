"""The shrinker on runs that are only pretended."""

from __future__ import annotations

from tests.sim.history import History
from tests.sim.plans.draw import make_plan
from tests.sim.plans.plan import Plan
from tests.sim.run import Outcome
from tests.sim.shrink import kind_of, shrink


def _pretend(plan: Plan) -> Outcome:
    """Fail if there is a fault, and an operation of the second actor."""
    fails = bool(plan.faults) and any(op.actor == "p1" for op in plan.ops)
    return Outcome(plan, History(), ["message 7 is lost"] if fails else [], 1.0, 1)


def _failing_plan() -> Plan:
    return next(plan for plan in map(make_plan, range(100)) if _pretend(plan).violations)


def test_what_does_not_matter_is_taken_away() -> None:
    found = shrink(_pretend(_failing_plan()), run=_pretend)
    assert found.violations
    assert len(found.plan.faults) == 1
    assert [op.actor for op in found.plan.ops] == ["p1"]
    assert not found.plan.consumers
    assert list(found.plan.streams) == ["S"]


def test_numbers_do_not_make_another_violation() -> None:
    assert kind_of("message 7 is lost") == kind_of("message 12 is lost")
    assert kind_of("message 7 is lost") != kind_of("message 7 is late")
