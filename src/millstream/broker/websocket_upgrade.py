"""The HTTP request that turns a connection into a websocket: judged and answered.

A `Head` in, a decision out: an `Upgrade` with everything the connection needs to know, or a `Refusal` with
the status that nats-server gives.  Where nats-server is Go's HTTP server (keep-alive after an error,
redirects of unclean paths, folded headers) this is stricter: an error is answered once and the connection
closed.

Always true:  a request never holds more than `MAX_REQUEST_SIZE` bytes of memory.
Not here:     reading the request (http.head), frames after the upgrade (protocol.websocket), sockets and
              the timeout (broker.websocket), what the credentials from cookies are worth (the broker's
              authentication).
"""

import base64
import binascii
import hashlib
import ipaddress
import re
from collections.abc import Mapping
from http import HTTPStatus
from typing import Final

import msgspec

from millstream.base.errors import MillstreamError
from millstream.broker.options import WebSocketOptions
from millstream.http.head import TOKEN, BadHead, Head, Headers, HeadReader, split_url
from millstream.protocol.websocket import BROWSER_FRAME_SIZE

# nats-server takes 1 MiB.  Anybody may open a connection and send this much before being known, and a
# request with cookies and tokens has a few KiB.
MAX_REQUEST_SIZE: Final = 64 * 1024

_ACCEPT_GUID: Final = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
_COMPRESSION: Final = "permessage-deflate"
LEAF_PATH: Final = "/leafnode"
_MQTT_PATH: Final = "/mqtt"
_RESERVED_HEADERS: Final = frozenset({"host", "content-length", "connection", "upgrade", "nats-no-masking"})

_CONTROL_CHARACTER: Final = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
_COOKIE_VALUE: Final = re.compile(r"[ !#-:<-\[\]-~]*")


class WebSocketOptionsError(MillstreamError):
    """The websocket block contains something impossible."""


class Refusal(msgspec.Struct, frozen=True):
    """No websocket.  `reason` is for the log; the peer gets only the status."""

    status: HTTPStatus | None  # None: hang up without a word
    reason: str
    detail: str = ""  # of a request that is not HTTP as it should be
    malformed: bool = False
    head: bool = False  # the answer to HEAD has no body

    def response(self, date: str) -> bytes:
        """Return the HTTP response; `date` is the current time in HTTP's format."""
        if self.status is None:
            return b""
        phrase = self.status.phrase
        kind = "Content-Type: text/plain; charset=utf-8\r\n"
        if self.malformed:
            line = f"{self.status.value} {phrase}" + (f": {self.detail}" if self.detail else "")
            return f"HTTP/1.1 {line}\r\n{kind}Connection: close\r\n\r\n{line}".encode()
        lines = (
            f"HTTP/1.1 {self.status.value} {phrase}\r\n{kind}Sec-Websocket-Version: 13\r\n"
            f"X-Content-Type-Options: nosniff\r\nDate: {date}\r\n"
            f"Content-Length: {len(phrase) + 1}\r\nConnection: close\r\n\r\n"
        )
        return (lines if self.head else f"{lines}{phrase}\n").encode()


class Upgrade(msgspec.Struct, frozen=True, kw_only=True):
    """The result of the negotiation, and what the request says about the client."""

    response: bytes
    path: str
    headers: Headers
    cookies: Mapping[str, str]
    username: str  # from the cookie that the options name, like the next three
    password: str
    token: str
    jwt: str
    client_ip: str  # from X-Forwarded-For; empty if there is none
    compressed: bool
    require_mask: bool
    max_frame_size: int  # bytes; 0: any
    fragment_compressed: bool
    leaf: bool  # another server, which makes a link


class RequestReader:
    """Collects one request from its pieces."""

    def __init__(self) -> None:
        self._head = HeadReader(MAX_REQUEST_SIZE)

    def feed(self, data: bytes) -> Head | Refusal | None:
        """Return the request or why there is none; None while it is incomplete."""
        found = self._head.feed(data)
        if isinstance(found, BadHead):
            return Refusal(HTTPStatus(found.status), found.reason, found.detail, malformed=True)
        return found


