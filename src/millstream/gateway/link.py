"""Connections to NATS: the gateway's own, and one for each set of callers' credentials.

A `CallerLink` is a `Link` that publishes to streams through one window, stays open while it is in use, and
logs the state of its connection.  `v1` and `v2` have the requests that are sent over it, `auth` decides who
may use which link.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import logging
from typing import Final, Protocol

import msgspec

from millstream.gateway.credentials import Credentials
from millstream.gateway.settings import Nats
from millstream.link.errors import AuthorizationViolation, JetStreamOff, LinkError, RequestTimeout
from millstream.link.link import Link, LinkState
from millstream.link.options import LinkOptions
from millstream.link.publish_window import PubAck
from millstream.link.publisher import Publisher
from millstream.link.servers import Reconnect

_LOG: Final = logging.getLogger("millstream.gateway.link")
_PING_S: Final = 15
_FIRST_WAIT_S: Final = 0.05  # short, because most outages are a restart
_NO_TIMEOUT_S: Final = 3600.0


class Companion(Protocol):
    """An object that belongs to a link's credentials, and is closed with the link."""

    def close(self) -> None: ...


class _Hold:
    """The context of `CallerLink.held`."""

    __slots__ = ("_link",)

    def __init__(self, link: CallerLink) -> None:
        self._link = link

    def __enter__(self) -> CallerLink:
        self._link.hold(1)
        return self._link

    def __exit__(self, *_: object) -> None:
        self._link.hold(-1)


class CallerLink(Link):
    """A link with one set of credentials, which reconnects when the connection is lost."""

    def __init__(self, settings: Nats, credentials: Credentials | None = None) -> None:
        super().__init__(
            link_options(settings, credentials),
            reconnect=Reconnect(
                first_s=_FIRST_WAIT_S,
                longest_s=settings.reconnect_wait_s,
                attempts=settings.reconnect_attempts,
                stop_when_refused=credentials is not None,
            ),
            on_state=self._told,
            ping_interval_s=_PING_S,
        )
        self.publisher: Final = Publisher(self, timeout_s=settings.publish_timeout_s or _NO_TIMEOUT_S)
        self.companions: dict[str, Companion] = {}
        self.last_used = 0.0  # in the loop's time
        self.was_refused = False  # NATS was reached, and rejected the credentials
        self._settings = settings
        self.is_own: Final = credentials is None  # the gateway's own credentials, not a caller's
        self._holders = 0
        self._complaint = ""  # the last problem that was logged
        self._look: asyncio.Task[None] | None = None
        self._tried = asyncio.Event()  # the first attempt to connect has ended

    async def store(
        self, subject: str, payload: bytes, headers: bytes = b"", timeout_s: float = 0.0
    ) -> PubAck:
        """Store a message in the stream of `subject`; returns JetStream's acknowledgement."""
        if not timeout_s:
            return await self.publisher.publish(subject.encode(), payload, headers)
        try:
            async with asyncio.timeout(timeout_s):
                return await self.publisher.publish(subject.encode(), payload, headers)
        except TimeoutError:
            raise RequestTimeout(f"no answer to {subject} within {timeout_s:g} s") from None

    # -- who uses it --------------------------------------------------------------------------------

    def held(self) -> _Hold:
        """Keep the link open for the life of a request or stream, even if it is idle."""
        return _Hold(self)

    def hold(self, difference: int) -> None:
        """Count a user of the link up or down; `held` calls it."""
        self._holders += difference
        self.last_used = asyncio.get_running_loop().time()

    @property
    def is_held(self) -> bool:
        return self._holders > 0

    # -- its life -----------------------------------------------------------------------------------

    async def first_attempt(self, longest_s: float) -> None:
        """Wait until the first attempt to connect has succeeded or failed, but no longer than this."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(longest_s):
                await self._tried.wait()

    async def close(self, reason: LinkError | None = None) -> None:
        companions, self.companions = self.companions, {}
        for companion in companions.values():
            companion.close()
        if self._look is not None:
            self._look.cancel()
        await super().close(reason)

    def _told(self, state: LinkState, error: LinkError | None) -> None:
        self._tried.set()
        if state is LinkState.CONNECTED:
            self.was_refused = False
            self.last_used = asyncio.get_running_loop().time()
            level = logging.WARNING if self._complaint else logging.INFO  # a logged problem is over
            self._complaint = ""
            if self.is_own:
                _LOG.log(level, "connected to NATS at %s", self.where)
                self._look = asyncio.get_running_loop().create_task(self._look_for_jetstream())
        elif state is LinkState.LOST:
            self._complain(f"the connection to NATS was lost: {error}; reconnecting")
        elif state is LinkState.RETRYING:
            self.was_refused = isinstance(error, AuthorizationViolation)
            if self.was_refused:
                self._complain(f"{error}; only callers with credentials of their own are served")
            else:
                self._complain(f"{error}; trying again every {self._settings.reconnect_wait_s:g} s")
        elif error is not None and self.is_own:
            _LOG.error("%s; restart the gateway, or set nats.reconnect.max_attempts", error)

    async def _look_for_jetstream(self) -> None:
        """Log at once if JetStream is not available, because every call would fail."""
        try:
            await self.api("INFO")
        except JetStreamOff as error:
            _LOG.warning("%s", error)
        except LinkError:
            return  # the user may not ask, or the connection is lost again

    def _complain(self, text: str) -> None:
        """Log a problem, once until it changes; problems of callers' links are logged at level DEBUG."""
        level = logging.WARNING if self.is_own and text != self._complaint else logging.DEBUG
        self._complaint = text
        _LOG.log(level, "%s", text)


def link_options(settings: Nats, credentials: Credentials | None) -> LinkOptions:
    """Return the options of a link; a caller's link has none of the gateway's own credentials."""
    own = dataclasses.replace(settings.link, name="millstream gateway")
    if credentials is None:
        return own
    return dataclasses.replace(own.of_nobody(), **msgspec.structs.asdict(credentials))
