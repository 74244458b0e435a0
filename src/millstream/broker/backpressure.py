"""Receivers that do not keep up: bounded memory for each, and no harm to others.

Bytes that the kernel does not take stay in the transport.  Three rules of nats-server apply to them: more
than `max_pending` closes the receiver at once; a backlog that does not drain within `write_deadline` closes
it too; and a sender whose receivers are near max_pending is not read from for a few milliseconds, which often
lets them catch up.

A sender with too many messages waiting for the disk is not read from until some are written.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from millstream.broker.close_reason import CloseReason

if TYPE_CHECKING:
    from millstream.broker.connection import Connection
    from millstream.broker.turns import Planned

_log = logging.getLogger("millstream.broker")

_STALL_S: Final = 0.005
_NEAR: Final = 0.75  # of max_pending


class Backpressure:
    """The backlog of one connection."""

    def __init__(self, connection: Connection) -> None:
        self.stalls = 0  # how often this sender was paused
        self._connection = connection
        self._mark = 0  # bytes that must have gone when the timer fires
        self._gone = 0  # bytes that had gone when it was set
        self._timer: Planned | None = None
        self._stall_timer: Planned | None = None
        self._held = False

    def pending(self) -> int:
        """Return the bytes that the peer has not taken yet."""
        transport = self._connection.transport
        return transport.get_write_buffer_size() if transport is not None else 0

    def blocked(self) -> None:
        """Start the deadline: the kernel took less than it was given."""
        if self._timer is None:
            self._arm()

    def drained(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def check(self) -> None:
        """Check the backlog after a write that could not be sent at once."""
        connection = self._connection
        options = connection.broker.options
        pending = self.pending()
        if pending > options.max_pending:
            _log.info(
                "%s - Slow Consumer Detected: MaxPending of %d Exceeded", connection, options.max_pending
            )
            self._close(CloseReason.SLOW_CONSUMER_PENDING_BYTES)
        elif pending > options.max_pending * _NEAR and not options.no_fast_producer_stall:
            connection.tick.near_max_pending = True

    def stall(self) -> None:
        """Stop reading from this sender for a moment."""
        connection = self._connection
        if connection.closed or connection.suspended or self._stall_timer is not None:
            return
        self.stalls += 1
        connection.broker.totals.stalled_clients += 1
        connection.transport.pause_reading()
        self._stall_timer = connection.broker.turns.later(_STALL_S, self._resume)

    def hold(self) -> None:
        """Stop reading from this sender until ``release``: its messages wait for the disk."""
        connection = self._connection
        if connection.closed or connection.suspended or self._held:
            return
        self._held = True
        connection.tick.held.append(connection)
        connection.transport.pause_reading()

    def release(self) -> None:
        self._held = False
        self._read_again()

    def end(self) -> None:
        """Stop for good and drop the connection, so that reference counting can free both."""
        self.drained()
        if self._stall_timer is not None:
            self._stall_timer.cancel()
            self._stall_timer = None
        self.__dict__.pop("_connection", None)

    @property
    def stalled(self) -> bool:
        """Return True if this sender is paused now."""
        return self._held or self._stall_timer is not None

    def _resume(self) -> None:
        self._stall_timer = None
        self._read_again()

    def _read_again(self) -> None:
        connection = self._connection
        if not (connection.closed or connection.suspended or connection.waiting or self.stalled):
            connection.transport.resume_reading()

    def _arm(self) -> None:
        connection = self._connection
        self._mark = connection.written
        self._gone = connection.written - self.pending()
        self._timer = connection.broker.turns.later(
            connection.broker.options.write_deadline_s, self._deadline
        )

    def _deadline(self) -> None:
        self._timer = None
        connection = self._connection
        if connection.closed:
            return
        pending = self.pending()
        gone = connection.written - pending
        if gone < self._mark:
            options = connection.broker.options
            _log.info(
                "%s - Slow Consumer Detected: WriteDeadline of %gs exceeded with %d total bytes.",
                connection,
                options.write_deadline_s,
                pending,
            )
            if not options.write_timeout_retry or gone == self._gone:
                self._close(CloseReason.SLOW_CONSUMER_WRITE_DEADLINE)
                return
            self._count_slow()
        if pending:
            self._arm()

    def _close(self, reason: CloseReason) -> None:
        self._count_slow()
        self._connection.broker.close(self._connection, reason, flush=False)

    def _count_slow(self) -> None:
        connection = self._connection
        connection.broker.totals.slow_consumers += 1
        if connection.account is not None:
            connection.account.totals.slow_consumers += 1
