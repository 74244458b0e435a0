"""Every command: its help, its examples, its flags, and what is imported for it."""

import re
import shlex
import subprocess
import sys
from typing import Any

import pytest
import typer.main

from millstream.cli.app import PLACES, app, every_command
from tests.kits.patience import PATIENCE_S

COMMANDS = every_command()
NO_EXAMPLES = {"serve", "gateway", "version", "pipeline check", "pipeline run"}
NO_JSON = {"serve", "gateway", "version", "pipeline check", "completion", "mcp"}
DESTROY = {
    "stream rm", "stream purge", "stream edit", "consumer rm", "consumer edit", "consumer reset", "kv del",
    "kv purge", "kv rm", "obj rm", "obj seal", "obj put", "obj get", "dlq redrive", "context rm",
    "context add", "backup", "group rm",
}  # fmt: skip


def options(command: Any) -> set[str]:
    return {flag for each in command.params for flag in (*each.opts, *each.secondary_opts)}


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help(name: str) -> None:
    command = COMMANDS[name]
    assert command.help
    for each in command.params:
        if each.param_type_name == "option" and each.name != "help":
            assert each.help, each.name
    assert ("--json" in options(command)) == (name not in NO_JSON)
    assert ("--force" in options(command)) == (name in DESTROY)


@pytest.mark.parametrize("name", sorted(COMMANDS.keys() - NO_EXAMPLES))
def test_every_example_names_a_command_and_its_flags(name: str) -> None:
    lines = [line.strip() for line in COMMANDS[name].help.splitlines()]
    examples = [line for line in lines if re.match(r"(millstream|\w.* \| millstream) ", line)]
    assert examples, f"{name} has no examples"
    assert any(f"millstream {name}" in line for line in examples)
    for line in examples:
        words = shlex.split(line.split("| ")[-1] if "| millstream" in line else line.split(" | ")[0])
        words = words[: words.index(">")] if ">" in words else words
        typed = next(each for each in (" ".join(words[1:3]), words[1]) if each in COMMANDS)
        given = {word for word in words if re.match(r"--?[a-zA-Z]", word)}
        assert given <= options(COMMANDS[typed]) | {"-1"}, line


def test_the_help_of_all_commands_imports_none_of_them() -> None:
    code = (
        "import sys\n"
        "from millstream.cli.app import run\n"
        "run(['--help'])\n"
        "late = ('millstream.cli.commands', 'rich')\n"
        "print(*[name for name in sys.modules if name.startswith(late)])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=PATIENCE_S)
    assert done.returncode == 0, done.stderr
    *shown, imported = done.stdout.splitlines()
    assert imported == ""
    assert {line.split()[0] for line in shown if line.startswith("  ")} >= PLACES.keys()


@pytest.mark.parametrize(
    ("typed", "meant"), [("strem", "stream"), ("doktor", "doctor"), ("contxt", "context")]
)
def test_a_mistyped_command_gets_a_suggestion(typed: str, meant: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "millstream", typed], capture_output=True, text=True, timeout=PATIENCE_S
    )
    assert done.returncode == 2
    assert (
        done.stderr
        == f"millstream: No such command '{typed}'. Did you mean '{meant}'? See millstream --help\n"
    )


def test_a_shell_completes_commands_and_flags() -> None:
    root: Any = typer.main.get_command(app)
    context = root.make_context("millstream", [], resilient_parsing=True)
    assert [each.value for each in root.shell_complete(context, "st")] == ["stream"]
    stream = root.get_command(context, "stream")
    inner = stream.make_context("stream", [], parent=context, resilient_parsing=True)
    assert {each.value for each in stream.shell_complete(inner, "")} >= {"ls", "view", "tail"}
