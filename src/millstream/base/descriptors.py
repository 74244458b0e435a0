"""Open files: as many as the system allows, and some of them kept for the store.

A process that has no descriptor left cannot begin a segment, a summary or a snapshot.  So connections are
refused before that: the system gives each new descriptor the lowest free number, so a socket whose number is
close to the limit says that all below are in use, whatever for.
"""

from __future__ import annotations

import logging
import resource
import time
from typing import Final

_log = logging.getLogger("millstream.server")

_LEAST_KEPT: Final = 16
_MOST_KEPT: Final = 256
_PART_KEPT: Final = 8  # one in so many, between these bounds
_MOST: Final = 1 << 20  # what an unlimited number is taken for
_TELL_AGAIN_S: Final = 10.0

_told_at = -_TELL_AGAIN_S


def raise_soft_limit() -> int:
    """Allow as many open files as the hard limit does; returns how many there may be."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _MOST if hard == resource.RLIM_INFINITY else hard
    if soft != resource.RLIM_INFINITY and soft < wanted:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
            return wanted
        except (ValueError, OSError) as error:  # the system has another limit of its own
            _log.warning("the limit of open files stays at %d: %s", soft, error)
    return _MOST if soft == resource.RLIM_INFINITY else soft


def kept_for_store() -> tuple[int, int]:
    """How many descriptors are kept free of connections, and how many there may be at all."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    limit = _MOST if soft == resource.RLIM_INFINITY else soft
    return min(max(limit // _PART_KEPT, _LEAST_KEPT), _MOST_KEPT), limit


def is_kept(descriptor: int) -> bool:
    """Whether a new connection has a descriptor that is kept for the store, so that it must be refused."""
    global _told_at
    kept, limit = kept_for_store()
    if descriptor < limit - kept:
        return False
    now = time.monotonic()
    if now - _told_at >= _TELL_AGAIN_S:
        _told_at = now
        _log.error(
            "connections are refused: %d of %d open files are in use, and the rest is kept for the store;"
            " raise the limit of open files (ulimit -n, LimitNOFILE), or lower max_connections",
            descriptor,
            limit,
        )
    return True