def _host_and_port(host: str, *, secure: bool) -> tuple[str, str] | None:
    """Split `host[:port]`, with the scheme's port as default; return None if it cannot be split."""
    default = "443" if secure else "80"
    if host.startswith("["):
        name, bracket, rest = host[1:].partition("]")
        if not bracket or (rest and not rest.startswith(":")):
            return None
        return name.lower(), rest[1:] if rest else default
    name, colon, port = host.partition(":")
    if ":" in port:
        return None
    return name.lower(), port if colon else default


def answer_to(key: str) -> str:
    """Return the answer to the key of a request, which proves that it was understood."""
    digest = hashlib.sha1(key.encode("latin-1") + _ACCEPT_GUID, usedforsecurity=False).digest()
    return base64.b64encode(digest).decode()


class Upgrader:
    """Checks requests against one listener's options."""

    def __init__(self, options: WebSocketOptions, *, leafs: bool = False) -> None:
        """Accept links with `leafs`; raise WebSocketOptionsError if an origin or a header is invalid."""
        self._options = options
        self._leafs = leafs
        self._origins = frozenset(map(_allowed_origin, options.allowed_origins))
        self._extra_headers = "".join(_response_header(name, value) for name, value in options.headers)

    def judge(self, request: Head, *, secure: bool) -> Upgrade | Refusal:
        """Decide about a request that came over TLS or not; the checks come in nats-server's order."""
        leaf = request.path.endswith(LEAF_PATH)
        if request.path.endswith(_MQTT_PATH) or (leaf and not self._leafs):
            kind = "leaf node" if leaf else "mqtt"
            reason = f"{kind} websocket endpoint not enabled"
            return Refusal(HTTPStatus.NOT_FOUND, reason, head=request.method == "HEAD")
        if request.method != "GET":
            status = HTTPStatus.METHOD_NOT_ALLOWED
            return Refusal(status, "request method must be GET", head=request.method == "HEAD")
        problem = _handshake_problem(request)
        if problem is not None:
            return Refusal(HTTPStatus.BAD_REQUEST, problem)
        problem = self._origin_problem(request, secure)
        if problem is not None:
            return Refusal(HTTPStatus.FORBIDDEN, f"origin not allowed: {problem}")
        if request.early_data:
            # Frames before the answer are a trick to smuggle a second request past a proxy.
            return Refusal(None, "client sent data before handshake is complete")
        return self._accept(request, leaf)

    def _accept(self, request: Head, leaf: bool) -> Upgrade:
        options = self._options
        compressed = options.compression and _offers_compression(request)
        unmasked = request.first("nats-no-masking") == "true"
        agent = request.first("user-agent")
        browser = agent.startswith("Mozilla/") and not leaf
        # Chrome on a Mac says "Safari/" too, but only Safari says "Version/" with it; and Safari cannot
        # put a compressed message together from fragments.
        safari = browser and "Version/" in agent and "Safari/" in agent
        cookies = _cookies(request)
        return Upgrade(
            response=self._response(request, compressed, unmasked),
            path=request.path,
            headers=request.headers,
            cookies=cookies,
            username=cookies.get(options.user_cookie, ""),
            password=cookies.get(options.password_cookie, ""),
            token=cookies.get(options.token_cookie, ""),
            jwt=cookies.get(options.jwt_cookie, ""),
            client_ip=_forwarded_ip(request),
            compressed=compressed,
            require_mask=not unmasked,
            max_frame_size=BROWSER_FRAME_SIZE if browser else 0,
            fragment_compressed=not safari,
            leaf=leaf,
        )

    def _response(self, request: Head, compressed: bool, unmasked: bool) -> bytes:
        lines = [
            "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n",
            f"Sec-WebSocket-Accept: {answer_to(request.first('sec-websocket-key'))}\r\n",
        ]
        if compressed:
            parameters = "server_no_context_takeover; client_no_context_takeover"
            lines.append(f"Sec-WebSocket-Extensions: {_COMPRESSION}; {parameters}\r\n")
        if unmasked:
            lines.append("Nats-No-Masking: true\r\n")
        lines += [self._extra_headers, "\r\n"]
        return "".join(lines).encode("latin-1")

    def _origin_problem(self, request: Head, secure: bool) -> str | None:
        if not self._options.same_origin and not self._origins:
            return None
        origin = request.first("origin") or request.first("sec-websocket-origin")
        if not origin:
            return None  # not a browser; a program could claim any origin
        url = split_url(origin)
        if url is None:
            return f"{origin!r} is not a URL"
        scheme, host, _ = url
        place = _host_and_port(host, secure=scheme == "https")
        if place is None:
            return f"{origin!r} has no usable host"
        if self._options.same_origin and (
            place != _host_and_port(request.host, secure=secure) or scheme != ("https" if secure else "http")
        ):
            return "not same origin"
        if self._origins and (scheme, *place) not in self._origins:
            return "not in the allowed list"
        return None


