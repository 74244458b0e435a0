"""The connection options of every command that is a client: server and credentials.

    @app.command()
    @talks_to_a_server
    def backup(folder: Path, server: LinkOptions) -> None:
        async with connected(server, "millstream backup") as api: …

The decorator replaces the parameter `server` by the options.  They are made from the declaration of
`LinkOptions`; names and environment variables are those of the `nats` command line, so an environment that is
set up for it works here, too.  Without any address, the selected context of the `nats` tool is used.

A command with two servers has a second set, whose options begin with ``--to-``.  It uses neither the
environment nor the selected context, so that no server gets the password of the other.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import os
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Annotated, Any, Final

import typer

from millstream.cli.endings import UsageError
from millstream.link.errors import BadLinkOptions
from millstream.link.fields import Field, OptionKind
from millstream.link.layers import Layer
from millstream.link.link import Link
from millstream.link.login import check_files
from millstream.link.options import FIELDS, LinkOptions
from millstream.link.sources import environment_layer, link_options
from millstream.transfer.api import JetStreamApi

_TO: Final = "to"


def talks_to_a_server(command: Callable[..., None]) -> Callable[..., None]:
    """Give `command` the options of a server in place of its parameter `server`."""

    def options(given: dict[str, Any]) -> LinkOptions:
        return link_options(flag_layer(given), environment_layer(os.environ), selected=True)

    return _extended(command, "server", flag_parameters(), options)


def talks_to_a_second(command: Callable[..., None]) -> Callable[..., None]:
    """Give `command` the options ``--to``, ``--to-user`` … for its parameter `to`; None without ``--to``."""

    def options(given: dict[str, Any]) -> LinkOptions | None:
        layer = flag_layer(given, _TO)
        return link_options(layer) if layer.values.keys() & {"servers", "context"} else None

    return _extended(command, _TO, flag_parameters(_TO), options)


def takes_link_flags(command: Callable[..., None]) -> Callable[..., None]:
    """Give `command` the layer of the flags as its parameter `link`, to put above a file of settings."""
    return _extended(command, "link", flag_parameters(), flag_layer)


def flag_parameters(prefix: str = "") -> list[inspect.Parameter]:
    """Return a parameter for every option with a flag; `prefix` is for those of another server."""
    return [_parameter(each, prefix) for each in FIELDS if each.names.flags]


def flag_layer(given: dict[str, Any], prefix: str = "") -> Layer:
    """Return the layer of the flags, and remove them from the arguments of a command."""
    layer = Layer()
    for each in FIELDS:
        if not each.names.flags:
            continue
        raw = given.pop(_argument(each, prefix))
        if raw is not False:
            layer.put(each, raw, _flags(each, prefix)[0])
    return layer


def _argument(option: Field, prefix: str) -> str:
    """Return the name of the parameter; the addresses have the familiar name `server`."""
    return _flags(option, prefix)[0].removeprefix("--").replace("-", "_")


def _flags(option: Field, prefix: str) -> tuple[str, ...]:
    if not prefix:
        return option.names.flags
    if option.names.kind is OptionKind.SERVERS:
        return (f"--{prefix}",)
    return (f"--{prefix}-{option.names.flags[0].removeprefix('--')}",)


def _parameter(option: Field, prefix: str) -> inspect.Parameter:
    names = option.names
    text = f"{names.help[:1].upper()}{names.help[1:]}.".replace("`", "")
    if names.variable and not prefix:
        text += f" [env var: {names.variable}]"
    if names.kind is not OptionKind.SWITCH and option.default_text:
        text += f" [default: {option.default_text}]"
    kind: Any = str
    default: Any = ""
    if names.kind is OptionKind.SWITCH:
        kind, default = bool, False
    elif names.kind is OptionKind.SERVERS:
        kind, default = list[str] | None, None
    made = typer.Option(
        *_flags(option, prefix),
        metavar=names.metavar or None,
        help=text,
        show_default=False,
    )
    return inspect.Parameter(
        _argument(option, prefix),
        inspect.Parameter.KEYWORD_ONLY,
        default=default,
        annotation=Annotated[kind, made],
    )


def _extended(
    command: Callable[..., None],
    parameter: str,
    flags: Iterable[inspect.Parameter],
    options: Callable[[dict[str, Any]], LinkOptions | Layer | None],
) -> Callable[..., None]:
    @functools.wraps(command)
    def wrapper(**given: Any) -> None:
        try:
            found = options(given)
        except BadLinkOptions as error:
            raise UsageError(str(error)) from None
        command(**given, **{parameter: found})

    signature = inspect.signature(command, eval_str=True)
    kept = [
        each.replace(kind=inspect.Parameter.KEYWORD_ONLY)
        for name, each in signature.parameters.items()
        if name != parameter
    ]
    every = [*kept, *flags]
    wrapper.__signature__ = signature.replace(parameters=every)  # type: ignore[attr-defined]
    wrapper.__annotations__ = {each.name: each.annotation for each in every}
    del wrapper.__wrapped__
    return wrapper


@asynccontextmanager
async def connected(options: LinkOptions, name: str) -> AsyncIterator[JetStreamApi]:
    """Yield the JetStream API of a server; raises LinkError if it cannot connect.

    Unusable files are found before anything is sent.  A lost connection is reopened; its errors are raised by
    pending requests.
    """
    check_files(options)
    async with Link(dataclasses.replace(options, name=name)) as link:
        yield JetStreamApi(link)
