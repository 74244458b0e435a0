"""The head of the one request that a connection brings before it becomes something else.

For connections that are handed on after their first request: to NATS over a WebSocket, to a thread that
sends Arrow.  Bytes in, a `Head` or a `BadHead` out; it takes what Go's server takes (bare line feeds, any
method), and is stricter where that is safe: no folded lines, one Host.

Always true:  a head never holds more than `most` bytes of memory.
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
_END: Final = re.compile(rb"\n\r?\n")


class Head(msgspec.Struct, frozen=True):
    """A request without its body; Host is not among the headers."""

    method: str
    target: str  # path and query
    path: str
    host: str
    version: str
    headers: Headers
    early_data: bool = False  # something followed the head in the same read

    def first(self, name: str) -> str:
        """The first value of a header, or nothing."""
        values = self.headers.get(name)
        return values[0] if values else ""

    def lists(self, name: str, wanted: str) -> bool:
        """Whether a header that holds a comma-separated list has `wanted` in it, in any case."""
        values = ",".join(self.headers.get(name, ())).split(",")
        return wanted.lower() in (value.strip(" \t").lower() for value in values)


class BadHead(msgspec.Struct, frozen=True):
    """Not HTTP as it should be: the status for it, why for a log, and what the peer is told."""

    status: int
    reason: str
    detail: str = ""


class HeadReader:
    """Gathers one head, however it is cut."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Head | BadHead | None:
        """Return the head or why there is none; None while it is incomplete."""
        searched = max(0, len(self._buffer) - 2)
        self._buffer += data
        end = _END.search(self._buffer, searched)
        if (end.start() if end else len(self._buffer)) > self._most:
            return BadHead(431, "request header too large")
        if end is None:
            return None
        text = self._buffer[: end.start()].decode("latin-1")
        return _parse(text, early_data=end.end() < len(self._buffer))


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
    headers: dict[str, list[str]] = {}
    for line in lines[1:]:
        name, colon, value = line.partition(":")
        value = value.strip(" \t")
        if not colon or _CONTROL_CHARACTER.search(value):
            return BadHead(400, "malformed header")
        if not TOKEN.fullmatch(name):
            return BadHead(400, "invalid header name", "invalid header name")
        headers.setdefault(name.lower(), []).append(value)
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
