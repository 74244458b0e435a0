"""The address of a NATS server: ``nats://user:word@host:4222``, ``tls://host``, or a bare host."""

from dataclasses import dataclass, field
from typing import Final
from urllib.parse import unquote, urlsplit

from millstream.base.errors import MillstreamError

DEFAULT_PORT: Final = 4222


class BadAddress(MillstreamError):
    """A text is not a server address; the message contains no password."""


@dataclass(frozen=True, slots=True)
class Address:
    """A server, with the credentials in its address."""

    scheme: str
    host: str
    port: int
    user: str = field(default="", repr=False)
    password: str = field(default="", repr=False)

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}"


def parse_address(text: str, schemes: tuple[str, ...] = ("nats", "tls")) -> Address:
    """Parse an address; raise BadAddress if it is invalid or its scheme is not one of `schemes`."""
    text = text.strip()
    shown = text.rpartition("@")[2]
    try:
        parts = urlsplit(text if "://" in text else f"nats://{text}")
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port = None, None
    if not host:
        raise BadAddress(f"{shown!r} is no address of a server, which is like nats://127.0.0.1:4222")
    if parts.scheme not in schemes:
        raise BadAddress(f"{shown!r}: the address of a server begins with nats:// or tls://")
    return Address(
        parts.scheme, host, port or DEFAULT_PORT, unquote(parts.username or ""), unquote(parts.password or "")
    )
