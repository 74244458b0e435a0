"""The login of a leaf link: who says what to whom.

    spoke                                      hub
                      ◀── INFO {nonce, tls_required, leafnode_urls…}
    (TLS, if either wants it; before INFO with handshake_first)
    (INFO twice more, if the link is compressed: ``compression``)
    CONNECT {name, domain, user, sig…} ──▶
                      ◀── INFO {connect_info, remote_account, import, export}
    LS+ …              ──▶ ◀──                 LS+ …

The other server is a stranger: whatever it says is checked for its type here, and for its meaning in
``leafs``.  No sockets here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from millstream.base.errors import MillstreamError
from millstream.broker.client_json import BadJson, read_object
from millstream.broker.info import API_LEVEL, SERVER_VERSION
from millstream.broker.options import SubjectRules

if TYPE_CHECKING:
    from millstream.broker.leaf.compression import CompressedTransport
    from millstream.broker.leaf.remote import Remote

LINK_PROTOCOL: Final = 3  # as nats-server numbers it: message traces go on across the link
_NAME_SIZE: Final = 256  # of a server, cluster, domain or account


class BadLogin(MillstreamError):
    """The other server's INFO or CONNECT cannot be used."""


class PeerRules(msgspec.Struct, frozen=True):
    """Subjects as INFO has them; nil lists are left out."""

    allow: list[str] | None = None
    deny: list[str] | None = None

    def as_rules(self) -> SubjectRules:
        return SubjectRules(
            allow=tuple(self.allow) if self.allow is not None else None, deny=tuple(self.deny or ())
        )


class LeafInfo(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """INFO of the hub, in nats-server's order."""

    server_id: str = ""
    server_name: str = ""
    version: str = ""
    proto: int = 0
    go: str = ""
    host: str = ""
    port: int = 0
    headers: bool = False
    auth_required: bool = False
    tls_required: bool = False
    tls_verify: bool = False
    max_payload: int = 0
    jetstream: bool = False
    ip: str = ""
    client_id: int = 0
    nonce: str = ""
    cluster: str = ""
    domain: str = ""
    compression: str = ""
    connect_info: bool = False
    remote_account: str = ""
    acc_is_sys: bool = False
    api_lvl: int = 0
    import_: PeerRules | None = msgspec.field(name="import", default=None)
    export: PeerRules | None = None
    info_on_connect: bool = False
    leafnode_urls: list[str] | None = None
    ws_connect_urls: list[str] | None = None


class LeafConnect(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """CONNECT of the spoke."""

    version: str = ""
    nkey: str = ""
    jwt: str = ""
    sig: str = ""
    user: str = ""
    password: str = msgspec.field(name="pass", default="")
    auth_token: str = ""
    server_id: str = ""
    domain: str = ""
    name: str = ""
    is_hub: bool = False
    cluster: str = ""
    headers: bool = False
    jetstream: bool = False
    deny_pub: list[str] = []
    isolate: bool = False
    compress_mode: str = ""
    gateway: str = ""
    lang: str = ""
    remote_account: str = ""
    protocol: int = 0


class Peer(msgspec.Struct, kw_only=True):
    """The server at the other end of a link."""

    spoke: bool = False  # we are its spoke: it is the hub
    remote: Remote | None = None  # that made the link; None: the other server did
    name: str = ""
    server_id: str = ""
    cluster: str = ""
    domain: str = ""
    account: str = ""  # there
    isolated: bool = False  # is not told what other spokes listen to
    max_payload: int = 0
    info_seen: bool = False  # its first INFO was read
    compression: str = ""  # what was agreed; empty: nothing yet
    websocket: bool = False
    deflated: bool = False  # the websocket compresses
    layer: CompressedTransport | None = None  # that compresses
    version: str = ""
    protocol: int = 0
    imports: SubjectRules = SubjectRules()  # what the hub lets us receive
    exports: SubjectRules = SubjectRules()  # what the hub lets us send

    @property
    def traces(self) -> bool:
        """Return True if it traces the messages that request it."""
        return self.protocol >= LINK_PROTOCOL


def read_info(text: bytes) -> LeafInfo:
    """Return an INFO; raise BadLogin if it is none."""
    info: LeafInfo = _read(text, LeafInfo, "INFO")
    _check_names(info.server_name, info.server_id, info.cluster, info.domain, info.remote_account)
    return info


def read_connect(text: bytes) -> LeafConnect:
    """Return a CONNECT; raise BadLogin if it is none."""
    connect: LeafConnect = _read(text, LeafConnect, "CONNECT")
    _check_names(connect.name, connect.server_id, connect.cluster, connect.domain, connect.remote_account)
    return connect


def _read(text: bytes, kind: type[Any], what: str) -> Any:
    try:
        members = {name: value for name, value in read_object(text).items() if value is not None}
        return msgspec.convert(members, kind)
    except (BadJson, msgspec.ValidationError) as error:
        raise BadLogin(f"an {what} that cannot be read: {error}") from None


def _check_names(*names: str) -> None:
    for name in names:
        if len(name) > _NAME_SIZE or not name.isprintable():
            raise BadLogin("an INFO or CONNECT with a name that is too long or has control characters")


def check_first_info(info: LeafInfo) -> None:
    """Raise BadLogin if the first INFO is not one of a port for leaf nodes."""
    # A nats-server with `no_advertise` leaves the list out; other ports say nothing of compression.
    if info.client_id == 0 or (info.leafnode_urls is None and not info.compression):
        raise BadLogin("attempted to connect to wrong port: it is no port for leaf nodes")
    if " " in info.cluster:
        raise BadLogin("cluster name cannot contain spaces")


def own_fields() -> dict[str, Any]:
    """Return what both INFO and CONNECT say about this software."""
    return {"version": SERVER_VERSION}


API: Final = API_LEVEL
