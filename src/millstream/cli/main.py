"""The entry point of the `millstream` command.

`serve` parses its own flags and is started by scripts that wait for it, so it does not wait for typer
and what typer imports, which would take longer than the server itself needs to start.
"""

import atexit
import gc
import os
import signal
import sys
from typing import NoReturn

from millstream.cli.endings import FAILED, INTERRUPTED, ended


def main(arguments: list[str] | None = None) -> None:
    """Run the command that the arguments name, and exit with its code."""
    given = sys.argv[1:] if arguments is None else arguments
    if given[:1] == ["serve"]:
        # Until the server listens to signals, Ctrl-C ends the process as it ends nats-server: at once, and
        # without a traceback of whatever was being imported.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        gc.disable()  # importing makes much and drops little; the server sets the collector up for itself
        from millstream.cli.serve import serve

        code = ended(lambda: serve(given[1:]))
        if arguments is None:
            _leave(code)
        sys.exit(code)
    try:
        from millstream.cli.app import run
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    sys.exit(ended(lambda: run(given)))


def _leave(code: int) -> NoReturn:
    """End the process without taking the interpreter apart, which takes longer than the server's own stop.

    What is durable is on disk and every file is closed by now; what others registered for the end is called.
    """
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None:
                stream.flush()
        except (OSError, ValueError):  # whoever read it has left, or its disk is full
            code = code or FAILED
    os._exit(code)
