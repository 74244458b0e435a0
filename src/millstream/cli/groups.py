"""Groups of commands that are imported on use, and the layout of their help.

    app = CommandGroup(help="Streams.")            # the commands of one noun

    @app.command("ls")
    @talks_to_a_server
    def ls(*, server: LinkOptions, …) -> None: …

`LazyGroup` has the name and one line of help of each command, and imports the module of the command that was
typed.  So `millstream --help` imports none of them, and `millstream stream ls` imports one.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any, ClassVar, Final, NamedTuple

import typer
from typer.core import TyperCommand, TyperGroup

from millstream.link.options import FIELDS

_CONNECTION: Final = frozenset(
    each.names.flags[0].removeprefix("--").replace("-", "_") for each in FIELDS if each.names.flags
)


class CommandPlace(NamedTuple):
    """The place of a command: ``module:name`` of a function or of a `typer.Typer`, and its line of help."""

    path: str
    help: str
    section: str
    raw: bool = False  # the command parses its own arguments


class HelpfulCommand(TyperCommand):
    """A command whose help lists the common options of a connection at the end."""

    # The types of context and formatter have no names common to all releases of typer.
    def format_options(self, ctx: Any, formatter: Any) -> None:
        sections: dict[str, list[tuple[str, str]]] = {"Arguments": [], "Options": [], "Connection": []}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is None:
                continue
            if parameter.param_type_name == "argument":
                sections["Arguments"].append(record)
            elif parameter.name in _CONNECTION:
                sections["Connection"].append(record)
            else:
                sections["Options"].append(record)
        for title, records in sections.items():
            if records:
                with formatter.section(title):
                    formatter.write_dl(records)


class RawCommand(TyperCommand):
    """A command that parses its own arguments, because their syntax is not ours."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        ctx.args = list(args)
        return args


class CommandGroup(typer.Typer):
    """The commands of one noun."""

    def __init__(self, help: str) -> None:
        super().__init__(help=help, no_args_is_help=True, rich_markup_mode=None, add_completion=False)

    def command(self, name: str | None = None, **more: Any) -> Callable[[Any], Any]:
        """Add a command with the common layout of its help."""
        return super().command(name, **{"cls": HelpfulCommand, **more})


class LazyGroup(TyperGroup):
    """A group whose commands are imported when they are typed."""

    places: ClassVar[dict[str, CommandPlace]] = {}

    def list_commands(self, ctx: Any) -> list[str]:
        return list(dict.fromkeys([*self.places, *self.commands]))  # an imported command is in both

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        place = self.places.get(cmd_name)
        if place is None:
            return super().get_command(ctx, cmd_name)
        made = self.commands.get(cmd_name)
        if made is None:
            made = self.commands[cmd_name] = _made(cmd_name, place)
        return made

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        # click's suggestions need the registered commands
        if args and args[0] not in self.list_commands(ctx):
            for name, place in self.places.items():
                self.commands.setdefault(name, _Named(name, place.help))
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        sections: dict[str, list[tuple[str, str]]] = {}
        for name, place in self.places.items():
            sections.setdefault(place.section, []).append((name, place.help))
        widest = max(map(len, self.places), default=0)
        for title, rows in sections.items():
            with formatter.section(title):
                formatter.write_dl([(f"{name:<{widest}}", text) for name, text in rows])

    def shell_complete(self, ctx: Any, incomplete: str) -> Any:
        if ctx.args or not any(name.startswith(incomplete) for name in self.places):
            return super().shell_complete(ctx, incomplete)
        kind = _completion_item()
        return [
            kind(name, help=place.help) for name, place in self.places.items() if name.startswith(incomplete)
        ]


class _Named(TyperCommand):
    """The name of a command, for suggestions."""

    def __init__(self, name: str, help: str) -> None:
        super().__init__(name, help=help)


def _completion_item() -> Any:
    """Return the class of click, or of the click inside typer."""
    package = typer.BadParameter.__module__.rpartition(".")[0]
    return import_module(f"{package}.shell_completion").CompletionItem


def _made(name: str, place: CommandPlace) -> Any:
    module, _, attribute = place.path.partition(":")
    found = getattr(import_module(module), attribute)
    if not isinstance(found, typer.Typer):
        app = typer.Typer(rich_markup_mode=None, add_completion=False, pretty_exceptions_enable=False)
        app.command(name, cls=RawCommand if place.raw else HelpfulCommand)(found)
        found = app
    made = typer.main.get_command(found)
    made.name = name
    return made
