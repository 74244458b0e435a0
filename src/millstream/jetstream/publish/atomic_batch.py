"""Atomic batches: messages that are stored together or not at all.

    Nats-Batch-Id: b1, Nats-Batch-Sequence: 1, 2, 3 …         staged here, answered with an empty message
    … and Nats-Batch-Commit: 1 (this is the last), or         checked, and appended to the log at once
      Nats-Batch-Commit: eob (the previous one was)

Staged messages are in memory only: before the commit the publisher has no promise.  All of a batch goes into
the same commit of the log, because nothing else runs in between, so readers see all or nothing.  If power
fails while that commit is written, the log may end inside the batch: its headers show that, and the restart
removes it (``stream.torn_commit``).
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from millstream.base.complaints import Complaints
from millstream.base.decimals import read_whole
from millstream.jetstream.api_requests import beyond_ours
from millstream.jetstream.publish import limits
from millstream.jetstream.publish.batch_fast_path import BatchStaging, OpenBatch, StagedMessage
from millstream.jetstream.publish.candidate import Incoming
from millstream.jetstream.publish.rules import Ahead
from millstream.jsapi import headers as names
from millstream.jsapi.enums import BatchAbandonReason
from millstream.jsapi.errors import ApiError, Err
from millstream.jsapi.limits import MAX_BATCH_ID_BYTES
from millstream.jsapi.publish_types import pub_ack_batch_end
from millstream.protocol import headers

if TYPE_CHECKING:
    from millstream.jetstream.stream.stream import Stream

_log = logging.getLogger("millstream.jetstream")

BATCH_ID: Final = names.BATCH_ID.encode()
_SEQUENCE: Final = names.BATCH_SEQUENCE.encode()
_COMMIT: Final = names.BATCH_COMMIT.encode()
_COMMIT_THIS: Final = names.BATCH_COMMIT_THIS.encode()
_COMMIT_END: Final = names.BATCH_COMMIT_END.encode()
_REQUIRED_LEVEL: Final = names.REQUIRED_API_LEVEL.encode()
_REQUEST_INFO: Final = names.REQUEST_INFO.encode() + b":"

_MOST_MESSAGES: Final = 1000
_MOST_OF_STREAM: Final = 50  # batches in flight
_MOST_OF_SERVER: Final = 1000
_GRANTED_AT_ONCE: Final = 1024 * 1024  # bytes


class Batches:
    """The atomic batches of one stream."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self.staging: BatchStaging = BatchStaging(stream.world.steady_ns)
        self._open = self.staging.open
        self._full = Complaints(_log)

    def __len__(self) -> int:
        return len(self._open)

    def stop(self) -> None:
        """Drop all batches that are not committed."""
        for batch_id in list(self._open):
            self._close(batch_id)

    def take(self, message: Incoming, batch_id: bytes) -> None:
        """Stage or commit a message of a batch, after the transform; raise ApiError if the batch fails."""
        stream = self._stream
        size = stream.size_of(message.subject, message.block, message.payload)
        limits.book.check_room(stream, message, size + stream.account.usage.batched_bytes())
        if 0 < stream.config.max_msg_size < len(message.block) + len(message.payload):
            raise ApiError(Err.MESSAGE_EXCEEDS_MAXIMUM)
        if not stream.config.allow_atomic:
            raise ApiError(Err.ATOMIC_PUBLISH_DISABLED)
        if len(batch_id) > MAX_BATCH_ID_BYTES:
            raise ApiError(Err.ATOMIC_PUBLISH_INVALID_BATCH_ID)
        number = read_whole(headers.find(message.block, _SEQUENCE) or b"")
        if number is None or number >= 2**64:
            raise ApiError(Err.ATOMIC_PUBLISH_MISSING_SEQUENCE)
        commit = headers.find(message.block, _COMMIT)
        self._stage(batch_id, number, message, commit)
        if commit is not None:
            messages = self._close(batch_id).messages
            last = messages[-1] = _incoming(messages[-1])
            if commit == _COMMIT_END:
                last.block = headers.put(last.block, _COMMIT, _COMMIT_THIS)
            self._commit(batch_id, messages, last, message.reply)
        elif message.reply and not stream.config.no_ack:
            stream.world.publish(message.reply, b"")

    # -- staging ----------------------------------------------------------------------------------

    @property
    def _most(self) -> int:
        """Return the most messages of a batch."""
        return self._stream.account.resources.limits.batch_max_messages or _MOST_MESSAGES

    def _stage(self, batch_id: bytes, number: int, message: Incoming, commit: bytes | None) -> None:
        is_end = commit == _COMMIT_END
        most = self._most
        too_large = number - is_end > most
        batch = self._open.get(batch_id)
        if batch is None:
            if number != 1:
                if too_large:
                    raise ApiError(Err.ATOMIC_PUBLISH_TOO_LARGE_BATCH, size=most)
                raise ApiError(Err.ATOMIC_PUBLISH_INCOMPLETE_BATCH)
            batch = self._start(batch_id)
        if commit is not None and commit not in (_COMMIT_THIS, _COMMIT_END):
            self._close(batch_id)
            raise ApiError(Err.ATOMIC_PUBLISH_INVALID_BATCH_COMMIT)
        if beyond_ours(message.block):
            self._abandon(batch_id, BatchAbandonReason.UNSUPPORTED)
            raise ApiError(Err.REQUIRED_API_LEVEL)
        if number != len(batch.messages) + 1 or (number == 1 and is_end):
            self._abandon(batch_id, BatchAbandonReason.INCOMPLETE)
            raise ApiError(Err.ATOMIC_PUBLISH_INCOMPLETE_BATCH)
        if too_large:
            self._abandon(batch_id, BatchAbandonReason.LARGE)
            raise ApiError(Err.ATOMIC_PUBLISH_TOO_LARGE_BATCH, size=most)
        batch.patience.begin(self._stream, lambda: self._abandon(batch_id, BatchAbandonReason.TIMEOUT))
        if not is_end:
            self._keep(batch_id, batch, message)

    def _keep(self, batch_id: bytes, batch: OpenBatch, message: Incoming) -> None:
        block = headers.without_status(message.block)
        message.block = headers.remove(block, _REQUIRED_LEVEL + b":", _REQUEST_INFO)
        size = len(message.subject) + len(message.block) + len(message.payload)
        if not self._get_granted(size):
            self._abandon(batch_id, BatchAbandonReason.LARGE)
            raise ApiError(Err.ATOMIC_PUBLISH_TOO_MANY_INFLIGHT)
        batch.messages.append(message)
        batch.size += size
        self.staging.held += size

    def _get_granted(self, size: int) -> bool:
        """Return True if the server has memory for `size` more bytes of batches."""
        staging, resources = self.staging, self._stream.account.resources
        if staging.held + size <= staging.granted:
            return True
        more = max(staging.held + size - staging.granted, _GRANTED_AT_ONCE)
        if resources.batch_bytes + more > resources.max_batch_bytes:
            self._full.warn("stream %s: no memory is left for atomic batches", self._stream.name)
            return False
        resources.batch_bytes += more
        staging.granted += more
        return True

    def _start(self, batch_id: bytes) -> OpenBatch:
        resources = self._stream.account.resources
        limits = resources.limits
        if len(self._open) >= (
            limits.batch_max_inflight_per_stream or _MOST_OF_STREAM
        ) or resources.batches >= (limits.batch_max_inflight_total or _MOST_OF_SERVER):
            raise ApiError(Err.ATOMIC_PUBLISH_TOO_MANY_INFLIGHT)
        resources.batches += 1
        self._stream.account.usage.batching[self._stream.name] = self.staging
        batch = self._open[batch_id] = OpenBatch(self._most)
        return batch

    def _close(self, batch_id: bytes) -> OpenBatch:
        batch = self._open.pop(batch_id)
        account, staging = self._stream.account, self.staging
        account.resources.batches -= 1
        staging.held -= batch.size
        if not self._open:
            account.usage.batching.pop(self._stream.name, None)
            account.resources.batch_bytes -= staging.granted
            staging.granted = 0
        batch.patience.end()
        return batch

    def _abandon(self, batch_id: bytes, reason: BatchAbandonReason) -> None:
        self._close(batch_id)
        stream = self._stream
        stream.account.advisories.batch_abandoned(stream.name, batch_id.decode(errors="replace"), reason)

    # -- committing -------------------------------------------------------------------------------

    def _commit(
        self, batch_id: bytes, messages: list[StagedMessage | Incoming], last: Incoming, reply: bytes
    ) -> None:
        stream = self._stream
        if not stream.fast_path:  # the stream's rules may have changed since
            messages = [_incoming(message) for message in messages]
        ahead = Ahead(atomic=True)
        for message in messages:
            if isinstance(message, StagedMessage):
                ahead.add(message.subject, 0)
            else:
                stream.publishing.check_batched(message, ahead)
                message.reply = b""
        last.reply = reply
        last.ack_end = pub_ack_batch_end(batch_id.decode(errors="replace"), len(messages))
        for message in messages:
            if isinstance(message, Incoming):
                stream.publishing.last_before(message)  # may raise, so before the first message is stored
        now = stream.ingest.timestamp()
        for message in messages:
            if isinstance(message, StagedMessage):
                stream.ingest.store(message, now)
            else:
                stream.publishing.store(message, now)


def _incoming(message: StagedMessage | Incoming) -> Incoming:
    return message.incoming() if isinstance(message, StagedMessage) else message
