"""Send a snapshot to its requester in chunks; acks allow the next ones.

    chunk ──▶ deliver subject, reply `$JS.SNAPSHOT.ACK.<stream>.<id>.<size>.<number>`
    ack   ──▶ room for one more chunk; the window limits how many are under way
    the last chunk is shorter and has no reply; an empty message marks the end

The header of the empty message contains the error if the snapshot ends early: no subscription, no acks, or an
unreadable message.  A worker produces the archive, a little at a time and only as it is sent.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from millstream.base.ids import secret_token
from millstream.jsapi import names
from millstream.protocol.headers import make_status
from millstream.store.errors import StoreError, client_text

if TYPE_CHECKING:
    from millstream.jetstream.ports import Cancel
    from millstream.jetstream.snapshots.contents import Contents
    from millstream.jetstream.stream.stream import Stream
    from millstream.jsapi.requests import StreamSnapshotRequest

_log = logging.getLogger("millstream.jetstream")

DEFAULT_CHUNK: Final = 128 * 1024
DEFAULT_WINDOW: Final = 8 * 1024 * 1024
_SMALLEST: Final = 1024
_LARGEST_CHUNK: Final = 1024 * 1024
_LARGEST_WINDOW: Final = 32 * 1024 * 1024
_INTEREST_S: Final = 2.0  # time for the requester to subscribe
_ACK_S: Final = 5.0  # without an ack while the window is full
_AHEAD: Final = 2  # chunks that are produced in advance

_DONE: Final = make_status(b"204")
_NO_INTEREST: Final = ("no interest", make_status(b"408 No Interest"))
_NO_ACKS: Final = ("no flow response", make_status(b"408 No Flow Response"))
_STOPPED: Final = ("server shutdown", make_status(b"500 Server Shutdown"))


class Sending:
    """One snapshot.  `ended` is called with the error, or an empty string."""

    what = "snapshot"

    def __init__(
        self, stream: Stream, contents: Contents, request: StreamSnapshotRequest, ended: Callable[[str], None]
    ) -> None:
        chunk = request.chunk_size or DEFAULT_CHUNK
        window = request.window_size or DEFAULT_WINDOW
        self._chunk_size = min(max(_SMALLEST, chunk), _LARGEST_CHUNK)
        window = max(min(max(_SMALLEST, window), _LARGEST_WINDOW), self._chunk_size)
        self._slots = self._most = window // self._chunk_size
        self._world = stream.world
        self._contents = contents
        self._subject = request.deliver_subject.encode()
        # Clients first subscribe to a pattern for all responses and only then to this subject.  Messages
        # sent before
        # that would not be recognised.
        self._outlet = self._world.outlet(self._subject)
        self._heard = False  # there is a subscription to exactly this subject
        self._ack = f"{names.SNAPSHOT_ACK_PREFIX}{stream.name}.{secret_token()}".encode()
        self._stream = stream
        self._tell_end = ended
        self._ready = bytearray()  # bytes of the archive, not sent yet
        self._complete = False  # the whole archive is produced
        self._producing = False
        self._sent = 0  # chunks
        self._ended = False
        self._acks: Any = None
        self._watch: Any = None
        self._timer: Cancel | None = None

    def start(self) -> None:
        self._acks = self._world.serve(self._ack + b".>", lambda _: self._acked())
        self._watch = self._world.watch(self._subject, self._interest_changed)
        self._heard = self._outlet.is_named()
        if self._heard:
            self._go_on()
        else:
            self._timer = self._world.call_later(_INTEREST_S, self._begin)

    def give_up(self) -> None:
        """Cancel: the server stops, or the account loses its streams."""
        self._end(*_STOPPED)

    @property
    def over(self) -> bool:
        return self._ended

    def _begin(self) -> None:
        """Start sending: there is a subscription, or the wait for one is over."""
        self._stop_timer()
        self._go_on()

    def _interest_changed(self) -> None:
        if self._ended:
            return
        before, self._heard = self._heard, self._outlet.is_named()
        begun = self._sent or self._producing or self._ready
        if self._heard and not begun:
            self._begin()
        elif before and not self._heard and begun:
            self._end(*_NO_INTEREST)

    def _acked(self) -> None:
        self._slots = min(self._slots + 1, self._most)
        if self._sent:
            self._stop_timer()
        self._go_on()

    # -- producing --------------------------------------------------------------------------------

    def _produce(self) -> None:
        try:
            if self._stream.account.streams.get(self._stream.name) is not self._stream:
                raise StoreError("read", self._stream.name, "the stream was deleted")
            self._complete = not self._contents.prepare()
        except StoreError as error:
            self._fail(error)
            return
        if self._complete:
            return
        self._producing = True
        produced: list[bytes] = []
        self._world.run_in_worker(
            lambda: produced.append(self._contents.produce()), lambda error: self._produced(produced, error)
        )

    def _produced(self, produced: list[bytes], error: Exception | None) -> None:
        self._producing = False
        if self._ended:
            self._contents.close()  # not possible while the worker was reading
        elif error is not None:
            self._fail(error)
        else:
            self._ready += produced[0]
            self._go_on()

    def _fail(self, error: Exception) -> None:
        if not isinstance(error, StoreError):
            _log.error("snapshot of stream %s failed unexpectedly", self._stream.name, exc_info=error)
        self._contents.note_damage()
        text = client_text(error).replace("\r", " ").replace("\n", " ")
        self._end(text, make_status(f"500 {text}".encode()))

    # -- sending ----------------------------------------------------------------------------------

    def _go_on(self) -> None:
        """Send the chunks that are ready and allowed; produce more."""
        if self._ended:
            return
        while self._slots and len(self._ready) >= self._chunk_size:
            self._send_chunk()
        if not self._complete and not self._producing and len(self._ready) < _AHEAD * self._chunk_size:
            self._produce()
        if self._slots:
            if self._complete and len(self._ready) < self._chunk_size:
                self._finish()
        elif self._timer is None and not self._ended:
            self._timer = self._world.call_later(_ACK_S, lambda: self._end(*_NO_ACKS))

    def _send_chunk(self) -> None:
        chunk = bytes(memoryview(self._ready)[: self._chunk_size])
        del self._ready[: self._chunk_size]
        self._slots -= 1
        self._sent += 1
        self._stop_timer()
        self._world.publish(self._subject, chunk, b"%b.%d.%d" % (self._ack, len(chunk), self._sent))

    def _finish(self) -> None:
        if self._ready and not self._ended:
            self._world.publish(self._subject, bytes(self._ready))
            self._ready.clear()
        self._end("", _DONE if self._sent else None)

    def _end(self, problem: str, headers: bytes | None) -> None:
        if self._ended:
            return
        self._ended = True
        self._stop_timer()
        self._world.release(self._acks)
        self._world.release(self._watch)
        self._acks = self._watch = None
        if not self._producing:
            self._contents.close()
        self._world.publish(self._subject, b"", headers=headers)
        self._tell_end(problem)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
