"""The upgrade request: read in any pieces, judged as nats-server judges it, answered with its words."""

from http import HTTPStatus

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from millstream.broker.options import WebSocketOptions
from millstream.broker.websocket_upgrade import (
    MAX_REQUEST_SIZE,
    Refusal,
    RequestReader,
    Upgrade,
    Upgrader,
    WebSocketOptionsError,
)
from millstream.http.head import Head

HEADERS = {
    "Host": "localhost:8080",
    "Upgrade": "websocket",
    "Connection": "Upgrade",
    "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
    "Sec-WebSocket-Version": "13",
}
OPTIONS = WebSocketOptions()
DATE = "Sun, 06 Nov 1994 08:49:37 GMT"


def request(line: str = "GET / HTTP/1.1", **changes: str | None) -> bytes:
    headers = {**HEADERS, **{name.replace("_", "-"): value for name, value in changes.items()}}
    lines = [f"{name}: {value}\r\n" for name, value in headers.items() if value is not None]
    return f"{line}\r\n{''.join(lines)}\r\n".encode("latin-1")


def ask(
    wire: bytes, options: WebSocketOptions = OPTIONS, *, secure: bool = False
) -> Upgrade | Refusal | None:
    parsed = RequestReader().feed(wire)
    return Upgrader(options).judge(parsed, secure=secure) if isinstance(parsed, Head) else parsed


def accepted(wire: bytes, options: WebSocketOptions = OPTIONS, *, secure: bool = False) -> Upgrade:
    upgrade = ask(wire, options, secure=secure)
    assert isinstance(upgrade, Upgrade), upgrade
    return upgrade


def refused(wire: bytes, options: WebSocketOptions = OPTIONS, *, secure: bool = False) -> Refusal:
    refusal = ask(wire, options, secure=secure)
    assert isinstance(refusal, Refusal), refusal
    return refusal


def test_an_upgrade_is_answered_with_the_key_of_the_rfc() -> None:
    assert accepted(request()).response == (
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        b"Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n"
    )


@pytest.mark.parametrize("line_end", [b"\r\n", b"\n"])
def test_a_request_survives_a_cut_at_every_byte(line_end: bytes) -> None:
    wire = request().replace(b"\r\n", line_end)
    whole = RequestReader().feed(wire)
    assert isinstance(whole, Head)
    for cut in range(1, len(wire)):
        reader = RequestReader()
        assert reader.feed(wire[:cut]) is None
        assert reader.feed(wire[cut:]) == whole, f"cut at {cut}"


def test_a_request_survives_byte_by_byte() -> None:
    reader = RequestReader()
    wire = request()
    results = [reader.feed(wire[at : at + 1]) for at in range(len(wire))]
    assert results[:-1] == [None] * (len(wire) - 1)
    assert isinstance(results[-1], Head)


@given(noise=st.lists(st.binary(max_size=80), max_size=5))
def test_noise_is_refused_or_waited_for(noise: list[bytes]) -> None:
    reader = RequestReader()
    for part in noise:
        result = reader.feed(part)
        if result is not None:
            assert isinstance(result, Refusal | Head)
            break


