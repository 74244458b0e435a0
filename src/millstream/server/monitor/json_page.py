"""JSON of documents of any length, written in slices.

A list that may be long is a ``Listing``: its items are made and encoded a few at once, and may contain
listings of their own.  The text is the same as if the whole document had been encoded in one step.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator
from typing import Any, Final

import msgspec

from millstream.base.slices import Pieces
from millstream.golang.json import escape_html
from millstream.golang.time import Time, format_time
from millstream.server.monitor.formats import INDENT, indented

_PART: Final = 32 * 1024  # bytes
_AT_ONCE: Final = 32  # items that are encoded together
_BATCH_S: Final = 0.0003  # for making them; encoding them takes about as long
_MARK: Final = os.urandom(
    16
).hex()  # placeholder of a listing; random, so that no text of a client can equal it
_MARK_TEXT: Final = msgspec.json.encode(_MARK)


class Listing:
    """The items of a list; None is a step without an item."""

    def __init__(self, items: Iterable[Any]) -> None:
        self.items = items


def render(document: Any, *, pretty: bool) -> Pieces[list[bytes]]:
    """Return the document as parts of a text; a few items of a listing are one step."""
    text = Text()
    yield from _write(document, pretty, 0, text)
    return text.parts()


class Text:
    """Bytes gathered into parts of some ten kilobytes."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._gathered: list[bytes] = []
        self._size = 0

    def append(self, data: bytes) -> None:
        self._gathered.append(data)
        self._size += len(data)
        if self._size >= _PART:
            self._join()

    def parts(self) -> list[bytes]:
        self._join()
        return self._parts

    def _join(self) -> None:
        self._parts.append(b"".join(self._gathered))
        self._gathered.clear()
        self._size = 0


def _write(document: Any, pretty: bool, column: int, parts: Text) -> Pieces[None]:
    """Add the text of `document`; all lines but the first are indented by `column`."""
    text, listings = _framed(document, pretty, column)
    if not listings:
        parts.append(text)
        yield 1
    else:
        yield from _write_listings(text, listings, pretty, column, parts)


def _framed(document: Any, pretty: bool, column: int) -> tuple[bytes, list[Listing]]:
    """Return the text of `document`, with a placeholder for each listing, and the listings."""
    listings: list[Listing] = []

    def mark(value: Any) -> str:
        if isinstance(value, Time):
            return format_time(value)
        if not isinstance(value, Listing):
            raise TypeError(f"{type(value).__name__} is no part of a document")
        listings.append(value)
        return _MARK

    text = escape_html(msgspec.json.encode(document, enc_hook=mark))
    return indented(text, column) if pretty else text, listings


def _write_listings(
    text: bytes, listings: list[Listing], pretty: bool, column: int, parts: Text
) -> Pieces[None]:
    """Add a text with the items of its listings in place of their placeholders."""
    frame = text.split(_MARK_TEXT)
    for listing, before in zip(listings, frame, strict=False):
        parts.append(before)
        yield from _write_items(listing, pretty, _column(before, column), parts)
    parts.append(frame[-1])


def _column(text: bytes, first: int) -> int:
    """Return the column at which the last line of `text` begins, or `first` if there is only one line."""
    if b"\n" not in text:
        return first
    line = text[text.rfind(b"\n") + 1 :]
    return len(line) - len(line.lstrip(b" "))


def _write_items(listing: Listing, pretty: bool, column: int, parts: Text) -> Pieces[None]:
    inner = column + INDENT
    start = b"\n" + b" " * inner if pretty else b""
    end = b"\n" + b" " * column + b"]" if pretty else b"]"
    comma = b"," + start
    before = b"[" + start
    batches = _Batches(listing.items)
    for batch in batches:
        if not batch:
            yield 1
            continue
        text, listings = _framed(batch, pretty, column)
        batches.may_grow = not listings
        if not listings:
            parts.append(before)
            parts.append(text[1 + len(start) : -len(end)])
            before = comma
            yield len(batch)
            continue
        for item in batch:
            parts.append(before)
            before = comma
            yield from _write(item, pretty, inner, parts)
    parts.append(b"[]" if before is not comma else end)


class _Batches:
    """The items of a listing, a few at once; an empty batch is a step without an item.

    Items are made one by one until one has no listing of its own, and again from one that has: what a listing
    shows shall not be older than necessary when it is written.
    """

    def __init__(self, items: Iterable[Any]) -> None:
        self.may_grow = False
        self._items = iter(items)

    def __iter__(self) -> Iterator[list[Any]]:
        batch: list[Any] = []
        until = 0.0
        for item in self._items:
            if item is None:
                if batch:
                    yield batch
                    batch = []
                yield []
                continue
            if not batch:
                until = time.monotonic() + _BATCH_S
            batch.append(item)
            if not self.may_grow or len(batch) == _AT_ONCE or time.monotonic() >= until:
                yield batch
                batch = []
        if batch:
            yield batch
