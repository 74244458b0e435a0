"""`millstream group`: partitioned consumer groups, those of the cg tool for Go, too."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict
from enum import StrEnum
from typing import Annotated, Any

import msgspec
import typer

from millstream.base.words import counted
from millstream.cli.completion import StreamName
from millstream.cli.connection import connected, talks_to_a_server
from millstream.cli.endings import CONFLICT, FAILED, NOT_FOUND, NOTHING, Ending, UsageError
from millstream.cli.groups import CommandGroup
from millstream.cli.output.confirmation import ForceOption, confirm
from millstream.cli.output.readings import SECOND, read_duration, read_size
from millstream.cli.output.tables import CommandOutput, JsonOption, RawOption, check_raw
from millstream.cli.output.texts import count_text, header_fields, payload_fields, payload_text, safe
from millstream.cli.session import run
from millstream.client import (
    BadGroup,
    Client,
    ClientError,
    GroupChanged,
    GroupExists,
    GroupNotFound,
    NotAMember,
    StreamNotFound,
)
from millstream.client.groups import ElasticGroup, GroupListing, GroupMessage, MemberState, StaticGroup
from millstream.link.options import LinkOptions

app = CommandGroup("Partitioned consumer groups: every key of a stream to one member, in order.")


class GroupChoice(StrEnum):
    """The kinds of groups."""

    STATIC = "static"
    ELASTIC = "elastic"


GroupName = Annotated[str, typer.Argument(metavar="GROUP", help="The group.", show_default=False)]
MemberNames = Annotated[
    list[str], typer.Argument(metavar="MEMBER", help="Names of members.", show_default=False)
]
KindOption = Annotated[
    GroupChoice | None,
    typer.Option("--kind", help="If the stream has a static and an elastic group of this name."),
]
MappingsHelp = "A member and its partitions: `m1:0,1`."


@asynccontextmanager
async def _client(server: LinkOptions, name: str) -> AsyncIterator[Client]:
    """Yield a client whose errors are exit codes."""
    async with connected(server, f"millstream group {name}") as api:
        try:
            yield Client(api.link, request_timeout_s=server.request_timeout_s)
        except (GroupNotFound, NotAMember, StreamNotFound) as error:
            raise Ending(str(error), NOT_FOUND) from None
        except (GroupExists, GroupChanged) as error:
            raise Ending(str(error), CONFLICT) from None
        except BadGroup as error:
            raise UsageError(str(error)) from None
        except ClientError as error:
            raise Ending(str(error), FAILED) from None


async def _found(
    client: Client, stream: str, name: str, kind: GroupChoice | None
) -> StaticGroup | ElasticGroup:
    """Return the group of this name; raises GroupNotFound, and UsageError if there are two."""
    kinds = [
        each.kind
        for each in await client.groups.list(stream)
        if each.name == name and (kind is None or each.kind == kind)
    ]
    if not kinds:
        raise GroupNotFound(f"there is no group {name} on stream {stream}; see millstream group ls")
    if len(kinds) > 1:
        raise UsageError(f"stream {stream} has a static and an elastic group {name}: choose with --kind")
    return (
        client.groups.static(stream, name)
        if kinds[0] == GroupChoice.STATIC
        else client.groups.elastic(stream, name)
    )


def _filter(text: str) -> tuple[str, list[int]]:
    """Return a subject and the numbers of its wildcards, from ``orders.*.*:1,2``."""
    subject, colon, numbers = text.partition(":")
    return subject, _numbers(numbers, "--filter") if colon else []


def _numbers(text: str, what: str) -> list[int]:
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() and part.isascii() and len(part) < 10 for part in parts):
        raise UsageError(f"{what}: {text!r} is no list of numbers such as 0,1,2")
    return [int(part) for part in parts]


def _mappings(texts: Sequence[str]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for text in texts:
        member, colon, numbers = text.rpartition(":")
        if not colon or not member:
            raise UsageError(f"{text!r} is no mapping; write the member and its partitions, as in m1:0,1")
        if member in found:
            raise UsageError(f"{member} has two mappings; write all its partitions in one")
        found[member] = _numbers(numbers, member)
    return found


# -- groups -------------------------------------------------------------------------------------------


@app.command("create")
@talks_to_a_server
def create(
    *, server: LinkOptions, stream: StreamName, group: GroupName,
    partitions: Annotated[
        int, typer.Argument(metavar="PARTITIONS", help="Their number; it never changes.", show_default=False)
    ],
    static: Annotated[
        bool, typer.Option("--static", help="For a stream whose subjects begin with a partition.")
    ] = False,
    filters: Annotated[
        list[str] | None,
        typer.Option(
            "--filter",
            metavar="SUBJECT",
            help="Subjects of the group, with the wildcards that are the key: `orders.*.*:1`; several times.",
        ),
    ] = None,
    members: Annotated[
        list[str] | None, typer.Option("--member", metavar="NAME", help="A member; several times.")
    ] = None,
    mappings: Annotated[
        list[str] | None, typer.Option("--map", metavar="MAPPING", help=f"{MappingsHelp} Several times.")
    ] = None,
    max_buffered_msgs: Annotated[
        int, typer.Option(metavar="NUMBER", min=0, help="Limit of the group's own stream; 0: none.")
    ] = 0,
    max_buffered_bytes: Annotated[
        str, typer.Option(metavar="SIZE", help="Limit of the group's own stream; 0: none.")
    ] = "0",
    json: JsonOption = False,
) -> None:  # fmt: skip
    """Create a group: an elastic one, with a stream of its own, or a static one.

    Without `--filter`, the whole subject of a message is its key.

    \b
    Examples:
      millstream group create ORDERS billing 8 --filter 'orders.*:1' --member m1 --member m2
      millstream group create PARTITIONED billing 8 --static --member m1 --member m2
    """
    if members and mappings:
        raise UsageError("a group has either --member, or --map for every member")
    given, wanted = filters or [], _mappings(mappings or [])
    if static and (max_buffered_msgs or max_buffered_bytes != "0"):
        raise UsageError("a static group has no stream of its own, so no limits for one")
    if static and any(":" in each for each in given):
        raise UsageError(
            "a filter of a static group names no wildcards: its subjects have partitions already"
        )
    size = max(read_size(max_buffered_bytes, "--max-buffered-bytes"), 0)

    async def work() -> None:
        async with _client(server, "create") as client:
            if static:
                await client.groups.create_static(
                    stream, group, partitions, members=members or (), mappings=wanted, filters=given
                )
            else:
                made = await client.groups.create_elastic(
                    stream,
                    group,
                    partitions,
                    filters=[_filter(each) for each in given],
                    max_buffered_messages=max_buffered_msgs,
                    max_buffered_bytes=size,
                )
                if wanted:
                    await made.set_mappings(wanted)
                elif members:
                    await made.add(*members)
        kind = GroupChoice.STATIC if static else GroupChoice.ELASTIC
        document = {"stream": stream, "group": group, "kind": kind.value, "partitions": partitions}
        CommandOutput(json=json).done(document, f"group {group} of stream {stream} is there")

    run(work())


@app.command("ls")
@talks_to_a_server
def ls(
    *,
    server: LinkOptions,
    stream: Annotated[str, typer.Argument(metavar="STREAM", help="Only groups of this stream.")] = "",
    json: JsonOption = False,
) -> None:
    """List groups.

    \b
    Examples:
      millstream group ls
      millstream group ls ORDERS
    """

    async def work() -> None:
        async with _client(server, "ls") as client:
            found = await client.groups.list(stream)
        columns = ("Stream", "Group", "GroupChoice", "#Partitions", "Members")
        empty = "there are no groups; make one with millstream group create"
        CommandOutput(json=json).table(
            [_listed(each) for each in found], columns, [_row(each) for each in found], empty=empty
        )

    run(work())


def _row(each: GroupListing) -> list[str]:
    if each.config is None:
        return [each.stream, each.name, each.kind, "?", each.problem]
    names = each.config.members or [mapping.member for mapping in each.config.member_mappings]
    return [each.stream, each.name, each.kind, str(each.config.max_members), safe(", ".join(names), 60)]


def _listed(each: GroupListing) -> dict[str, Any]:
    document = {"stream": each.stream, "group": each.name, "kind": each.kind}
    if each.config is None:
        return {**document, "problem": each.problem}
    return {**document, "config": msgspec.to_builtins(each.config)}


@app.command("info")
@talks_to_a_server
def info(
    *, server: LinkOptions, stream: StreamName, group: GroupName, kind: KindOption = None,
    json: JsonOption = False,
) -> None:  # fmt: skip
    """Show a group and its members: their partitions, and whether a program runs them.

    \b
    Examples:
      millstream group info ORDERS billing
    """

    async def work() -> None:
        async with _client(server, "info") as client:
            found = await _found(client, stream, group, kind)
            config, members = await found.config(), await found.members()
        output = CommandOutput(json=json)
        if json:
            output.document(
                {
                    "stream": stream,
                    "group": group,
                    "kind": found.kind.name,
                    "config": msgspec.to_builtins(config),
                    "members": [asdict(each) for each in members],
                }
            )
            return
        output.line(
            f"{found.kind.name} group {group} of stream {stream}, {counted(config.max_members, 'partition')}"
        )
        columns = ("Member", "Partitions", "Active", "#Unsettled", "#Pending")
        output.table([], columns, [_member_row(each) for each in members], empty="the group has no members")

    run(work())


def _member_row(each: MemberState) -> list[str]:
    partitions = ",".join(map(str, each.partitions))
    active = "yes" if each.is_active else "no"
    return [each.name, partitions, active, count_text(each.unsettled), count_text(each.pending)]


@app.command("rm")
@talks_to_a_server
def rm(
    *, server: LinkOptions, stream: StreamName, group: GroupName, kind: KindOption = None,
    force: ForceOption = False, json: JsonOption = False,
) -> None:  # fmt: skip
    """Delete a group with its consumers, and an elastic one with its stream. The origin is untouched.

    \b
    Examples:
      millstream group rm ORDERS billing
    """

    async def work() -> None:
        async with _client(server, "rm") as client:
            found = await _found(client, stream, group, kind)
            confirm(f"delete group {group} of stream {stream}", force=force)
            await found.delete()
        CommandOutput(json=json).done({"deleted": group}, f"group {group} of stream {stream} is deleted")

    run(work())


# -- members ------------------------------------------------------------------------------------------


@app.command("add")
@talks_to_a_server
def add(
    *,
    server: LinkOptions,
    stream: StreamName,
    group: GroupName,
    members: MemberNames,
    json: JsonOption = False,
) -> None:
    """Add members to an elastic group; all of them share its partitions anew.

    \b
    Examples:
      millstream group add ORDERS billing m3 m4
    """

    async def work() -> None:
        async with _client(server, "add") as client:
            names = await client.groups.elastic(stream, group).add(*members)
        CommandOutput(json=json).done({"members": names}, f"members: {', '.join(names)}")

    run(work())


@app.command("drop")
@talks_to_a_server
def drop(
    *,
    server: LinkOptions,
    stream: StreamName,
    group: GroupName,
    members: MemberNames,
    json: JsonOption = False,
) -> None:
    """Remove members from an elastic group; the others share their partitions.

    \b
    Examples:
      millstream group drop ORDERS billing m3
    """

    async def work() -> None:
        async with _client(server, "drop") as client:
            names = await client.groups.elastic(stream, group).drop(*members)
        CommandOutput(json=json).done({"members": names}, f"members: {', '.join(names) or 'none'}")

    run(work())


@app.command("map")
@talks_to_a_server
def map_members(
    *,
    server: LinkOptions,
    stream: StreamName,
    group: GroupName,
    mappings: Annotated[
        list[str] | None, typer.Argument(metavar="MAPPING", help=MappingsHelp, show_default=False)
    ] = None,
    clear: Annotated[bool, typer.Option("--clear", help="Remove all mappings.")] = False,
    json: JsonOption = False,
) -> None:
    """Give each member of an elastic group its own partitions, in place of members that share them.

    \b
    Examples:
      millstream group map ORDERS billing m1:0,1,2 m2:3
      millstream group map ORDERS billing --clear
    """
    wanted = _mappings(mappings or [])
    if clear == bool(wanted):
        raise UsageError("say either mappings, such as m1:0,1, or --clear")

    async def work() -> None:
        async with _client(server, "map") as client:
            found = client.groups.elastic(stream, group)
            await (found.clear_mappings() if clear else found.set_mappings(wanted))
        text = "no members" if clear else counted(len(wanted), "member")
        CommandOutput(json=json).done({"mappings": wanted}, f"group {group} has {text}")

    run(work())


@app.command("step-down")
@talks_to_a_server
def step_down(
    *, server: LinkOptions, stream: StreamName, group: GroupName,
    member: Annotated[str, typer.Argument(metavar="MEMBER", help="The member.", show_default=False)],
    kind: KindOption = None, json: JsonOption = False,
) -> None:  # fmt: skip
    """Take a member from the program that runs it; another program that waits gets it.

    \b
    Examples:
      millstream group step-down ORDERS billing m1
    """

    async def work() -> None:
        async with _client(server, "step-down") as client:
            await (await _found(client, stream, group, kind)).step_down(member)
        CommandOutput(json=json).done({"member": member}, f"member {member} was taken from its program")

    run(work())


@app.command("consume")
@talks_to_a_server
def consume(
    *, server: LinkOptions, stream: StreamName, group: GroupName,
    member: Annotated[str, typer.Argument(metavar="MEMBER", help="The member to be.", show_default=False)],
    kind: KindOption = None,
    count: Annotated[
        int, typer.Option("--count", "-n", metavar="NUMBER", min=0, help="End after this number.")
    ] = 0,
    wait: Annotated[
        str, typer.Option("--wait", metavar="TIME", help="End if no message comes for this time.")
    ] = "",
    ack_wait: Annotated[
        str, typer.Option("--ack-wait", metavar="TIME", help="Of the member's consumer.")
    ] = "5s",
    raw: RawOption = False,
    json: JsonOption = False,
) -> None:  # fmt: skip
    """Be a member: show its messages and acknowledge them, until Ctrl-C or until the group is deleted.

    Ends with 7 if no message came within --wait.

    \b
    Examples:
      millstream group consume ORDERS billing m1
      millstream group consume ORDERS billing m1 --wait 10s --json | jq -r .data
    """
    check_raw(raw, json)
    wait_s = read_duration(wait, "--wait") / SECOND if wait else None
    ack_wait_s = read_duration(ack_wait, "--ack-wait") / SECOND

    async def work() -> int:
        output, shown = CommandOutput(json=json), 0
        async with _client(server, "consume") as client:
            found = await _found(client, stream, group, kind)
            async with found.consume(member, ack_wait_s=ack_wait_s) as messages:
                while not count or shown < count:
                    try:
                        message = (
                            await anext(messages, None) if wait_s is None else await messages.next(wait_s)
                        )
                    except TimeoutError:
                        break
                    if message is None:
                        break
                    if raw:
                        output.raw(message.data + b"\n")
                    else:
                        output.event(_document(message), _line(message))
                    await message.ack()
                    shown += 1
        return 0 if shown or not wait else NOTHING

    run(work())


def _line(message: GroupMessage) -> str:
    payload = f"  {payload_text(message.data, 1000)}" if message.data else ""
    return f"[{message.stream_seq}] {message.partition} {safe(message.subject)}{payload}"


def _document(message: GroupMessage) -> dict[str, Any]:
    document: dict[str, Any] = {
        "subject": message.subject,
        "partition": message.partition,
        "seq": message.stream_seq,
        "deliveries": message.deliveries,
    }
    if message.headers:
        document["headers"] = header_fields(list(message.headers.items()))
    return document | payload_fields(message.data)
