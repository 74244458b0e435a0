"""The announcement of the endpoint over NATS: its address, and a ticket for it.

    request    $MILLSTREAM.ARROW.INFO, in any account that has JetStream
    answer     {"version": 1, "urls": ["http://10.0.0.5:8223"], "ticket": "mst1.…", "expires": "2026-…Z",
                "proof": "5b1f…"}

`urls` is empty if the client cannot reach the endpoint: it listens on the loopback interface, and the client
is on another machine.  Then there is no ticket, nor is there one for a request that came from another account
through an import.  Clients that sent a `millstream_key` in CONNECT get a `proof`: only this server knows the
key, so nobody else in the account can forge an offer.  A server without an endpoint, such as nats-server,
answers with "no responders".
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

import msgspec

from millstream.broker.internal import InternalMessage
from millstream.broker.routes import Subscription
from millstream.config.settings import split_host_port

if TYPE_CHECKING:
    from millstream.arrow.options import ArrowOptions
    from millstream.broker.accounts import Account
    from millstream.server.arrow.endpoint import ArrowEndpoint
    from millstream.server.server import Server

SUBJECT: Final = b"$MILLSTREAM.ARROW.INFO"
VERSION: Final = 1
WILDCARDS: Final = ("", "0.0.0.0", "::")


class Announcement:
    """Answers requests in every account that has JetStream."""

    def __init__(self, server: Server, options: ArrowOptions, endpoint: ArrowEndpoint) -> None:
        self._server = server
        self._options = options
        self._endpoint = endpoint
        self._listening: dict[str, tuple[Account, Subscription]] = {}

    def start(self) -> None:
        self.follow()

    def stop(self) -> None:
        for name in list(self._listening):
            self._leave(name)

    def follow(self) -> None:
        """Listen in all accounts that have JetStream now."""
        engine = self._server.jetstream.engine
        wanted = set(engine.accounts) if engine is not None else set()
        accounts = self._server.broker.accounts
        for name, (account, _) in list(self._listening.items()):
            if name not in wanted or accounts.get(name) is not account:
                self._leave(name)
        for name in wanted - self._listening.keys():
            if name in accounts:
                self._enter(accounts[name])

    def _enter(self, account: Account) -> None:
        def call(message: InternalMessage) -> None:
            self._answer(account, message)

        subscription = self._server.broker.serve(account, SUBJECT, call)
        self._listening[account.name] = (account, subscription)

    def _leave(self, name: str) -> None:
        account, subscription = self._listening.pop(name)
        self._server.broker.unsubscribe(account, subscription)

    def _answer(self, account: Account, message: InternalMessage) -> None:
        if not message.reply:
            return
        info = msgspec.json.encode(self._info(account, message.source, message.reply))
        self._server.broker.publish(account, message.reply, info)

    def _info(self, account: Account, client: Any, reply: bytes) -> dict[str, object]:
        session = getattr(client, "session", None)
        identity = getattr(session, "identity", None)
        url = self._url(client, session)
        if (
            session is None
            or identity is None
            or identity.grant is not None
            or identity.account != account.name
            or not url
        ):
            return {"version": VERSION, "urls": []}
        secret = self._server.broker.authenticator.secret_of(identity)
        from millstream.golang.time import format_time

        ticket, expires_ns = self._endpoint.tickets.issue(identity, time.time_ns(), secret, session.kind)
        offer = {"version": VERSION, "urls": [url], "ticket": ticket, "expires": format_time(expires_ns)}
        key = session.connect.millstream_key
        return {**offer, "proof": proof(key, reply, url, ticket)} if key else offer

    def _url(self, client: Any, session: Any) -> str:
        """Return the URL of the endpoint for this client, or an empty string if it cannot reach it."""
        host, port = self._options.host, self._endpoint.port
        if self._options.advertise:
            host, port = _split(self._options.advertise, port)
        elif host in WILDCARDS:
            # The client can reach the address through which it connected.
            name = client.transport.get_extra_info("sockname") if client is not None else None
            host = name[0] if name else "127.0.0.1"
        elif _is_loopback(host) and (session is None or not _is_loopback(session.ip)):
            return ""
        return f"{self._endpoint.scheme}://{bracketed(_unmapped(host))}:{port}"


def proof(key: str, reply: bytes, url: str, ticket: str) -> str:
    """Sign an offer and its reply subject with the key of the requesting connection."""
    import hmac

    text = b"\n".join((reply, url.encode(), ticket.encode()))
    return hmac.new(key.encode(), text, "sha256").hexdigest()


def _split(advertised: str, port: int) -> tuple[str, int]:
    try:
        return split_host_port(advertised)
    except ValueError:
        return advertised, port


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    import ipaddress

    try:
        return ipaddress.ip_address(_unmapped(host)).is_loopback
    except ValueError:
        return False


def _unmapped(host: str) -> str:
    """Return an IPv4 address that a dual-stack socket shows as IPv6 in its plain form."""
    return host.removeprefix("::ffff:") if "." in host else host


def bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host
