"""The INFO line, which describes the server to a client, and what of it is the same for all clients."""

from __future__ import annotations

from typing import Any

import msgspec

from millstream.broker.options import BrokerOptions, ConnectionType

SERVER_VERSION = "2.15.1"  # the nats-server we are a drop-in for: clients switch features on it
PROTOCOL_VERSION = 1
API_LEVEL = 5  # of JetStream


class Info(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """The fields of INFO in nats-server's order; a field at its default is left out."""

    server_id: str
    server_name: str
    version: str
    proto: int
    git_commit: str = ""
    go: str
    host: str
    port: int
    headers: bool
    auth_required: bool = False
    tls_required: bool = False
    tls_verify: bool = False
    tls_available: bool = False
    max_payload: int
    jetstream: bool = False
    client_id: int = 0
    client_ip: str = ""
    nonce: str = ""
    domain: str = ""
    connect_urls: tuple[str, ...] = ()
    ldm: bool = False
    connect_info: bool = False
    remote_account: str = ""
    acc_is_sys: bool = False
    api_lvl: int = 0
    xkey: str = ""


_encoder = msgspec.json.Encoder()


def encode(info: Info) -> bytes:
    """Return the whole line, with nats-server's blank before its end."""
    return b"INFO %b \r\n" % _encoder.encode(info)


class ServerIdentity:
    """The names of a server, and where it can be reached."""

    def __init__(self, options: BrokerOptions, server_id: str, xkey: str) -> None:
        self.server_id = server_id
        self.server_name = options.server_name or server_id
        self.xkey = xkey
        self.jetstream_domain: str | None = None  # not None: JetStream is on; may be empty
        self.listen_host = options.host
        self.listen_port = options.port
        self.websocket_port = 0

    def info(self, **fields: Any) -> Info:
        """Return an INFO with what is common to all clients; `fields` has the rest."""
        return Info(
            **{
                "server_id": self.server_id,
                "server_name": self.server_name,
                "version": SERVER_VERSION,
                "proto": PROTOCOL_VERSION,
                "go": "millstream",
                "jetstream": self.jetstream_domain is not None,
                "domain": self.jetstream_domain or "",
                "api_lvl": API_LEVEL,
                "xkey": self.xkey,
                **fields,
            }
        )

    def listener_fields(self, options: BrokerOptions, kind: ConnectionType) -> dict[str, Any]:
        """Return the INFO fields that depend on the listener."""
        if kind is ConnectionType.WEBSOCKET and options.websocket is not None:
            tls = options.websocket.tls is not None
            return {
                "host": options.websocket.host,
                "port": self.websocket_port,
                "tls_required": tls,
                "tls_available": tls,
            }
        fields: dict[str, Any] = {"host": self.listen_host, "port": self.listen_port}
        if options.client_advertise:
            host, _, port = options.client_advertise.rpartition(":")
            fields |= {"host": host, "port": int(port)} if host else {"host": port}
        if options.tls is not None:
            fields["tls_required"] = not options.tls.allow_non_tls
            fields["tls_available"] = options.tls.allow_non_tls
            fields["tls_verify"] = options.tls.verify or options.tls.verify_and_map
        return fields
