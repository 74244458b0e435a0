"""Connections of a process that reads and writes tables, and what their failures mean to a user.

A Python worker of Spark lives longer than a task, so a task that ends well leaves its connection for the
next one.  A task that ends otherwise closes it: messages may still be on their way to it.
`RequestConnection` is a connection that comes back: a request that found it broken is made again, for as long
as it was told to be patient.
"""

import contextlib
import dataclasses
import logging
import os
import time
from collections.abc import Callable, Iterator
from typing import Any, Final, TypeVar

from millstream.jsapi.errors import Err
from millstream.link.blocking_link import BlockingLink
from millstream.link.errors import (
    AuthorizationViolation,
    BadLinkOptions,
    LinkApiError,
    LinkError,
    NoResponders,
    NotConnected,
    RequestTimeout,
)
from millstream.link.options import LinkOptions
from millstream.tables.errors import (
    NotAllowed,
    OptionError,
    SourceUnavailable,
    StreamAccessError,
    StreamMissing,
)

logger: Final = logging.getLogger("millstream.tables")

T = TypeVar("T")

_idle: dict[tuple[int, LinkOptions], BlockingLink] = {}


def named(options: LinkOptions, name: str) -> LinkOptions:
    """Return the options of a connection with this name."""
    return dataclasses.replace(options, name=name)


def explain(error: LinkError, options: LinkOptions, stream: str | None = None) -> StreamAccessError:
    """Translate a failure on the wire for someone who reads or writes a table."""
    where = f" of stream {stream}" if stream else ""
    match error:
        case LinkApiError() if error.err is Err.STREAM_NOT_FOUND:
            return StreamMissing(
                f"there is no stream {stream or ''} on {options}; create it, or check the name"
            )
        case LinkApiError():
            return StreamAccessError(f"JetStream on {options} refused a request{where}: {error}")
        case AuthorizationViolation():
            return NotAllowed(str(error))
        case NotConnected():
            return SourceUnavailable(str(error))
        case NoResponders():
            return SourceUnavailable(str(error))
        case RequestTimeout():
            return SourceUnavailable(
                f"a request{where} was not answered in time: {error}. The server is away or busy, the stream "
                "has no leader, or this user may not publish to that subject"
            )
        case BadLinkOptions():
            return OptionError(str(error))
        case _ if "permissions violation" in str(error).lower():
            hint = "; transport=direct reads without a consumer" if "CONSUMER.CREATE" in str(error) else ""
            return NotAllowed(f"this user may not do what is needed{where}: {error}{hint}")
    return StreamAccessError(f"{options}{where}: {error}")


@contextlib.contextmanager
def explained(options: LinkOptions, stream: str | None = None) -> Iterator[None]:
    try:
        yield
    except LinkError as error:
        raise explain(error, options, stream) from None  # Spark shows the whole chain, and this one says all


@contextlib.contextmanager
def borrowed_link(options: LinkOptions, name: str) -> Iterator[BlockingLink]:
    """A link of this process, connected or not; it is kept for the next task if the block ends well."""
    key = (os.getpid(), options)
    link = _idle.pop(key, None)
    if link is not None:
        try:
            link.flush(options.connect_timeout_s)
        except LinkError:
            link.close()
            link = None
    if link is None:
        link = BlockingLink(named(options, name))
    try:
        yield link
    except BaseException:
        link.close()
        raise
    if _idle.setdefault(key, link) is not link:  # another thread has left one
        link.close()


def close_idle_links(options: LinkOptions | None = None) -> None:
    """Close what is kept for later tasks; with `options`, only what was opened with them."""
    for key in list(_idle):
        if options is None or key[1] == options:
            link = _idle.pop(key, None)
            if link is not None:
                link.close()


class RequestConnection:
    """A connection for requests, which is made when it is needed and made again when it breaks."""

    def __init__(self, options: LinkOptions, name: str, patience_s: float) -> None:
        self.options: Final = options
        self._patience_s = patience_s
        self._link: Final = BlockingLink(named(options, name))

    def api(self, name: str, request: dict[str, Any] | None = None) -> dict[str, Any]:
        """Ask the JetStream API; only for what may be done twice.  Failures are those of the wire."""
        return self.patiently(lambda link: link.api(name, request or b""))

    def api_once(self, name: str, request: dict[str, Any] | None = None) -> dict[str, Any]:
        """Call the API once, without waiting for a server: for calls that are tried again anyway."""
        if not self._link.connected:
            self._link.connect()
        return self._link.api(name, request or b"")

    def patiently(self, ask: Callable[[BlockingLink], T]) -> T:
        """Do it, and again when the server was away, until `patience_s` is over."""
        deadline = time.monotonic() + self._patience_s
        pause_s = 0.05
        while True:
            try:
                if not self._link.connected:
                    self._link.connect()
                return ask(self._link)
            except AuthorizationViolation:
                raise
            except (NotConnected, RequestTimeout, LinkApiError) as error:
                passing = not isinstance(error, LinkApiError) or error.may_pass
                if not passing or time.monotonic() >= deadline:
                    raise
                if pause_s > 1:
                    logger.warning("%s; trying again", error)
            time.sleep(pause_s)
            pause_s = min(2 * pause_s, 2.0)

    def close(self) -> None:
        self._link.close()
