"""Every limit and time-out of a listener, in one place; each holds on HTTP/1.1 and on HTTP/2.

Durations are in seconds and sizes in bytes.  Zero switches a limit off, except where noted.
"""

from __future__ import annotations

import msgspec


class HttpLimits(msgspec.Struct, frozen=True, kw_only=True):
    """The limits of a listener."""

    connections: int = 10_000
    connections_per_address: int = 0
    max_head: int = 64 * 1024  # bytes of a request head, and of an HTTP/2 header list
    max_discarded: int = 64 * 1024 * 1024  # bytes of a body that are discarded before the end
    max_message: int = 64 * 1024  # bytes of a WebSocket message, after decompression; not to be zero
    head_timeout_s: float = 15.0  # for a head, and for each HTTP/2 frame or header block
    body_timeout_s: float = 60.0  # between two pieces of a body that is waited for
    idle_timeout_s: float = 600.0  # between requests of a connection
    write_timeout_s: float = 60.0  # without progress of an answer of known length
    linger_s: float = 2.0  # for the peer to take the last answer; must not be zero
    # HTTP/2; none of these may be zero
    streams: int = 100  # requests of one connection at once
    running: int = 200  # requests of one connection that are running, including those that the peer has reset
    credit: float = 1000.0  # credit of a connection for frames that do no useful work, see `credit`
    credit_per_s: float = 100.0
    # what the application sees
    answers_after_eof: bool = False  # a peer that has closed its side still gets its answer
    keeps_descriptors: bool = False  # the last file descriptors are kept for others (`base.descriptors`)
