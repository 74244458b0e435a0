"""Shared by the tests of buckets: what an entry says, and reading a watcher to a point."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

from nats.js.kv import KeyValue
from nats.js.object_store import ObjectStore

from tests.kits.patience import PATIENCE_S

MakeKeyValue = Callable[..., Awaitable[KeyValue]]
MakeObjects = Callable[..., Awaitable[ObjectStore]]


def told(entry: KeyValue.Entry) -> tuple[str, str, bytes, int | None]:
    """Key, operation, value and revision."""
    return entry.key, entry.operation or "PUT", entry.value or b"", entry.revision


async def heard(watcher: Any, count: int) -> list[Any]:
    """The next `count` things that a watcher tells; None is the end of what was there at its start."""
    return [await watcher.updates(timeout=PATIENCE_S) for _ in range(count)]


async def until_stored(bucket: Any, count: int) -> None:
    """Ask until the bucket has no more than `count` messages: nobody tells when something expires."""
    deadline = time.monotonic() + PATIENCE_S
    while (await bucket.status()).stream_info.state.messages > count:
        assert time.monotonic() < deadline, f"more than {count} messages are left"
        await asyncio.sleep(0.02)
