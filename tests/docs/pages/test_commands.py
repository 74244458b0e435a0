"""`docs/commands.md` has every command and every option; GOLDEN_UPDATE=1 writes them."""

import inspect
import re
import textwrap
from collections.abc import Iterator
from typing import Any

import typer

from millstream.cli.app import app
from millstream.cli.flags import FLAGS, HelpSection
from millstream.link.options import FIELDS
from tests.kits.docs.generated import WIDTH, compare, item
from tests.kits.paths import DOCS

PAGE = DOCS / "commands.md"
CONNECTION = {flag for each in FIELDS for flag in each.names.flags}
TARGET = {"--to", *(flag.replace("--", "--to-", 1) for flag in CONNECTION if flag.startswith("--"))}


def described(command: Any) -> str:
    """Return the first paragraph of a command's help, on one line."""
    text = inspect.cleandoc(command.help or command.short_help or "")
    return re.sub(r"\s+", " ", text.replace("\b", "").split("\n\n")[0]).strip()


def spelled(parameter: Any) -> list[str]:
    if parameter.param_type_name == "argument":
        return [parameter.metavar or parameter.name.upper()]
    return [*sorted(parameter.opts, key=len, reverse=True), *parameter.secondary_opts]


def explained(parameter: Any) -> str:
    variables = [parameter.envvar] if isinstance(parameter.envvar, str) else parameter.envvar or []
    also = f" (or the variable {', '.join(f'`{name}`' for name in variables)})" if variables else ""
    return re.sub(r"\s+", " ", getattr(parameter, "help", None) or "").strip() + also


def sections(command: Any, name: str) -> Iterator[str]:
    """Yield the lines about a command and the commands below it."""
    shown = [each for each in command.params if not getattr(each, "hidden", False)]
    if name != "millstream":
        yield from [f"### millstream {name}", "", *wrapped(described(command)), ""]
    if name == "serve":
        yield from ["The flags are [below](#flags-of-millstream-serve).", ""]
    elif shown:
        own = [each for each in shown if not CONNECTION & set(each.opts) and not TARGET & set(each.opts)]
        yield from (item(spelled(each), explained(each)) for each in own)
        if any(TARGET & set(each.opts) for each in shown):
            yield "* `--to` and `--to-…`: the options of a connection once more, for the target"
        if len(own) < len(shown):
            yield "* the options of a connection: [connecting.md](connecting.md)"
        yield ""
    for each, below in commands_below(command).items():
        if not below.hidden:
            yield from sections(below, each if name == "millstream" else f"{name} {each}")


def commands_below(command: Any) -> dict[str, Any]:
    """Return the commands of a group by name; imports those that the group imports when they are typed."""
    if not hasattr(command, "list_commands"):
        return {}
    return {each: command.get_command(None, each) for each in command.list_commands(None)}


def wrapped(text: str) -> list[str]:
    return textwrap.wrap(text, WIDTH, break_long_words=False, break_on_hyphens=False)


def test_every_command_and_option_is_on_the_page() -> None:
    compare(PAGE, "commands", [*sections(typer.main.get_command(app), "millstream")][:-1])


def test_every_flag_of_serve_is_on_the_page() -> None:
    lines: list[str] = []
    for section in HelpSection:
        lines += ["", f"### {section}", ""]
        for flag in FLAGS:
            if flag.section is section:
                names = [
                    f"-{name}" if len(name) < 3 or name.isupper() else f"--{name}" for name in flag.names
                ]
                value = f" <{flag.value}>" if flag.value else ""
                lines.append(item([*names[:-1], names[-1] + value], flag.help))
    compare(PAGE, "flags", lines[1:])
