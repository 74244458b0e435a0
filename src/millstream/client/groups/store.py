"""The buckets with the configurations of groups: a key ``<stream>.<group>`` for each.

A bucket is a stream, `KV_static-consumer-groups` or `KV_elastic-consumer-groups`, made with the first group.
Of two programs that edit a configuration at the same time, one gets GroupChanged.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final, NamedTuple

import msgspec

from millstream.client.api import Api
from millstream.client.config import StartAt, ordered_config
from millstream.client.errors import GroupChanged, GroupNotFound, NoStream, RequestRefused, StreamNotFound
from millstream.client.ordered import OrderedConsumer
from millstream.jsapi import headers as wire
from millstream.jsapi.codec import encode
from millstream.jsapi.errors import Err
from millstream.jsapi.names import API_PREFIX
from millstream.jsapi.requests import MsgGetRequest
from millstream.link.verbs import STREAM_CREATE, STREAM_MSG_GET
from millstream.protocol.headers import read_pairs

_BUFFER_MESSAGES: Final = 4096
_BUFFER_BYTES: Final = 4 * 1024 * 1024
_HEARTBEAT_S: Final = 2.0
_CHANGED: Final = (Err.WRONG_LAST_SEQUENCE, Err.WRONG_LAST_SEQUENCE_UNKNOWN)


class StoredConfig(NamedTuple):
    """A revision of a configuration."""

    stream: str
    group: str
    text: bytes
    revision: int
    deleted: bool


class ConfigStore:
    """The bucket of one kind of groups."""

    def __init__(self, api: Api, bucket: str) -> None:
        self._api = api
        self._bucket: Final = bucket
        self._stream: Final = f"KV_{bucket}"
        self._prefix: Final = f"$KV.{bucket}."
        # Another domain is reached through the prefix of its API.
        self._put_prefix = self._prefix if api.prefix == API_PREFIX else f"{api.prefix}.{self._prefix}"

    async def create(self, replicas: int) -> None:
        """Create the bucket unless it exists."""
        try:
            await self._api.stream_info(self._stream)
        except StreamNotFound:
            config: dict[str, Any] = {
                "name": self._stream,
                "subjects": [f"{self._prefix}>"],
                "max_msgs_per_subject": 1,
                "max_msgs": -1,
                "max_consumers": -1,
                "max_bytes": -1,
                "max_msg_size": -1,
                "duplicate_window": 120_000_000_000,
                "storage": "file",
                "num_replicas": replicas,
                "discard": "new",
                "allow_rollup_hdrs": True,
                "deny_delete": True,
                "allow_direct": True,
            }
            try:
                await self._api.ask(STREAM_CREATE, self._stream, body=msgspec.json.encode(config))
            except RequestRefused as error:
                if error.err is not Err.STREAM_NAME_IN_USE:  # another program has just made it
                    raise

    async def last(self, stream: str, group: str) -> StoredConfig | None:
        """Return the last revision, deletions included; None if there is none, or no bucket."""
        request = MsgGetRequest(last_by_subj=f"{self._prefix}{stream}.{group}")
        try:
            found = (await self._api.ask(STREAM_MSG_GET, self._stream, body=encode(request))).message
        except StreamNotFound:
            return None
        except RequestRefused as error:
            if error.err is Err.NO_MESSAGE_FOUND:
                return None
            raise
        if found is None:
            return None
        headers = dict(read_pairs(found.hdrs)) if found.hdrs else {}
        return StoredConfig(stream, group, found.data, found.seq, _is_deletion(headers))

    async def get(self, stream: str, group: str) -> StoredConfig:
        """Return the configuration; raises GroupNotFound."""
        found = await self.last(stream, group)
        if found is None or found.deleted:
            raise GroupNotFound(f"there is no group {group} on stream {stream}")
        return found

    async def put(self, stream: str, group: str, text: bytes, expected: int) -> int:
        """Store a configuration that follows revision `expected`; raises GroupChanged if another one does."""
        return await self._write(stream, group, text, {}, expected)

    async def delete(self, stream: str, group: str) -> None:
        """Mark the configuration as deleted."""
        await self._write(stream, group, b"", {wire.KV_OPERATION: wire.KV_OPERATION_DELETE}, None)

    async def _write(
        self, stream: str, group: str, text: bytes, headers: dict[str, str], expected: int | None
    ) -> int:
        if expected is not None:
            headers = {**headers, wire.EXPECTED_LAST_SUBJECT_SEQUENCE: str(expected)}
        try:
            return await self._api.publish(f"{self._put_prefix}{stream}.{group}", text, headers or None)
        except NoStream:
            raise GroupNotFound(f"there is no bucket {self._bucket}, so there are no groups") from None
        except RequestRefused as error:
            if error.err in _CHANGED:
                raise GroupChanged(
                    f"another program has just changed the group {group} of stream {stream}; look at it, and "
                    "try again"
                ) from None
            raise

    async def groups(self, stream: str = "") -> list[StoredConfig]:
        """Return the configurations of all groups, or of those of one stream."""
        found: list[StoredConfig] = []
        try:
            async with self._reading(f"{stream or '*'}.*", StartAt.LAST_PER_SUBJECT) as reading:
                state = reading.state
                waiting = state.pending or state.buffered
                while waiting:
                    message = await reading.next()
                    found.append(
                        self._entry(message.subject, message.data, message.headers, message.stream_seq)
                    )
                    waiting = message.pending
        except StreamNotFound:
            return []
        return [each for each in found if not each.deleted]

    async def changes(self, stream: str, group: str, after: int) -> AsyncGenerator[StoredConfig, None]:
        """Yield the revisions of a configuration after `after` as they come."""
        async with self._reading(f"{stream}.{group}", StartAt.by_sequence(after + 1)) as reading:
            async for message in reading:
                yield self._entry(message.subject, message.data, message.headers, message.stream_seq)

    @asynccontextmanager
    async def _reading(self, keys: str, start: StartAt) -> AsyncIterator[OrderedConsumer]:
        config = ordered_config(subjects=f"{self._prefix}{keys}", start=start, heartbeat_s=_HEARTBEAT_S)
        async with OrderedConsumer(
            self._api, self._stream, config, buffer_messages=_BUFFER_MESSAGES, buffer_bytes=_BUFFER_BYTES
        ) as reading:
            yield reading

    def _entry(self, subject: str, text: bytes, headers: Any, revision: int) -> StoredConfig:
        stream, _, group = subject.removeprefix(self._prefix).partition(".")
        return StoredConfig(stream, group, text, revision, _is_deletion(headers))


def _is_deletion(headers: Any) -> bool:
    return wire.KV_OPERATION in headers or wire.MARKER_REASON in headers
