"""A remote: one server, or several URLs of a cluster, that an account is to be linked to at all times.

    waiting ──▶ dialing ──▶ linked
       ▲           │           │ the link ends
       └───────────┴───────────┘ after reconnect_interval, and as much again at random if nobody answers

How a socket becomes the transport of a ``LeafConnection`` is in ``dialer``.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
from typing import TYPE_CHECKING, Any, Final

import msgspec

from millstream.base.tls_files import TlsFileError
from millstream.broker.leaf import login
from millstream.broker.leaf.dialer import DialError, HubAddress, dial, is_ip
from millstream.broker.options import LeafOptions, RemoteOptions

if TYPE_CHECKING:
    from millstream.broker.broker import Broker
    from millstream.broker.leaf.connection import LeafConnection
    from millstream.broker.leaf.leafs import Leafs
    from millstream.broker.turns import Planned

_log = logging.getLogger("millstream.broker")

_MOST_DISCOVERED: Final = 1024  # URLs that a hub may name
_REPORT_EVERY: Final = 3600  # attempts, after the first
_DELAYS_S: Final = {  # until the next attempt, by what a refusal says
    "Loop detected": 30.0,
    "leafnode has same cluster name": 30.0,
    "connection rejected since minimum version required is": 5.0,
    "Permissions Violation": 30.0,
}


class Remote:
    """Keeps one link."""

    def __init__(self, broker: Broker, leafs: Leafs, options: RemoteOptions, shared: LeafOptions) -> None:
        self.options = options
        self.link: LeafConnection | None = None
        self._broker = broker
        self._leafs = leafs
        self._shared = shared
        self._configured = [HubAddress.of(url) for url in options.urls]
        if not options.no_randomize:
            random.shuffle(self._configured)
        self._addresses = list(self._configured)
        self._current = self._configured[0]
        self._stopped = options.disabled
        self._attempts = 0
        self._delay_s = 0.0  # asked for by the last refusal
        self._timer: Planned | None = None
        self._task: asyncio.Task[None] | None = None

    # -- life -------------------------------------------------------------------------------------

    def start(self) -> None:
        if not self._stopped:
            self._dial()

    def change(self, options: RemoteOptions) -> None:
        """Take changed options, of which only some may differ (``config.reload``)."""
        was_disabled, self.options = self.options.disabled, options
        if options.disabled and not was_disabled:
            self.give_up()
        elif was_disabled and not options.disabled:
            self._stopped = False
            self._dial()

    def give_up(self) -> None:
        """Make no more links."""
        self._stopped = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._task is not None:
            self._task.cancel()

    async def stop(self) -> None:
        self._stopped = True
        if self._timer is not None:
            self._timer.cancel()
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task

    def wait(self, delay_s: float) -> None:
        """Leave the hub alone for so long when the link has ended."""
        self._delay_s = max(self._delay_s, delay_s)

    def refused(self, text: str) -> None:
        """Wait as long as what the hub said deserves."""
        for words, delay_s in _DELAYS_S.items():
            if words in text:
                self.wait(delay_s)

    def established(self) -> None:
        self._attempts = 0
        _log.info("Leafnode link of account %s is ready: %s", self.options.account, self._current)

    def lost(self, link: LeafConnection) -> None:
        """Plan the next attempt, because the link has ended."""
        if self.link is link:
            self.link = None
            self._plan(self._shared.reconnect_interval_s)

    def discovered(self, urls: list[str]) -> None:
        """Take the addresses of the hub's cluster, which it names anew whenever they change."""
        if self.options.ignore_discovered:
            return
        known, like = list(self._configured), self._configured[0]
        places = {(each.host, each.port) for each in known}
        for url in urls[:_MOST_DISCOVERED]:
            with contextlib.suppress(ValueError):
                found = HubAddress.of(url)
                if (found.host, found.port) not in places:
                    places.add((found.host, found.port))
                    known.append(
                        msgspec.structs.replace(found, tls=like.tls, websocket=like.websocket, path=like.path)
                    )
        at = next((number for number, each in enumerate(known) if each == self._current), -1)
        self._addresses = known[at + 1 :] + known[: at + 1]

    def url_credentials(self) -> dict[str, str]:
        """Return the fields of CONNECT for the user in the URL, or in the first configured URL with one."""
        with_user = [each for each in (self._current, *self._configured) if each.user]
        if not with_user:
            return {}
        address = with_user[0]
        if address.password is None:
            return {"user": address.user, "auth_token": address.user}
        return {"user": address.user, "password": address.password}

    # -- dialing ----------------------------------------------------------------------------------

    def _plan(self, delay_s: float) -> None:
        if self._stopped or self._timer is not None:
            return
        delay_s, self._delay_s = max(delay_s, self._delay_s), 0.0
        self._timer = self._broker.turns.later(delay_s, self._dial)

    def _dial(self) -> None:
        self._timer = None
        if not self._stopped:
            self._task = self._broker.loop.create_task(self._attempt())

    async def _attempt(self) -> None:
        address = self._current = self._addresses[0]
        self._addresses.append(self._addresses.pop(0))
        link: LeafConnection | None = None
        try:
            link = await self._connect(address)
        except (OSError, ValueError, TlsFileError, DialError, TimeoutError) as error:
            self._report(address, error)
        except Exception:
            _log.exception("the link to %s failed unexpectedly", address)
        self._task = None
        if link is None or link.closed:
            interval_s = self._shared.reconnect_interval_s
            self._plan(interval_s + random.random() * interval_s)

    def _report(self, address: HubAddress, error: Exception) -> None:
        self._attempts += 1
        level = logging.ERROR if self._attempts % _REPORT_EVERY == 1 else logging.DEBUG
        reason = str(error) or type(error).__name__
        _log.log(
            level,
            "Error trying to connect as leafnode to remote server %s (attempt %d): %s",
            address,
            self._attempts,
            reason,
        )

    async def _connect(self, address: HubAddress) -> LeafConnection:
        """Return the link to an address when its transport is there; raise on any failure."""
        options = self.options
        account = self._broker.accounts.get(options.account)
        if account is None:
            raise DialError(f"there is no account {options.account}")
        if account.has_all_links():
            raise DialError(f"account {account.name} allows no more leaf links")
        peer = login.Peer(
            remote=self,
            spoke=not options.hub,
            isolated=options.isolate or self._shared.isolate,
            websocket=address.websocket,
        )
        link = self._leafs.new_connection(account, peer)
        first = await dial(self._broker.loop, link, address, options, self._tls_name(address))
        self.link = link
        if link.closed:
            return link
        session = link.session
        if not peer.info_seen and session.auth_timer is None:
            session.auth_timer = self._broker.turns.later(
                options.first_info_timeout_s, self._info_timed_out, link
            )
        if first:
            link.data_received(first)
        return link

    def _tls_name(self, address: HubAddress) -> str:
        """Return the name in the hub's certificate: for an IP it named, the first configured host name."""
        if not is_ip(address.host):
            return address.host
        return next((each.host for each in self._configured if not is_ip(each.host)), address.host)

    def _info_timed_out(self, link: LeafConnection) -> None:
        link.session.auth_timer = None
        if not link.peer.info_seen:
            self._leafs.violate(link, "the hub sent no INFO in time")


def shown(address: tuple[Any, ...]) -> str:
    """Return an address of a socket as URLs have it."""
    host = address[0].removeprefix("::ffff:")
    return f"[{host}]:{address[1]}" if ":" in host else f"{host}:{address[1]}"
