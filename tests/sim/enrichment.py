"""More kinds of streams, consumers and requests, which only plans of the second generation have."""

from __future__ import annotations

from random import Random

from tests.sim.more_faults import faulted
from tests.sim.plan import Plan


def enriched(plan: Plan, random: Random) -> Plan:
    """Add to a plan."""
    return faulted(plan, Random(f"faulted {plan.seed}"))
