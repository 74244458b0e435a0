"""The end of every command: an exit code, and one line on standard error for each problem.

    0    done
    1    failed: something is missing, in use, refused, or wrong in a file
    2    the command line is wrong; `serve` ends with 1 then, as nats-server does
    130  interrupted by Ctrl-C

The commands that are clients (`stream`, `pub`, `kv` and the others of `cli.commands`) distinguish more
failures, so that a script can branch on them:

    3    not there: no such stream, consumer, key, object, message or context
    4    no server: it cannot be reached, the connection was lost, or nobody answered in time
    5    not permitted: credentials were refused, or the user may not do this
    6    conflict: it exists already, or was changed by somebody else
    7    nothing came: no message, no responder, no key that matches

Commands raise, and only this module prints their errors.  An unexpected error is a defect, and keeps its
traceback for the report.
"""

import importlib.util
import os
import sys
from collections.abc import Callable
from typing import Final

from millstream.base.errors import MillstreamError
from millstream.base.owned import visible
from millstream.base.reasons import system_reason

DONE: Final = 0
FAILED: Final = 1
WRONG_USAGE: Final = 2
NOT_FOUND: Final = 3
NO_SERVER: Final = 4
NOT_PERMITTED: Final = 5
CONFLICT: Final = 6
NOTHING: Final = 7
INTERRUPTED: Final = 130  # the exit code of a command that Ctrl-C ended


class UsageError(MillstreamError):
    """Raised if the command line is invalid."""


class Ending(MillstreamError):
    """The failure of a command, with its exit code."""

    def __init__(self, text: str, code: int) -> None:
        super().__init__(text)
        self.code: Final = code


class MissingExtra(MillstreamError):
    """Raised if a command needs packages that are not installed."""


def ended(command: Callable[[], int | None]) -> int:
    """Run a command, print its error if it fails, and return its exit code."""
    try:
        return command() or DONE
    except UsageError as error:
        tell(str(error))
        return WRONG_USAGE
    except BrokenPipeError:
        # The reader of our output has closed it: nothing can be written any more, not even when Python exits.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    except MillstreamError as error:
        tell(str(error))
        return error.code if isinstance(error, Ending) else FAILED
    except OSError as error:
        tell(system_reason(error))
        return FAILED
    except KeyboardInterrupt:
        tell("interrupted")
        return INTERRUPTED


def tell(text: str) -> None:
    """Print an error as one line; several problems have a line each."""
    for line in text.splitlines() or [""]:
        print(f"millstream: {visible(line)}", file=sys.stderr, flush=True)


def need(extra: str, *packages: str) -> None:
    """Raise MissingExtra, with the command that installs them, if one of the packages is not installed."""
    missing = [each for each in packages if importlib.util.find_spec(each) is None]
    if missing:
        are = "are" if len(missing) > 1 else "is"
        raise MissingExtra(
            f"{' and '.join(missing)} {are} not installed; get what is missing with: "
            f"pip install 'millstream[{extra}]'"
        )
