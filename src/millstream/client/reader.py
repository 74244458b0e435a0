"""The engine of an ordered consumer: it joins one line after the other into one unbroken sequence.

The core checks messages as they arrive.  When it finds trouble, a task releases the line and opens the next.
No message awaits anything, and no task runs while all is well.

Invariants:  at most one line feeds the core;  every created consumer is deleted or expires.
Elsewhere:   checking and buffering messages (`core`), the public interface (`ordered`).
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final

from millstream.base.ids import nuid
from millstream.client.api import Api
from millstream.client.core import OrderedCore
from millstream.client.errors import ClientClosed, RequestRefused, ServerUnavailable, StreamChanged
from millstream.client.lines import HeartbeatWatch, ReadingLine, Releases
from millstream.client.state import ENDED, OrderedMessage, Phase, ReadingEvent, ResetReason, step
from millstream.golang.time import Time
from millstream.jsapi.consumer_types import ConsumerConfig
from millstream.link.servers import Backoff

_FIRST_RETRY_S: Final = 0.1
_LONGEST_RETRY_S: Final = 5.0
_SECOND: Final = 1_000_000_000
_CHANCE: Final = random.Random()  # one for all readings: its state takes kilobytes


class Reading:
    """Reads `stream` from `open` to `close`; `ended` is called once, after the last message."""

    __slots__ = (
        "_api",
        "_attempt",
        "_backoff",
        "_carrier",
        "_drained",
        "_ended",
        "_epoch",
        "_heard",
        "_heartbeats",
        "_line",
        "_name_prefix",
        "_nudge",
        "_over",
        "_reader",
        "_recovery",
        "_releases",
        "_stream",
        "_stream_created",
        "_watch",
        "core",
        "failure",
        "last_error",
        "last_heartbeat",
        "last_reset",
        "phase",
        "resets",
    )

    def __init__(
        self,
        api: Api,
        stream: str,
        config: ConsumerConfig,
        *,
        max_messages: int,
        max_bytes: int,
        name_prefix: str,
        ended: Callable[[], None],
    ) -> None:
        self.phase = Phase.NEW
        self.core: Final = OrderedCore(
            config, max_messages=max_messages, max_bytes=max_bytes, changed=self._changed
        )
        self.resets = 0
        self.last_reset: ResetReason | None = None
        self.last_heartbeat: datetime | None = None
        self.last_error: Exception | None = None
        self.failure: Exception | None = None
        self._api = api
        self._carrier = api.carrier
        self._stream = stream
        self._stream_created: Time | None = None
        self._name_prefix = name_prefix
        self._ended = ended
        self._over = False  # the reading is over
        self._line: ReadingLine | None = None
        self._releases = Releases()
        self._epoch = 0  # epoch of the connection over which the current line was opened
        self._attempt: asyncio.Timeout | None = None  # opens a line, while that is running
        self._nudge: asyncio.Event | None = None  # ends the pause before the next attempt
        self._backoff = Backoff(first_s=_FIRST_RETRY_S, longest_s=_LONGEST_RETRY_S, generator=_CHANCE)
        self._watch = HeartbeatWatch(config.idle_heartbeat / _SECOND, self._fell_silent)
        self._recovery: asyncio.Task[None] | None = None
        self._reader: asyncio.Future[None] | None = None  # waits for a message
        self._drained: asyncio.Future[None] | None = None  # waits for room
        self._heard = 0
        self._heartbeats = 0

    @property
    def consumer_name(self) -> str:
        return "" if self._line is None else self._line.name

    # -- life -----------------------------------------------------------------------------------------

    async def open(self) -> None:
        """Create the first consumer; an error ends the reading and is raised."""
        self.phase = step(self.phase, ReadingEvent.OPEN)
        self._carrier.listen(self._connection_changed)
        try:
            await self._attempt_line()
        except BaseException as error:
            await self._hang_up()
            await self._releases.ended()
            self._fail(error if isinstance(error, Exception) else ClientClosed("opening was cancelled"))
            raise
        self.phase = step(self.phase, ReadingEvent.MADE)
        self._recover_if_needed()

    async def close(self) -> None:
        """End the reading and delete its consumer; a second call does nothing."""
        self.phase = step(self.phase, ReadingEvent.CLOSE)
        self._stop_watching()
        recovery, self._recovery = self._recovery, None
        if recovery is not None and recovery is not asyncio.current_task():
            recovery.cancel()
            await asyncio.gather(recovery, return_exceptions=True)
        await self._hang_up()
        await self._releases.ended()
        if self.phase is Phase.CLOSED:
            self.core.discard()
        self._end()

    def _fail(self, error: Exception) -> None:
        if self.phase in ENDED:
            return
        self.failure = error
        self.phase = step(self.phase, ReadingEvent.FAIL)
        self._stop_watching()
        self._end()

    def _end(self) -> None:
        self._over = True
        _wake(self._reader)
        _wake(self._drained)
        self._ended()

    def _stop_watching(self) -> None:
        self._carrier.unlisten(self._connection_changed)
        self._watch.stop()

    # -- one line after the other ---------------------------------------------------------------------

    def _lost(self, reason: ResetReason) -> None:
        """Give up the current line and start to open another."""
        self.core.give_up(reason)
        self._recover_if_needed()

    def _fell_silent(self) -> None:
        self._lost(ResetReason.MISSED_HEARTBEATS)

    def _recover_if_needed(self) -> None:
        reason = self.core.trouble
        if reason is not None and self.phase is Phase.READING and self._recovery is None:
            self._recovery = asyncio.get_running_loop().create_task(self._recover(reason))

    async def _recover(self, reason: ResetReason) -> None:
        try:
            await self._make_another(reason)
        except (
            Exception
        ) as error:  # includes unforeseen errors: a reading must fail rather than stop silently
            await self._hang_up()
            self._fail(error)
        finally:
            if self._recovery is asyncio.current_task():
                self._recovery = None
        self._recover_if_needed()

    async def _make_another(self, reason: ResetReason) -> None:
        self.resets += 1
        self.last_reset = reason
        full = reason is ResetReason.BUFFER_FULL
        self.phase = step(self.phase, ReadingEvent.FULL if full else ReadingEvent.LOST)
        await self._hang_up()
        if full:
            while not self.core.is_drained() and not self._over:
                self._drained = asyncio.get_running_loop().create_future()
                await self._drained
            self.phase = step(self.phase, ReadingEvent.DRAINED)
        while True:
            await self._pause()
            try:
                await self._attempt_line()
            except RequestRefused as refusal:
                if not refusal.may_pass and not self.core.forgo_acks():
                    raise
                self.last_error = refusal
            except ServerUnavailable as error:
                self.last_error = error
            else:
                break
            await self._hang_up()
        self.phase = step(self.phase, ReadingEvent.MADE)

    async def _pause(self) -> None:
        """Wait before an attempt, longer after each failure, or until the connection is back."""
        delay_s = self._backoff.next_s()
        if delay_s:
            self._nudge = asyncio.Event()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(delay_s):
                    await self._nudge.wait()
            self._nudge = None

    async def _attempt_line(self) -> None:
        """Open a line; stop waiting for its answers if the connection is lost."""
        self._epoch = self._carrier.epoch
        try:
            async with asyncio.timeout(None) as self._attempt:
                await self._make_line()
        except TimeoutError:
            raise ServerUnavailable("the connection was lost in between") from None
        finally:
            self._attempt = None

    async def _make_line(self) -> None:
        if self._carrier.is_closed:
            raise ClientClosed("the connection is closed")
        if not self._carrier.is_up:
            raise ServerUnavailable("not connected")
        stream = await self._api.stream_info(self._stream)
        if self._stream_created is None:
            self._stream_created = stream.created
        elif stream.created != self._stream_created:
            raise StreamChanged.replaced(self._stream)
        core = self.core
        if stream.state.last_seq < core.seen_seq:
            raise StreamChanged.went_back(self._stream, stream.state.last_seq, core.seen_seq)
        line = ReadingLine(self._api, self._stream, f"{self._name_prefix}{nuid()}", core)
        config = core.ask(stream.state.last_seq, stream.config.max_msgs_per_subject == 1)
        self._line = line
        info = await line.open(config)
        core.opened(info.delivered.consumer_seq, info.delivered.stream_seq)
        if not core.consumer_seq:
            core.pending = info.num_pending
        self._watch.start(asyncio.get_running_loop())
        self._releases.start()

    async def _hang_up(self) -> None:
        """Close the subscription of the current line and hand its consumer to `Releases`."""
        self._watch.stop()
        line, self._line = self._line, None
        if line is not None:
            await line.hang_up()
            self._releases.add(line)
            self._releases.start()

    def _connection_changed(self) -> None:
        closed = self._carrier.is_closed
        if closed or self._epoch != self._carrier.epoch:
            if self._nudge is not None:
                self._nudge.set()
            attempt, self._attempt = self._attempt, None
            if attempt is not None:
                attempt.reschedule(asyncio.get_running_loop().time())
            else:
                self._lost(ResetReason.RECONNECTED)
        if closed:
            if self._recovery is not None:
                self._recovery.cancel()
            self._fail(ClientClosed("the connection was closed"))

    # -- what arrives, and who takes it ---------------------------------------------------------------

    def _changed(self) -> None:
        """Called by the core after each chunk of messages."""
        core = self.core
        if core.heard != self._heard:
            self._heard = core.heard
            self._watch.heard()
        if core.heartbeats != self._heartbeats:
            self._heartbeats = core.heartbeats
            self.last_heartbeat = datetime.now(UTC)
        if core.good:
            self._backoff.succeeded()
        if not core.is_empty():
            if not core.held:
                self._answer_due()
            _wake(self._reader)
        if core.trouble is not None:
            self._recover_if_needed()

    def _answer_due(self) -> None:
        """Answer the flow-control requests that are due."""
        for subject in self.core.answers_due():
            self._carrier.publish(subject)

    async def take(self, limit: int) -> list[OrderedMessage]:
        """Return one to `limit` messages, none if the reading is closed; raises the error that ended it."""
        core = self.core
        while True:
            found = core.pop(limit)
            if not core.is_empty():
                self._answer_due()
            if found:
                if self._drained is not None and core.is_drained():
                    _wake(self._drained)
                return found
            if self._over and core.is_empty():
                if self.failure is not None:
                    raise self.failure
                return []
            if core.is_empty():
                self._reader = asyncio.get_running_loop().create_future()
                try:
                    await self._reader
                finally:
                    self._reader = None


def _wake(waiter: asyncio.Future[None] | None) -> None:
    if waiter is not None and not waiter.done():
        waiter.set_result(None)
