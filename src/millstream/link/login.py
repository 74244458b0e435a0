"""The login of a connection: the server's INFO, TLS, our CONNECT.

    server                                   client
    (TLS, if `first`)
    INFO {"nonce":…, "tls_required":…}  ─▶
    (TLS, if either side wants it)
                                        ◀─   CONNECT {"jwt":…, "sig":…}   PING
    PONG, or -ERR 'Authorization Violation'  ─▶

This module uses no sockets; `socket_line` and `connection` do the I/O around these steps.
"""

import secrets
import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from millstream.base.errors import UNREADABLE_JSON, MillstreamError
from millstream.base.reasons import file_reason
from millstream.base.tls_files import TlsFileError, client_context
from millstream.base.version import VERSION
from millstream.link.errors import (
    AuthorizationViolation,
    BadLinkOptions,
    LinkError,
    NotConnected,
    ProtocolViolation,
    TlsFailure,
)
from millstream.link.options import LinkOptions, LinkTlsOptions, ServerAddress

if TYPE_CHECKING:
    from millstream.base.seeds import Signer

_LANGUAGE: Final = "python-millstream"
_REFUSALS: Final = ("authorization", "authentication", "user authentication", "account authentication")


class ServerInfo(msgspec.Struct, frozen=True):
    """The fields of INFO that a client uses."""

    server_id: str = ""
    server_name: str = ""
    version: str = ""
    go: str = ""  # a Millstream says that it is one
    headers: bool = False
    max_payload: int = 1024 * 1024
    jetstream: bool = False
    api_lvl: int = 0
    domain: str = ""
    cluster: str = ""
    client_id: int = 0
    nonce: str = ""
    auth_required: bool = False
    tls_required: bool = False
    tls_available: bool = False
    connect_urls: list[str] = []
    ldm: bool = False
    connect_info: bool = False  # this INFO came after CONNECT, and says whose connection it is
    remote_account: str = ""
    acc_is_sys: bool = False

    @property
    def is_millstream(self) -> bool:
        return self.go == "millstream"


_INFO: Final = msgspec.json.Decoder(ServerInfo)


def read_info(line: bytes) -> ServerInfo:
    """Return the fields of an INFO line; raises ProtocolViolation if it is malformed."""
    try:
        return _INFO.decode(line)
    except UNREADABLE_JSON:
        raise ProtocolViolation("the server sent an INFO that can not be read") from None


def wants_tls(options: LinkOptions, server: ServerAddress, info: ServerInfo) -> bool:
    """Return whether to start TLS after an INFO that came unencrypted."""
    asked = options.tls is not None or server.tls
    if asked and not (info.tls_required or info.tls_available):
        raise TlsFailure(
            f"cannot connect to {server}: TLS was asked for, and the server does not offer it; switch TLS on "
            "there, or connect without"
        )
    return asked or info.tls_required


def tls_context(options: LinkOptions) -> ssl.SSLContext:
    """Return the TLS context of the options; raises BadLinkOptions if a file is missing or invalid."""
    tls = options.tls or LinkTlsOptions()
    try:
        return client_context(tls.ca_file, tls.cert_file, tls.key_file, verify=tls.verify)
    except TlsFileError as error:
        raise BadLinkOptions(str(error)) from None


def check_files(options: LinkOptions) -> None:
    """Raise BadLinkOptions if a file of the options cannot be used; nothing is sent."""
    if options.tls is not None:
        tls_context(options)
    credentials = load_credentials(options, options.servers[0])
    if credentials.seed:
        _signer(credentials.seed)


@dataclass(frozen=True, slots=True)
class LinkCredentials:
    """The credentials that CONNECT sends, read from the files."""

    fields: dict[str, Any]
    seed: str = ""

    def __repr__(self) -> str:
        return f"Credentials({', '.join(sorted(self.fields)) or 'none'})"


def load_credentials(options: LinkOptions, server: ServerAddress) -> LinkCredentials:
    """Return the credentials for `server`: those of the options, or else of its URL."""
    if options.creds_file or options.creds_text:
        from millstream.base.seeds import (
            read_credentials,
        )  # imported here because cryptography is slow to import

        text = _read(options.creds_file, "credentials") if options.creds_file else options.creds_text
        try:
            jwt, seed = read_credentials(text)
        except MillstreamError as error:
            what = f"the credentials file {options.creds_file}" if options.creds_file else "the credentials"
            raise BadLinkOptions(f"{what} cannot be used: {error}") from None
        return LinkCredentials({"jwt": jwt} if jwt else {}, seed)
    if options.nkey_file:
        seed = _read(options.nkey_file, "nkey seed").strip()
        _signer(seed, f"nkey file {options.nkey_file}")
        return LinkCredentials({}, seed)
    if options.nkey_seed or options.jwt:
        return LinkCredentials({"jwt": options.jwt} if options.jwt else {}, options.nkey_seed)
    if options.token:
        return LinkCredentials({"auth_token": options.token})
    if options.user:
        return LinkCredentials({"user": options.user, "pass": options.password})
    if server.user and server.password:
        return LinkCredentials({"user": server.user, "pass": server.password})
    if server.user:
        return LinkCredentials({"auth_token": server.user})
    return LinkCredentials({})


def _read(path: str, what: str) -> str:
    try:
        return Path(path).read_text()
    except (OSError, ValueError) as error:
        reason = file_reason(error) if isinstance(error, OSError) else "it is no text"
        raise BadLinkOptions(f"cannot read the {what} in {path}: {reason}") from None


def connect_frames(
    options: LinkOptions, server: ServerAddress, info: ServerInfo, proof_key: str = ""
) -> bytes:
    """Return CONNECT and the PING whose answer confirms the login.

    Millstream signs its offers to this connection with `proof_key`; other servers ignore it.
    """
    credentials = load_credentials(options, server)
    fields: dict[str, Any] = {
        "verbose": False,
        "pedantic": False,
        "lang": _LANGUAGE,
        "version": VERSION,
        "protocol": 1,
        "headers": True,
        "no_responders": True,
        "echo": not options.no_echo,
        "tls_required": options.tls is not None or server.tls,
        **credentials.fields,
    }
    if proof_key:
        fields["millstream_key"] = proof_key
    if options.name:
        fields["name"] = options.name
    if credentials.seed:
        signer = _signer(credentials.seed)
        if "jwt" not in credentials.fields:
            fields["nkey"] = signer.public_key
        if info.nonce:
            fields["sig"] = signer.sign(info.nonce.encode())
    return b"CONNECT %b\r\nPING\r\n" % msgspec.json.encode(fields)


def _signer(seed: str, what: str = "nkey seed") -> "Signer":
    from millstream.base.seeds import Signer

    try:
        return Signer(seed)
    except MillstreamError as error:
        raise BadLinkOptions(f"the {what} cannot be used: {error}") from None


def refusal(server: ServerAddress, line: bytes, options: LinkOptions) -> LinkError:
    """Return the error for an -ERR that came during the login or ended the connection."""
    text = line.decode("utf-8", "replace").strip().strip("'")
    if not text.lower().startswith(_REFUSALS):
        return NotConnected(f"{server} ended the connection: {text}")
    if not options.says_who and not server.user:
        return AuthorizationViolation(f"{server} asks for credentials, and none were given: {text}", text)
    return AuthorizationViolation(
        f"{server} refused the credentials: {text}; check the user, password, token or key", text
    )


def new_inbox(options: LinkOptions) -> str:
    """Return a new unique prefix for inboxes."""
    return f"{options.inbox_prefix}.{secrets.token_hex(11)}"  # no counter: a forked process would repeat it
