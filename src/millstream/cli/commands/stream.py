"""`millstream stream`: list, show, create, change, purge and delete streams."""

from __future__ import annotations

import time
from typing import Annotated, Any, Final

import typer

from millstream.base.words import counted
from millstream.cli.commands.lookup import stream_info
from millstream.cli.commands.stream_copy import copy
from millstream.cli.commands.stream_messages import tail, view
from millstream.cli.commands.stream_settings import SETTINGS, config_changes, config_section
from millstream.cli.completion import StreamName
from millstream.cli.connection import connected, talks_to_a_server
from millstream.cli.endings import UsageError
from millstream.cli.groups import CommandGroup
from millstream.cli.output.confirmation import ForceOption, confirm
from millstream.cli.output.readings import check_name
from millstream.cli.output.tables import CommandOutput, JsonOption
from millstream.cli.output.texts import count_text, list_text, safe, since_text, size_text, time_text
from millstream.cli.session import run
from millstream.cli.settings import Changes, ConfigFile, difference, merged, read_config, takes_settings
from millstream.link.options import LinkOptions
from millstream.transfer.api import JetStreamApi

app = CommandGroup("Look at streams and manage them.")

_INTERNAL: Final = ("KV_", "OBJ_", "MQTT_", "$MQTT_")
_SORTS: Final = ("name", "messages", "bytes", "consumers", "last")


@app.command("ls")
@talks_to_a_server
def ls(
    *,
    server: LinkOptions,
    subject: Annotated[str, typer.Option(metavar="SUBJECT", help="Only those that store this subject.")] = "",
    names: Annotated[bool, typer.Option("--names", "-n", help="Only the names, one in a line.")] = False,
    every: Annotated[bool, typer.Option("--all", "-a", help="Also those of KV and object buckets.")] = False,
    sort: Annotated[str, typer.Option(metavar="|".join(_SORTS), help="The order.")] = "name",
    json: JsonOption = False,
) -> None:
    """List streams.

    \b
    Examples:
      millstream stream ls
      millstream stream ls --subject 'orders.>' --sort bytes
      millstream stream ls --names | xargs -n 1 millstream stream info
    """
    if sort not in _SORTS:
        raise UsageError(f"--sort: {sort!r} is none of {', '.join(_SORTS)}")

    async def work() -> None:
        output = CommandOutput(json=json)
        async with connected(server, "millstream stream ls") as api:
            if names:
                listed = [str(each) async for each in api.pages("STREAM.NAMES", "streams", _filter(subject))]
                listed = sorted(each for each in listed if every or not each.startswith(_INTERNAL))
                if json:
                    output.document(listed)
                for name in [] if json else listed:
                    output.line(name)
                return
            found = [each async for each in api.pages("STREAM.LIST", "streams", _filter(subject))]
        hidden = 0 if every else sum(_name(each).startswith(_INTERNAL) for each in found)
        shown = [each for each in found if every or not _name(each).startswith(_INTERNAL)]
        shown.sort(key=lambda each: _sort_key(each, sort), reverse=sort != "name")
        now = time.time()
        rows = [_row(each, now) for each in shown]
        columns = ("Name", "Subjects", "#Messages", "#Size", "#Consumers", "Retention", "#Last")
        output.table(shown, columns, rows, empty="there are no streams; make one with millstream stream add")
        if hidden:
            output.note(f"{hidden} of KV and object buckets are not shown; see --all")

    run(work())


def _filter(subject: str) -> Changes:
    return {"subject": subject} if subject else {}


def _name(info: dict[str, Any]) -> str:
    return str(info["config"]["name"])


def _sort_key(info: dict[str, Any], sort: str) -> Any:
    state = info["state"]
    match sort:
        case "name":
            return _name(info)
        case "consumers":
            return state.get("consumer_count", 0)
        case "last":
            return state.get("last_ts", "")
    return state.get(sort, 0)


def _row(info: dict[str, Any], now: float) -> list[str]:
    config, state = info["config"], info["state"]
    return [
        _name(info),
        list_text(config.get("subjects"), 2)
        or (f"mirror of {config['mirror'].get('name')}" if config.get("mirror") else "-"),
        count_text(state.get("messages", 0)),
        size_text(state.get("bytes", 0)),
        count_text(state.get("consumer_count", 0)),
        str(config.get("retention", "limits")),
        since_text(state.get("last_ts"), now),
    ]


