"""`millstream backup` and `millstream restore`: their options and output."""

import asyncio
import json as json_text
from collections.abc import Coroutine
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Any

import typer

from millstream.base.errors import MillstreamError
from millstream.base.owned import visible
from millstream.cli.connection import connected, talks_to_a_server
from millstream.cli.progress_bars import progress_for
from millstream.link.options import LinkOptions
from millstream.transfer.api import JetStreamApi
from millstream.transfer.backup import BackupOptions, back_up
from millstream.transfer.errors import TransferError
from millstream.transfer.folder import find_backups
from millstream.transfer.restore import RestoreOptions, restore
from millstream.transfer.snapshots import DEFAULT_CHUNK

JsonOption = Annotated[bool, typer.Option("--json", help="Print the result as JSON, and nothing else.")]


def run(work: Coroutine[Any, Any, int]) -> None:
    """Run a command to its end, and exit with its code; raises its errors."""
    try:
        code = asyncio.run(work)
    except (LookupError, TypeError, ValueError, AttributeError, RecursionError) as error:
        text = f"{type(error).__name__}: {error}"
        raise TransferError(f"the server sent an unreadable answer ({text})") from error
    raise typer.Exit(code)


def show(report: dict[str, Any], lines: list[str], *, json: bool) -> None:
    if json:
        print(json_text.dumps(report, indent=2))
    else:
        print("\n".join(visible(line) for line in lines))


