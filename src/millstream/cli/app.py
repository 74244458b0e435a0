"""The subcommands of `millstream` and their help; what `main` does not take a short way for."""

import platform
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

import millstream
from millstream.cli.endings import INTERRUPTED, WRONG_USAGE, tell
from millstream.cli.gateway import gateway
from millstream.cli.pipeline import app as pipeline
from millstream.cli.promote import promote
from millstream.cli.serve import serve as run_serve
from millstream.cli.transfer import backup, restore_command

# Newer releases of typer carry a click of their own; its errors have no name that fits all.
_UsageError: Any = typer.BadParameter.__mro__[1]

app = typer.Typer(
    name="millstream",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # plain text: it wraps once, and leaves room for words
)


def run(arguments: list[str]) -> int:
    """Run a subcommand; returns its exit code, or raises what went wrong."""
    try:
        code = app(arguments, prog_name="millstream", standalone_mode=False)
    except _UsageError as error:
        if type(error).__name__ == "NoArgsIsHelpError":
            error.show()
        else:
            text = error.format_message().rstrip(".")
            command = error.ctx.command_path if error.ctx is not None else "millstream"
            tell(f"{text}{' See' if text.endswith('?') else '; see'} {command} --help")
        return WRONG_USAGE
    except typer.Abort:  # older releases of typer: what follows is Ctrl-C, too
        code = INTERRUPTED
    if code == INTERRUPTED:
        raise KeyboardInterrupt
    return code if isinstance(code, int) else 0


class RawCommand(TyperCommand):
    """A command that parses its own arguments, because their syntax is not ours."""

    # The context has no name that fits all releases, either.
    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        ctx.args = list(args)
        return args


@app.command(cls=RawCommand)
def serve(context: typer.Context) -> None:
    """Start a server; takes nats-server's own flags."""
    raise typer.Exit(run_serve(context.args))


app.command("gateway", short_help="Serve HTTP in front of a NATS server.")(gateway)
app.add_typer(pipeline, name="pipeline", short_help="Run jobs on Spark over streams.")
app.command("backup", short_help="Write streams, with their consumers, to a folder.")(backup)
app.command("restore", short_help="Make streams, with their consumers, from backups.")(restore_command)
app.command("promote", short_help="Move streams and their consumers to another server.")(promote)


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
