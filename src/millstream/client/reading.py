"""The engine of an ordered consumer: lines one after the other, one unbroken row of messages out of them.

Messages are judged as they arrive (`receive`), in the task of nats-py; what goes wrong is noted, and the
supervisor, a task of its own, gives the line back and makes the next one.  Nothing is awaited for a message.

Always true:  what is put into the buffer has the next stream sequence that the reading is to see;
              at most one line feeds the buffer;  a consumer that was made is deleted, or will expire.
Not here:     judging sequences (progress), what users call (ordered).
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final

from nats.aio.msg import Msg
from nats.errors import Error as NatsError

from millstream.base.ids import nuid
from millstream.client.api import Api
from millstream.client.backoff import Backoff
from millstream.client.buffer import Buffer
from millstream.client.deliveries import Control, ControlKind, read_control
from millstream.client.errors import (
    ClientClosed,
    RequestRefused,
    ServerUnavailable,
    StreamChanged,
)
from millstream.client.life import ENDED, Event, Phase, step
from millstream.client.line import Line
from millstream.client.link import Link
from millstream.client.message import OrderedMessage
from millstream.client.progress import Progress, Verdict
from millstream.client.releases import Releases
from millstream.client.state import ResetReason
from millstream.client.watch import HeartbeatWatch
from millstream.golang.time import Time
from millstream.jsapi.ack_subject import read_ack_subject
from millstream.jsapi.consumer_types import ConsumerConfig

_FIRST_RETRY_S: Final = 0.1
_LONGEST_RETRY_S: Final = 5.0
_SECOND: Final = 1_000_000_000
_NO_HEADERS: Final[dict[str, str]] = {}


class Reading:
    """Reads `stream` into `buffer` from `open` to `close`; `ended` is called once, with what went wrong."""

    def __init__(
        self,
        link: Link,
        api: Api,
        stream: str,
        config: ConsumerConfig,
        buffer: Buffer,
        *,
        name_prefix: str,
        ended: Callable[[], None],
    ) -> None:
        self.phase = Phase.NEW
        self.progress = Progress(config)
        self.pending = 0
        self.resets = 0
        self.last_reset: ResetReason | None = None
        self.last_heartbeat: datetime | None = None
        self.last_error: Exception | None = None
        self.failure: Exception | None = None
        self._link = link
        self._api = api
        self._stream = stream
        self._stream_created: Time | None = None
        self._buffer = buffer
        self._name_prefix = name_prefix
        self._ended = ended
        self._line: Line | None = None
        self._releases = Releases()
        self._trouble = asyncio.Event()
        self._trouble_reason = ResetReason.GAP
        self._epoch = 0  # how often the connection had been built anew when the present line was asked for
        self._attempt: asyncio.Timeout | None = None  # to make a line, while it is under way
        self._nudge = asyncio.Event()  # ends a wait before the next attempt
        self._backoff = Backoff(first_s=_FIRST_RETRY_S, longest_s=_LONGEST_RETRY_S, generator=random.Random())
        self._watch = HeartbeatWatch(
            config.idle_heartbeat / _SECOND, lambda: self._lost(ResetReason.MISSED_HEARTBEATS)
        )
        self._supervisor: asyncio.Task[None] | None = None

    @property
    def consumer_name(self) -> str:
        return "" if self._line is None else self._line.name

    # -- life -----------------------------------------------------------------------------------------

    async def open(self) -> None:
        """Make the first consumer; what goes wrong is raised and ends the reading."""
        self.phase = step(self.phase, Event.OPEN)
        self._link.listen(self._connection_changed)
        try:
            await self._attempt_line()
        except BaseException as error:
            await self._hang_up()
            await self._releases.ended()
            self._fail(error if isinstance(error, Exception) else ClientClosed("opening was cancelled"))
            raise
        self.phase = step(self.phase, Event.MADE)
        self._supervisor = asyncio.get_running_loop().create_task(self._supervise())

    async def close(self) -> None:
        """End the reading and delete its consumer; may be called again."""
        self.phase = step(self.phase, Event.CLOSE)
        self._stop_watching()
        if self._supervisor is not None:
            self._supervisor.cancel()
            await asyncio.gather(self._supervisor, return_exceptions=True)
            self._supervisor = None
        await self._hang_up()
        await self._releases.ended()
        self._buffer.end(discard=self.phase is Phase.CLOSED)
        self._ended()

    def _fail(self, error: Exception) -> None:
        if self.phase in ENDED:
            return
        self.failure = error
        self.phase = step(self.phase, Event.FAIL)
        self._stop_watching()
        self._buffer.end(discard=False)
        self._ended()

    def _stop_watching(self) -> None:
        self._link.unlisten(self._connection_changed)
        self._watch.stop()

    # -- one line after the other ---------------------------------------------------------------------

    async def _supervise(self) -> None:
        try:
            while True:
                await self._trouble.wait()
                await self._recover(self._trouble_reason)
        except Exception as error:  # also what nobody thought of: a reading never just stands still
            await self._hang_up()
            self._fail(error)

    async def _recover(self, reason: ResetReason) -> None:
        self.resets += 1
        self.last_reset = reason
        full = reason is ResetReason.BUFFER_FULL
        self.phase = step(self.phase, Event.FULL if full else Event.LOST)
        await self._hang_up()
        if full:
            await self._buffer.drained()
            self.phase = step(self.phase, Event.DRAINED)
        while True:
            self._trouble.clear()
            await self._pause()
            try:
                await self._attempt_line()
            except RequestRefused as refusal:
                if not refusal.may_pass:
                    raise
                self.last_error = refusal
            except ServerUnavailable as error:
                self.last_error = error
            else:
                break
            await self._hang_up()
        self.phase = step(self.phase, Event.MADE)

    async def _pause(self) -> None:
        """Wait before an attempt, the longer the more have failed, or until the connection is back."""
        delay_s = self._backoff.next_s()
        if delay_s:
            self._nudge.clear()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._nudge.wait(), delay_s)

    async def _attempt_line(self) -> None:
        """Make a line, but do not wait for answers that went down with a connection."""
        self._epoch = self._api.connection.stats["reconnects"]
        try:
            async with asyncio.timeout(None) as self._attempt:
                await self._make_line()
        except TimeoutError:
            raise ServerUnavailable("the connection was lost in between") from None
        finally:
            self._attempt = None

    async def _make_line(self) -> None:
        connection = self._api.connection
        if connection.is_closed:
            raise ClientClosed("the connection is closed")
        if not connection.is_connected:
            # nats-py would keep the request and send it when nobody waits for the answer any more.
            raise ServerUnavailable("not connected")
        stream = await self._api.stream_info(self._stream)
        if self._stream_created is None:
            self._stream_created = stream.created
        elif stream.created != self._stream_created:
            raise StreamChanged.replaced(self._stream)
        if stream.state.last_seq < self.progress.seen_seq:
            raise StreamChanged.went_back(self._stream, stream.state.last_seq, self.progress.seen_seq)
        line = Line(self._api, self._stream, f"{self._name_prefix}{nuid()}", self._receive)
        config = self.progress.ask(stream.state.last_seq)
        self._line = line
        info = await line.open(config)
        self.progress.opened(info.delivered.consumer_seq, info.delivered.stream_seq)
        if not self.progress.consumer_seq:
            self.pending = info.num_pending
        self._watch.start(asyncio.get_running_loop())
        self._releases.start()

    async def _hang_up(self) -> None:
        """Close the subscription of the present line and see to it that its consumer is deleted."""
        self._watch.stop()
        line, self._line = self._line, None
        if line is not None:
            await line.hang_up()
            self._releases.add(line)
            self._releases.start()

    # -- signs of trouble -----------------------------------------------------------------------------

    def _lost(self, reason: ResetReason) -> None:
        """The present line is of no use any more: its messages are not looked at from here on."""
        if self._line is not None and not self._trouble.is_set():
            self._trouble_reason = reason
            self._trouble.set()

    def _connection_changed(self) -> None:
        closed = self._api.connection.is_closed
        if closed or self._epoch != self._api.connection.stats["reconnects"]:
            self._nudge.set()
            attempt, self._attempt = self._attempt, None
            if attempt is not None:
                attempt.reschedule(asyncio.get_running_loop().time())
            else:
                self._lost(ResetReason.RECONNECTED)
        if closed:
            if self._supervisor is not None:
                self._supervisor.cancel()
            self._fail(ClientClosed("the connection was closed"))

    # -- what arrives ---------------------------------------------------------------------------------

    async def _receive(self, line: Line, message: Msg) -> None:
        if line is not self._line or self._trouble.is_set():
            return
        if message.subject == line.inbox:
            control = read_control(message.headers, message.reply)
            if control is not None:
                self._watch.heard()
                await self._control(control)
            return
        position = read_ack_subject(message.reply)
        if position is None or position.consumer != line.name:
            return  # sent to the inbox by somebody else
        self._watch.heard()
        if self._buffer.full:
            self._lost(ResetReason.BUFFER_FULL)
            return
        verdict = self.progress.message(position.consumer_seq, position.stream_seq)
        if verdict is Verdict.NEXT:
            self._backoff.succeeded()
            self.pending = position.pending
            self._buffer.put(
                OrderedMessage(
                    message.subject,
                    message.data,
                    message.headers or _NO_HEADERS,
                    position.stream,
                    position.stream_seq,
                    position.consumer_seq,
                    position.timestamp_ns,
                    position.pending,
                )
            )
        elif verdict is Verdict.GAP:
            self._lost(ResetReason.GAP)

    async def _control(self, control: Control) -> None:
        if control.kind is ControlKind.HEARTBEAT:
            self.last_heartbeat = datetime.now(UTC)
            if self.progress.heartbeat(control.last_consumer_seq) is Verdict.GAP:
                self._lost(ResetReason.GAP)
                return
            self._backoff.succeeded()
        if control.answer_to:
            self._buffer.put_answer(control.answer_to)
            for subject in self._buffer.answers_due():
                await self.answer(subject)

    async def answer(self, subject: str) -> None:
        """Tell the server that we keep up."""
        # Without a connection the consumer is lost anyway, and that is noticed elsewhere.
        with contextlib.suppress(NatsError, OSError):
            await self._api.connection.publish(subject)
