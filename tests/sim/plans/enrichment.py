"""Additions to plans of the second generation: more kinds of streams, consumers and requests."""

from __future__ import annotations

from random import Random

from tests.sim.plans.more_consumers import with_more_consumers
from tests.sim.plans.more_faults import faulted
from tests.sim.plans.more_streams import with_more_streams
from tests.sim.plans.plan import Plan


def enriched(plan: Plan, random: Random) -> Plan:
    """Add to a plan."""
    plan = with_more_streams(plan, Random(f"streams {plan.seed}"))
    plan = faulted(plan, Random(f"faulted {plan.seed}"))
    return with_more_consumers(plan, Random(f"consumers {plan.seed}"))  # last