@app.command("info")
@talks_to_a_server
def info(
    *,
    server: LinkOptions,
    stream: StreamName,
    subjects: Annotated[
        bool, typer.Option("--subjects", help="Also how many messages each subject has, most first.")
    ] = False,
    filter_: Annotated[
        str, typer.Option("--filter", metavar="SUBJECT", help="Which subjects; with --subjects.")
    ] = ">",
    limit: Annotated[
        int, typer.Option(min=1, max=100_000, metavar="NUMBER", help="Maximum number of subjects.")
    ] = 100,
    json: JsonOption = False,
) -> None:
    """Show the configuration and the state of a stream.

    \b
    Examples:
      millstream stream info ORDERS
      millstream stream info ORDERS --subjects --filter 'orders.eu.>'
      millstream stream info ORDERS --json | jq .state.messages
    """

    async def work() -> None:
        output = CommandOutput(json=json)
        async with connected(server, "millstream stream info") as api:
            found = await stream_info(api, stream)
            counts = await _subject_counts(api, stream, filter_, limit) if subjects else {}
        if subjects:
            found["state"]["subjects"] = counts
        output.details(found, _sections(found, counts))

    run(work())


async def _subject_counts(api: JetStreamApi, stream: str, pattern: str, limit: int) -> dict[str, int]:
    """Return subjects with their numbers of messages, those with most messages first."""
    found: dict[str, int] = {}
    while len(found) < limit:
        page = await api.look(f"STREAM.INFO.{stream}", {"subjects_filter": pattern, "offset": len(found)})
        some = page["state"].get("subjects") or {}
        before = len(found)
        found |= some
        if len(found) == before or len(found) >= page.get("total", 0):
            break
    return dict(sorted(found.items(), key=lambda each: (-each[1], each[0]))[:limit])


def _sections(info: dict[str, Any], counts: dict[str, int]) -> dict[str, dict[str, str]]:
    state = info["state"]
    state_section = {
        "Messages": count_text(state.get("messages", 0)),
        "Bytes": size_text(state.get("bytes", 0)),
        "First sequence": f"{state.get('first_seq', 0)} at {time_text(state.get('first_ts'))}",
        "Last sequence": f"{state.get('last_seq', 0)} at {time_text(state.get('last_ts'))}",
        "Consumers": count_text(state.get("consumer_count", 0)),
        "Subjects": count_text(state.get("num_subjects", 0)),
    }
    if state.get("num_deleted"):
        state_section["Deleted between"] = count_text(state["num_deleted"])
    if (state.get("lost") or {}).get("msgs"):
        state_section["Lost"] = f"{counted(len(state['lost']['msgs']), 'message')}: the store was damaged"
    sections = {
        f"Stream {safe(_name(info))}, created {time_text(info.get('created'))}": config_section(
            info["config"]
        ),
        "State": state_section,
    }
    cluster = info.get("cluster") or {}
    if cluster.get("replicas") or cluster.get("name"):
        sections["Cluster"] = {
            "Name": str(cluster.get("name", "-")),
            "Leader": str(cluster.get("leader") or "none: nobody can write to it"),
        } | {
            f"Replica {each.get('name')}": "current" if each.get("current") else _behind(each)
            for each in cluster.get("replicas") or []
        }
    origins = [info["mirror"]] if info.get("mirror") else info.get("sources") or []
    if origins:
        sections["Copied from"] = {
            str(each.get("name")): f"{count_text(each.get('lag', 0))} behind" + _trouble(each)
            for each in origins
        }
    sections["Messages by subject"] = {subject: count_text(count) for subject, count in counts.items()}
    return sections


def _behind(replica: dict[str, Any]) -> str:
    where = "offline" if replica.get("offline") else "behind"
    return f"{where}, {count_text(replica.get('lag', 0))} operations to go"


def _trouble(origin: dict[str, Any]) -> str:
    error = origin.get("error") or {}
    return f", failing: {error.get('description', '?')}" if error else ""


@app.command("add")
@takes_settings(SETTINGS)
@talks_to_a_server
def add(
    *,
    server: LinkOptions,
    stream: Annotated[str, typer.Argument(metavar="STREAM", help="Its name.", show_default=False)],
    changes: Changes,
    config: ConfigFile = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the configuration; create nothing.")
    ] = False,
    json: JsonOption = False,
) -> None:
    """Create a stream. Fields that are not given get the server's default.

    \b
    Examples:
      millstream stream add ORDERS --subjects 'orders.>'
      millstream stream add JOBS --subjects 'jobs.*' --retention work --max-age 7d
      millstream stream add COPY --mirror ORDERS
      millstream stream info ORDERS --json > orders.json
      millstream stream add ORDERS2 --config orders.json --subjects 'orders2.>'
    """
    check_name(stream, "stream")
    wanted = merged(read_config(config), config_changes(changes)) | {"name": stream}
    if not (wanted.get("subjects") or wanted.get("mirror") or wanted.get("sources")):
        wanted["subjects"] = [stream]

    async def work() -> None:
        output = CommandOutput(json=json)
        if dry_run:
            CommandOutput(json=True).document(wanted)
            return
        async with connected(server, "millstream stream add") as api:
            made = await api.ask(f"STREAM.CREATE.{stream}", wanted)
        subjects = list_text(made["config"].get("subjects"), 5)
        output.done(made, f"stream {stream} stores {subjects or 'what it copies'}")

    run(work())


