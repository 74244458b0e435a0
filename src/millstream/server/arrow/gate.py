"""Calls from the thread of a request to the event loop, which owns the streams.

    gate.run(function)         call it on the loop; its result, or what it raised
    gate.ask(function)         call it with a future that it, or somebody later, fills
    gate.tell(function)        call it some time soon

After ``close``, calls fail, including those that are waiting.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

from millstream.server.arrow.problem import Gone

T = TypeVar("T")


class Gate:
    """The gate of all requests."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._lock = threading.Lock()
        self._waiting: set[Future[Any]] = set()
        self._closed = False

    def run(self, function: Callable[[], T]) -> T:
        def call(answer: Future[T]) -> None:
            answer.set_result(function())

        return self.ask(call)

    def ask(self, function: Callable[[Future[T]], None]) -> T:
        answer: Future[T] = Future()
        with self._lock:
            if self._closed:
                raise Gone("the server stops")
            self._waiting.add(answer)
        try:
            self._loop.call_soon_threadsafe(_call, function, answer)
            return answer.result()
        finally:
            with self._lock:
                self._waiting.discard(answer)

    def tell(self, function: Callable[[], None]) -> None:
        self._loop.call_soon_threadsafe(function)

    def close(self) -> None:
        """Close the gate; call this on the loop."""
        with self._lock:
            self._closed = True
            waiting = list(self._waiting)
        for answer in waiting:
            if not answer.done():
                answer.set_exception(Gone("the server stops"))


def _call(function: Callable[[Future[T]], None], answer: Future[T]) -> None:
    if answer.done():
        return
    try:
        function(answer)
    except Exception as error:
        if not answer.done():
            answer.set_exception(error)
