"""`millstream obj`: buckets of objects of any size."""

from __future__ import annotations

from typing import Annotated, Final

import msgspec
import typer

from millstream.base.words import counted
from millstream.buckets.object_info import ObjectLink, ObjectStoreConfig, StoreStatus, read_info
from millstream.buckets.objects import ObjectStore
from millstream.cli.commands.buckets import bucket_config, bucket_link
from millstream.cli.commands.obj_transfer import ObjectName, get, put
from millstream.cli.completion import StoreName, store_names
from millstream.cli.connection import talks_to_a_server
from millstream.cli.endings import NOTHING
from millstream.cli.groups import CommandGroup
from millstream.cli.output.confirmation import ForceOption, confirm
from millstream.cli.output.tables import CommandOutput, JsonOption
from millstream.cli.output.texts import safe, size_text, time_text
from millstream.cli.session import run
from millstream.cli.settings import Changes, Setting, SettingForm, takes_settings
from millstream.client.client import Client
from millstream.client.config import StartAt
from millstream.golang.time import Time
from millstream.link.options import LinkOptions
from millstream.link.stored import Stored

app = CommandGroup("Buckets of objects of any size, as every NATS client has them.")

_PREFIX: Final = "OBJ_"
_SECOND: Final = 1_000_000_000
_SETTINGS: Final = (
    Setting("description", "--description", SettingForm.TEXT, "What the bucket is for."),
    Setting("ttl_s", "--ttl", SettingForm.DURATION, "Remove objects after this time."),
    Setting("max_bytes", "--max-bucket-size", SettingForm.SIZE, "Maximum size in bytes."),
    Setting(
        "storage",
        "--storage",
        SettingForm.CHOICE,
        "Storage: file or memory.",
        {"file": "file", "memory": "memory"},
    ),
    Setting("replicas", "--replicas", SettingForm.LIMIT, "Servers that keep a copy, in a cluster."),
    Setting("compression", "--compress", SettingForm.SWITCH, "Compress files."),
    Setting("metadata", "--metadata", SettingForm.PAIRS, "Notes for programs; several times."),
)


@app.command("add")
@takes_settings(_SETTINGS)
@talks_to_a_server
def add(*, server: LinkOptions, bucket: StoreName, changes: Changes, json: JsonOption = False) -> None:
    """Create a bucket of objects.

    \b
    Examples:
      millstream obj add files
      millstream obj add builds --ttl 30d --max-bucket-size 100GB
    """
    config = bucket_config(ObjectStoreConfig, bucket, changes, _SETTINGS)

    async def work() -> None:
        async with bucket_link(server, "millstream obj add", _PREFIX) as link:
            made = await (await ObjectStore.create(link, config)).status()
        CommandOutput(json=json).done(msgspec.to_builtins(made), f"bucket {bucket} is there")

    run(work())


@app.command("ls")
@talks_to_a_server
def ls(
    *,
    server: LinkOptions,
    bucket: Annotated[
        str,
        typer.Argument(metavar="BUCKET", help="Its objects; else all buckets.", autocompletion=store_names),
    ] = "",
    json: JsonOption = False,
) -> None:
    """List buckets, or the objects of one, as they come.

    \b
    Examples:
      millstream obj ls
      millstream obj ls files
      millstream obj ls files --json | jq -r .name
    """

    async def work() -> int:
        output = CommandOutput(json=json)
        async with bucket_link(server, "millstream obj ls", _PREFIX, bucket) as link:
            if bucket:
                return await _list_objects(output, await ObjectStore.open(link, bucket))
            found: list[StoreStatus] = []
            page, offset = await ObjectStore.stores(link)
            found += page
            while offset:
                page, offset = await ObjectStore.stores(link, offset)
                found += page
        rows = [
            [each.bucket, size_text(each.bytes), "sealed" if each.sealed else "", each.description]
            for each in sorted(found, key=lambda each: each.bucket)
        ]
        empty = "there are no buckets; make one with millstream obj add"
        output.table(
            msgspec.to_builtins(found), ("Bucket", "#Size", "Sealed", "Description"), rows, empty=empty
        )
        return 0

    run(work())


async def _list_objects(output: CommandOutput, store: ObjectStore) -> int:
    at = count = 0
    while True:
        page = await store.page(after=at)
        for each in page.objects:
            kind = f"link to {_target(each.link)}" if each.link else size_text(each.size)
            output.event(msgspec.to_builtins(each), f"{time_text(each.mtime)}  {kind:>12}  {safe(each.name)}")
        count, at = count + len(page.objects), page.next
        if not at:
            break
    if not count:
        output.note(f"bucket {store.bucket} has no objects")
    return 0 if count else NOTHING


def _target(link: ObjectLink) -> str:
    return f"{link.bucket}/{link.name}" if link.name else link.bucket