@pytest.mark.parametrize(
    ("status", "reason", "wire"),
    [
        (405, "request method must be GET", request("POST / HTTP/1.1")),
        (405, "request method must be GET", request("get / HTTP/1.1")),
        (400, "'Host' missing in request", request(Host="")),
        (400, "'Host' missing in request", request("GET / HTTP/1.0", Host=None)),
        (400, "invalid value for header 'Upgrade'", request(Upgrade=None)),
        (400, "invalid value for header 'Upgrade'", request(Upgrade="h2c")),
        (400, "invalid value for header 'Connection'", request(Connection=None)),
        (400, "invalid value for header 'Connection'", request(Connection="keep-alive")),
        (400, "key missing", request(Sec_WebSocket_Key=None)),
        (400, "invalid websocket key", request(Sec_WebSocket_Key="c2hvcnQ=")),
        (400, "invalid websocket key", request(Sec_WebSocket_Key="not base64!")),
        (400, "invalid version", request(Sec_WebSocket_Version=None)),
        (400, "invalid version", request(Sec_WebSocket_Version="8")),
        (404, "mqtt websocket endpoint not enabled", request("GET /mqtt HTTP/1.1")),
        (404, "mqtt websocket endpoint not enabled", request("GET /some/mqtt?a=b HTTP/1.1")),
        (404, "leaf node websocket endpoint not enabled", request("GET /leafnode HTTP/1.1")),
    ],
)
def test_a_request_for_something_else_is_refused(status: int, reason: str, wire: bytes) -> None:
    refusal = refused(wire)
    assert (refusal.status, refusal.reason) == (status, reason)
    phrase = HTTPStatus(status).phrase
    head, _, body = refusal.response(DATE).decode().partition("\r\n\r\n")
    assert body == f"{phrase}\n"
    assert head.split("\r\n") == [
        f"HTTP/1.1 {status} {phrase}",
        "Content-Type: text/plain; charset=utf-8",
        "Sec-Websocket-Version: 13",
        "X-Content-Type-Options: nosniff",
        f"Date: {DATE}",
        f"Content-Length: {len(body)}",
        "Connection: close",
    ]


@pytest.mark.parametrize(
    ("answer", "wire"),
    [
        ("400 Bad Request", b"hello\r\n\r\n"),
        ("400 Bad Request", b"GET /\r\n\r\n"),
        ("400 Bad Request", b"\r\n\r\n"),
        ("400 Bad Request", request("GET / HTTP/1.x")),
        ("400 Bad Request", request("G@T / HTTP/1.1")),
        ("400 Bad Request", request("GET nowhere HTTP/1.1")),
        ("400 Bad Request", request("GET * HTTP/1.1")),
        ("400 Bad Request", request("GET http://[::1/ HTTP/1.1")),
        ("400 Bad Request", request("GET /%zz HTTP/1.1")),
        ("400 Bad Request", request(X="a\x01b")),
        ("400 Bad Request", request().replace(b"\r\n\r\n", b"\r\nno colon\r\n\r\n")),
        ("400 Bad Request", request().replace(b"\r\n\r\n", b"\r\nHost: other\r\n\r\n")),
        ("400 Bad Request: invalid header name", request().replace(b"Host:", b"Host :")),
        ("400 Bad Request: missing required Host header", request(Host=None)),
        (
            "505 HTTP Version Not Supported: unsupported protocol version",
            request("GET / HTTP/2.0"),
        ),
        ("431 Request Header Fields Too Large", request(X="a" * MAX_REQUEST_SIZE)),
        ("431 Request Header Fields Too Large", b"GET / HTTP/1.1\r\nX: " + b"a" * MAX_REQUEST_SIZE),
    ],
)
def test_what_is_not_http_is_told_so(answer: str, wire: bytes) -> None:
    refusal = refused(wire)
    assert refusal.response(DATE).decode() == (
        f"HTTP/1.1 {answer}\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n{answer}"
    )


def test_a_request_that_never_ends_is_refused_at_the_limit() -> None:
    reader = RequestReader()
    piece = b"X: " + b"a" * 1000 + b"\r\n"
    sent = len(b"GET / HTTP/1.1\r\n")
    assert reader.feed(b"GET / HTTP/1.1\r\n") is None
    while (result := reader.feed(piece)) is None:
        sent += len(piece)
        assert sent <= MAX_REQUEST_SIZE
    assert isinstance(result, Refusal)


def test_the_answer_to_head_has_no_body() -> None:
    response = refused(request("HEAD / HTTP/1.1")).response(DATE)
    assert response.startswith(b"HTTP/1.1 405 ")
    assert response.endswith(b"\r\n\r\n")


def test_frames_that_come_with_the_request_end_it_without_a_word() -> None:
    refusal = refused(request() + b"\x82")
    assert refusal.reason == "client sent data before handshake is complete"
    assert refusal.response(DATE) == b""


