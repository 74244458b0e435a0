"""The INFO line, which describes the server to a client."""

import msgspec

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
