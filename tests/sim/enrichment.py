"""Additions to plans of the second generation: more kinds of streams, consumers and requests."""

from __future__ import annotations

from random import Random

from tests.sim.plan import Plan


def enriched(plan: Plan, random: Random) -> Plan:
    """Add to a plan."""
    return plan
