"""`millstream consumer`: list, show, create, change, pause, reset and delete consumers."""

from __future__ import annotations

import time
from typing import Annotated, Any

import typer

from millstream.base.words import counted
from millstream.cli.commands.consumer_next import next_messages
from millstream.cli.commands.consumer_settings import SETTINGS, config_changes, config_section
from millstream.cli.commands.consumer_why import why
from millstream.cli.commands.lookup import better, consumer_info, stream_info
from millstream.cli.completion import ConsumerName, StreamName
from millstream.cli.connection import connected, talks_to_a_server
from millstream.cli.endings import CONFLICT, Ending, UsageError
from millstream.cli.groups import CommandGroup
from millstream.cli.output.confirmation import ForceOption, confirm
from millstream.cli.output.readings import check_name, read_moment
from millstream.cli.output.tables import CommandOutput, JsonOption
from millstream.cli.output.texts import (
    count_text,
    duration_text,
    list_text,
    safe,
    since_text,
    time_text,
)
from millstream.cli.session import run
from millstream.cli.settings import Changes, ConfigFile, difference, merged, read_config, takes_settings
from millstream.jsapi.errors import Err
from millstream.link.errors import LinkApiError
from millstream.link.options import LinkOptions

app = CommandGroup("Look at consumers and manage them.")


@app.command("ls")
@talks_to_a_server
def ls(
    *,
    server: LinkOptions,
    stream: StreamName,
    names: Annotated[bool, typer.Option("--names", "-n", help="Only the names, one in a line.")] = False,
    json: JsonOption = False,
) -> None:
    """List the consumers of a stream.

    \b
    Examples:
      millstream consumer ls ORDERS
      millstream consumer ls ORDERS --names
    """

    async def work() -> None:
        output = CommandOutput(json=json)
        async with connected(server, "millstream consumer ls") as api:
            await stream_info(api, stream)
            if names:
                found = [str(each) async for each in api.pages(f"CONSUMER.NAMES.{stream}", "consumers")]
                if json:
                    output.document(sorted(found))
                for name in [] if json else sorted(found):
                    output.line(name)
                return
            listed = api.pages(f"CONSUMER.LIST.{stream}", "consumers")  # with every name: it is only shown
            infos = sorted([each async for each in listed], key=lambda each: str(each["name"]))
        now = time.time()
        columns = (
            "Name",
            "Kind",
            "Filter",
            "#Pending",
            "#Ack pending",
            "#Redelivered",
            "#Waiting",
            "#Active",
        )
        rows = [_row(each, now) for each in infos]
        output.table(infos, columns, rows, empty=f"stream {stream} has no consumers")

    run(work())


def _row(info: dict[str, Any], now: float) -> list[str]:
    config = info["config"]
    filters = config.get("filter_subjects") or [config.get("filter_subject") or ">"]
    kind = "push" if config.get("deliver_subject") else "pull"
    return [
        str(info["name"]),
        f"{kind}, paused" if info.get("paused") else kind,
        list_text(filters, 2),
        count_text(info.get("num_pending", 0)),
        count_text(info.get("num_ack_pending", 0)),
        count_text(info.get("num_redelivered", 0)),
        count_text(info.get("num_waiting", 0)),
        since_text((info.get("delivered") or {}).get("last_active"), now),
    ]


@app.command("info")
@talks_to_a_server
def info(
    *, server: LinkOptions, stream: StreamName, consumer: ConsumerName, json: JsonOption = False
) -> None:
    """Show the configuration and the state of a consumer.

    \b
    Examples:
      millstream consumer info ORDERS billing
      millstream consumer info ORDERS billing --json | jq .num_pending
    """

    async def work() -> None:
        async with connected(server, "millstream consumer info") as api:
            found = await consumer_info(api, stream, consumer)
        CommandOutput(json=json).details(found, _sections(found))

    run(work())