@pytest.mark.parametrize(
    "wire",
    [
        request("GET /any/path?and=query HTTP/1.1"),
        request("GET http://localhost:8080/x HTTP/1.1"),
        request("GET / HTTP/1.0"),
        request(Upgrade="WebSocket"),
        request(Upgrade="h2c, websocket"),
        request(Connection="keep-alive,\tupgrade"),
        request().replace(b"Sec-WebSocket-Key", b"sec-websocket-key"),
        request().replace(b"Upgrade: websocket", b"Upgrade: h2c\r\nUpgrade: websocket"),
    ],
)
def test_variants_that_mean_the_same_are_accepted(wire: bytes) -> None:
    accepted(wire)


SAME_ORIGIN = WebSocketOptions(same_origin=True)
ALLOWED = WebSocketOptions(allowed_origins=("https://app.example", "http://other.example:8080"))


@pytest.mark.parametrize(
    ("options", "secure", "origin"),
    [
        (OPTIONS, False, "http://anywhere"),
        (OPTIONS, False, "null"),
        (SAME_ORIGIN, False, None),
        (SAME_ORIGIN, False, "http://LocalHost:8080"),
        (SAME_ORIGIN, False, "http://user@localhost:8080"),
        (SAME_ORIGIN, True, "https://localhost:8080"),
        (ALLOWED, False, None),
        (ALLOWED, False, "https://app.example"),
        (ALLOWED, False, "https://app.example:443"),
        (ALLOWED, False, "http://other.example:8080"),
    ],
)
def test_a_page_from_a_good_origin_may_connect(
    options: WebSocketOptions, secure: bool, origin: str | None
) -> None:
    accepted(request(Origin=origin), options, secure=secure)
    accepted(request(Sec_WebSocket_Origin=origin), options, secure=secure)


@pytest.mark.parametrize(
    ("options", "secure", "origin", "reason"),
    [
        (SAME_ORIGIN, False, "http://localhost", "not same origin"),
        (SAME_ORIGIN, False, "https://localhost:8080", "not same origin"),
        (SAME_ORIGIN, True, "http://localhost:8080", "not same origin"),
        (SAME_ORIGIN, False, "http://evil:8080", "not same origin"),
        (SAME_ORIGIN, False, "null", "'null' is not a URL"),
        (SAME_ORIGIN, False, "http://a:b:c", "'http://a:b:c' has no usable host"),
        (SAME_ORIGIN, False, "http://[::1", "'http://[::1' is not a URL"),
        (ALLOWED, False, "http://app.example", "not in the allowed list"),
        (ALLOWED, False, "https://app.example:8443", "not in the allowed list"),
        (ALLOWED, False, "http://other.example", "not in the allowed list"),
        (ALLOWED, False, "https://evil.example", "not in the allowed list"),
        (replace(ALLOWED, same_origin=True), False, "http://localhost:8080", "not in the allowed list"),
    ],
)
def test_a_page_from_elsewhere_may_not(
    options: WebSocketOptions, secure: bool, origin: str, reason: str
) -> None:
    refusal = refused(request(Origin=origin), options, secure=secure)
    assert (refusal.status, refusal.reason) == (403, f"origin not allowed: {reason}")


def test_the_default_port_of_the_scheme_counts_as_the_same_origin() -> None:
    accepted(request(Host="h", Origin="http://h:80"), SAME_ORIGIN)
    accepted(request(Host="[::1]:443", Origin="https://[::1]"), SAME_ORIGIN, secure=True)


COMPRESSING = WebSocketOptions(compression=True)


@pytest.mark.parametrize(
    ("options", "offer", "compressed"),
    [
        (COMPRESSING, "permessage-deflate", True),
        (COMPRESSING, "other, Permessage-Deflate; client_max_window_bits", True),
        (COMPRESSING, "permessage-deflated", False),
        (COMPRESSING, None, False),
        (OPTIONS, "permessage-deflate", False),
    ],
)
def test_compression_is_agreed_when_both_want_it(
    options: WebSocketOptions, offer: str | None, compressed: bool
) -> None:
    upgrade = accepted(request(Sec_WebSocket_Extensions=offer), options)
    answer = (
        b"Sec-WebSocket-Extensions: permessage-deflate; "
        b"server_no_context_takeover; client_no_context_takeover\r\n"
    )
    assert upgrade.compressed is compressed
    assert (answer in upgrade.response) is compressed