def _handshake_problem(request: Head) -> str | None:
    if not request.host:
        return "'Host' missing in request"
    if not request.lists("upgrade", "websocket"):
        return "invalid value for header 'Upgrade'"
    if not request.lists("connection", "upgrade"):
        return "invalid value for header 'Connection'"
    key = request.first("sec-websocket-key")
    if not key:
        return "key missing"
    try:
        decoded = base64.b64decode(key.encode("latin-1"), validate=True)
    except binascii.Error:
        decoded = b""
    if len(decoded) != 16:
        return "invalid websocket key"
    if not request.lists("sec-websocket-version", "13"):
        return "invalid version"
    return None


def _offers_compression(request: Head) -> bool:
    offers = ",".join(request.headers.get("sec-websocket-extensions", ()))
    return _COMPRESSION in (part.strip(" \t").lower() for part in re.split("[,;]", offers))


def _forwarded_ip(request: Head) -> str:
    """The first X-Forwarded-For header, if it is one address and nothing else."""
    text = request.first("x-forwarded-for")
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return ""
    return "" if "%" in text else text  # a zone means nothing on this machine


def _cookies(request: Head) -> dict[str, str]:
    found: dict[str, str] = {}
    for pair in ";".join(request.headers.get("cookie", ())).split(";"):
        name, _, value = pair.strip(" \t").partition("=")
        if len(value) > 1 and value[0] == value[-1] == '"':
            value = value[1:-1]
        if TOKEN.fullmatch(name) and _COOKIE_VALUE.fullmatch(value):
            found[name] = value
    return found


def _allowed_origin(text: str) -> tuple[str, str, str]:
    url = split_url(text)
    if url is None or url[0] not in ("http", "https"):
        raise WebSocketOptionsError(
            f"allowed origin {text!r} must be an absolute URL with http or https scheme and a host"
        )
    place = _host_and_port(url[1], secure=url[0] == "https")
    if place is None or not place[0]:
        raise WebSocketOptionsError(f"allowed origin {text!r} has no usable host")
    return url[0], *place


def _response_header(name: str, value: str) -> str:
    lower = name.lower()
    if lower in _RESERVED_HEADERS:
        raise WebSocketOptionsError(f"websocket header {name!r} not allowed")
    if lower.startswith("sec-websocket-"):
        raise WebSocketOptionsError(f'websocket header {name!r}: "Sec-WebSocket-" prefix not allowed')
    if not TOKEN.fullmatch(name) or _CONTROL_CHARACTER.search(value) or not _is_latin1(value):
        raise WebSocketOptionsError(f"websocket header {name!r} cannot be sent")
    return f"{name}: {value}\r\n"


def _is_latin1(text: str) -> bool:
    return all(ord(character) < 256 for character in text)
