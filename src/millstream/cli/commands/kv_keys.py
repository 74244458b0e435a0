"""The commands of `millstream kv` for keys: read, write, list, watch."""

from __future__ import annotations

from typing import Annotated, Any, Final

import typer

from millstream.buckets.errors import KeyChanged
from millstream.buckets.kv import KeyValue
from millstream.buckets.kv_types import KvEntry
from millstream.cli.commands.buckets import bucket_link
from millstream.cli.commands.pub import BodyFile, read_body
from millstream.cli.completion import BucketName
from millstream.cli.connection import talks_to_a_server
from millstream.cli.endings import CONFLICT, NOT_FOUND, NOTHING, Ending
from millstream.cli.output.confirmation import ForceOption, confirm
from millstream.cli.output.readings import read_duration
from millstream.cli.output.tables import CommandOutput, JsonOption, RawOption, check_raw
from millstream.cli.output.texts import (
    header_fields,
    payload_fields,
    payload_text,
    safe,
    time_text,
)
from millstream.cli.session import run
from millstream.golang.time import format_time
from millstream.link.options import LinkOptions

_PREFIX: Final = "KV_"
_PAGE: Final = 1000
_SECOND: Final = 1_000_000_000

Key = Annotated[str, typer.Argument(metavar="KEY", help="The key.", show_default=False)]
Value = Annotated[
    str | None,
    typer.Argument(
        metavar="VALUE", help="The value; without it, or with -, standard input.", show_default=False
    ),
]
Expected = Annotated[
    int | None, typer.Option("--revision", metavar="NUMBER", help="Only if the key is at this revision.")
]
Ttl = Annotated[str, typer.Option("--ttl", metavar="TIME", help="The server removes it after this time.")]


@talks_to_a_server
def get(
    *,
    server: LinkOptions,
    bucket: BucketName,
    key: Key,
    revision: Annotated[int, typer.Option(metavar="NUMBER", min=0, help="Revision to show.")] = 0,
    raw: RawOption = False,
    json: JsonOption = False,
) -> None:
    """Show the value of a key. Ends with 3 if it has none.

    \b
    Examples:
      millstream kv get users alice
      millstream kv get users alice --raw > alice.bin
      millstream kv get users alice --json | jq .revision
    """
    check_raw(raw, json)

    async def work() -> None:
        output = CommandOutput(json=json)
        async with bucket_link(server, "millstream kv get", _PREFIX, bucket) as link:
            found = await (await KeyValue.open(link, bucket)).get(key, revision)
        if found is None:
            at = f" at revision {revision}" if revision else ""
            raise Ending(f"bucket {bucket} has no key {key}{at}", NOT_FOUND)
        if raw:
            output.raw(found.value)
        elif json:
            output.document(entry_document(bucket, found))
        else:
            output.line(payload_text(found.value), escape=False)

    run(work())


def entry_document(bucket: str, entry: KvEntry) -> dict[str, Any]:
    """Return an entry for JSON, in the shape of the gateway's API."""
    document: dict[str, Any] = {
        "bucket": bucket,
        "key": entry.key,
        "revision": entry.revision,
        "time": format_time(entry.created),
        "operation": str(entry.operation),
    }
    if entry.headers:
        document["headers"] = header_fields(entry.headers)
    return document | (payload_fields(entry.value) if entry.exists else {})


def _write(
    server: LinkOptions, bucket: str, key: str, value: bytes, expected: int | None, ttl: str, json: bool
) -> None:
    """Store a value, and print its revision."""
    ttl_s = read_duration(ttl, "--ttl") / _SECOND if ttl else None

    async def work() -> None:
        async with bucket_link(server, "millstream kv put", _PREFIX, bucket) as link:
            store = await KeyValue.open(link, bucket)
            try:
                revision = await store.put(key, value, expected=expected, ttl_s=ttl_s)
            except KeyChanged:
                if expected == 0:
                    raise Ending(f"bucket {bucket} has a key {key} already", CONFLICT) from None
                raise
        document = {"bucket": bucket, "key": key, "revision": revision}
        CommandOutput(json=json).done(document, f"{key} is at revision {revision}")

    run(work())