@pytest.mark.parametrize(("value", "agreed"), [("true", True), ("TRUE", False), (None, False)])
def test_a_client_may_ask_not_to_mask(value: str | None, agreed: bool) -> None:
    upgrade = accepted(request(Nats_No_Masking=value))
    assert upgrade.require_mask is not agreed
    assert (b"Nats-No-Masking: true\r\n" in upgrade.response) is agreed


CHROME = "Mozilla/5.0 (Macintosh) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/126.0 Safari/537.36"
SAFARI = "Mozilla/5.0 (Macintosh) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/17.4 Safari/605.1.15"


@pytest.mark.parametrize(
    ("agent", "size", "fragments"),
    [(None, 0, True), ("nats.py", 0, True), (CHROME, 4096, True), (SAFARI, 4096, False)],
)
def test_browsers_get_frames_they_can_handle(agent: str | None, size: int, fragments: bool) -> None:
    upgrade = accepted(request(User_Agent=agent))
    assert (upgrade.max_frame_size, upgrade.fragment_compressed) == (size, fragments)


def test_credentials_come_from_the_cookies_that_the_options_name() -> None:
    options = WebSocketOptions(user_cookie="u", password_cookie="p", token_cookie="t")
    wire = request(Cookie='u=derek; p="pass word";  t=old; other=x; bad cookie=1; b=\\; =n').replace(
        b"\r\n\r\n", b"\r\nCookie: t=new\r\n\r\n"
    )
    upgrade = accepted(wire, options)
    assert (upgrade.username, upgrade.password, upgrade.token) == ("derek", "pass word", "new")
    assert upgrade.cookies == {"u": "derek", "p": "pass word", "t": "new", "other": "x"}


def test_cookies_mean_nothing_unless_the_options_name_them() -> None:
    upgrade = accepted(request(Cookie="u=derek; p=secret"))
    assert (upgrade.username, upgrade.password, upgrade.token) == ("", "", "")


@pytest.mark.parametrize(
    ("header", "address"),
    [
        ("192.0.2.1", "192.0.2.1"),
        ("2001:db8::1", "2001:db8::1"),
        ("192.0.2.1, 10.0.0.1", ""),
        ("fe80::1%eth0", ""),
        ("unknown", ""),
        (None, ""),
    ],
)
def test_the_forwarded_address_counts_when_it_is_one(header: str | None, address: str) -> None:
    assert accepted(request(X_Forwarded_For=header)).client_ip == address


def test_configured_headers_are_part_of_the_answer() -> None:
    options = WebSocketOptions(headers=(("X-One", "1"), ("X-Two", "b c")))
    assert accepted(request(), options).response.endswith(b"\r\nX-One: 1\r\nX-Two: b c\r\n\r\n")


@pytest.mark.parametrize(
    "options",
    [
        WebSocketOptions(allowed_origins=("app.example",)),
        WebSocketOptions(allowed_origins=("ftp://app.example",)),
        WebSocketOptions(allowed_origins=("http:///path",)),
        WebSocketOptions(allowed_origins=("http://:80",)),
        WebSocketOptions(headers=(("Upgrade", "x"),)),
        WebSocketOptions(headers=(("sec-websocket-protocol", "x"),)),
        WebSocketOptions(headers=(("X", "a\r\nY: b"),)),
        WebSocketOptions(headers=(("X Y", "a"),)),
        WebSocketOptions(headers=(("X", "☃"),)),
    ],
)
def test_options_that_cannot_work_are_refused_at_once(options: WebSocketOptions) -> None:
    value = options.allowed_origins[0] if options.allowed_origins else options.headers[0][0]
    with pytest.raises(WebSocketOptionsError) as caught:
        Upgrader(options)
    assert repr(value) in str(caught.value)