@app.command("edit")
@takes_settings(SETTINGS)
@talks_to_a_server
def edit(
    *,
    server: LinkOptions,
    stream: StreamName,
    changes: Changes,
    config: ConfigFile = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would change; change nothing.")
    ] = False,
    force: ForceOption = False,
    json: JsonOption = False,
) -> None:
    """Change the configuration of a stream.

    Shows what will change, and asks.

    \b
    Examples:
      millstream stream edit ORDERS --max-age 30d
      millstream stream edit ORDERS --subjects 'orders.>,returns.>' --force
      millstream stream edit ORDERS --max-msgs unlimited --dry-run
    """
    given = merged(read_config(config), config_changes(changes))
    if not given:
        raise UsageError("nothing to change is given; see millstream stream edit --help")

    async def work() -> None:
        output = CommandOutput(json=json)
        async with connected(server, "millstream stream edit") as api:
            before = (await stream_info(api, stream))["config"]
            wanted = merged(before, given) | {"name": stream}
            rows = difference(before, wanted)
            if not rows:
                output.done({"changed": []}, f"stream {stream} is so already")
                return
            if not json:
                output.table(None, ("Field", "Now", "Then"), rows)
            if dry_run:
                if json:
                    output.document({"would_change": [list(row) for row in rows]})
                return
            confirm(f"change stream {stream}", force=force)
            made = await api.ask(f"STREAM.UPDATE.{stream}", wanted)
        output.done(made, f"stream {stream} is changed")

    run(work())


@app.command("rm")
@talks_to_a_server
def rm(
    *, server: LinkOptions, stream: StreamName, force: ForceOption = False, json: JsonOption = False
) -> None:
    """Delete a stream with its messages and consumers.

    \b
    Examples:
      millstream stream rm ORDERS
      millstream stream rm ORDERS --force
    """

    async def work() -> None:
        async with connected(server, "millstream stream rm") as api:
            state = (await stream_info(api, stream))["state"]
            consumers = state.get("consumer_count", 0)
            what = f"{counted(state.get('messages', 0), 'message')} and {counted(consumers, 'consumer')}"
            confirm(f"delete stream {stream} with {what}", force=force)
            await api.delete_stream(stream)
        CommandOutput(json=json).done({"deleted": stream}, f"stream {stream} is deleted, with {what}")

    run(work())


@app.command("purge")
@talks_to_a_server
def purge(
    *,
    server: LinkOptions,
    stream: StreamName,
    subject: Annotated[str, typer.Option(metavar="SUBJECT", help="Only messages of this subject.")] = "",
    before: Annotated[
        int, typer.Option("--seq", metavar="NUMBER", min=0, help="Only those before this sequence.")
    ] = 0,
    keep: Annotated[int, typer.Option(metavar="NUMBER", min=0, help="Keep this number of the newest.")] = 0,
    force: ForceOption = False,
    json: JsonOption = False,
) -> None:
    """Remove messages of a stream; the stream and its consumers stay.

    \b
    Examples:
      millstream stream purge ORDERS --subject orders.eu --keep 10
      millstream stream purge ORDERS --seq 1000
      millstream stream purge ORDERS --force
    """
    if before and keep:
        raise UsageError("--seq and --keep exclude each other")
    request: Changes = {"filter": subject} if subject else {}
    request |= {"seq": before} if before else {}
    request |= {"keep": keep} if keep else {}

    async def work() -> None:
        async with connected(server, "millstream stream purge") as api:
            state = (await stream_info(api, stream))["state"]
            which = "messages" if request else f"all {count_text(state.get('messages', 0))} messages"
            limits = [f"of {subject}" if subject else "", f"before sequence {before}" if before else ""]
            limits.append(f"but the newest {keep}" if keep else "")
            what = " ".join([which, *(each for each in limits if each), f"from stream {stream}"])
            confirm(f"remove {what}", force=force)
            done = await api.ask(f"STREAM.PURGE.{stream}", request or None)
        count = done.get("purged", 0)
        CommandOutput(json=json).done(
            {"purged": count}, f"{counted(count, 'message is', 'messages are')} removed from {stream}"
        )

    run(work())


app.command("view")(view)
app.command("tail")(tail)
app.command("copy")(copy)
