"""The start of a request, on the event loop: reads its head, or sends an error.

The client is not authenticated yet, so everything is bounded: `HEAD_S` for the handshake and the head
together, `_MAX_HEAD` bytes of it, and a short time to take an error.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import Sequence
from http import HTTPStatus
from typing import Final

from millstream.http import answers
from millstream.http.answers import http_date
from millstream.http.head import BadHead, Head, HeadReader
from millstream.server.arrow.loop_socket import LoopSocket
from millstream.server.arrow.problem import ArrowProblem

HEAD_S: Final = 10.0  # seconds for handshake and head together
_LINGER_S: Final = 1.0  # seconds for an error to arrive before we close
_MAX_HEAD: Final = 64 * 1024
_CHUNK: Final = 16 * 1024


async def receive_head(line: LoopSocket) -> Head | None:
    """Return the request, or None if the client closed the connection; raises Problem if it is not HTTP."""
    reader = HeadReader(_MAX_HEAD)
    while True:
        data = await line.receive(_CHUNK)
        if not data:
            return None
        head = reader.feed(data)
        if head is not None:
            break
    if isinstance(head, BadHead):
        raise ArrowProblem(HTTPStatus(head.status), head.reason)
    if head.method not in ("GET", "HEAD"):
        raise ArrowProblem(HTTPStatus.METHOD_NOT_ALLOWED, "a range is asked for with GET")
    if head.version == "1.0":
        raise ArrowProblem(HTTPStatus.HTTP_VERSION_NOT_SUPPORTED, "HTTP/1.1 is needed: the end must be told")
    return head


async def refuse(line: LoopSocket, problem: ArrowProblem) -> None:
    """Send an error and give the client a short time to read it."""
    body = json.dumps({"error": {"code": problem.status, "description": str(problem)}}).encode() + b"\n"
    headers = [("Content-Type", "application/json"), ("Content-Length", str(len(body)))]
    if problem.status == HTTPStatus.UNAUTHORIZED:
        headers.append(("WWW-Authenticate", 'Basic realm="millstream", charset="UTF-8"'))
    if problem.status == HTTPStatus.METHOD_NOT_ALLOWED:
        headers.append(("Allow", "GET, HEAD"))
    with contextlib.suppress(OSError, TimeoutError):
        async with asyncio.timeout(_LINGER_S):
            await line.send(response_head(problem.status, headers) + body)
            line.end()
            # Closing with unread input can destroy the answer on its way.
            while await line.receive(_CHUNK):
                pass


def response_head(status: HTTPStatus, headers: Sequence[tuple[str, str]]) -> bytes:
    """Return the head of an answer after which the connection is closed."""
    lines = [("Date", http_date(time.time()).decode()), ("Connection", "close"), *headers]
    return answers.head(status.value, [(name.encode(), value.encode()) for name, value in lines])
