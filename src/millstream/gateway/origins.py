"""The pages that may call: those of the gateway's own origin, and those that the settings name.

A browser sends requests of any page to any address that it reaches, the user's own machine included.  Headers
name the page:

    Origin            the page's origin: with WebSockets, events, and everything that is no plain GET
    Sec-Fetch-Site    how far the page is from here, on GETs without an Origin (over TLS and on loopback)
    Host              the name in the page's address: another one than ours if a name was made to point here

Callers that are not browsers send neither of the first two, and pass.  Headers of proxies
(`X-Forwarded-Host`) are ignored, because any page can send them.
"""

from __future__ import annotations

from collections.abc import Iterable
from ipaddress import ip_address
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from millstream.gateway.errors import Forbidden
from millstream.gateway.exchange import Exchange
from millstream.http.asgi import Scope

_DEFAULT_PORTS: Final = {"http": 80, "https": 443}
_ANY: Final = "*"
_MOST_SERVED: Final = 256
_LONGEST_SERVED: Final = 255
_OPAQUE: Final = "null"  # the origin of sandboxed frames, files and redirected requests
_ELSEWHERE: Final = ("cross-site", "same-site")
# Paths that links on other pages may lead to.
_OPEN_TO_LINKS: Final = ("/", "/docs", "/ui", "/ui/", "/v2/docs", "/v2/openapi.json")


class PageOrigin(NamedTuple):
    """The origin of a page: scheme, host and port."""

    scheme: str
    host: str
    port: int


def parse_origin(text: str) -> PageOrigin | None:
    """Return an origin; None if `text` is not just a scheme, a host and optionally a port."""
    try:
        parts = urlsplit(text.strip().lower())
        port = parts.port
    except ValueError:
        return None
    host = parts.hostname
    if not host or not host.isprintable() or " " in host or not parts.scheme or parts.username is not None:
        return None
    if parts.path not in ("", "/") or parts.query or parts.fragment:
        return None
    return PageOrigin(parts.scheme, _plain(host), port or _DEFAULT_PORTS.get(parts.scheme, 0))


def _plain(host: str) -> str:
    """Return a host in the form in which hosts are compared."""
    host = host.rstrip(".")
    try:
        return ip_address(host).compressed
    except ValueError:
        return host


class OriginGate:
    """Refuses requests of pages of other origins; `listens_on` is the address of the listener."""

    def __init__(self, origins: Iterable[str], hosts: Iterable[str], listens_on: str) -> None:
        listed = tuple(origins)
        self._any = _ANY in listed
        self._opaque = _OPAQUE in listed
        self._origins = frozenset(origin for text in listed if (origin := parse_origin(text)) is not None)
        self._hosts = frozenset(_plain(host.strip("[]").lower()) for host in hosts)
        self._served: set[str] = set()  # values of Host that passed the check
        self._checks_names = bool(self._hosts) or is_loopback(listens_on)

    def check(self, exchange: Exchange, path: str | None) -> None:
        """Raise Forbidden if a page of another origin may be behind this request."""
        scope = exchange.scope
        origins: list[bytes] = []
        hosts: list[bytes] = []
        site = b""
        is_navigation = False
        for name, value in scope["headers"]:
            if name == b"host":
                hosts.append(value)
            elif name == b"origin":
                origins.append(value)
            elif name == b"sec-fetch-site":
                site = value
            elif name == b"sec-fetch-mode":
                is_navigation = value == b"navigate"
        if self._checks_names:
            for host in hosts:
                self._check_name(host.decode("latin-1"))
        for origin in origins:
            self._check_origin(origin.decode("latin-1"), hosts[0].decode("latin-1") if hosts else "", scope)
        if origins or self._any or site.decode("latin-1").strip().lower() not in _ELSEWHERE:
            return
        if not (is_navigation and path in _OPEN_TO_LINKS):
            raise Forbidden("pages of other origins may not call here; see gateway.cors.origins")

    def _check_name(self, authority: str) -> None:
        """Raise Forbidden for a foreign name that points to this machine (DNS rebinding).

        Pages under such a name would have our own origin.  It has a dot, unlike names of a local network, and
        is no address.
        """
        if not authority or authority in self._served:
            return
        here = parse_origin(f"http://{authority}")
        if here is not None and (here.host in self._hosts or _is_local_name(here.host)):
            if len(self._served) < _MOST_SERVED and len(authority) <= _LONGEST_SERVED:
                self._served.add(authority)
            return
        raise Forbidden(f"{authority[:256]!r} is not served here; see gateway.hosts")

    def _check_origin(self, text: str, authority: str, scope: Scope) -> None:
        if self._any or (text.strip() == _OPAQUE and self._opaque):
            return
        origin = parse_origin(text)
        if origin is not None:
            if origin in self._origins:
                return
            # A proxy may add TLS in front of us.  If we use TLS ourselves, a page without it is another
            # origin.
            schemes = ("https",) if scope.get("scheme") in ("https", "wss") else ("http", "https")
            if origin.scheme in schemes and parse_origin(f"{origin.scheme}://{authority}") == origin:
                return
        raise Forbidden(f"the origin {text[:256]!r} may not call here; see gateway.cors.origins")


def is_loopback(host: str) -> bool:
    """Return whether an address to listen on is a loopback address."""
    try:
        return ip_address(host.strip("[]").partition("%")[0]).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def _is_local_name(host: str) -> bool:
    try:
        ip_address(host.partition("%")[0])
    except ValueError:
        return "." not in host or host.endswith(".localhost")
    return True
