"""Key-value buckets and object stores on any NATS server, compatible with other NATS clients.

kv = await KeyValue.open(link, "users")
revision = await kv.put("alice", b"1")
entry = await kv.get("alice")                       # a KvEntry, or None
page = await kv.keys(prefix="al", limit=100)        # then after=page.next
async with kv.watch() as changes:
    async for entry in changes: …

store = await ObjectStore.open(link, "files")
info = await store.put("report.pdf", chunks)        # any async iterator of bytes
async for piece in store.read(info, start=0): …
"""

from millstream.buckets.errors import (
    BadBucket,
    BadKey,
    BucketError,
    DigestMismatch,
    KeyChanged,
    NoSuchBucket,
    NoSuchObject,
)
from millstream.buckets.kv import BucketStatus, KeyPage, KeyValue, KvConfig, KvEntry, KvOperation
from millstream.buckets.object_info import ObjectInfo, ObjectLink
from millstream.buckets.objects import ObjectPage, ObjectStore, ObjectStoreConfig, StoreStatus

__all__ = [
    "BadBucket",
    "BadKey",
    "BucketError",
    "BucketStatus",
    "DigestMismatch",
    "KeyChanged",
    "KeyPage",
    "KeyValue",
    "KvConfig",
    "KvEntry",
    "KvOperation",
    "NoSuchBucket",
    "NoSuchObject",
    "ObjectInfo",
    "ObjectLink",
    "ObjectPage",
    "ObjectStore",
    "ObjectStoreConfig",
    "StoreStatus",
]
