"""Remove what a power loss left of a torn commit: half a batch, and messages of sources behind a hole.

Nothing of such a commit was acknowledged or delivered.  Messages of clients behind the hole stay, because
they may do so; but half a batch may not, and a source would never send again what the hole has cost, because
it goes on behind the last message that is there.  So both are removed, and sources go on before the hole.

``losses.torn`` tells where power may have torn a commit (``store.recovery``).
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from millstream.jsapi import headers as names
from millstream.protocol import headers
from millstream.store.errors import StoreError
from millstream.store.record import Record

if TYPE_CHECKING:
    from millstream.store.log import Log

_log = logging.getLogger("millstream.jetstream")

_BATCH_ID: Final = names.BATCH_ID.encode()
_SEQUENCE: Final = names.BATCH_SEQUENCE.encode()
_COMMIT: Final = names.BATCH_COMMIT.encode()
_COMMIT_THIS: Final = names.BATCH_COMMIT_THIS.encode()
_SOURCE: Final = names.STREAM_SOURCE.encode()


def discard_torn(log: Log, *, sourced: bool = False) -> None:
    """Remove the rest of batches that a power loss tore, from the end of a log and around lost sectors.

    With `sourced`, also remove messages of sources behind the first lost sector; the positions of the sources
    before it must be durable (``sourcing.positions``).

    Call it before anything else reads the log.  If a sequence after the batch is used and no sector was lost,
    the batch was complete and its last message was removed or damaged since.
    """
    if not log.with_headers:
        return  # messages of batches and of sources have some
    removed = _remove_heads(log, log.last_seq)
    for first, last in log.losses.torn:
        removed += _remove_heads(log, first - 1) + _remove_rest(log, last + 1)
    if removed:
        _log.warning("%s: messages of a batch that was not written to its end are removed", log.folder)
    again = _remove_sourced(log, log.losses.last_untorn(log.last_seq) + 1) if sourced else 0
    if again:
        _log.warning("%s: %d messages of a torn commit are fetched again from sources", log.folder, again)
    commit = log.begin_commit() if removed or again else None
    if commit is not None:  # durable before anything is appended after it
        try:
            commit.run()
        except StoreError as error:  # the next commit writes it first
            _log.error("%s", error)
            log.fail_commit(commit)
        else:
            log.end_commit(commit)


def _remove_sourced(log: Log, first: int) -> int:
    """Remove the messages of sources from `first` on; return how many."""
    record = Record()
    removed = 0
    for seq in list(log.sequences(first, log.last_seq)):
        if log.get(seq, record) and record.header_size and headers.find(record.headers(), _SOURCE):
            removed += log.remove(seq)
    return removed


def _remove_heads(log: Log, seq: int) -> int:
    """Remove the messages of a batch that ends at `seq` without its last message; return how many."""
    record = Record()
    torn_id: bytes | None = None
    removed = 0
    while log.get(seq, record) and record.header_size:
        block = record.headers()
        batch_id = headers.find(block, _BATCH_ID)
        if not batch_id or batch_id != (torn_id or batch_id) or headers.find(block, _COMMIT) == _COMMIT_THIS:
            break
        torn_id = batch_id
        log.remove(seq)
        removed += 1
        seq -= 1
    return removed


def _remove_rest(log: Log, seq: int) -> int:
    """Remove the messages from `seq` on of a batch that began before; return how many."""
    record = Record()
    torn_id: bytes | None = None
    removed = 0
    while log.get(seq, record) and record.header_size:
        block = record.headers()
        batch_id = headers.find(block, _BATCH_ID)
        if not batch_id or batch_id != (torn_id or batch_id) or headers.find(block, _SEQUENCE) == b"1":
            break
        torn_id = batch_id
        log.remove(seq)
        removed += 1
        seq += 1
        if headers.find(block, _COMMIT) == _COMMIT_THIS:
            break
    return removed
