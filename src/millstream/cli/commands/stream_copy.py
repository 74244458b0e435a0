"""`millstream stream copy`: a new stream with the configuration of another, and its messages if asked for.

The server copies the messages: the new stream has the old one as its source until it has all messages that
the old one had at the start of the copy.
"""

from __future__ import annotations

import asyncio
import time
from typing import Annotated, Any, Final

import typer

from millstream.base.words import counted
from millstream.cli.commands.lookup import stream_info
from millstream.cli.commands.stream_settings import SETTINGS, config_changes
from millstream.cli.completion import StreamName
from millstream.cli.connection import connected, talks_to_a_server
from millstream.cli.endings import FAILED, Ending, UsageError
from millstream.cli.output.readings import check_name
from millstream.cli.output.tables import CommandOutput, JsonOption
from millstream.cli.output.texts import list_text
from millstream.cli.session import run
from millstream.cli.settings import Changes, merged, takes_settings
from millstream.link.options import LinkOptions
from millstream.transfer.api import JetStreamApi

_LOOK_S: Final = 0.1
_STALLED_S: Final = 60.0
_STEP: Final = "copy"


@takes_settings(SETTINGS)
@talks_to_a_server
def copy(
    *,
    server: LinkOptions,
    stream: StreamName,
    target: Annotated[str, typer.Argument(metavar="NEW", help="The name of the copy.", show_default=False)],
    changes: Changes,
    messages: Annotated[bool, typer.Option("--messages", help="Also the messages that it has now.")] = False,
    json: JsonOption = False,
) -> None:
    """Make a stream with the configuration of another.

    Two streams cannot store the same subject, so the copy needs --subjects of its own; a copy with
    --messages keeps the subjects of the messages, and without --subjects nobody can publish to it.

    \b
    Examples:
      millstream stream copy ORDERS ORDERS2 --subjects 'orders2.>'
      millstream stream copy ORDERS KEPT --messages
      millstream stream copy ORDERS SMALL --subjects 'small.>' --storage memory --max-age 1h
    """
    check_name(target, "stream")
    given = config_changes(changes)
    if not messages and not given.keys() & {"subjects", "mirror", "sources"}:
        raise UsageError(
            f"two streams cannot store the same subjects; say --subjects for {target}, or --messages"
        )

    async def work() -> None:
        output = CommandOutput(json=json)
        async with connected(server, "millstream stream copy") as api:
            info = await stream_info(api, stream)
            wanted = _configuration(info["config"], target, given)
            if not messages:
                made = await api.ask(f"STREAM.CREATE.{target}", wanted)
                output.done(made, f"stream {target} stores {list_text(made['config'].get('subjects'), 5)}")
                return
            copied = await _copy_messages(api, info, wanted, json=json)
        output.done(
            {"stream": target, "messages": copied}, f"stream {target} has {counted(copied, 'message')}"
        )

    run(work())


def _configuration(config: dict[str, Any], target: str, given: Changes) -> Changes:
    """Return the configuration of the copy, without fields that belong to the old stream alone."""
    left_out = (
        "name",
        "subjects",
        "mirror",
        "sources",
        "sealed",
        "first_seq",
        "republish",
        "subject_transform",
    )
    kept = {key: value for key, value in config.items() if key not in left_out}
    kept["metadata"] = {
        key: value for key, value in (config.get("metadata") or {}).items() if not key.startswith("_nats.")
    }
    return merged(kept, given) | {"name": target}


async def _copy_messages(api: JetStreamApi, info: dict[str, Any], wanted: Changes, *, json: bool) -> int:
    """Create the copy with the old stream as its source, wait for its messages, and end the sourcing."""
    config, total = info["config"], int(info["state"]["messages"])
    source, target = config["name"], wanted["name"]
    if config.get("retention", "limits") != "limits":
        raise UsageError(
            f"stream {source} is a queue: reading its messages would consume them; copy it by backup"
        )
    if wanted.get("sources") or wanted.get("mirror"):
        raise UsageError("--messages excludes --mirror and --source")
    made = await api.ask(f"STREAM.CREATE.{target}", wanted | {"sources": [{"name": source}]})
    from millstream.cli.progress_bars import progress_for

    with progress_for(json=json) as progress:
        progress.begin(target, _STEP, total)
        try:
            await _wait(api, target, int(info["state"]["last_seq"]) if total else 0, progress)
        except Ending:
            progress.say(f"stream {target} is not complete; delete it with: millstream stream rm {target}")
            raise
        progress.end(target, _STEP)
    final = {key: value for key, value in made["config"].items() if key != "sources"}
    after = await api.ask(f"STREAM.UPDATE.{target}", final)
    return int(after["state"]["messages"])


async def _wait(api: JetStreamApi, target: str, last_seq: int, progress: Any) -> None:
    """Wait until all messages of the source up to `last_seq` are copied."""
    seen, changed = -1, time.monotonic()
    while last_seq:
        info = await api.look(f"STREAM.INFO.{target}")
        origin = (info.get("sources") or [{}])[0]
        error = (origin.get("error") or {}).get("description")
        if error:
            raise Ending(f"the messages cannot be copied: {error}", FAILED)
        count = int(info["state"]["messages"])
        progress.advance(target, _STEP, count)
        if origin.get("seq", 0) >= last_seq or (origin.get("active", -1) >= 0 and not origin.get("lag", 1)):
            return
        if count != seen:
            seen, changed = count, time.monotonic()
        if time.monotonic() - changed > _STALLED_S:
            raise Ending(f"no message was copied to {target} for {_STALLED_S:.0f} s", FAILED)
        await asyncio.sleep(_LOOK_S)
