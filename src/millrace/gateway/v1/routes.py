"""The paths of `/v1`, by group."""

from __future__ import annotations

from millrace.gateway.router import Route
from millrace.gateway.settings import Group


def routes_for(groups: frozenset[Group]) -> list[Route]:
    """What a gateway that serves `groups` answers under `/v1`."""
    return []
