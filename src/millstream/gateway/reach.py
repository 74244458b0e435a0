"""Which subjects belong to the server or to the gateway itself, and not to callers.

A caller without credentials of its own acts as the gateway's user.  What a server tells or does for whoever
publishes on one of these subjects it tells or does for that user.
"""

from __future__ import annotations

from typing import Final

MANAGEMENT: Final = ("$JS", "$SYS")  # administrates: where the management group is served
NOBODYS: Final = ("$MILLSTREAM", "$JSC", "$NRG")  # between servers, or worth as much as the user's password


def is_management(subject: str) -> bool:
    """Whether the subject administrates streams, consumers or the server."""
    return subject.partition(".")[0] in MANAGEMENT


def is_reserved(subject: str, inbox_prefix: str) -> bool:
    """Whether no caller may publish there: also answers to other callers."""
    return subject.partition(".")[0] in NOBODYS or f"{subject}.".startswith(f"{inbox_prefix}.")
