"""`millstream kv`: create, list and delete buckets; the commands for keys are in `kv_keys`."""

from __future__ import annotations

from typing import Annotated, Final

import msgspec
import typer

from millstream.buckets.kv import KeyValue
from millstream.buckets.kv_types import BucketStatus, KvConfig
from millstream.cli.commands import kv_keys
from millstream.cli.commands.buckets import bucket_config, bucket_link
from millstream.cli.completion import BucketName, bucket_names
from millstream.cli.connection import talks_to_a_server
from millstream.cli.groups import CommandGroup
from millstream.cli.output.confirmation import ForceOption, confirm
from millstream.cli.output.tables import CommandOutput, JsonOption
from millstream.cli.output.texts import (
    count_text,
    duration_text,
    limit_text,
    safe,
    size_text,
    time_text,
)
from millstream.cli.session import run
from millstream.cli.settings import Changes, Setting, SettingForm, takes_settings
from millstream.link.options import LinkOptions

app = CommandGroup("Buckets of keys and values, as every NATS client has them.")

_PREFIX: Final = "KV_"
_SECOND: Final = 1_000_000_000
_SETTINGS: Final = (
    Setting("description", "--description", SettingForm.TEXT, "What the bucket is for."),
    Setting("history", "--history", SettingForm.LIMIT, "Revisions of a key that are kept, 1 to 64."),
    Setting("ttl_s", "--ttl", SettingForm.DURATION, "Remove keys after this time."),
    Setting(
        "marker_ttl_s", "--marker-ttl", SettingForm.DURATION, "Keep markers of removed keys for this time."
    ),
    Setting("max_value_size", "--max-value-size", SettingForm.SIZE, "The largest value."),
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
def add(*, server: LinkOptions, bucket: BucketName, changes: Changes, json: JsonOption = False) -> None:
    """Create a bucket.

    \b
    Examples:
      millstream kv add users
      millstream kv add sessions --ttl 1h --history 5
    """
    config = bucket_config(KvConfig, bucket, changes, _SETTINGS)

    async def work() -> None:
        async with bucket_link(server, "millstream kv add", _PREFIX) as link:
            made = await (await KeyValue.create(link, config)).status()
        CommandOutput(json=json).done(msgspec.to_builtins(made), f"bucket {bucket} is there")

    run(work())


@app.command("ls")
@talks_to_a_server
def ls(
    *,
    server: LinkOptions,
    bucket: Annotated[
        str,
        typer.Argument(
            metavar="BUCKET", help="List its keys, as `kv keys` does.", autocompletion=bucket_names
        ),
    ] = "",
    names: Annotated[bool, typer.Option("--names", "-n", help="Only the names, one in a line.")] = False,
    json: JsonOption = False,
) -> None:
    """List buckets, or the keys of one.

    \b
    Examples:
      millstream kv ls
      millstream kv ls users
    """
    output = CommandOutput(json=json)

    async def work() -> None:
        found: list[BucketStatus] = []
        async with bucket_link(server, "millstream kv ls", _PREFIX) as link:
            page, offset = await KeyValue.buckets(link)
            found += page
            while offset:
                page, offset = await KeyValue.buckets(link, offset)
                found += page
        found.sort(key=lambda each: each.bucket)
        if names:
            if json:
                output.document([each.bucket for each in found])
            for each in [] if json else found:
                output.line(each.bucket)
            return
        columns = ("Bucket", "#Values", "#Size", "#History", "#TTL", "Storage", "Description")
        rows = [
            [
                each.bucket,
                count_text(each.values),
                size_text(each.bytes),
                str(each.history),
                duration_text(each.ttl_s * _SECOND),
                str(each.storage.value),
                each.description,
            ]
            for each in found
        ]
        empty = "there are no buckets; make one with millstream kv add"
        output.table(msgspec.to_builtins(found), columns, rows, empty=empty)

    run(kv_keys.print_keys(server, bucket, output) if bucket else work())


@app.command("status")
@talks_to_a_server
def status(*, server: LinkOptions, bucket: BucketName, json: JsonOption = False) -> None:
    """Show the configuration and the size of a bucket.

    \b
    Examples:
      millstream kv status users
    """

    async def work() -> None:
        async with bucket_link(server, "millstream kv status", _PREFIX, bucket) as link:
            found = await (await KeyValue.open(link, bucket)).status()
        section = {
            "Values": f"{count_text(found.values)}, older revisions and deletions included",
            "Size": size_text(found.bytes),
            "History": f"{found.history} revisions of a key",
            "TTL": duration_text(found.ttl_s * _SECOND),
            "Keys with a TTL": "allowed" if found.key_ttl else "not allowed",
            "Storage": str(found.storage.value),
            "Replicas": str(found.replicas),
            "Largest value": limit_text(found.max_value_size, size=True),
            "Maximum size": limit_text(found.max_bytes, size=True),
            "Last revision": str(found.last_revision),
            "Stream": found.stream,
        }
        if found.description:
            section = {"Description": found.description, **section}
        title = f"Bucket {safe(found.bucket)}, created {time_text(found.created)}"
        CommandOutput(json=json).details(msgspec.to_builtins(found), {title: section})

    run(work())


@app.command("rm")
@talks_to_a_server
def rm(
    *, server: LinkOptions, bucket: BucketName, force: ForceOption = False, json: JsonOption = False
) -> None:
    """Delete a bucket with all its keys; `kv del` deletes a key.

    \b
    Examples:
      millstream kv rm users
    """

    async def work() -> None:
        async with bucket_link(server, "millstream kv rm", _PREFIX, bucket) as link:
            found = await (await KeyValue.open(link, bucket)).status()
            confirm(f"delete bucket {bucket} with {count_text(found.values)} values", force=force)
            await KeyValue.remove(link, bucket)
        CommandOutput(json=json).done({"deleted": bucket}, f"bucket {bucket} is deleted")

    run(work())


app.command("get")(kv_keys.get)
app.command("put")(kv_keys.put)
app.command("create")(kv_keys.create)
app.command("update")(kv_keys.update)
app.command("del")(kv_keys.delete)
app.command("purge")(kv_keys.purge)
app.command("history")(kv_keys.history)
app.command("keys")(kv_keys.keys)
app.command("watch")(kv_keys.watch)