def _sections(info: dict[str, Any]) -> dict[str, dict[str, str]]:
    delivered, floor = info.get("delivered") or {}, info.get("ack_floor") or {}
    state = {
        "Delivered": f"up to stream sequence {delivered.get('stream_seq', 0)}, "
        f"{count_text(delivered.get('consumer_seq', 0))} deliveries",
        "Last delivery": time_text(delivered.get("last_active")),
        "Acknowledged": f"up to stream sequence {floor.get('stream_seq', 0)}",
        "Last ack": time_text(floor.get("last_active")),
        "Waiting for an ack": count_text(info.get("num_ack_pending", 0)),
        "Redelivered": count_text(info.get("num_redelivered", 0)),
        "Not yet delivered": count_text(info.get("num_pending", 0)),
    }
    if info["config"].get("deliver_subject"):
        state["Somebody listens"] = "yes" if info.get("push_bound") else "no"
    else:
        state["Waiting pulls"] = count_text(info.get("num_waiting", 0))
    if info.get("paused"):
        state["Paused"] = f"for {duration_text(info.get('pause_remaining'))} more"
    for group in info.get("priority_groups") or []:
        state[f"Group {group.get('group')}"] = f"pinned to {group.get('pinned_client_id') or 'nobody'}"
    cluster = info.get("cluster") or {}
    if cluster.get("name"):
        state["Leader"] = str(cluster.get("leader") or "none: it cannot deliver")
    title = f"Consumer {safe(info['name'])} of stream {safe(info.get('stream_name', '?'))}"
    return {
        f"{title}, created {time_text(info.get('created'))}": config_section(info["config"]),
        "State": state,
    }


@app.command("add")
@takes_settings(SETTINGS)
@talks_to_a_server
def add(
    *,
    server: LinkOptions,
    stream: StreamName,
    consumer: Annotated[str, typer.Argument(metavar="CONSUMER", help="Its name.", show_default=False)],
    changes: Changes,
    config: ConfigFile = None,
    ephemeral: Annotated[
        bool, typer.Option("--ephemeral", help="Not durable: the server deletes it when it is not used.")
    ] = False,
    json: JsonOption = False,
) -> None:
    """Create a consumer.

    Unless flags say otherwise, it is durable, and clients pull and acknowledge each message.

    \b
    Examples:
      millstream consumer add ORDERS billing
      millstream consumer add ORDERS eu --filter 'orders.eu.>' --deliver new --max-deliver 5
      millstream consumer add ORDERS audit --target audit.orders --ack none
      millstream consumer add ORDERS slow --backoff 1s,10s,1m --max-deliver 10
    """
    check_name(consumer, "consumer")
    wanted = merged({"ack_policy": "explicit"}, merged(read_config(config), config_changes(changes)))
    wanted |= {"name": consumer} if ephemeral else {"name": consumer, "durable_name": consumer}

    async def work() -> None:
        async with connected(server, "millstream consumer add") as api:
            await stream_info(api, stream)
            request = {"stream_name": stream, "config": wanted, "action": "create"}
            try:
                made = await api.ask(f"CONSUMER.CREATE.{stream}.{consumer}", request)
            except LinkApiError as error:
                if error.err is Err.CONSUMER_ALREADY_EXISTS:
                    text = f"stream {stream} has a consumer {consumer} already; see millstream consumer edit"
                    raise Ending(text, CONFLICT) from None
                raise
        kind = "push" if wanted.get("deliver_subject") else "pull"
        pending = counted(made.get("num_pending", 0), "message")
        CommandOutput(json=json).done(
            made,
            f"{kind} consumer {consumer} of stream {stream} has {pending} to deliver",
        )

    run(work())


@app.command("edit")
@takes_settings(SETTINGS)
@talks_to_a_server
def edit(
    *,
    server: LinkOptions,
    stream: StreamName,
    consumer: ConsumerName,
    changes: Changes,
    config: ConfigFile = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would change; change nothing.")
    ] = False,
    force: ForceOption = False,
    json: JsonOption = False,
) -> None:
    """Change the configuration of a consumer.

    Shows what will change, and asks.

    \b
    Examples:
      millstream consumer edit ORDERS billing --max-deliver 10
      millstream consumer edit ORDERS billing --wait 1m --max-pending 5000 --force
    """
    given = merged(read_config(config), config_changes(changes))
    if not given:
        raise UsageError("nothing to change is given; see millstream consumer edit --help")

    async def work() -> None:
        output = CommandOutput(json=json)
        async with connected(server, "millstream consumer edit") as api:
            before = (await consumer_info(api, stream, consumer))["config"]
            kept = {key: value for key, value in before.items() if not _replaced(key, given)}
            wanted = merged(kept, given)
            rows = difference(before, wanted)
            if not rows:
                output.done({"changed": []}, f"consumer {consumer} is so already")
                return
            if not json:
                output.table(None, ("Field", "Now", "Then"), rows)
            if dry_run:
                if json:
                    output.document({"would_change": [list(row) for row in rows]})
                return
            confirm(f"change consumer {consumer} of stream {stream}", force=force)
            request = {"stream_name": stream, "config": wanted, "action": "update"}
            made = await api.ask(f"CONSUMER.CREATE.{stream}.{consumer}", request)
        output.done(made, f"consumer {consumer} of stream {stream} is changed")

    run(work())


