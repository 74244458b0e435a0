"""The state of a client besides the path of its messages: its identity and its options."""

import logging
from typing import Annotated, Any, Final

import msgspec

from millstream.base.rarely import Sparingly
from millstream.broker.auth import Identity
from millstream.broker.client_json import read_object
from millstream.broker.close_reason import CloseReason
from millstream.broker.options import ConnectionType
from millstream.broker.totals import Traffic
from millstream.golang.quote import quoted

_log = logging.getLogger("millstream.broker")

_MOST_REFUSALS: Final = 100  # lines in a second about one connection


class ConnectOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The JSON of CONNECT.  A missing key keeps its value, so a bare `{}` is verbose."""

    verbose: bool = True
    pedantic: bool = True
    echo: bool = True
    headers: bool = False
    no_responders: bool = False
    protocol: Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)] = 0
    tls_required: bool = False
    user: str = ""
    password: str = msgspec.field(name="pass", default="")
    auth_token: str = ""
    nkey: str = ""
    jwt: str = ""
    sig: str = ""
    name: str = ""
    lang: str = ""
    version: str = ""
    account: str = ""
    new_account: bool = False
    millstream_key: str = ""  # of this connection alone: signs what is offered to it

    def updated(self, text: bytes) -> "ConnectOptions":
        """Return these options updated with the JSON object in `text`.

        Raises BadJson if it is not an object, msgspec.ValidationError if a value has the wrong type.
        """
        changes = read_object(text)
        known = msgspec.to_builtins(self)
        known.update({key.lower(): value for key, value in changes.items() if value is not None})
        return msgspec.convert(known, ConnectOptions)


class ClientSession(msgspec.Struct, kw_only=True):
    """The state of a connection, kept in its record after it is closed."""

    ip: str
    port: int
    kind: ConnectionType
    started_ns: int  # wall clock
    started: float  # monotonic
    nonce: bytes = b""
    connect: ConnectOptions = msgspec.field(default_factory=ConnectOptions)
    identity: Identity | None = None
    cookies: ConnectOptions | None = None  # credentials from the upgrade request of a web socket
    connect_received: bool = False
    connect_skipped: bool = False  # admitted as the `no_auth_user`, by another operation than CONNECT
    greeted: bool = False  # INFO went out before the transport was there
    pong_sent: bool = False
    auth_timer: Any = None
    counted: Traffic = Traffic()  # its traffic when it joined its account
    max_subscriptions: int = -1  # of this connection; -1: unlimited
    tls_version: str = ""
    tls_cipher: str = ""
    peer_certificate: bytes | None = None  # DER
    reason: CloseReason | None = None
    authenticated: bool = False  # by a proof, rather than where nobody asks for one
    _refusals: Sparingly | None = None  # made when it is needed

    def description(self) -> str:
        """Return the client's description in log lines: ` - "v1.2:go:name" - "ACC/user:ann"`."""
        connect = self.connect
        parts = [f"v{connect.version}" if connect.version else "", connect.lang, connect.name]
        text = ":".join(part for part in parts if part)
        named = f" - {quoted(text)}" if text and self.connect_received else ""
        identity = self.identity
        if identity is None or not (identity.label and self.authenticated):
            return named
        return f"{named} - {quoted(f'{identity.account}/{identity.label}')}"

    def note_refusal(self, connection: object, text: str, *values: object) -> None:
        """Log what the client may not do; rate-limited."""
        if self._refusals is None:
            self._refusals = Sparingly(_MOST_REFUSALS)
        if lines := self._refusals.admit():
            more = f" (and {lines - 1} more)" if lines > 1 else ""
            _log.error(f"%s - {text}%s", connection, *values, more)

    def stop_auth_timer(self) -> None:
        if self.auth_timer is not None:
            self.auth_timer.cancel()
            self.auth_timer = None
