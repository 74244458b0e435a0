"""Pages of the keys of a bucket.

Keys are in the order of their last change, and the position between two pages is a revision.  So the cost of
a page depends on its size alone, and no state is kept between pages.  A key that is changed between two pages
moves to the end, so it may come twice; a key that exists all the time is never left out.  The messages read
for one page are bounded, so a page may have fewer keys than requested, or none, and still have a next page.
"""

import time
from typing import Final

import msgspec

from millstream.buckets.errors import BadKey
from millstream.buckets.kv_types import KvEntry, entry_of
from millstream.buckets.pages import gathered, read_page
from millstream.link.link import Link
from millstream.link.stored import last_message

_MOST_LOOKED_AT: Final = 10_000  # messages read for one page
_MOST_SECONDS: Final = 0.5
_FEW: Final = 256  # messages of one read, if most of them match
_MANY: Final = 2000  # messages of one read, if few of them may match
_LOOKUPS_AT_ONCE: Final = 16
_PREFIX_BREAKS: Final = frozenset(" \t\r\n\f\0*>")


class KeyPage(msgspec.Struct, frozen=True):
    """Keys with their last revision, without values; `next` is `after` of the next page, 0 after the last."""

    entries: list[KvEntry]
    next: int


async def read_keys(
    link: Link, stream: str, subjects: str, prefix: str, *, after: int, limit: int, history: bool
) -> KeyPage:
    """Return the keys after revision `after` that begin with `prefix`; `subjects` precedes a key."""
    if not _PREFIX_BREAKS.isdisjoint(prefix) or ".." in prefix or prefix.startswith("."):
        raise BadKey(f"no key begins with {prefix[:256]!r}")
    complete = prefix[: prefix.rfind(".") + 1]  # the whole tokens, which a server can filter by
    entries: list[KvEntry] = []
    looked_at = 0
    give_up = time.monotonic() + _MOST_SECONDS
    while len(entries) < limit:
        wanted = max(limit - len(entries), _FEW if complete == prefix else _MANY)
        page = await read_page(
            link, stream, f"{subjects}{complete}>", start=after + 1, limit=wanted, headers_only=True
        )
        found = [entry_of(stored, subjects) for stored in page.messages]
        if history:
            found = await _last_ones(link, stream, subjects, found, complete=not page.pending)
        for entry in found:
            if entry.exists and entry.key.startswith(prefix):
                entries.append(entry)
                if len(entries) == limit:
                    more = page.pending > 0 or entry is not found[-1]
                    return KeyPage(entries, entry.revision if more else 0)
        if not page.messages or not page.pending:
            return KeyPage(entries, 0)
        after = page.messages[-1].seq
        looked_at += len(page.messages)
        if looked_at >= _MOST_LOOKED_AT or time.monotonic() > give_up:
            return KeyPage(entries, after)
    return KeyPage(entries, after)


async def _last_ones(
    link: Link, stream: str, subjects: str, found: list[KvEntry], *, complete: bool
) -> list[KvEntry]:
    """Return the entries that are the last of their key; with `complete`, no message follows them."""
    newest = {entry.key: entry for entry in found}
    candidates = [entry for entry in found if newest[entry.key] is entry]
    if complete:
        return candidates
    lasts = await gathered(
        _LOOKUPS_AT_ONCE,
        [last_message(link, stream, f"{subjects}{entry.key}") for entry in candidates],
    )
    return [
        entry
        for entry, last in zip(candidates, lasts, strict=True)
        if last is not None and last.seq == entry.revision
    ]
