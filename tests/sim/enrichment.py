"""What plans of the second generation have besides: more kinds of streams, consumers and requests."""

from __future__ import annotations

from random import Random

from tests.sim.more_consumers import with_more_consumers
from tests.sim.plan import Plan


def enriched(plan: Plan, random: Random) -> Plan:
    """Add to a plan."""
    return with_more_consumers(plan, Random(f"consumers {plan.seed}"))
