"""The subcommands of `millstream` and their help; `main` starts `serve` without this module."""

import platform
from typing import Annotated, Any, Final

import typer

import millstream
from millstream.cli.endings import INTERRUPTED, WRONG_USAGE, tell
from millstream.cli.groups import CommandPlace, LazyGroup

# Newer releases of typer include a click of their own, whose errors have no name common to all releases.
_UsageError: Any = typer.BadParameter.__mro__[1]

_SERVER: Final = "Servers"
_MESSAGES: Final = "Messages"
_STREAMS: Final = "Streams"
_MOVING: Final = "Moving streams"
_LOOKING: Final = "Looking around"

PLACES: Final = {
    "dev": CommandPlace(
        "millstream.cli.commands.dev:dev", "Start broker, gateway and dashboard, to try.", _SERVER
    ),
    "serve": CommandPlace(
        "millstream.cli.app:serve", "Start a server; takes nats-server's own flags.", _SERVER, raw=True
    ),
    "gateway": CommandPlace(
        "millstream.cli.gateway:gateway", "Serve HTTP in front of a NATS server.", _SERVER
    ),
    "pipeline": CommandPlace("millstream.cli.pipeline:app", "Run jobs on Spark over streams.", _SERVER),
    "pub": CommandPlace("millstream.cli.commands.pub:pub", "Publish messages.", _MESSAGES),
    "sub": CommandPlace("millstream.cli.commands.sub:sub", "Show messages as they come.", _MESSAGES),
    "req": CommandPlace("millstream.cli.commands.req:req", "Send a request and show the answers.", _MESSAGES),
    "stream": CommandPlace(
        "millstream.cli.commands.stream:app", "Look at streams and manage them.", _STREAMS
    ),
    "sql": CommandPlace("millstream.cli.commands.sql:sql", "Ask streams and buckets with SQL.", _STREAMS),
    "consumer": CommandPlace(
        "millstream.cli.commands.consumer:app", "Look at consumers and manage them.", _STREAMS
    ),
    "group": CommandPlace(
        "millstream.cli.commands.group:app", "Consumer groups: keys shared among members.", _STREAMS
    ),
    "kv": CommandPlace("millstream.cli.commands.kv:app", "Buckets of keys and values.", _STREAMS),
    "obj": CommandPlace("millstream.cli.commands.obj:app", "Buckets of objects of any size.", _STREAMS),
    "dlq": CommandPlace(
        "millstream.cli.commands.dlq:app", "Dead letters: read them, send them again.", _STREAMS
    ),
    "backup": CommandPlace(
        "millstream.cli.transfer:backup", "Write streams, with their consumers, to a folder.", _MOVING
    ),
    "restore": CommandPlace(
        "millstream.cli.transfer:restore_command",
        "Make streams, with their consumers, from backups.",
        _MOVING,
    ),
    "promote": CommandPlace(
        "millstream.cli.promote:promote", "Move streams and their consumers to another server.", _MOVING
    ),
    "adopt": CommandPlace(
        "millstream.cli.adopt:adopt_command", "Make a store from the files of a nats-server.", _MOVING
    ),
    "top": CommandPlace(
        "millstream.cli.commands.top:top", "Watch streams, consumers and connections live.", _LOOKING
    ),
    "doctor": CommandPlace(
        "millstream.cli.commands.doctor:doctor",
        "Check a server and this machine; say what to change.",
        _LOOKING,
    ),
    "bench": CommandPlace("millstream.cli.commands.bench:app", "Measure a server: simple rates.", _LOOKING),
    "mcp": CommandPlace(
        "millstream.cli.commands.mcp:mcp", "Let an assistant look at a server (MCP).", _LOOKING
    ),
    "context": CommandPlace(
        "millstream.cli.commands.context:app",
        "Contexts of the nats tool: where to connect, and as whom.",
        _LOOKING,
    ),
    "version": CommandPlace(
        "millstream.cli.app:version", "Show the version and how this was built.", _LOOKING
    ),
}


class Root(LazyGroup):
    """The commands of `millstream`."""

    places = PLACES


app = typer.Typer(
    name="millstream",
    cls=Root,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # plain text wraps once and leaves more room
)


def every_command() -> dict[str, Any]:
    """Return all commands by their words, such as ``stream ls``; imports all of their modules."""
    root: Any = typer.main.get_command(app)
    found: dict[str, Any] = {}
    for name in PLACES:
        command = root.get_command(None, name)
        inner = getattr(command, "commands", None)
        found |= {f"{name} {each}": inner[each] for each in inner} if inner else {name: command}
    return found


def run(arguments: list[str]) -> int:
    """Run a subcommand; returns its exit code, or raises its error."""
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
    except typer.Abort:  # older releases of typer raise this on Ctrl-C
        code = INTERRUPTED
    if code == INTERRUPTED:
        raise KeyboardInterrupt
    return code if isinstance(code, int) else 0


def serve(context: typer.Context) -> None:
    """Start a server; takes nats-server's own flags."""
    from millstream.cli.serve import serve as run_serve

    raise typer.Exit(run_serve(context.args))


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
        typer.Option(
            "--version", "-v", callback=_show_version, is_eager=True, help="Show the version, like `version`."
        ),
    ] = False,
) -> None:
    """A NATS-compatible message broker with streams."""
