"""An object store: objects of any size, written and read in pieces.

An object becomes visible with its description, after all its chunks are stored.  An interrupted write leaves
no description, and its chunks are purged.  A writer that replaces an object names the description that it
replaces, so of two concurrent writers each removes the chunks of its predecessor.
"""

import asyncio
import contextlib
import hashlib
import logging
from collections import deque
from collections.abc import AsyncIterable, AsyncIterator, Callable
from typing import Any, Final, Self

import msgspec

from millstream.base.ids import nuid
from millstream.buckets.errors import BucketError, DigestMismatch, NoSuchBucket, NoSuchObject
from millstream.buckets.kv_types import check_bucket
from millstream.buckets.object_info import (
    CHUNK_SIZE,
    STREAM_PREFIX,
    BadMeta,
    ObjectInfo,
    ObjectLink,
    ObjectOptions,
    ObjectStoreConfig,
    StoreStatus,
    digest_text,
    meta_token,
    read_info,
    store_status,
    write_info,
)
from millstream.buckets.object_reads import read_object
from millstream.buckets.pages import read_page
from millstream.jsapi import headers as wire
from millstream.jsapi.errors import Err
from millstream.link.errors import LinkApiError, LinkError, NotConnected
from millstream.link.link import Link
from millstream.link.listing import ListedStream, listed_stream, stream_page
from millstream.link.publish_window import Receipts, read_ack
from millstream.link.publisher import Publisher
from millstream.link.stored import last_message
from millstream.link.verbs import STREAM_CREATE, STREAM_DELETE

__all__ = ["ObjectPage", "ObjectStore", "ObjectStoreConfig", "StoreStatus"]

_LOG: Final = logging.getLogger("millstream.buckets")
_AHEAD_BYTES: Final = 2 * 1024 * 1024  # of chunks that the server has not acknowledged yet
_CHANGED: Final = (Err.WRONG_LAST_SEQUENCE, Err.WRONG_LAST_SEQUENCE_UNKNOWN)
_ATTEMPTS: Final = 8  # to replace a description that other writers replace, too
_PAGE_BYTES: Final = 4 * 1024 * 1024
_MOST_LINKS: Final = 8
_CLEAN_UP_S: Final = 60.0  # seconds that a purge waits for a lost connection

Condition = Callable[[ObjectInfo | None], None]
_cleaning: Final[set[asyncio.Task[None]]] = set()


class ObjectPage(msgspec.Struct, frozen=True):
    """Objects by the time of their last change; `next` is `after` of the next page, 0 after the last."""

    objects: list[ObjectInfo]
    next: int


