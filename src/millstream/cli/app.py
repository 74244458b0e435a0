"""The subcommands of `millstream` and their help; what `main` does not take a short way for."""

import platform
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

import millstream
from millstream.cli.gateway import gateway
from millstream.cli.pipeline import app as pipeline
from millstream.cli.promote import promote
from millstream.cli.serve import serve as run_serve
from millstream.cli.transfer import backup, restore_command

app = typer.Typer(
    name="millstream",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


app.add_typer(pipeline, name="pipeline")


class RawCommand(TyperCommand):
    """A command that parses its own arguments, because their syntax is not ours."""

    # Newer releases of typer carry a click of their own, so the context has no name that fits all.
    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        ctx.args = list(args)
        return args


@app.command(cls=RawCommand, short_help="Start a server; takes nats-server's own flags.")
def serve(context: typer.Context) -> None:
    """Start a server; takes nats-server's own flags."""
    raise typer.Exit(run_serve(context.args))


@app.command()
def version() -> None:
    """Show the version and how this installation was built."""
    python = f"{platform.python_implementation()} {platform.python_version()}"
    typer.echo(f"millstream {millstream.__version__} ({millstream.BUILD}, {python})")


def _show_version(wanted: bool) -> None:
    if wanted:
        version()
        raise typer.Exit


@app.callback()
def options(
    wanted: Annotated[
        bool,
        typer.Option("--version", "-v", callback=_show_version, is_eager=True, help="The same as `version`."),
    ] = False,
) -> None:
    """A NATS-compatible message broker with streams."""


app.command("backup")(backup)
app.command("restore")(restore_command)
app.command("promote")(promote)
app.command("gateway")(gateway)
