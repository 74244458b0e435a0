"""The entry point of the `millstream` command.

`serve` parses its own flags and is started by scripts that wait for it, so it does not wait for typer
and what typer imports, which would take longer than the server itself needs to start.
"""

import atexit
import gc
import os
import signal
import sys
from typing import Final, NoReturn

from millstream.base import build, bundle

# What `serve` imports is in one file, if whoever built this made it (``millstream.cli.bundle``).
BUNDLE: Final = "serve"


def main(arguments: list[str] | None = None) -> None:
    """Run the command that the arguments name, and exit with its code."""
    given = sys.argv[1:] if arguments is None else arguments
    if given[:1] == ["serve"]:
        # Until the server listens to signals, Ctrl-C ends the process as it ends nats-server: at once, and
        # without a traceback of whatever was being imported.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        gc.disable()  # importing makes much and drops little; the server sets the collector up for itself
        _import_quickly()
        from millstream.cli.endings import ended
        from millstream.cli.serve import serve

        code = ended(lambda: serve(given[1:]))
        if arguments is None:
            _leave(code)
        sys.exit(code)
    from millstream.cli.endings import INTERRUPTED, ended

    try:
        from millstream.cli.app import run
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    sys.exit(ended(lambda: run(given)))


def _import_quickly() -> None:
    """Shorten the way of what is imported from now on."""
    if not build.pure_requested():
        bundle.use(bundle.path_of(BUNDLE))
    if "typing_extensions" not in sys.modules:
        # msgspec takes from it what this Python has itself, and takes it from there if this is missing.
        sys.modules["typing_extensions"] = None  # type: ignore[assignment]
        import msgspec  # noqa: F401

        del sys.modules["typing_extensions"]


def _leave(code: int) -> NoReturn:
    """End the process without taking the interpreter apart, which takes longer than the server's own stop.

    What is durable is on disk and every file is closed by now; what others registered for the end is called.
    """
    from millstream.cli.endings import FAILED

    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None:
                stream.flush()
        except (OSError, ValueError):  # whoever read it has left, or its disk is full
            code = code or FAILED
    os._exit(code)