class ObjectStore:
    """An open object store; `info` is the state of its stream at the time of opening."""

    def __init__(self, link: Link, info: ListedStream) -> None:
        self.link: Final = link
        self.info: Final = info
        self.stream: Final = info.config.name
        self.bucket: Final = info.config.name.removeprefix(STREAM_PREFIX)

    # -- stores -------------------------------------------------------------------------------------

    @classmethod
    async def open(cls, link: Link, bucket: str) -> Self:
        """Return the store of that name; raises NoSuchBucket if there is none."""
        try:
            return cls(link, await listed_stream(link, f"{STREAM_PREFIX}{check_bucket(bucket)}"))
        except LinkApiError as error:
            raise _no_bucket(error, bucket) from None

    @classmethod
    async def create(cls, link: Link, config: ObjectStoreConfig) -> Self:
        """Create a store, or open one with this configuration; raises LinkApiError if it has another."""
        stream = config.stream()
        await link.ask(STREAM_CREATE, str(stream["name"]), request=stream)
        return cls(link, await listed_stream(link, str(stream["name"])))

    @classmethod
    async def remove(cls, link: Link, bucket: str) -> None:
        """Delete a store with all its objects."""
        try:
            await link.ask(STREAM_DELETE, f"{STREAM_PREFIX}{check_bucket(bucket)}")
        except LinkApiError as error:
            raise _no_bucket(error, bucket) from None

    @staticmethod
    async def stores(link: Link, offset: int = 0) -> tuple[list[StoreStatus], int]:
        """Return a page of the stores, and the offset of the next page, 0 if it was the last."""
        page = await stream_page(link, offset=offset, subject="$O.>")
        streams = page.streams or []
        found = [store_status(each) for each in streams if each.config.name.startswith(STREAM_PREFIX)]
        following = offset + len(streams)
        return found, following if streams and following < page.total else 0

    async def status(self) -> StoreStatus:
        """Return the store's present configuration and size."""
        return store_status(await listed_stream(self.link, self.stream))

    async def seal(self) -> StoreStatus:
        """Make the store read-only; this cannot be undone."""
        told = await self.link.api(f"STREAM.INFO.{self.stream}")
        await self.link.api(f"STREAM.UPDATE.{self.stream}", {**told["config"], "sealed": True})
        return await self.status()

    # -- reading ------------------------------------------------------------------------------------

    async def find(self, name: str, *, deleted: bool = False) -> ObjectInfo | None:
        """Return the description of an object or link; None if there is none."""
        info, _ = await self._present(name)
        return info if info is not None and (deleted or not info.deleted) else None

    async def get(self, name: str) -> ObjectInfo:
        """Return the description of an object; raises NoSuchObject if there is none."""
        info = await self.find(name)
        if info is None:
            raise NoSuchObject(f"there is no object {name!r} in {self.bucket}")
        return info

    async def resolve(self, name: str) -> "tuple[ObjectStore, ObjectInfo]":
        """Follow links from an object to one that has bytes; raises NoSuchObject if there is none."""
        store, info = self, await self.get(name)
        for _ in range(_MOST_LINKS):
            link = info.link
            if link is None:
                return store, info
            if not link.name:
                raise NoSuchObject(f"{name!r} leads to the whole store {link.bucket}, not to an object")
            if link.bucket != store.bucket:
                store = await ObjectStore.open(self.link, link.bucket)
            info = await store.get(link.name)
        raise NoSuchObject(f"{name!r} leads to a link to a link, and so on: more than {_MOST_LINKS}")

    async def page(self, *, after: int = 0, limit: int = 1000) -> ObjectPage:
        """Return objects after position `after`; a page with fewer than `limit` may have a next one, too."""
        page = await read_page(
            self.link,
            self.stream,
            f"$O.{self.bucket}.M.>",
            start=after + 1,
            limit=limit,
            max_bytes=max(_PAGE_BYTES, self.link.max_payload + 4096),
        )
        objects: list[ObjectInfo] = []
        for stored in page.messages:
            with contextlib.suppress(BadMeta):
                info = read_info(stored)
                if not info.deleted:
                    objects.append(info)
        return ObjectPage(objects, page.messages[-1].seq if page.messages and page.pending else 0)

    def read(self, info: ObjectInfo, *, start: int = 0, length: int | None = None) -> AsyncIterator[bytes]:
        """Yield an object's bytes, or a part of them; raises DigestMismatch if they were altered."""
        return read_object(self.link, self.stream, info, start, length)

    # -- writing ------------------------------------------------------------------------------------

    async def put(
        self,
        name: str,
        pieces: AsyncIterable[bytes],
        *,
        description: str = "",
        headers: dict[str, list[str]] | None = None,
        metadata: dict[str, str] | None = None,
        chunk_size: int = CHUNK_SIZE,
        digest: bytes = b"",
        condition: Condition | None = None,
    ) -> ObjectInfo:
        """Store an object, replacing one of that name, and return its description.

        `condition` is called with the present description, or None, and raises to refuse the replacement.  It
        holds at the moment of the replacement.
        """
        meta_token(name)
        if condition is not None:
            condition(await self.find(name))
        number = nuid()
        size = min(max(chunk_size, 1), max(self.link.max_payload - 4096, 1))
        try:
            total, count, found = await self._store_chunks(f"$O.{self.bucket}.C.{number}", pieces, size)
            if digest and found != digest:
                raise DigestMismatch(f"the bytes of {name!r} have another SHA-256 than was announced")
            info = ObjectInfo(
                name=name,
                bucket=self.bucket,
                nuid=number,
                size=total,
                chunks=count,
                digest=digest_text(found),
                description=description,
                headers=headers or {},
                metadata=metadata or {},
                options=ObjectOptions(max_chunk_size=size),
            )
            return await self._describe(info, condition)
        except BaseException as error:
            self._clean_up(name, number, certain=isinstance(error, BucketError | LinkApiError))
            raise

    async def _store_chunks(
        self, subject: str, pieces: AsyncIterable[bytes], size: int
    ) -> tuple[int, int, bytes]:
        """Store the chunks; return their total bytes, their number and their digest."""
        publisher = Publisher(self.link)
        window: deque[asyncio.Future[Receipts]] = deque()
        most = max(_AHEAD_BYTES // size, 1)
        digest = hashlib.sha256()
        total = count = 0
        try:
            async for chunk in _chunks(pieces, size):
                digest.update(chunk)
                total += len(chunk)
                count += 1
                window.append(await publisher.submit([(subject.encode(), b"", chunk)]))
                while len(window) >= most:
                    (await window.popleft()).ack(0)
            while window:
                (await window.popleft()).ack(0)
        finally:
            publisher.close()
        return total, count, digest.digest()

    async def link_to(self, name: str, target: ObjectLink, condition: Condition | None = None) -> ObjectInfo:
        """Store a link to an object or to a whole store; links to links are refused."""
        store = self if target.bucket == self.bucket else await ObjectStore.open(self.link, target.bucket)
        if target.name and (await store.get(target.name)).link is not None:
            raise BucketError(f"{target.name!r} is a link itself")
        info = ObjectInfo(name=name, bucket=self.bucket, nuid=nuid(), options=ObjectOptions(link=target))

        def checked(present: ObjectInfo | None) -> None:
            if present is not None and present.link is None:
                raise BucketError(f"{name!r} is an object; delete it before a link takes its name")
            if condition is not None:
                condition(present)

        return await self._describe(info, checked)

    async def delete(self, name: str, condition: Condition | None = None) -> None:
        """Delete an object; raises NoSuchObject if there is none."""
        present = await self.get(name)
        gone = msgspec.structs.replace(present, deleted=True, size=0, chunks=0, digest="", mtime="")

        def checked(found: ObjectInfo | None) -> None:
            if found is None:
                raise NoSuchObject(f"there is no object {name!r} in {self.bucket}")
            if condition is not None:
                condition(found)

        await self._describe(gone, checked)
        await self._purge(present.nuid)

    async def _present(self, name: str) -> tuple[ObjectInfo | None, int]:
        """Return the present description, deleted objects included, and its sequence."""
        stored = await last_message(self.link, self.stream, f"$O.{self.bucket}.M.{meta_token(name)}")
        return (read_info(stored), stored.seq) if stored is not None else (None, 0)

    async def _describe(self, info: ObjectInfo, condition: Condition | None) -> ObjectInfo:
        """Replace the present description, then purge the chunks of the old one."""
        subject = f"$O.{self.bucket}.M.{meta_token(info.name)}"
        for attempt in range(_ATTEMPTS):
            present, seq = await self._present(info.name)
            if condition is not None:
                condition(present if present is not None and not present.deleted else None)
            pairs = [
                (wire.ROLLUP, wire.ROLLUP_SUBJECT),
                (wire.EXPECTED_LAST_SUBJECT_SEQUENCE, str(seq)),
            ]
            try:
                read_ack((await self.link.request(subject, write_info(info), pairs)).payload)
            except LinkApiError as error:
                if error.err in _CHANGED and attempt + 1 < _ATTEMPTS:
                    continue
                raise
            if present is not None and present.nuid and present.nuid != info.nuid and not present.deleted:
                await self._purge(present.nuid)
            return (await self.find(info.name, deleted=True)) or info
        raise AssertionError("the loop ends with a return or an error")

    # -- chunks that nobody needs -------------------------------------------------------------------

    async def _purge(self, number: str) -> None:
        request: dict[str, Any] = {"filter": f"$O.{self.bucket}.C.{number}"}
        await self.link.api(f"STREAM.PURGE.{self.stream}", request)

    def _clean_up(self, name: str, number: str, *, certain: bool) -> None:
        """Purge the chunks of an unfinished object, even if the caller is cancelled."""
        task = asyncio.get_running_loop().create_task(self._removed(name, number, certain))
        _cleaning.add(task)
        task.add_done_callback(_cleaning.discard)

    async def _removed(self, name: str, number: str, certain: bool) -> None:
        loop = asyncio.get_running_loop()
        give_up = loop.time() + _CLEAN_UP_S
        while loop.time() < give_up:
            try:
                if not certain:  # the description may be stored, and only the answer lost
                    present, _ = await self._present(name)
                    if present is not None and present.nuid == number and not present.deleted:
                        return
                await self._purge(number)
                return
            except NotConnected:
                if self.link.is_closed:
                    break
                await self.link.until_up(give_up)
            except (LinkError, BucketError) as error:
                _LOG.warning("chunks of %r in %s stay behind: %s", name, self.bucket, error)
                return
        _LOG.warning("chunks of %r in %s stay behind: there is no connection", name, self.bucket)


async def cleaned_up() -> None:
    """Wait until all purges of unfinished objects have ended."""
    while _cleaning:
        await asyncio.wait(list(_cleaning))


async def _chunks(pieces: AsyncIterable[bytes], size: int) -> AsyncIterator[bytes]:
    """Yield the bytes of `pieces` in chunks of `size`; the last one may be shorter."""
    held = bytearray()
    async for piece in pieces:
        held += piece
        start = 0
        while len(held) - start >= size:
            yield bytes(held[start : start + size])
            start += size
        del held[:start]
    if held:
        yield bytes(held)


def _no_bucket(error: LinkApiError, bucket: str) -> Exception:
    if error.err is Err.STREAM_NOT_FOUND:
        return NoSuchBucket(f"there is no object store {bucket}")
    return error
