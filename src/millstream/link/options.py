"""How to reach a server and as whom: plain data that can be pickled and never shows a secret."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from millstream.base.addresses import DEFAULT_PORT, BadAddress, parse_address
from millstream.link.errors import BadOptions

DEFAULT_SERVER: Final = "nats://127.0.0.1:4222"
DEFAULT_CONNECT_S: Final = 5.0
DEFAULT_REQUEST_S: Final = 10.0


@dataclass(frozen=True, slots=True)
class ServerAddress:
    """One server out of a list, with what its URL says about who we are."""

    host: str
    port: int = DEFAULT_PORT
    tls: bool = False
    user: str = field(default="", repr=False)
    password: str = field(default="", repr=False)

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"

    @classmethod
    def parse(cls, text: str) -> "ServerAddress":
        """`nats://host:port`, `tls://host`, `user:password@host:port`, `host`."""
        try:
            found = parse_address(text)
        except BadAddress as error:
            raise BadOptions(str(error)) from None
        return cls(found.host, found.port, found.scheme == "tls", found.user, found.password)


@dataclass(frozen=True, slots=True)
class TlsOptions:
    """Files in PEM; without `ca_file` the authorities of the system are trusted."""

    ca_file: str = ""
    cert_file: str = ""
    key_file: str = ""
    first: bool = False  # shake hands before the server says anything
    verify: bool = True  # False trusts whoever answers

    def __post_init__(self) -> None:
        if self.key_file and not self.cert_file:
            raise BadOptions("a TLS key without its certificate can not be used")


@dataclass(frozen=True, slots=True)
class LinkOptions:
    """Everything about a connection.  At most one way to say who we are."""

    servers: tuple[ServerAddress, ...] = (ServerAddress("127.0.0.1"),)
    name: str = ""  # of the connection, as monitoring shows it
    user: str = field(default="", repr=False)
    password: str = field(default="", repr=False)
    token: str = field(default="", repr=False)
    nkey_seed: str = field(default="", repr=False)
    creds_file: str = ""
    creds_text: str = field(default="", repr=False)
    tls: TlsOptions | None = None  # None: only if the server asks for it
    inbox_prefix: str = "_INBOX"
    domain: str = ""
    api_prefix: str = ""  # in place of $JS.API; not with a domain
    connect_timeout_s: float = DEFAULT_CONNECT_S  # for each server
    request_timeout_s: float = DEFAULT_REQUEST_S
    no_echo: bool = False

    def __post_init__(self) -> None:
        if not self.servers:
            raise BadOptions("no server is given")
        ways = {
            "user": bool(self.user or self.password),
            "token": bool(self.token),
            "nkey seed": bool(self.nkey_seed),
            "creds": bool(self.creds_file or self.creds_text),
        }
        given = [name for name, there in ways.items() if there]
        if len(given) > 1:
            raise BadOptions(f"give one way to log in, not {' and '.join(given)}")
        if self.password and not self.user:
            raise BadOptions("a password without a user can not be used")
        if self.creds_file and self.creds_text:
            raise BadOptions("give the credentials as a file or as a text, not both")
        if self.domain and self.api_prefix:
            raise BadOptions("give a JetStream domain or an API prefix, not both")
        for what, subject in (("inbox prefix", self.inbox_prefix), ("API prefix", self.api_prefix)):
            if any(character in subject for character in " \t\r\n*>") or subject.strip(".") != subject:
                raise BadOptions(f"the {what} {subject!r} is no plain subject")

    @property
    def says_who(self) -> bool:
        """Whether there are credentials, beside those of an address."""
        return bool(self.user or self.token or self.nkey_seed or self.creds_file or self.creds_text)

    @property
    def api(self) -> str:
        """What the subjects of the JetStream API begin with."""
        if self.domain:
            return f"$JS.{self.domain}.API"
        return self.api_prefix or "$JS.API"


def parse_servers(servers: str | Sequence[str]) -> tuple[ServerAddress, ...]:
    """Addresses out of a list, or of a text with commas."""
    texts = servers.split(",") if isinstance(servers, str) else servers
    return tuple(ServerAddress.parse(text) for text in texts if text.strip())