def size_text(count: float) -> str:
    """Return a readable number of bytes."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(count) < 1024:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} TiB"


@talks_to_a_server
def backup(
    *,
    server: LinkOptions,
    folder: Annotated[
        Path, typer.Argument(metavar="FOLDER", help="Where to write; each stream gets a folder in it.")
    ],
    streams: Annotated[
        list[str] | None,
        typer.Argument(metavar="STREAM", help="Which streams, * and ? as in a shell; all if none is named."),
    ] = None,
    consumers: Annotated[
        bool, typer.Option("--consumers/--no-consumers", help="Consumers and what they acknowledged, too.")
    ] = True,
    check: Annotated[
        bool, typer.Option("--check", help="Let the server look at every message before it sends any.")
    ] = False,
    force: Annotated[bool, typer.Option("--force", "-f", help="Replace backups that are there.")] = False,
    verify: Annotated[
        bool, typer.Option("--verify/--no-verify", help="Read what was written once more, from disk.")
    ] = True,
    chunk_size: Annotated[
        int,
        typer.Option(metavar="BYTES", min=1024, max=1024 * 1024, help="Bytes that the server sends at once."),
    ] = DEFAULT_CHUNK,
    json: JsonOption = False,
) -> None:
    """Write streams, with their consumers, to a folder, while they are in use.

    Each backup is of one moment. It appears in FOLDER under the name of the stream when it is whole, synced
    and checked; one that was interrupted leaves nothing. The `nats` command line can restore it.

    Examples:

      millstream backup /backups/monday

      millstream backup /backups/monday ORDERS 'KV_*' -s nats://db1:4222
    """
    options = BackupOptions(consumers, check, force, verify, chunk_size)

    async def work() -> int:
        async with connected(server, "millstream backup") as api:
            names = await chosen(api, streams or [])
            reports: list[dict[str, Any]] = []
            with progress_for(json=json) as progress:
                for name in names:
                    try:
                        _refuse_same_folder(folder, name, [each["stream"] for each in reports])
                        done = await back_up(api, name, folder / name, progress, options)
                    except MillstreamError as error:
                        reports.append({"stream": name, "error": str(error)})
                    else:
                        reports.append(done.report())
        show({"streams": reports}, _backup_lines(reports), json=json)
        return 1 if any("error" in each for each in reports) else 0

    run(work())


def _refuse_same_folder(folder: Path, name: str, before: list[str]) -> None:
    """Refuse two streams whose folders a file system does not distinguish: `orders` and `ORDERS`."""
    path = folder / name
    for other in (each for each in before if each.casefold() == name.casefold()):
        if path.exists() and (folder / other).exists() and path.samefile(folder / other):
            raise TransferError(f"{path}: stream {other} was just written there")


def _backup_lines(reports: list[dict[str, Any]]) -> list[str]:
    lines = []
    for each in reports:
        if "error" in each:
            lines.append(f"{each['stream']}: FAILED: {each['error']}")
            continue
        lines.append(
            f"{each['stream']}: {each['messages']} messages ({size_text(each['bytes'])}), "
            f"{len(each['consumers'])} consumers → {each['folder']} "
            f"({size_text(each['archive_bytes'])}, {each['seconds']:.1f} s)"
        )
    return lines or ["there are no streams"]


async def chosen(api: JetStreamApi, patterns: list[str]) -> list[str]:
    """Return the streams that match; raises TransferError if a pattern matches none."""
    names = sorted(await api.stream_names())
    if not patterns:
        return names
    found: list[str] = []
    for pattern in patterns:
        fits = [name for name in names if fnmatchcase(name, pattern)]
        if not fits:
            raise TransferError(f"there is no stream {pattern} on {api.where}")
        found += [name for name in fits if name not in found]
    return found


@talks_to_a_server
def restore_command(
    *,
    server: LinkOptions,
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="A backup, or a folder of backups.")],
    streams: Annotated[
        list[str] | None,
        typer.Argument(metavar="STREAM", help="Which of them, * and ? as in a shell; all if none is named."),
    ] = None,
    name: Annotated[
        str, typer.Option("--name", metavar="NAME", help="Another name for the stream, if it is one.")
    ] = "",
    subjects: Annotated[
        list[str] | None,
        typer.Option("--subject", metavar="SUBJECT", help="Other subjects; may be given several times."),
    ] = None,
    replicas: Annotated[
        int, typer.Option(metavar="NUMBER", min=0, max=5, help="Number of replicas; 0 keeps the number.")
    ] = 0,
    cluster: Annotated[
        str, typer.Option("--cluster", metavar="NAME", help="Place the stream in this cluster.")
    ] = "",
    tags: Annotated[
        list[str] | None,
        typer.Option("--tag", metavar="TAG", help="Place it on servers with this tag; several times."),
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="JSON file with further fields of the configuration to change."),
    ] = None,
    verify: Annotated[
        bool,
        typer.Option("--verify/--no-verify", help="Read the stream back and compare every message."),
    ] = True,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Look at the backups from end to end; restore nothing.")
    ] = False,
    json: JsonOption = False,
) -> None:
    """Make streams, with their consumers, from backups of `millstream backup` or the `nats` command line.

    Every backup is read and checked before the first byte is sent; one that is damaged is refused whole. A
    stream that exists is never touched. Afterwards the stream is read back and compared message by message.

    Examples:

      millstream restore /backups/monday

      millstream restore /backups/monday/ORDERS --replicas 3 -s nats://db1:4222

      millstream restore /backups/monday ORDERS --name OLD --subject 'old.>'
    """

    async def work() -> int:
        options = RestoreOptions(
            name, tuple(subjects or ()), replicas, cluster, tuple(tags or ()), _changes(config), verify
        )
        backups = find_backups(folder)
        if streams:
            backups = [each for each in backups if any(fnmatchcase(each.stream, one) for one in streams)]
            if not backups:
                raise TransferError(f"{folder}: there is no backup of {', '.join(streams)}")
        if name and len(backups) > 1:
            raise TransferError("--name is for one stream, and these are several")
        summaries = {each.stream: await asyncio.to_thread(each.check) for each in backups}
        if dry_run:
            report = [
                {"stream": key, "messages": one.state.get("messages"), "digest": one.digest, "sound": True}
                for key, one in summaries.items()
            ]
            lines = [f"{each['stream']}: sound, {each['messages']} messages" for each in report]
            show({"streams": report}, lines, json=json)
            return 0
        reports: list[dict[str, Any]] = []
        async with connected(server, "millstream restore") as api:
            with progress_for(json=json) as progress:
                for each in backups:
                    try:
                        done = await restore(api, each, progress, options)
                    except MillstreamError as error:
                        reports.append({"stream": name or each.stream, "error": str(error)})
                    else:
                        reports.append(done.report())
        show({"streams": reports}, _restore_lines(reports), json=json)
        return 1 if any("error" in each for each in reports) else 0

    run(work())


def _changes(path: Path | None) -> dict[str, Any]:
    if path is None:
        return {}
    try:
        found = json_text.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise TransferError(f"--config {path}: {error}") from error
    if not isinstance(found, dict):
        raise TransferError(f"--config {path}: it is no object")
    return found


def _restore_lines(reports: list[dict[str, Any]]) -> list[str]:
    lines = []
    for each in reports:
        if "error" in each:
            lines.append(f"{each['stream']}: FAILED: {each['error']}")
            continue
        checked = "every message compared" if each["verified"] else "not compared"
        lines.append(
            f"{each['stream']}: {each['messages']} messages ({size_text(each['bytes'])}), "
            f"{len(each['consumers'])} consumers, {checked} ({each['seconds']:.1f} s)"
        )
    return lines
