"""Receive a restore: read chunks as they arrive, and add the stream when all of it was read.

    chunk ──▶ `$JS.SNAPSHOT.RESTORE.<stream>.<id>`, answered with an empty message when it was read
    an empty message ends it, and is answered with the stream or the error

A worker reads the archive (``loader``) into a folder beside the streams (``stream.staging_folder``).  As in
nats-server, an error is reported at the end; until then chunks are acknowledged as usual.  Five seconds
without a chunk cancel the restore silently.  However it ends, there is a complete stream or nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from millstream.archive.errors import ArchiveError
from millstream.base.ids import secret_token
from millstream.jsapi import names
from millstream.jsapi.errors import ApiError, Err
from millstream.store.errors import StoreError, client_text

if TYPE_CHECKING:
    from millstream.jetstream.ports import Cancel, ClientRequest, World
    from millstream.jetstream.snapshots.loader import Loaded, Loading
    from millstream.jetstream.snapshots.quota import Room
    from millstream.jetstream.stream.staging_folder import Staging

_log = logging.getLogger("millstream.jetstream")

_IDLE_S: Final = 5.0
_MOST_WAITING: Final = 16 * 1024 * 1024  # bytes of chunks, if the sender does not wait for acks


class Receiving:
    """One restore.

    `check(bytes)` raises ApiError if there is no room for so many; `prepare`, in a worker, and then `switch`
    turn what was read into a stream, or raise; `ended(reply, received, error)` is called at the end, except
    for a cancelled restore.
    """

    what = "restore"

    def __init__(
        self,
        world: World,
        title: str,
        stream: str,
        loading: Loading,
        staging: Staging,
        room: Room,
        *,
        check: Callable[[int], None],
        prepare: Callable[[Loaded], None],
        switch: Callable[[Loaded], None],
        ended: Callable[[bytes, int, ApiError | None], None],
    ) -> None:
        self.subject = f"{names.SNAPSHOT_RESTORE_PREFIX}{stream}.{secret_token()}"
        self._world = world
        self._title = title  # stream and account, for the log
        self._loading = loading
        self._staging = staging
        self._room = room
        self._check = check
        self._prepare = prepare
        self._switch = switch
        self._tell_end = ended
        self._waiting: list[ClientRequest] = []  # chunks
        self._waiting_size = 0
        self._reading = False
        self._received = 0  # bytes
        self._error: Exception | None = None
        self._input_ended = False
        self._reply = b""  # the reply subject of the last message
        self._over = False
        self._handle: Any = None
        self._idle: Cancel | None = None

    def start(self) -> None:
        self._handle = self._world.serve(self.subject.encode(), self._receive)
        self._wait()

    def give_up(self) -> None:
        """Cancel: the server stops, or the account loses its streams."""
        if self._over:
            return
        self._stop_waiting()
        if not self._input_ended:
            self._world.release(self._handle)
        self._over = True
        if not self._reading:
            self._remove()

    @property
    def over(self) -> bool:
        return self._over

    # -- chunks -----------------------------------------------------------------------------------

    def _receive(self, request: ClientRequest) -> None:
        if self._input_ended or self._over:
            return
        if not request.reply:
            text = f"restore for stream '{self._title}' requires reply subject for each chunk"
            self._end_input(b"", ArchiveError(text))
        elif not request.payload:
            self._end_input(request.reply, None)
        else:
            self._waiting.append(request)
            self._waiting_size += len(request.payload)
            if self._waiting_size > _MOST_WAITING:
                self._end_input(request.reply, ArchiveError("chunks are sent faster than they are answered"))
        self._go_on()

    def _end_input(self, reply: bytes, error: Exception | None) -> None:
        self._input_ended = True
        self._reply = reply
        self._error = self._error or error
        self._world.release(self._handle)

    def _wait(self) -> None:
        self._stop_waiting()
        if not self._input_ended:
            self._idle = self._world.call_later(_IDLE_S, self._stalled)

    def _stop_waiting(self) -> None:
        if self._idle is not None:
            self._idle.cancel()
            self._idle = None

    def _stalled(self) -> None:
        self._idle = None
        _log.warning("restore for stream '%s' is stalled", self._title)
        self._world.release(self._handle)
        self._over = True
        self._remove()

    # -- reading ----------------------------------------------------------------------------------

    def _go_on(self) -> None:
        if self._reading or self._over:
            return
        if self._error is not None:
            self._answer_unread()
            if self._input_ended:
                self._end(self._error)
        elif self._waiting:
            self._read()
        elif self._input_ended:
            self._finish()

    def _answer_unread(self) -> None:
        """Acknowledge chunks without reading them; the error is reported at the end."""
        waiting, self._waiting, self._waiting_size = self._waiting, [], 0
        for request in waiting:
            self._received += len(request.payload)
            self._world.publish(request.reply, b"")
        if waiting:
            self._wait()

    def _read(self) -> None:
        self._stop_waiting()
        self._reading = True
        request = self._waiting.pop(0)
        self._waiting_size -= len(request.payload)
        self._loading.begin(request.payload)
        self._read_on(request)

    def _read_on(self, request: ClientRequest) -> None:
        """Read some of a chunk: a few bytes may decompress to gigabytes, and others need the workers too."""
        more: list[bool] = []

        def read_some() -> None:
            more.append(self._loading.step())

        def was_read(error: Exception | None) -> None:
            if error is None and more[0] and not self._over:
                self._read_on(request)
            else:
                self._was_read(request, error)

        self._world.run_in_worker(read_some, was_read)

    def _was_read(self, request: ClientRequest, error: Exception | None) -> None:
        self._reading = False
        if self._over:
            self._remove()
            return
        self._received += len(request.payload)
        if error is None:
            try:
                self._check(self._loading.announced)
            except ApiError as refusal:
                error = refusal
        self._error = self._error or error
        self._world.publish(request.reply, b"")
        self._wait()
        self._go_on()

    # -- the end ----------------------------------------------------------------------------------

    def _finish(self) -> None:
        self._stop_waiting()
        self._reading = True
        loaded: list[Loaded] = []

        def finish() -> None:
            loaded.append(self._loading.finish())
            self._prepare(loaded[0])

        def finished(error: Exception | None) -> None:
            self._reading = False
            if self._over:
                self._remove()
                return
            if error is None:
                self._room.release()  # from now on the stream itself counts
                try:
                    self._switch(loaded[0])
                except Exception as problem:
                    error = problem
            self._end(error)

        self._world.run_in_worker(finish, finished)

    def _end(self, error: Exception | None) -> None:
        self._stop_waiting()
        self._over = True
        self._error = None  # its traceback refers to this
        if error is None:
            self._tell_end(self._reply, self._received, None)
            return
        if not isinstance(error, ArchiveError | ApiError | StoreError):
            _log.error("restore for stream '%s' failed unexpectedly", self._title, exc_info=error)
        refusal = (
            error
            if isinstance(error, ApiError)
            else ApiError(Err.STREAM_RESTORE_FAILED, err=client_text(error))
        )
        self._remove(lambda: self._tell_end(self._reply, self._received, refusal))

    def _remove(self, then: Callable[[], None] | None = None) -> None:
        """Remove the staging folder, then call `then`."""

        def removed(error: Exception | None) -> None:
            self._room.release()
            if error is not None:
                _log.error("restore for stream '%s': %s", self._title, error)
            if then is not None:
                then()

        self._world.run_in_worker(self._staging.remove, removed)
