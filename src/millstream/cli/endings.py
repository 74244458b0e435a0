"""How every command ends: at most one line on standard error for each thing that is wrong, and an exit code.

    0    done
    1    failed: something is missing, in use, refused, or wrong in a file
    2    the command line is wrong; `serve` ends with 1 then, as nats-server does
    130  interrupted by Ctrl-C

The commands that ask a server (`stream`, `pub`, `kv` and the others of `cli.commands`) tell more failures
apart, so that a script can branch on them:

    3    not there: no such stream, consumer, key, object, message or context
    4    no server: it cannot be reached, the connection was lost, or nobody answered in time
    5    not permitted: credentials were refused, or the user may not do this
    6    conflict: it exists already, or was changed by somebody else
    7    nothing came: no message, no responder, no key that matches

Commands raise; this is the one place that prints what they raised.  An error that nobody foresaw keeps its
traceback: it is a defect of ours, and whoever reports it needs that.
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
INTERRUPTED: Final = 130  # what shells see of a command that Ctrl-C ended


class UsageError(MillstreamError):
    """The command line asks for what cannot be."""


class Ending(MillstreamError):
    """A command failed, and its exit code says how."""

    def __init__(self, text: str, code: int) -> None:
        super().__init__(text)
        self.code: Final = code


class MissingExtra(MillstreamError):
    """A command needs packages that are not installed."""


def ended(command: Callable[[], int | None]) -> int:
    """Run a command; print why it failed, if it did, and return its exit code."""
    try:
        return command() or DONE
    except UsageError as error:
        tell(str(error))
        return WRONG_USAGE
    except BrokenPipeError:
        # Whoever read our output has left: nothing more can be said there, also not while Python ends.
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
    """Print what is wrong, as one line; several problems have a line each."""
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
