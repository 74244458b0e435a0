"""The options of a connection: plain data that can be pickled and never shows a secret.

Each option is declared once, with all its names (`fields`).  Only this module checks for contradictions.
`sources`, `sections` and `contexts` collect options; `login` reads the files that they name.
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import quote

from millstream.base.addresses import DEFAULT_PORT, BadAddress, parse_address
from millstream.link.errors import BadLinkOptions
from millstream.link.fields import Field, Names, OptionKind, declared, fields_of

DEFAULT_CONNECT_S: Final = 5.0
DEFAULT_REQUEST_S: Final = 10.0
_LOGIN: Final = "way to log in"
_API: Final = "name of the JetStream API"


class Contradiction(BadLinkOptions):
    """Raised for options that exclude each other; `paths` has their paths in `LinkOptions`."""

    def __init__(self, text: str, *paths: str) -> None:
        super().__init__(text.format(" and ".join(paths)))
        self._text = text
        self.paths: Final = paths

    def in_words(self, words: Mapping[str, str]) -> str:
        """Return the message with the names under which the options were given."""
        return self._text.format(" and ".join(words.get(path, path) for path in self.paths))


@dataclass(frozen=True, slots=True)
class ServerAddress:
    """One server of a list, with the credentials in its URL."""

    host: str
    port: int = DEFAULT_PORT
    tls: bool = False
    user: str = field(default="", repr=False)
    password: str = field(default="", repr=False)

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"

    @property
    def url(self) -> str:
        """The address with its scheme, without user and password."""
        return f"{'tls' if self.tls else 'nats'}://{self}"

    @property
    def full_url(self) -> str:
        """The address with user and password if it has them; never print it."""
        if not self.user:
            return self.url
        scheme, _, rest = self.url.partition("://")
        who = ":".join(quote(part, safe="") for part in (self.user, self.password) if part)
        return f"{scheme}://{who}@{rest}"

    @classmethod
    def parse(cls, text: str) -> "ServerAddress":
        """Parse `nats://host:port`, `tls://host`, `user:password@host:port` or `host`."""
        try:
            found = parse_address(text)
        except BadAddress as error:
            raise BadLinkOptions(str(error)) from None
        return cls(found.host, found.port, found.scheme == "tls", found.user, found.password)


@dataclass(frozen=True, slots=True)
class LinkTlsOptions:
    """TLS files in PEM; without `ca_file` the system's authorities are trusted."""

    ca_file: str = declared("", Names(
        kind=OptionKind.FILE, metavar="FILE",
        help="file with the certificates to trust; also switches TLS on",
        flags=("--tlsca",), variable="NATS_CA", spark="nats.tls.ca", key="tls.ca", also=("tls.authorities",),
        context="ca",
    ))  # fmt: skip
    cert_file: str = declared("", Names(
        kind=OptionKind.FILE, metavar="FILE", help="file with the client's certificate",
        flags=("--tlscert",), variable="NATS_CERT", spark="nats.tls.cert", key="tls.cert",
        also=("tls.certificate",), context="cert",
    ))  # fmt: skip
    key_file: str = declared("", Names(
        kind=OptionKind.FILE, metavar="FILE", help="file with the key of the client's certificate",
        flags=("--tlskey",), variable="NATS_KEY", spark="nats.tls.key", key="tls.key", context="key",
    ))  # fmt: skip
    first: bool = declared(False, Names(
        kind=OptionKind.SWITCH, help="begin with TLS, before the server says anything",
        flags=("--tlsfirst",), spark="nats.tls.first", key="tls.first", context="tls_first",
    ))  # fmt: skip
    verify: bool = True  # False accepts any certificate

    def __post_init__(self) -> None:
        if self.key_file and not self.cert_file:
            raise Contradiction("{} needs the certificate that the key belongs to", "tls.key_file")


