"""The entry point of the `millstream` command.

`serve` parses its own flags and is started by scripts that wait for it, so it does not wait for typer
and what typer imports, which would take longer than the server itself needs to start.
"""

import gc
import signal
import sys

_INTERRUPTED = 130  # what shells see of a command that Ctrl-C ended


def main(arguments: list[str] | None = None) -> None:
    """Run the command that the arguments name, and exit with its code."""
    given = sys.argv[1:] if arguments is None else arguments
    if given[:1] == ["serve"]:
        # Until the server listens to signals, Ctrl-C ends the process as it ends nats-server: at once, and
        # without a traceback of whatever was being imported.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        gc.disable()  # importing makes much and drops little; the server sets the collector up for itself
        from millstream.cli.serve import serve

        sys.exit(serve(given[1:]))
    try:
        from millstream.cli.app import app

        app(given, prog_name="millstream")
    except KeyboardInterrupt:
        sys.exit(_INTERRUPTED)
