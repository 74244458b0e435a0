"""Heads of HTTP/1.1 answers: status lines, the date, and a check that no header adds a line of its own."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Final

from millstream.base.errors import MillstreamError
from millstream.http.asgi import Pair

PHRASES: Final = {
    100: "Continue",
    101: "Switching Protocols",
    200: "OK",
    201: "Created",
    202: "Accepted",
    204: "No Content",
    206: "Partial Content",
    301: "Moved Permanently",
    302: "Found",
    303: "See Other",
    304: "Not Modified",
    307: "Temporary Redirect",
    308: "Permanent Redirect",
    400: "Bad Request",
    401: "Unauthorized",
    403: "Forbidden",
    404: "Not Found",
    405: "Method Not Allowed",
    406: "Not Acceptable",
    408: "Request Timeout",
    409: "Conflict",
    410: "Gone",
    411: "Length Required",
    412: "Precondition Failed",
    413: "Content Too Large",
    414: "URI Too Long",
    415: "Unsupported Media Type",
    416: "Range Not Satisfiable",
    417: "Expectation Failed",
    421: "Misdirected Request",
    422: "Unprocessable Entity",
    426: "Upgrade Required",
    428: "Precondition Required",
    429: "Too Many Requests",
    431: "Request Header Fields Too Large",
    500: "Internal Server Error",
    501: "Not Implemented",
    502: "Bad Gateway",
    503: "Service Unavailable",
    504: "Gateway Timeout",
    505: "HTTP Version Not Supported",
    507: "Insufficient Storage",
    511: "Network Authentication Required",
}
_DAYS: Final = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_MONTHS: Final = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_status_lines: Final[dict[int, bytes]] = {}


class BadAnswer(MillstreamError):
    """Raised when an application sends what HTTP does not allow; the request fails."""


def status_line(status: int) -> bytes:
    """Return the first line of an answer."""
    line = _status_lines.get(status)
    if line is None:
        line = b"HTTP/1.1 %d %b\r\n" % (status, PHRASES.get(status, "").encode())
        if 100 <= status <= 599:
            _status_lines[status] = line
    return line


class DateClock:
    """The Date header, formatted once a second."""

    __slots__ = ("_second", "line", "value")

    def __init__(self) -> None:
        self._second = -1
        self.value = b""
        self.line = b""  # of HTTP/1.1
        self.renew()

    def renew(self) -> None:
        """Format the date of the current second."""
        second = int(time.time())
        if second != self._second:
            self._second = second
            self.value = http_date(second)
            self.line = b"date: %b\r\n" % self.value


def http_date(second: float) -> bytes:
    """Return a time in HTTP's format, independent of the locale."""
    at = time.gmtime(second)
    text = (
        f"{_DAYS[at.tm_wday]}, {at.tm_mday:02d} {_MONTHS[at.tm_mon - 1]} {at.tm_year:04d} "
        f"{at.tm_hour:02d}:{at.tm_min:02d}:{at.tm_sec:02d} GMT"
    )
    return text.encode()


def head(status: int, headers: Sequence[Pair], *extra: bytes) -> bytes:
    """Return a whole head; `extra` are finished lines.  Raises BadAnswer if a header has a line break."""
    lines = b"".join([b"%b: %b\r\n" % (name, value) for name, value in headers])
    if lines.count(b"\n") != len(headers) or lines.count(b"\r") != len(headers) or b"\0" in lines:
        raise BadAnswer("a header has a line break")
    return b"".join((status_line(status), *extra, lines, b"\r\n"))


def whole(status: int, headers: Sequence[Pair], body: bytes) -> bytes:
    """Return a whole answer that announces the end of the connection."""
    return head(status, (*headers, (b"Content-Length", b"%d" % len(body)), (b"Connection", b"close"))) + body
