"""A key-value bucket: read, write, list and watch keys.

The server checks the revision of a conditional write atomically, so of two writes that expect the same
revision one fails with KeyChanged.  All state is in the bucket's stream.
"""

from collections.abc import AsyncIterator
from types import TracebackType
from typing import Final, Self

from millstream.buckets.errors import BadKey, KeyChanged, NoSuchBucket
from millstream.buckets.kv_keys import KeyPage, read_keys
from millstream.buckets.kv_types import (
    STREAM_PREFIX,
    BucketStatus,
    KvConfig,
    KvEntry,
    KvOperation,
    check_bucket,
    check_key,
    check_pattern,
    entry_of,
    status_of,
)
from millstream.client import Client, OrderedConsumer, OrderedMessage, StartAt
from millstream.golang.time import Time
from millstream.jsapi import headers as wire
from millstream.jsapi.errors import Err
from millstream.link.errors import LinkApiError, NoResponders
from millstream.link.link import Link
from millstream.link.listing import ListedStream, listed_stream, stream_page
from millstream.link.publish_window import read_ack
from millstream.link.stored import Stored, last_message, message_at, next_message
from millstream.link.verbs import STREAM_CREATE, STREAM_DELETE
from millstream.protocol.headers import Pairs

__all__ = ["BucketStatus", "KeyPage", "KeyValue", "KvConfig", "KvEntry", "KvOperation", "Watch"]

_CHANGED: Final = (Err.WRONG_LAST_SEQUENCE, Err.WRONG_LAST_SEQUENCE_UNKNOWN)
_MOST_REVISIONS: Final = 1000


class KeyValue:
    """An open bucket; `info` is the state of its stream at the time of opening."""

    def __init__(self, link: Link, info: ListedStream) -> None:
        config = info.config
        self.link: Final = link
        self.info: Final = info
        self.stream: Final = config.name
        self.bucket: Final = config.name.removeprefix(STREAM_PREFIX)
        mirror = config.mirror
        origin = mirror.name.removeprefix(STREAM_PREFIX) if mirror is not None else self.bucket
        self._prefix = f"$KV.{origin}."  # the part of a subject before the key
        self._put_prefix = self._prefix
        if mirror is not None and mirror.external is not None:
            self._put_prefix = f"{mirror.external.api}.{self._prefix}"
        elif link.options.domain or link.options.api_prefix:
            self._put_prefix = f"{link.options.api}.{self._prefix}"

    # -- buckets ------------------------------------------------------------------------------------

    @classmethod
    async def open(cls, link: Link, bucket: str) -> Self:
        """Return the bucket of that name; raises NoSuchBucket if there is none."""
        try:
            return cls(link, await listed_stream(link, f"{STREAM_PREFIX}{check_bucket(bucket)}"))
        except LinkApiError as error:
            if error.err is Err.STREAM_NOT_FOUND:
                raise NoSuchBucket(f"there is no bucket {bucket}") from None
            raise

    @classmethod
    async def create(cls, link: Link, config: KvConfig) -> Self:
        """Create a bucket, or open one with this configuration; raises LinkApiError if it has another."""
        stream = config.stream()
        await link.ask(STREAM_CREATE, str(stream["name"]), request=stream)
        return cls(link, await listed_stream(link, str(stream["name"])))

    @classmethod
    async def remove(cls, link: Link, bucket: str) -> None:
        """Delete a bucket with all its keys."""
        try:
            await link.ask(STREAM_DELETE, f"{STREAM_PREFIX}{check_bucket(bucket)}")
        except LinkApiError as error:
            if error.err is Err.STREAM_NOT_FOUND:
                raise NoSuchBucket(f"there is no bucket {bucket}") from None
            raise

    @staticmethod
    async def buckets(link: Link, offset: int = 0) -> tuple[list[BucketStatus], int]:
        """Return a page of the buckets, and the offset of the next page, 0 if it was the last."""
        page = await stream_page(link, offset=offset, subject="$KV.>")
        streams = page.streams or []
        found = [status_of(each) for each in streams if each.config.name.startswith(STREAM_PREFIX)]
        following = offset + len(streams)
        return found, following if streams and following < page.total else 0

    async def status(self) -> BucketStatus:
        """Return the bucket's present configuration and size."""
        return status_of(await listed_stream(self.link, self.stream))

    # -- reading ------------------------------------------------------------------------------------

    async def entry(self, key: str, revision: int = 0) -> KvEntry | None:
        """Return a revision of a key, by default the last one, deletions included; None if there is none."""
        subject = f"{self._prefix}{check_key(key)}"
        if revision:
            stored = await message_at(self.link, self.stream, revision)
        else:
            stored = await last_message(self.link, self.stream, subject)
        if stored is None or stored.subject != subject:
            return None
        return entry_of(stored, self._prefix)

    async def get(self, key: str, revision: int = 0) -> KvEntry | None:
        """Return the entry of a key's value; None if it has none, or had none at that revision."""
        found = await self.entry(key, revision)
        return found if found is not None and found.exists else None

    async def history(self, key: str, limit: int = _MOST_REVISIONS) -> list[KvEntry]:
        """Return the revisions of a key that the bucket still has, the oldest first."""
        subject = f"{self._prefix}{check_key(key)}"
        found: list[KvEntry] = []
        following = 1
        while len(found) < limit:
            stored = await next_message(self.link, self.stream, following, subject)
            if stored is None:
                break
            found.append(entry_of(stored, self._prefix))
            following = stored.seq + 1
        return found

    async def keys(self, prefix: str = "", *, after: int = 0, limit: int = 1000) -> KeyPage:
        """Return keys that begin with `prefix`, by the revision of their last change."""
        return await read_keys(
            self.link, self.stream, self._prefix, prefix, after=after, limit=limit,
            history=self.info.config.max_msgs_per_subject != 1,
        )  # fmt: skip

    def watch(
        self,
        *patterns: str,
        after: int | None = None,
        history: bool = False,
        new_only: bool = False,
        headers_only: bool = False,
        buffer_bytes: int = 4 * 1024 * 1024,
    ) -> "Watch":
        """Return a watch of the keys that match; without patterns, of all keys.

        It begins with the last revision of each key.  With `history` it begins with all revisions, with
        `new_only` with none, with `after` behind that revision.
        """
        start = StartAt.LAST_PER_SUBJECT
        if after is not None:
            start = StartAt.by_sequence(after + 1)
        elif new_only:
            start = StartAt.NEW
        elif history:
            start = StartAt.FIRST
        subjects = [f"{self._prefix}{check_pattern(pattern)}" for pattern in patterns or (">",)]
        consumer = Client(self.link).ordered(
            self.stream,
            subjects=subjects,
            start=start,
            headers_only=headers_only,
            heartbeat_s=2.0,
            buffer_messages=4096,
            buffer_bytes=buffer_bytes,
        )
        return Watch(consumer, self._prefix)

    # -- writing ------------------------------------------------------------------------------------

    async def put(
        self,
        key: str,
        value: bytes,
        *,
        expected: int | None = None,
        ttl_s: float | None = None,
        headers: Pairs | None = None,
    ) -> int:
        """Store a value and return its revision.

        With `expected`, raises KeyChanged unless the key is at that revision; 0 means that it does not exist.
        The server removes the value after `ttl_s`.
        """
        pairs = [*(headers or []), *_ttl(ttl_s)]
        try:
            return await self._write(key, value, pairs, expected)
        except KeyChanged:
            if expected != 0:
                raise
            last = await self.entry(key)
            if last is None or last.exists:
                raise
            return await self._write(
                key, value, pairs, last.revision
            )  # the key was deleted, and the deletion has a revision

    async def delete(self, key: str, *, expected: int | None = None) -> int:
        """Mark a key as deleted and return the revision of the mark; older revisions stay in the history."""
        return await self._write(key, b"", [(wire.KV_OPERATION, wire.KV_OPERATION_DELETE)], expected)

    async def purge(self, key: str, *, expected: int | None = None, ttl_s: float | None = None) -> int:
        """Delete a key with its revisions; return the revision of the mark, which expires after `ttl_s`."""
        pairs = [(wire.KV_OPERATION, wire.KV_OPERATION_PURGE), (wire.ROLLUP, wire.ROLLUP_SUBJECT)]
        return await self._write(key, b"", [*pairs, *_ttl(ttl_s)], expected)

    async def _write(self, key: str, value: bytes, pairs: Pairs, expected: int | None) -> int:
        subject = f"{self._put_prefix}{check_key(key)}"
        if expected is not None:
            pairs = [*pairs, (wire.EXPECTED_LAST_SUBJECT_SEQUENCE, str(expected))]
        try:
            return read_ack((await self.link.request(subject, value, pairs)).payload).seq
        except NoResponders:
            raise NoSuchBucket(f"no stream takes the keys of the bucket {self.bucket}") from None
        except LinkApiError as error:
            if error.err in _CHANGED:
                raise KeyChanged(
                    f"the key {key} is not at revision {expected}: {error.description}"
                ) from None
            raise


