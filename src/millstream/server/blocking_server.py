"""The server for programs without an event loop."""

import asyncio
import threading
from types import TracebackType
from typing import Any, Self

from millstream.base.errors import MillstreamError
from millstream.server.loop import new_event_loop
from millstream.server.server import Server


class BlockingServer:
    """A ``Server`` in a thread of its own, with the same arguments and addresses.

    with BlockingServer() as server:
        print(server.client_url)
    """

    def __init__(self, **arguments: Any) -> None:
        self._server = Server(**arguments)
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop

    @property
    def port(self) -> int:
        return self._server.port

    @property
    def client_url(self) -> str:
        return self._server.client_url

    @property
    def websocket_url(self) -> str:
        return self._server.websocket_url

    @property
    def monitor_url(self) -> str:
        return self._server.monitor_url

    def start(self) -> None:
        """Start the server and return when it listens; raise the error if the start fails."""
        if self._thread is not None:
            raise MillstreamError("this server runs already; stop it before it is started again")
        self._loop = new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="millstream", daemon=True)
        self._thread.start()
        try:
            asyncio.run_coroutine_threadsafe(self._server.start(), self._loop).result()
        except BaseException:
            self._end_thread()
            raise

    def stop(self) -> None:
        if self._thread is not None:
            asyncio.run_coroutine_threadsafe(self._server.stop(), self._loop).result()
            self._end_thread()

    def _end_thread(self) -> None:
        assert self._thread is not None
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._thread = None
        self._loop.close()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
