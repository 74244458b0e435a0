"""`millstream obj put` and `get`: transfer of objects of any size from and to files, in pieces."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Annotated, Any, BinaryIO, Final

import msgspec
import typer

from millstream.base.reasons import file_reason
from millstream.buckets.object_info import ObjectInfo
from millstream.buckets.objects import ObjectStore, cleaned_up
from millstream.cli.commands.buckets import bucket_link
from millstream.cli.completion import StoreName
from millstream.cli.connection import talks_to_a_server
from millstream.cli.endings import CONFLICT, FAILED, Ending, UsageError
from millstream.cli.output.readings import read_headers_given
from millstream.cli.output.tables import CommandOutput, JsonOption, on_terminal
from millstream.cli.output.texts import header_fields, size_text
from millstream.cli.session import run
from millstream.link.options import LinkOptions

_PREFIX: Final = "OBJ_"
_PIECE: Final = 1 << 20

ObjectName = Annotated[str, typer.Argument(metavar="NAME", help="The object.", show_default=False)]


@talks_to_a_server
def put(
    *,
    server: LinkOptions,
    bucket: StoreName,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The file; - is standard input.")],
    name: Annotated[str, typer.Option(metavar="NAME", help="Its name in the bucket; else the file's.")] = "",
    description: Annotated[str, typer.Option(metavar="TEXT", help="Description.")] = "",
    header: Annotated[
        list[str] | None,
        typer.Option("--header", "-H", metavar="NAME:VALUE", help="A header; several times."),
    ] = None,
    force: Annotated[bool, typer.Option("--force", "-f", help="Replace one of this name.")] = False,
    json: JsonOption = False,
) -> None:
    """Store a file, of any size.

    An object of this name is replaced with --force only.

    \b
    Examples:
      millstream obj put files report.pdf
      tar c folder | millstream obj put files - --name folder.tar
    """
    stdin = str(file) == "-"
    wanted = name or ("" if stdin else file.name)
    if not wanted:
        raise UsageError("--name is missing: standard input has none")
    headers = header_fields(read_headers_given(header))

    def condition(present: ObjectInfo | None) -> None:
        if present is not None and not force:
            raise Ending(f"bucket {bucket} has an object {wanted} already; --force replaces it", CONFLICT)

    async def work() -> None:
        from millstream.cli.progress_bars import progress_for

        async with bucket_link(server, "millstream obj put", _PREFIX, bucket) as link:
            store = await ObjectStore.open(link, bucket)
            if store.info.config.sealed:
                raise Ending(f"bucket {bucket} is sealed: nothing can be stored in it", FAILED)
            condition(await store.find(wanted))
            with (
                _source(file, stdin) as (source, size),
                progress_for(json=json, quiet=not _slow(size)) as bars,
            ):
                bars.begin(wanted, "upload", size)
                try:
                    made = await store.put(
                        wanted,
                        _pieces(source, lambda done: bars.advance(wanted, "upload", done)),
                        description=description,
                        headers=headers,
                        condition=condition,
                    )
                finally:
                    await cleaned_up()
                bars.end(wanted, "upload")
        CommandOutput(json=json).done(
            msgspec.to_builtins(made), f"{wanted} is stored, {size_text(made.size)}"
        )

    run(work())


def _slow(size: int) -> bool:
    """Return whether a transfer takes long enough for a progress bar."""
    return size == 0 or size > 16 * _PIECE


@contextlib.contextmanager
def _source(file: Path, stdin: bool) -> Any:
    """Yield the input and its size, 0 if it is not known."""
    if stdin:
        yield sys.stdin.buffer, 0
        return
    try:
        with file.open("rb") as opened:
            yield opened, os.fstat(opened.fileno()).st_size
    except OSError as error:
        raise UsageError(f"cannot read {file}: {file_reason(error)}") from None


async def _pieces(source: BinaryIO, told: Any) -> AsyncIterator[bytes]:
    done = 0
    while piece := await asyncio.to_thread(source.read, _PIECE):
        yield piece
        done += len(piece)
        told(done)


@talks_to_a_server
def get(
    *,
    server: LinkOptions,
    bucket: StoreName,
    name: ObjectName,
    out: Annotated[
        Path | None, typer.Option("--output", "-O", metavar="FILE", help="Target file; - is standard output.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", "-f", help="Replace an existing file.")] = False,
    json: JsonOption = False,
) -> None:
    """Write an object to a file.

    By default, the file has the name of the object and is in this folder. Links are followed. The file
    appears when all of it was received and its digest was checked.

    \b
    Examples:
      millstream obj get files report.pdf
      millstream obj get files folder.tar -O - | tar x
    """
    target = out if out is not None else Path(_file_name(name))
    stdout = str(target) == "-"
    if stdout and on_terminal():
        raise UsageError("an object is not for terminals, which act on some bytes: write to a file or a pipe")
    if stdout and json:
        raise UsageError("--json and -O - exclude each other")
    if not stdout and target.exists() and not force:
        raise Ending(f"{target} is there already; --force replaces it", CONFLICT)

    async def work() -> None:
        from millstream.cli.progress_bars import progress_for

        async with bucket_link(server, "millstream obj get", _PREFIX, bucket) as link:
            store, info = await (await ObjectStore.open(link, bucket)).resolve(name)
            with progress_for(json=json, quiet=stdout or not _slow(info.size)) as bars:
                bars.begin(name, "download", info.size)
                done = 0
                with _sink(target, stdout) as sink:
                    async for piece in store.read(info):
                        await asyncio.to_thread(sink.write, piece)
                        done += len(piece)
                        bars.advance(name, "download", done)
                bars.end(name, "download")
        if not stdout:
            text = f"{target} has {size_text(info.size)}, checked by its digest"
            CommandOutput(json=json).done({"file": str(target), **msgspec.to_builtins(info)}, text)

    run(work())


def _file_name(name: str) -> str:
    """Return the last part of an object's name; raises UsageError if it is no safe file name."""
    last = name.replace("\\", "/").rpartition("/")[2]
    if not last or last in (".", "..") or not last.isprintable():
        raise UsageError(f"{name!r} is no name for a file; say where to with --output")
    return last


@contextlib.contextmanager
def _sink(target: Path, stdout: bool) -> Any:
    """Yield a file that gets its name at the end, or is removed after an error."""
    if stdout:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    beside = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        with beside.open("xb") as opened:
            yield opened
        os.replace(beside, target)
    except OSError as error:
        raise Ending(f"cannot write {target}: {file_reason(error)}", FAILED) from None
    finally:
        with contextlib.suppress(OSError):
            beside.unlink()
