"""Work that ends when its caller disconnects."""

from __future__ import annotations

import asyncio
from types import TracebackType

from millstream.gateway.errors import Disconnected
from millstream.http.asgi import Receive, WaitingCaller


class WhileThere:
    """Cancels the body of ``async with`` when the caller disconnects, and raises Disconnected.

    Our own HTTP server calls back when a caller disconnects; with other servers a task waits for it.
    """

    __slots__ = ("_caller", "_cancelling", "_is_gone", "_later", "_receive", "_release", "_task", "_watcher")

    def __init__(self, caller: WaitingCaller | None, receive: Receive) -> None:
        self._caller = caller
        self._receive = receive
        self._is_gone = False
        self._later: asyncio.Handle | None = None
        self._watcher: asyncio.Task[None] | None = None

    @property
    def is_gone(self) -> bool:
        """Return whether the caller is known to have disconnected; the work is cancelled soon."""
        if self._caller is not None:
            return self._caller.is_gone
        return self._watcher is not None and self._watcher.done()

    async def __aenter__(self) -> WhileThere:
        task = asyncio.current_task()
        assert task is not None
        self._task = task
        self._cancelling = task.cancelling()
        if self._caller is None:
            self._watcher = asyncio.get_running_loop().create_task(until_gone(self._receive))
            self._watcher.add_done_callback(lambda done: None if done.cancelled() else self._gone())
        else:
            if self._caller.is_gone:
                raise Disconnected("the caller is gone")
            self._release = self._caller.when_gone(self._gone)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._caller is not None:
            self._release()
        if self._later is not None:
            self._later.cancel()
        watcher, self._watcher = self._watcher, None
        if watcher is not None and not watcher.done():
            watcher.cancel()
        if self._is_gone and self._task.uncancel() <= self._cancelling and kind is asyncio.CancelledError:
            raise Disconnected("the caller went away") from None

    def _gone(self) -> None:
        if self._watcher is None and self._caller is None:
            return  # the work had ended
        # Not at once: the notification may come from within our own task.
        self._later = asyncio.get_running_loop().call_soon(self._cancel)

    def _cancel(self) -> None:
        self._is_gone = True
        self._task.cancel()


async def until_gone(receive: Receive) -> None:
    """Wait until the caller disconnects."""
    while (await receive())["type"] != "http.disconnect":
        pass
