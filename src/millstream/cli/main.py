"""The entry point of the `millstream` command.

`serve` parses its own flags, because scripts wait for its start, and the import of typer takes longer than
the start of the server.
"""

import atexit
import gc
import os
import signal
import sys
from typing import Final, NoReturn

from millstream.base import build, bundle

# The modules of `serve` are in one file, if the build made it (``millstream.cli.bundle``).
BUNDLE: Final = "serve"


def main(arguments: list[str] | None = None) -> None:
    """Run the command that the arguments name, and exit with its code."""
    given = sys.argv[1:] if arguments is None else arguments
    if given[:1] == ["serve"]:
        # Until the server handles signals, Ctrl-C ends the process as it ends nats-server: at once, and
        # without a
        # traceback.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        gc.disable()  # imports create many objects and free few; the server sets up the collector itself
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
    """Make later imports faster."""
    if not build.pure_requested():
        bundle.use(bundle.path_of(BUNDLE))
    if "typing_extensions" not in sys.modules:
        # msgspec uses names from it that this Python has in `typing`, and falls back to them if it is
        # missing.
        sys.modules["typing_extensions"] = None  # type: ignore[assignment]
        import msgspec  # noqa: F401

        del sys.modules["typing_extensions"]


def _leave(code: int) -> NoReturn:
    """End the process without finalising the interpreter, which takes longer than the server's own stop.

    All files are synced and closed by now; functions registered with `atexit` are called.
    """
    from millstream.cli.endings import FAILED

    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None:
                stream.flush()
        except (OSError, ValueError):  # the reader has closed it, or its disk is full
            code = code or FAILED
    os._exit(code)