@app.command("info")
@talks_to_a_server
def info(*, server: LinkOptions, bucket: StoreName, name: ObjectName, json: JsonOption = False) -> None:
    """Show the description of an object.

    \b
    Examples:
      millstream obj info files report.pdf
    """

    async def work() -> None:
        async with bucket_link(server, "millstream obj info", _PREFIX, bucket) as link:
            found = await (await ObjectStore.open(link, bucket)).get(name)
        section = {
            "Size": f"{size_text(found.size)} in {counted(found.chunks, 'chunk')}",
            "Changed": time_text(found.mtime),
            "Digest": found.digest or "-",
        }
        if found.link:
            section = {"Link to": _target(found.link), "Changed": section["Changed"]}
        if found.description:
            section["Description"] = found.description
        section |= {f"Header {key}": ", ".join(values) for key, values in found.headers.items()}
        section |= {f"Metadata {key}": value for key, value in found.metadata.items()}
        CommandOutput(json=json).details(
            msgspec.to_builtins(found), {f"Object {safe(found.name)} in {bucket}": section}
        )

    run(work())


@app.command("rm")
@talks_to_a_server
def rm(
    *,
    server: LinkOptions,
    bucket: StoreName,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The object; else the whole bucket.")] = "",
    force: ForceOption = False,
    json: JsonOption = False,
) -> None:
    """Delete an object, or without a name a whole bucket.

    \b
    Examples:
      millstream obj rm files report.pdf
      millstream obj rm files
    """

    async def work() -> None:
        async with bucket_link(server, "millstream obj rm", _PREFIX, bucket) as link:
            store = await ObjectStore.open(link, bucket)
            if name:
                await store.get(name)
                confirm(f"delete {name} in bucket {bucket}", force=force)
                await store.delete(name)
            else:
                size = size_text((await store.status()).bytes)
                confirm(f"delete bucket {bucket} with all its objects, {size}", force=force)
                await ObjectStore.remove(link, bucket)
        what = f"{name} in bucket {bucket}" if name else f"bucket {bucket}"
        CommandOutput(json=json).done({"bucket": bucket, "deleted": name or bucket}, f"{what} is deleted")

    run(work())


@app.command("link")
@talks_to_a_server
def link_command(
    *,
    server: LinkOptions,
    bucket: StoreName,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The name of the link.", show_default=False)],
    target: Annotated[
        str, typer.Argument(metavar="TARGET", help="An object: NAME, or BUCKET/NAME.", show_default=False)
    ],
    json: JsonOption = False,
) -> None:
    """Make a link to an object, of this bucket or of another one.

    \b
    Examples:
      millstream obj link files latest.pdf report.pdf
      millstream obj link files logo brand/logo.svg
    """

    async def work() -> None:
        async with bucket_link(server, "millstream obj link", _PREFIX, bucket) as link:
            store = await ObjectStore.open(link, bucket)
            leads = ObjectLink(bucket, target)
            if await store.find(target) is None and "/" in target:
                other, _, rest = target.partition("/")
                leads = ObjectLink(other, rest)
            made = await store.link_to(name, leads)
        CommandOutput(json=json).done(msgspec.to_builtins(made), f"{name} leads to {_target(leads)}")

    run(work())


@app.command("seal")
@talks_to_a_server
def seal(
    *, server: LinkOptions, bucket: StoreName, force: ForceOption = False, json: JsonOption = False
) -> None:
    """Make a bucket read-only; this cannot be undone.

    \b
    Examples:
      millstream obj seal builds
    """

    async def work() -> None:
        async with bucket_link(server, "millstream obj seal", _PREFIX, bucket) as link:
            store = await ObjectStore.open(link, bucket)
            confirm(f"seal bucket {bucket} for good", force=force)
            made = await store.seal()
        CommandOutput(json=json).done(msgspec.to_builtins(made), f"bucket {bucket} is sealed")

    run(work())


@app.command("watch")
@talks_to_a_server
def watch(
    *,
    server: LinkOptions,
    bucket: StoreName,
    new: Annotated[bool, typer.Option("--new", help="Show only new changes.")] = False,
    count: Annotated[
        int, typer.Option("--count", metavar="NUMBER", min=0, help="End after this number.")
    ] = 0,
    json: JsonOption = False,
) -> None:
    """Show changes of objects as they come, until Ctrl-C.

    Begins with the objects that are there.

    \b
    Examples:
      millstream obj watch files
    """

    async def work() -> None:
        output, shown = CommandOutput(json=json), 0
        async with bucket_link(server, "millstream obj watch", _PREFIX, bucket) as link:
            store = await ObjectStore.open(link, bucket)
            start = StartAt.NEW if new else StartAt.LAST_PER_SUBJECT
            reading = Client(link).ordered(store.stream, subjects=f"$O.{bucket}.M.>", start=start)
            async with reading as messages:
                async for each in messages:
                    stored = Stored(each.subject, each.stream_seq, Time(each.timestamp_ns), [], each.data)
                    found = read_info(stored)
                    what = "deleted" if found.deleted else size_text(found.size)
                    text = f"{time_text(found.mtime)}  {what:>12}  {safe(found.name)}"
                    output.event(msgspec.to_builtins(found), text)
                    shown += 1
                    if count and shown >= count:
                        break

    run(work())


app.command("put")(put)
app.command("get")(get)