class Watch:
    """The changes of a bucket as they come; use it with ``async with``, then iterate or call `take`."""

    def __init__(self, consumer: OrderedConsumer, prefix: str) -> None:
        self._consumer = consumer
        self._prefix = prefix
        self.caught_up = False  # True once all revisions that existed at the start were handed out

    async def open(self) -> None:
        """Start the watch; raises the errors of `client`."""
        await self._consumer.open()
        state = self._consumer.state
        self.caught_up = not state.pending and not state.buffered

    async def close(self) -> None:
        await self._consumer.close()

    async def take(self, limit: int = 256) -> list[KvEntry]:
        """Return one to `limit` changes, waiting only for the first; none if the watch is closed."""
        entries = [self._entry(message) for message in await self._consumer.take(limit)]
        if entries and not entries[-1].pending:
            self.caught_up = True
        return entries

    def _entry(self, message: OrderedMessage) -> KvEntry:
        stored = Stored(
            message.subject,
            message.stream_seq,
            Time(message.timestamp_ns),
            list(message.headers.items()),
            message.data,
        )
        return entry_of(stored, self._prefix, message.pending)

    async def __aiter__(self) -> AsyncIterator[KvEntry]:
        while entries := await self.take():
            for entry in entries:
                yield entry

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


def _ttl(seconds: float | None) -> Pairs:
    """Return the header for a time to live: servers accept whole seconds, at least one."""
    if seconds is None:
        return []
    if not 1 <= seconds <= 10**9:
        raise BadKey(f"a time to live has at least one second, not {seconds:g}")
    return [(wire.TTL, f"{int(seconds)}s")]
