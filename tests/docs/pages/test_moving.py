"""The pages about moving streams and about connections name every option of the commands."""

import pytest
import typer.main

from millstream.cli.app import app
from tests.kits.paths import DOCS

PAGE = (DOCS / "moving.md").read_text() + (DOCS / "connecting.md").read_text()
COMMANDS = typer.main.get_command(app).commands  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", ["backup", "restore", "promote"])
def test_every_option_is_on_the_page_and_has_a_help_text(name: str) -> None:
    for parameter in COMMANDS[name].params:
        if parameter.param_type_name != "option" or parameter.name == "help":
            continue
        assert parameter.help, parameter.name
        if not parameter.name.startswith("to_"):  # the second set of the options of connections
            assert any(f"`{flag}" in PAGE for flag in [*parameter.opts, *parameter.secondary_opts]), (
                parameter.name
            )