def _replaced(field: str, given: Changes) -> bool:
    """Return whether another field replaces this one: one filter, or several."""
    filters = ("filter_subject", "filter_subjects")
    return field in filters and any(each in given for each in filters)


@app.command("rm")
@talks_to_a_server
def rm(
    *,
    server: LinkOptions,
    stream: StreamName,
    consumer: ConsumerName,
    force: ForceOption = False,
    json: JsonOption = False,
) -> None:
    """Delete a consumer, with its state of deliveries and acks.

    \b
    Examples:
      millstream consumer rm ORDERS billing
    """

    async def work() -> None:
        async with connected(server, "millstream consumer rm") as api:
            found = await consumer_info(api, stream, consumer)
            what = f"{counted(found.get('num_ack_pending', 0), 'message')} without an ack"
            confirm(f"delete consumer {consumer} of stream {stream} with {what}", force=force)
            await api.delete_consumer(stream, consumer)
        CommandOutput(json=json).done(
            {"deleted": consumer}, f"consumer {consumer} of stream {stream} is deleted"
        )

    run(work())


@app.command("pause")
@talks_to_a_server
def pause(
    *,
    server: LinkOptions,
    stream: StreamName,
    consumer: ConsumerName,
    until: Annotated[str, typer.Argument(metavar="UNTIL", help="A time, or a duration such as 30m.")],
    json: JsonOption = False,
) -> None:
    """Deliver nothing until a time, or for a duration; acks still count.

    \b
    Examples:
      millstream consumer pause ORDERS billing 30m
      millstream consumer pause ORDERS billing 2026-11-19T06:00:00Z
    """
    moment = read_moment(until, "UNTIL", ahead=True)

    async def work() -> None:
        async with connected(server, "millstream consumer pause") as api:
            await consumer_info(api, stream, consumer)
            done = await api.ask(f"CONSUMER.PAUSE.{stream}.{consumer}", {"pause_until": moment})
        if not done.get("paused"):
            raise UsageError(f"{until!r} is over already; say a time to come")
        text = f"consumer {consumer} of stream {stream} is paused until {time_text(moment)}"
        CommandOutput(json=json).done(done, text)

    run(work())


@app.command("resume")
@talks_to_a_server
def resume(
    *, server: LinkOptions, stream: StreamName, consumer: ConsumerName, json: JsonOption = False
) -> None:
    """End a pause.

    \b
    Examples:
      millstream consumer resume ORDERS billing
    """

    async def work() -> None:
        async with connected(server, "millstream consumer resume") as api:
            await consumer_info(api, stream, consumer)
            done = await api.ask(f"CONSUMER.PAUSE.{stream}.{consumer}", {})
        CommandOutput(json=json).done(done, f"consumer {consumer} of stream {stream} delivers again")

    run(work())


@app.command("reset")
@talks_to_a_server
def reset(
    *,
    server: LinkOptions,
    stream: StreamName,
    consumer: ConsumerName,
    seq: Annotated[int, typer.Option(metavar="NUMBER", min=0, help="Go on with this stream sequence.")] = 0,
    since: Annotated[str, typer.Option(metavar="TIME", help="Go on with the first message since then.")] = "",
    force: ForceOption = False,
    json: JsonOption = False,
) -> None:
    """Continue at a sequence or a time, and forget pending messages.

    Without --seq and --since, the consumer continues after its last acknowledged message.

    \b
    Examples:
      millstream consumer reset ORDERS billing --seq 1
      millstream consumer reset ORDERS billing --since 1h --force
    """
    if seq and since:
        raise UsageError("--seq and --since exclude each other")

    async def work() -> None:
        from millstream.cli.commands.messages import StreamPlace, next_stored

        async with connected(server, "millstream consumer reset") as api:
            info = await consumer_info(api, stream, consumer)
            at = seq
            if since:
                first = await next_stored(api.link, stream, StreamPlace(time=read_moment(since, "--since")))
                at = first.seq if first else (await stream_info(api, stream))["state"]["last_seq"] + 1
            where = f"sequence {at}" if at else "its last acknowledged message"
            pending = count_text(info.get("num_ack_pending", 0))
            confirm(f"reset consumer {consumer} to {where} and forget {pending} open deliveries", force=force)
            try:
                done = await api.ask(f"CONSUMER.RESET.{stream}.{consumer}", {"seq": at} if at else None)
            except LinkApiError as error:
                raise await better(api, error, stream, consumer) from None
        text = f"consumer {consumer} of stream {stream} goes on at {where}"
        CommandOutput(json=json).done(done, text)

    run(work())


app.command("next")(next_messages)
app.command("why")(why)