@dataclass(frozen=True, slots=True)
class LinkOptions:
    """All options of a connection, with at most one kind of credentials."""

    servers: tuple[ServerAddress, ...] = declared((ServerAddress("127.0.0.1"),), Names(
        kind=OptionKind.SERVERS, metavar="URL",
        help="address of the server; several of a cluster with commas",
        flags=("--server", "-s"), variable="NATS_URL", spark="nats.servers", key="servers",
        also=("server_uri",), context="url",
    ))  # fmt: skip
    context: str = declared("", Names(
        kind=OptionKind.TEXT, metavar="NAME",
        help="NATS context, of the `nats` tool, for what is not given here",
        flags=("--context",), variable="NATS_CONTEXT", spark="nats.context", key="context",
    ))  # fmt: skip
    user: str = declared("", Names(
        kind=OptionKind.TEXT, metavar="NAME", help="user name", choice=(_LOGIN, "user"),
        flags=("--user",), variable="NATS_USER", spark="nats.user", key="user", context="user",
    ))  # fmt: skip
    password: str = declared("", Names(
        kind=OptionKind.TEXT, metavar="PASSWORD",
        help="password of the user", secret=True, choice=(_LOGIN, "user"),
        flags=("--password",), variable="NATS_PASSWORD", spark="nats.password", key="password",
        context="password",
    ))  # fmt: skip
    token: str = declared("", Names(
        kind=OptionKind.TEXT, metavar="TOKEN", help="token instead of user and password", secret=True,
        choice=(_LOGIN, "token"),
        flags=("--token",), variable="NATS_TOKEN", spark="nats.token", key="token", context="token",
    ))  # fmt: skip
    creds_file: str = declared("", Names(
        kind=OptionKind.FILE, metavar="FILE", help="file with a user's JWT and seed, as `nsc` writes it",
        choice=(_LOGIN, "creds"),
        flags=("--creds",), variable="NATS_CREDS", spark="nats.creds", key="creds",
        also=("credentials_file",), context="creds",
    ))  # fmt: skip
    creds_text: str = declared("", Names(
        kind=OptionKind.TEXT, help="text of such a file", secret=True, choice=(_LOGIN, "creds text"),
        spark="nats.creds.secret",
    ))  # fmt: skip
    nkey_file: str = declared("", Names(
        kind=OptionKind.FILE, metavar="FILE", help="file with the seed of an NKey user",
        choice=(_LOGIN, "nkey file"),
        flags=("--nkey",), variable="NATS_NKEY", spark="nats.nkey", key="nkey_file", context="nkey",
    ))  # fmt: skip
    nkey_seed: str = declared("", Names(
        kind=OptionKind.TEXT, metavar="SEED", help="seed of an NKey user, or of a JWT", secret=True,
        choice=(_LOGIN, "seed"),
        flags=("--seed",), variable="NATS_SEED", spark="nats.nkey.secret", key="nkey_seed",
        context="user_seed",
    ))  # fmt: skip
    jwt: str = declared("", Names(
        kind=OptionKind.TEXT, metavar="JWT", help="JWT of a user; needs the seed unless it is a bearer token",
        secret=True, choice=(_LOGIN, "seed"),
        flags=("--jwt",), variable="NATS_JWT", spark="nats.jwt.secret", key="jwt", context="user_jwt",
    ))  # fmt: skip
    tls: LinkTlsOptions | None = None  # None: only if the server asks for it
    domain: str = declared("", Names(
        kind=OptionKind.TEXT, metavar="NAME", help="JetStream domain", choice=(_API, "domain"),
        flags=("--js-domain",), spark="nats.jsDomain", key="domain", context="jetstream_domain",
    ))  # fmt: skip
    api_prefix: str = declared("", Names(
        kind=OptionKind.SUBJECT, metavar="PREFIX", choice=(_API, "prefix"),
        help="prefix of the JetStream API, for imports from another account",
        flags=("--js-api-prefix",), spark="nats.apiPrefix", key="api_prefix", context="jetstream_api_prefix",
    ))  # fmt: skip
    inbox_prefix: str = declared("_INBOX", Names(
        kind=OptionKind.SUBJECT, metavar="PREFIX", help="prefix of the subjects that answers are sent to",
        flags=("--inbox-prefix",), spark="nats.inboxPrefix", key="inbox_prefix", context="inbox_prefix",
    ))  # fmt: skip
    connect_timeout_s: float = declared(DEFAULT_CONNECT_S, Names(
        kind=OptionKind.SECONDS, metavar="TIME", help="how long to wait for one server to answer",
        flags=("--connect-timeout",), spark="nats.connectTimeout", key="connect_timeout",
        also=("connect_timeout_sec",),
    ))  # fmt: skip
    request_timeout_s: float = declared(DEFAULT_REQUEST_S, Names(
        kind=OptionKind.SECONDS, metavar="TIME", help="how long to wait for the answer to a request",
        flags=("--timeout",), variable="NATS_TIMEOUT", spark="nats.requestTimeout", key="request_timeout",
        also=("request_timeout_sec",),
    ))  # fmt: skip
    name: str = ""  # of the connection, as monitoring shows it
    no_echo: bool = False

    def __post_init__(self) -> None:
        if not self.servers:
            raise BadLinkOptions("no server is given")
        for what in (_LOGIN, _API):
            ways: dict[str, str] = {}
            for each in FIELDS:
                group, way = each.names.choice
                if group == what and getattr(self, each.path):
                    ways.setdefault(way, each.path)
            if len(ways) > 1:
                raise Contradiction(f"give one {what}, not {{}}", *ways.values())
        if self.password and not self.user:
            raise Contradiction("{} needs a user", "password")
        for path in ("inbox_prefix", "api_prefix"):
            subject: str = getattr(self, path)
            if any(character in subject for character in " \t\r\n*>") or subject.strip(".") != subject:
                raise Contradiction(f"{{}} is no plain subject: {subject!r}", path)

    def __str__(self) -> str:
        """The addresses, without user names and passwords in them."""
        return ", ".join(server.url for server in self.servers)

    @property
    def says_who(self) -> bool:
        """Return whether the options have credentials; those of an address do not count."""
        return any(getattr(self, each.path) for each in FIELDS if each.names.choice[0] == _LOGIN)

    @property
    def api(self) -> str:
        """The prefix of the JetStream API's subjects, without the last dot."""
        if self.domain:
            return f"$JS.{self.domain}.API"
        return self.api_prefix or "$JS.API"

    def of_nobody(self) -> "LinkOptions":
        """Return the options without credentials."""
        nothing: dict[str, Any] = {
            each.path: each.default for each in FIELDS if each.names.choice[0] == _LOGIN
        }
        servers = tuple(dataclasses.replace(server, user="", password="") for server in self.servers)
        return dataclasses.replace(self, servers=servers, **nothing)

    def with_files(self, place: Callable[[str], str]) -> "LinkOptions":
        """Return the options with `place` applied to the path of every file."""
        values = {
            each.path: place(found)
            for each in FIELDS
            if each.names.kind is OptionKind.FILE and (found := value_of(self, each.path))
        }
        return replace_values(self, values) if values else self


def value_of(options: LinkOptions, path: str) -> Any:
    """Return the value of a declared field; None for a TLS field without TLS options."""
    head, _, rest = path.partition(".")
    found = getattr(options, head)
    return getattr(found, rest) if rest and found is not None else found


def replace_values(options: LinkOptions, values: Mapping[str, Any]) -> LinkOptions:
    """Return the options with the values at these paths replaced."""
    flat = {path: value for path, value in values.items() if "." not in path}
    inner = {path.partition(".")[2]: value for path, value in values.items() if "." in path}
    if any(inner.values()):
        flat["tls"] = dataclasses.replace(options.tls or LinkTlsOptions(), **inner)
    return dataclasses.replace(options, **flat)


def parse_servers(servers: str | Sequence[str]) -> tuple[ServerAddress, ...]:
    """Parse a list of addresses, or a text with commas; blanks around them are ignored."""
    texts = servers.split(",") if isinstance(servers, str) else servers
    return tuple(ServerAddress.parse(text) for text in texts if text.strip())


FIELDS: Final[tuple[Field, ...]] = tuple(fields_of(LinkOptions, {"tls": LinkTlsOptions}))
