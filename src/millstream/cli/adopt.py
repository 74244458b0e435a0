"""`millstream adopt`: its options, where the key of a store comes from, and its output."""

import os
from pathlib import Path
from typing import Annotated, Any, Final

import msgspec
import typer

from millstream.archive.store_keys import StoreKeys
from millstream.cli.progress_bars import progress_for
from millstream.cli.transfer import JsonOption, show, size_text
from millstream.config.errors import ConfigError
from millstream.config.parser import parse_file
from millstream.config.tree import plain
from millstream.jetstream.adoption.adoption import AdoptionError, AdoptionPlan, adopt, check_target, look
from millstream.jetstream.adoption.report import AdoptionReport, StreamReport

_KEY_VARIABLES: Final = ("MILLSTREAM_ADOPT_KEY", "MILLSTREAM_ADOPT_PREV_KEY")
_KEYS: Final = ("key", "ek", "encryption_key", "prev_key", "prev_ek", "prev_encryption_key")


def adopt_command(
    store: Annotated[
        Path, typer.Argument(metavar="STORE", help="The store_dir of a nats-server that has stopped.")
    ],
    to: Annotated[
        Path, typer.Option("--to", metavar="DIR", help="Where the new store goes: a new or empty folder.")
    ],
    config: Annotated[
        Path | None,
        typer.Option(
            "--config",
            "-c",
            metavar="FILE",
            help="The configuration of that nats-server; read for the key of an encrypted store.",
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Read and verify everything; write nothing.")
    ] = False,
    json: JsonOption = False,
) -> None:
    """Make a store of Millstream from the files of a nats-server (2.10 to 2.15) that has stopped.

    Streams, messages with their sequences and times, and consumers with their pending acks are taken over.
    STORE is only read. Every message is verified by its checksum; damaged ones are left out and listed. DIR
    becomes a store when all of it is written; an interrupted adoption leaves none.

    The key of an encrypted store comes from --config or from MILLSTREAM_ADOPT_KEY, a previous one from
    MILLSTREAM_ADOPT_PREV_KEY. The new store is not encrypted.

    The command ends with 1 if anything was damaged or left out.

    Examples:

      millstream adopt /var/lib/nats --to /var/lib/millstream

      millstream adopt /var/lib/nats --to /var/lib/millstream --dry-run
    """
    check_target(str(to))
    plan = AdoptionPlan(str(store), StoreKeys(_keys(config)))
    with progress_for(json=json) as progress:
        report = look(plan, progress) if dry_run else adopt(plan, str(to), progress)
    shown: dict[str, Any] = msgspec.to_builtins(report)
    show({**shown, "sound": report.sound}, _lines(report), json=json)
    raise typer.Exit(0 if report.sound else 1)


def _keys(config: Path | None) -> list[str]:
    """Return the keys that the environment and the configuration give."""
    keys = [os.environ.get(name, "") for name in _KEY_VARIABLES]
    if config is None:
        return keys
    try:
        tree = plain(parse_file(config))
    except ConfigError as error:
        raise AdoptionError(f"--config: {error}") from error
    assert isinstance(tree, dict)
    for name, block in tree.items():
        if name.lower() == "jetstream" and isinstance(block, dict):
            settings = {key.lower(): value for key, value in block.items()}
            keys += [str(settings[key]) for key in _KEYS if key in settings]
    return keys


def _lines(report: AdoptionReport) -> list[str]:
    lines = [line for each in report.streams for line in _stream_lines(each, written=bool(report.folder))]
    if report.folder:
        lines.append(f"start it: millstream serve -js -sd {report.folder}")
    return lines


def _stream_lines(stream: StreamReport, *, written: bool) -> list[str]:
    title = f"{stream.account} > {stream.stream}"
    if stream.error:
        return [f"{title}: NOT ADOPTED: {stream.error}"]
    size = f" ({size_text(stream.bytes)})" if written else ""
    lines = [
        f"{title}: {stream.messages} messages{size}, {stream.first_seq} to {stream.last_seq}, "
        f"{len(stream.consumers)} consumers"
    ]
    lines += [f"{title}: DAMAGED: {each.text()}" for each in stream.damage]
    lines += [f"{title}: {note}" for note in stream.notes]
    return lines