@talks_to_a_server
def put(
    *, server: LinkOptions, bucket: BucketName, key: Key, value: Value = None, file: BodyFile = None,
    ttl: Ttl = "", json: JsonOption = False,
) -> None:  # fmt: skip
    """Store a value, whatever was there before.

    \b
    Examples:
      millstream kv put users alice '{"age": 42}'
      millstream kv put users photo --file photo.jpg --ttl 1d
    """
    _write(server, bucket, key, read_body(value, file), None, ttl, json)


@talks_to_a_server
def create(
    *, server: LinkOptions, bucket: BucketName, key: Key, value: Value = None, file: BodyFile = None,
    ttl: Ttl = "", json: JsonOption = False,
) -> None:  # fmt: skip
    """Store a value if the key does not exist. Ends with 6 if it does.

    \b
    Examples:
      millstream kv create locks nightly "$HOSTNAME" --ttl 10m
    """
    _write(server, bucket, key, read_body(value, file), 0, ttl, json)


@talks_to_a_server
def update(
    *, server: LinkOptions, bucket: BucketName, key: Key,
    value: Annotated[str, typer.Argument(metavar="VALUE", help="The value; - is standard input.")],
    revision: Annotated[int, typer.Argument(metavar="REVISION", min=0, help="Expected revision.")],
    ttl: Ttl = "", json: JsonOption = False,
) -> None:  # fmt: skip
    """Store a value if nobody has changed the key since a revision. Ends with 6 if somebody has.

    \b
    Examples:
      millstream kv update users alice '{"age": 43}' 17
    """
    _write(server, bucket, key, read_body(value, None), revision, ttl, json)


@talks_to_a_server
def delete(
    *, server: LinkOptions, bucket: BucketName, key: Key,
    revision: Expected = None,
    force: ForceOption = False, json: JsonOption = False,
) -> None:  # fmt: skip
    """Delete a key; its history stays.

    The bucket keeps as many older revisions as its configuration says.

    \b
    Examples:
      millstream kv del users alice
    """
    _remove(server, bucket, key, revision, purge=False, force=force, json=json)


@talks_to_a_server
def purge(
    *, server: LinkOptions, bucket: BucketName, key: Key,
    revision: Expected = None,
    force: ForceOption = False, json: JsonOption = False,
) -> None:  # fmt: skip
    """Delete a key with its history.

    \b
    Examples:
      millstream kv purge users alice
    """
    _remove(server, bucket, key, revision, purge=True, force=force, json=json)


def _remove(
    server: LinkOptions, bucket: str, key: str, revision: int | None, *, purge: bool, force: bool, json: bool
) -> None:
    async def work() -> None:
        async with bucket_link(server, "millstream kv del", _PREFIX, bucket) as link:
            store = await KeyValue.open(link, bucket)
            present = await store.entry(key)
            if present is None or not (present.exists or purge):
                raise Ending(f"bucket {bucket} has no key {key}", NOT_FOUND)
            confirm(f"{'purge' if purge else 'delete'} {key} in bucket {bucket}", force=force)
            remove = store.purge if purge else store.delete
            at = await remove(key, expected=revision)
        text = f"{key} is {'purged' if purge else 'deleted'}"
        CommandOutput(json=json).done({"bucket": bucket, "key": key, "revision": at}, text)

    run(work())


