"""Subjects that belong to the server or to the gateway, and not to callers.

A caller without credentials of its own acts as the gateway's user, so a message on one of these subjects
would use that user's rights.
"""

from __future__ import annotations

from typing import Final

MANAGEMENT: Final = ("$JS", "$SYS")  # administration: allowed where the management group is served
NOBODYS: Final = ("$MILLSTREAM", "$JSC", "$NRG")  # between servers, or as powerful as the user's password


def is_management(subject: str) -> bool:
    """Return whether the subject administrates streams, consumers or the server."""
    return subject.partition(".")[0] in MANAGEMENT


def is_reserved(subject: str, inbox_prefix: str) -> bool:
    """Return whether no caller may publish to the subject; answers to other callers are included."""
    return subject.partition(".")[0] in NOBODYS or f"{subject}.".startswith(f"{inbox_prefix}.")
