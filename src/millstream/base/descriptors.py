"""Open files: raise the system's limit, and reserve some descriptors for the store.

Without a free descriptor the process cannot create a segment, a summary or a snapshot, so connections are
refused before that point.  The system gives a new descriptor the lowest free number: a socket with a number
close to the limit shows that all lower ones are in use.
"""

from __future__ import annotations

import logging
import resource
import time
from typing import Any, Final

_log = logging.getLogger("millstream.server")

_LEAST_KEPT: Final = 16
_MOST_KEPT: Final = 256
_PART_KEPT: Final = 8  # one in eight, within the two bounds above
_MOST: Final = 1 << 20  # used if the system's limit is unlimited
_TELL_AGAIN_S: Final = 10.0

_told_at = -_TELL_AGAIN_S


def raise_soft_limit() -> int:
    """Raise the soft limit of open files to the hard limit; return the limit."""
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
    """Return how many descriptors are reserved for the store, and the limit of open files."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    limit = _MOST if soft == resource.RLIM_INFINITY else soft
    return min(max(limit // _PART_KEPT, _LEAST_KEPT), _MOST_KEPT), limit


def uses_kept(transport: Any) -> bool:
    """Return True if the socket of a transport, if it has one, is to be refused like `is_kept` says."""
    sock = transport.get_extra_info("socket")
    return sock is not None and is_kept(sock.fileno())


def is_kept(descriptor: int) -> bool:
    """Return True if a new connection must be refused because its descriptor is reserved for the store."""
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