@talks_to_a_server
def history(*, server: LinkOptions, bucket: BucketName, key: Key, json: JsonOption = False) -> None:
    """Show the revisions of a key that the bucket still has.

    \b
    Examples:
      millstream kv history users alice
    """

    async def work() -> None:
        async with bucket_link(server, "millstream kv history", _PREFIX, bucket) as link:
            found = await (await KeyValue.open(link, bucket)).history(key)
        if not found:
            raise Ending(f"bucket {bucket} has no key {key}", NOT_FOUND)
        rows = [
            [
                str(each.revision),
                time_text(format_time(each.created)),
                str(each.operation),
                payload_text(each.value, 60),
            ]
            for each in found
        ]
        documents = [entry_document(bucket, each) for each in found]
        CommandOutput(json=json).table(documents, ("#Revision", "Time", "Operation", "Value"), rows)

    run(work())


@talks_to_a_server
def keys(
    *, server: LinkOptions, bucket: BucketName,
    prefix: Annotated[str, typer.Argument(metavar="PREFIX", help="Only keys with this prefix.")] = "",
    limit: Annotated[int, typer.Option(metavar="NUMBER", min=0, help="Maximum number; 0 is all.")] = 0,
    after: Annotated[int, typer.Option(metavar="REVISION", min=0, help="Continue after this revision.")] = 0,
    json: JsonOption = False,
) -> None:  # fmt: skip
    """List keys, one in a line, by the time of their last change. Ends with 7 if there are none.

    Keys are printed as they come, page by page, so a million of them need no memory.

    \b
    Examples:
      millstream kv keys users
      millstream kv keys users eu. --limit 100
      millstream kv keys users --json | jq -r .key
    """

    run(print_keys(server, bucket, CommandOutput(json=json), prefix=prefix, limit=limit, after=after))


async def print_keys(
    server: LinkOptions,
    bucket: str,
    output: CommandOutput,
    *,
    prefix: str = "",
    limit: int = 0,
    after: int = 0,
) -> int:
    """Print keys page by page; returns the exit code."""
    count, at = 0, after
    async with bucket_link(server, "millstream kv keys", _PREFIX, bucket) as link:
        store = await KeyValue.open(link, bucket)
        while True:
            page = await store.keys(prefix, after=at, limit=min(_PAGE, limit - count) if limit else _PAGE)
            for each in page.entries:
                time = format_time(each.created)
                output.event({"key": each.key, "revision": each.revision, "time": time}, each.key)
            count, at = count + len(page.entries), page.next
            if not at:
                break
            if limit and count >= limit:
                output.note(f"more: --after {at}")
                break
    return 0 if count else NOTHING


@talks_to_a_server
def watch(
    *, server: LinkOptions, bucket: BucketName,
    patterns: Annotated[
        list[str] | None, typer.Argument(metavar="PATTERN", help="Keys, with * and >; by default all.")
    ] = None,
    history: Annotated[bool, typer.Option("--history", help="Begin with all revisions.")] = False,
    new: Annotated[bool, typer.Option("--new", help="Show only new changes.")] = False,
    after: Annotated[int | None, typer.Option(metavar="REVISION", help="Begin after this revision.")] = None,
    count: Annotated[int, typer.Option("--count", metavar="NUMBER", min=0, help="Maximum number.")] = 0,
    json: JsonOption = False,
) -> None:  # fmt: skip
    """Show changes of keys as they come, until Ctrl-C.

    Begins with the present values.

    \b
    Examples:
      millstream kv watch users
      millstream kv watch users 'eu.>' --new --json
    """

    async def work() -> None:
        output, shown = CommandOutput(json=json), 0
        async with bucket_link(server, "millstream kv watch", _PREFIX, bucket) as link:
            store = await KeyValue.open(link, bucket)
            watching = store.watch(*(patterns or ()), after=after, history=history, new_only=new)
            async with watching as changes:
                async for each in changes:
                    when = time_text(format_time(each.created))
                    value = f"  {payload_text(each.value, 1000)}" if each.exists else ""
                    text = f"[{each.revision}] {when} {each.operation} {safe(each.key)}{value}"
                    output.event(entry_document(bucket, each), text)
                    shown += 1
                    if count and shown >= count:
                        break

    run(work())
