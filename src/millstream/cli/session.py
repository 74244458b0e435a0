"""The run of a client command in an event loop; its failures become exit codes.

async def work() -> None:
    async with connected(server, "millstream stream ls") as api:
        …

run(work())
"""

import asyncio
from collections.abc import Coroutine
from typing import Any, Final

import typer

from millstream.base.errors import MillstreamError
from millstream.cli.endings import (
    CONFLICT,
    FAILED,
    NO_SERVER,
    NOT_FOUND,
    NOT_PERMITTED,
    NOTHING,
    Ending,
    UsageError,
)
from millstream.jsapi.errors import Err
from millstream.link.errors import (
    AuthorizationViolation,
    BadLinkOptions,
    BadMessage,
    JetStreamOff,
    LinkApiError,
    NoResponders,
    NotConnected,
    PermissionViolation,
    RequestTimeout,
)

_CONFLICTS: Final = frozenset(
    {
        Err.STREAM_NAME_IN_USE,
        Err.STREAM_SUBJECT_OVERLAP,
        Err.WRONG_LAST_MSG_ID,
        Err.WRONG_LAST_SEQUENCE,
        Err.WRONG_LAST_SEQUENCE_UNKNOWN,
        Err.CONSUMER_NAME_IN_USE,
        Err.CONSUMER_ALREADY_EXISTS,
        Err.CONSUMER_EXISTING_ACTIVE,
    }
)
_HINTS: Final = {
    Err.STREAM_NAME_IN_USE: "; change it with millstream stream edit",
    Err.STREAM_SUBJECT_OVERLAP: "; see millstream stream ls --subject",
}
_HTTP_NOT_FOUND: Final = 404


class UnreadableAnswer(MillstreamError):
    """Raised for an answer that cannot be read."""


def run(work: Coroutine[Any, Any, int | None]) -> None:
    """Run a command to its end; raises Ending with its exit code if it failed."""
    try:
        code = asyncio.run(work)
    except (UsageError, Ending):
        raise
    except (BadMessage, BadLinkOptions) as error:
        raise UsageError(str(error)) from None
    except MillstreamError as error:
        raise Ending(plain_text(error), code_of(error)) from error
    except (LookupError, TypeError, ValueError, AttributeError, RecursionError) as error:
        text = f"{type(error).__name__}: {error}"
        raise UnreadableAnswer(f"the server sent an unreadable answer ({text})") from error
    if code:
        raise typer.Exit(code)


def code_of(error: MillstreamError) -> int:
    """Return the exit code of a failure."""
    match error:
        case Ending():
            return error.code
        case AuthorizationViolation() | PermissionViolation():
            return NOT_PERMITTED
        case JetStreamOff():
            return FAILED
        case NoResponders():
            return NOTHING
        case NotConnected() | RequestTimeout():
            return NO_SERVER
        case LinkApiError():
            if error.err in _CONFLICTS:
                return CONFLICT
            return NOT_FOUND if error.code == _HTTP_NOT_FOUND else FAILED
    return FAILED


def plain_text(error: MillstreamError) -> str:
    """Return the text of a failure, for JetStream's refusals without the request, which nobody typed."""
    match error:
        case LinkApiError():
            hint = _HINTS.get(error.err, "") if error.err is not None else ""
            return f"the server refused: {error.description} ({error.err_code or error.code}){hint}"
        case RequestTimeout():
            return f"{error}; see --timeout"
    return str(error)


def missing(what: str) -> Ending:
    """Return the failure for something that does not exist."""
    return Ending(what, NOT_FOUND)
