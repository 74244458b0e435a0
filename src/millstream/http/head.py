"""The head of the only HTTP request of a connection that then changes protocol, and of its answer.

NATS over WebSocket and the Arrow endpoint use it: both take the socket over after one request.  Bytes go in,
a `Head` or a `BadHead` comes out; of an answer, an `ResponseHead`.  It accepts what Go's server accepts (bare
line feeds, any method) and is stricter where that is safe: no folded lines, exactly one Host.

Invariant:  a head never holds more than `most` bytes of memory.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final
from urllib.parse import urlsplit

import msgspec

Headers = Mapping[str, Sequence[str]]  # lower-case name to the values in order of appearance

TOKEN: Final = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_CONTROL_CHARACTER: Final = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
_BAD_ESCAPE: Final = re.compile(r"%(?![0-9A-Fa-f]{2})")
_VERSION: Final = re.compile(r"HTTP/(\d)\.(\d)")
_STATUS: Final = re.compile(r"HTTP/1\.[01] ([1-5]\d\d)(?: .*)?")
_END: Final = re.compile(rb"\n\r?\n")


class Head(msgspec.Struct, frozen=True):
    """A request without its body; Host is not among the headers."""

    method: str
    target: str  # path and query
    path: str
    host: str
    version: str
    headers: Headers
    early_data: bool = False  # more bytes followed the head in the same read

    def first(self, name: str) -> str:
        """Return the first value of a header, or an empty string."""
        values = self.headers.get(name)
        return values[0] if values else ""

    def lists(self, name: str, wanted: str) -> bool:
        """Return whether a comma-separated header contains `wanted`, ignoring case."""
        values = ",".join(self.headers.get(name, ())).split(",")
        return wanted.lower() in (value.strip(" \t").lower() for value in values)


class BadHead(msgspec.Struct, frozen=True):
    """A malformed head: the HTTP status, the reason for the log, and the text for the peer."""

    status: int
    reason: str
    detail: str = ""


class ResponseHead(msgspec.Struct, frozen=True):
    """The head of an answer."""

    status: int
    line: str  # the first one
    headers: Headers
    rest: bytes = b""  # what followed it in the same read

    def first(self, name: str) -> str:
        """Return the first value of a header, or an empty string."""
        values = self.headers.get(name)
        return values[0] if values else ""


class HeadReader:
    """Collects one head from pieces of any size."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Head | BadHead | None:
        """Return the head, or a BadHead if it is malformed, or None while it is incomplete."""
        searched = max(0, len(self._buffer) - 2)
        self._buffer += data
        end = _END.search(self._buffer, searched)
        if (end.start() if end else len(self._buffer)) > self._most:
            return BadHead(431, "request header too large")
        if end is None:
            return None
        text = self._buffer[: end.start()].decode("latin-1")
        return _parse(text, early_data=end.end() < len(self._buffer))


class ResponseReader:
    """Collects the head of an answer from pieces of any size."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._buffer = b""

    def feed(self, data: bytes) -> ResponseHead | None:
        """Return the head, None while it is incomplete; raise ValueError if it is malformed."""
        self._buffer += data
        end = _END.search(self._buffer)
        if (end.start() if end else len(self._buffer)) > self._most:
            raise ValueError("the head of the answer is too large")
        if end is None:
            return None
        lines = [
            line.removesuffix("\r") for line in self._buffer[: end.start()].decode("latin-1").split("\n")
        ]
        status = _STATUS.fullmatch(lines[0])
        if status is None or _CONTROL_CHARACTER.search(lines[0]):
            raise ValueError("the answer is not HTTP")
        headers = _read_headers(lines[1:])
        if isinstance(headers, BadHead):
            raise ValueError(f"the answer has a {headers.reason}")
        return ResponseHead(int(status[1]), lines[0], headers, self._buffer[end.end() :])


def split_url(url: str) -> tuple[str, str, str] | None:
    """Return scheme, host with port, and the rest; None if this is not an absolute URL."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return None
    if not parts.scheme or not parts.netloc:
        return None
    target = parts.path + (f"?{parts.query}" if parts.query else "")
    return parts.scheme, parts.netloc.rpartition("@")[2], target


def _parse(text: str, *, early_data: bool) -> Head | BadHead:
    lines = [line.removesuffix("\r") for line in text.split("\n")]
    words = lines[0].split(" ")
    if len(words) != 3 or not TOKEN.fullmatch(words[0]):
        return BadHead(400, "malformed request line")
    method, target, version = words
    numbers = _VERSION.fullmatch(version)
    if numbers is None:
        return BadHead(400, "malformed HTTP version")
    if numbers[1] != "1":
        return BadHead(505, "unsupported HTTP version", "unsupported protocol version")
    headers = _read_headers(lines[1:])
    if isinstance(headers, BadHead):
        return headers
    hosts = headers.pop("host", [])
    if not hosts and numbers[2] != "0":
        return BadHead(400, "missing Host header", "missing required Host header")
    if len(hosts) > 1:
        return BadHead(400, "more than one Host header")
    host = hosts[0] if hosts else ""
    if not target.startswith("/"):
        url = split_url(target)
        if url is None or url[0] not in ("http", "https"):
            return BadHead(400, "malformed request target")
        _, host, target = url
    path = target.partition("?")[0]
    if _BAD_ESCAPE.search(path):
        return BadHead(400, "malformed request target")
    return Head(method, target, path, host, f"{numbers[1]}.{numbers[2]}", headers, early_data)


def _read_headers(lines: Sequence[str]) -> dict[str, list[str]] | BadHead:
    headers: dict[str, list[str]] = {}
    for line in lines:
        name, colon, value = line.partition(":")
        value = value.strip(" \t")
        if not colon or _CONTROL_CHARACTER.search(value):
            return BadHead(400, "malformed header")
        if not TOKEN.fullmatch(name):
            return BadHead(400, "invalid header name", "invalid header name")
        headers.setdefault(name.lower(), []).append(value)
    return headers
