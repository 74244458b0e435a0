"""Settings of operator mode besides operators and resolvers: sentinel, pinned accounts, TLS, cookies."""

import ssl
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.kits.callout import CalloutService
from tests.kits.certs import CertificateAuthority
from tests.kits.conformance.clients import AUTHORIZATION_VIOLATION, Dial, ServerFactory, message, publish
from tests.kits.operator import Account, Operator, User
from tests.kits.reference import ServerProcess, ServerProcessError
from tests.kits.websocket import WebSocketStream
from tests.kits.wire import WireClient

OPERATOR = Operator("settings")
A, B = OPERATOR.account("A"), OPERATOR.account("B")


def come(dial: Dial, server: ServerProcess, who: User | None, **options: Any) -> WireClient:
    client = dial(server)
    nonce = client.read_info()["nonce"]
    if who is not None:
        options |= {"jwt": who.token, "sig": who.signature(nonce)}
    client.send_connect(**options)
    client.send(b"PING\r\n")
    return client


# -- default_sentinel -----------------------------------------------------------------------------------


def test_sentinel_leads_clients_without_a_token_to_a_callout(
    shared_server: ServerFactory, dial: Dial
) -> None:
    service_key = A.user("service").public
    delegating = A.but(authorization={"auth_users": [service_key]})
    sentinel = delegating.user("sentinel", bearer_token=True, pub={"deny": [">"]}, sub={"deny": [">"]})
    more = f'authorization {{ timeout: 60 }}\ndefault_sentinel: "{sentinel.token}"'
    server = shared_server(config=OPERATOR.config([delegating], more))
    service = CalloutService(delegating.user("service").join(dial, server), delegating.key)
    client = come(dial, server, None, user="ann", **{"pass": "word"})
    request = service.next_request()
    assert (request.body["connect_opts"]["user"], request.body["connect_opts"]["pass"]) == ("ann", "word")
    service.allow(request, name="ann")
    client.read_until_pong()


def test_sentinel_is_for_those_without_a_good_token(shared_server: ServerFactory, dial: Dial) -> None:
    sentinel = A.user("sentinel", bearer_token=True, pub={"allow": ["open"]})
    more = f'default_sentinel: "{sentinel.token}"'
    server = shared_server(config=OPERATOR.config([A, B], more))
    for options in ({}, {"jwt": "junk"}):
        client = come(dial, server, None, **options)
        client.read_until_pong()
        assert b"Permissions Violation" in client.round_trip(publish("closed", b""))
    assert come(dial, server, B.user("any")).read_until_pong() is not None
    expired = B.user("any", exp=1)
    assert come(dial, server, expired).read_until_closed() == AUTHORIZATION_VIOLATION


@pytest.mark.parametrize(
    "sentinel",
    ["junk", A.user("sentinel").token, A.token],
    ids=["junk", "a user who has to sign", "an account"],
)
def test_sentinels_that_are_refused(own_server: ServerFactory, sentinel: str) -> None:
    with pytest.raises(ServerProcessError):
        own_server(config=OPERATOR.config([A], f'default_sentinel: "{sentinel}"'))


# -- resolver_pinned_accounts ---------------------------------------------------------------------------


def test_pinned_accounts(shared_server: ServerFactory, dial: Dial) -> None:
    server = shared_server(config=OPERATOR.config([A, B], f"resolver_pinned_accounts: [{A.public}]"))
    for account in (A, OPERATOR.system):
        come(dial, server, account.user("any")).read_until_pong()
    assert come(dial, server, B.user("any")).read_until_closed() == AUTHORIZATION_VIOLATION


def test_pinned_accounts_that_are_none(own_server: ServerFactory) -> None:
    with pytest.raises(ServerProcessError):
        own_server(config=OPERATOR.config([A], "resolver_pinned_accounts: [junk]"))


# -- resolver_tls ---------------------------------------------------------------------------------------


class _Accounts(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        account = self.path.rpartition("/")[2]
        found = {each.public: each.token for each in (OPERATOR.system, A)}.get(account, "")
        self.send_response(200 if found or not account else 404)
        self.send_header("Content-Length", str(len(found)))
        self.end_headers()
        self.wfile.write(found.encode())

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""


@pytest.fixture
def authority(tmp_path: Path) -> CertificateAuthority:
    return CertificateAuthority(tmp_path)


@pytest.fixture
def url(authority: CertificateAuthority) -> Iterator[str]:
    """Return a URL that asks for a certificate of the same authority."""
    issued = authority.issue_for_loopback()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(issued.cert_file, issued.key_file)
    context.load_verify_locations(authority.cert_file)
    context.verify_mode = ssl.CERT_REQUIRED
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Accounts)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    server.handle_error = lambda *_: None  # type: ignore[method-assign]
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield f"https://127.0.0.1:{server.server_port}/accounts/"
    server.shutdown()
    server.server_close()


def test_resolver_tls(
    own_server: ServerFactory, dial: Dial, url: str, authority: CertificateAuthority
) -> None:
    ours = authority.issue("resolver client")
    tls = f'ca_file: "{authority.cert_file}", cert_file: "{ours.cert_file}", key_file: "{ours.key_file}"'
    config = f'operator: "{OPERATOR.token}"\nresolver: URL({url})\nresolver_tls {{ {tls} }}\n'
    client = come(dial, own_server(config=config), A.user("any"))
    client.read_until_pong()


@pytest.mark.parametrize("lacking", ["ca_file", "cert_file"])
def test_resolver_tls_is_needed(
    own_server: ServerFactory, url: str, authority: CertificateAuthority, lacking: str
) -> None:
    ours = authority.issue("resolver client")
    files = {"ca_file": authority.cert_file, "cert_file": ours.cert_file, "key_file": ours.key_file}
    del files[lacking]
    if lacking == "cert_file":
        del files["key_file"]
    tls = ", ".join(f'{name}: "{path}"' for name, path in files.items())
    with pytest.raises(ServerProcessError):
        own_server(config=f'operator: "{OPERATOR.token}"\nresolver: URL({url})\nresolver_tls {{ {tls} }}\n')


# -- jwt_cookie -----------------------------------------------------------------------------------------

WEBSOCKET = 'websocket { host: "127.0.0.1", port: -1, no_tls: true, jwt_cookie: token }'


def cookied(server: ServerProcess, text: str) -> WireClient:
    client = WireClient(WebSocketStream.open(server.websocket_port, headers={"Cookie": f"token={text}"}))
    client.read_info()
    client.send_connect()
    client.send(b"PING\r\n")
    return client


def test_jwt_cookie(shared_server: ServerFactory) -> None:
    server = shared_server(config=OPERATOR.config([A], WEBSOCKET))
    bearer = A.user("web", bearer_token=True, allowed_connection_types=["WEBSOCKET"])
    client = cookied(server, bearer.token)
    client.read_until_pong()
    while b'"remote_account"' not in (frame := client.read_frame()):
        pass
    assert A.public.encode() in frame
    assert client.round_trip(b"SUB x 1\r\n" + publish("x", b"a")) == message("x", "1", b"a")
    client.close()


@pytest.mark.parametrize("text", ["junk", "", A.user("web").token], ids=["junk", "nothing", "no bearer"])
def test_jwt_cookies_that_let_nobody_in(shared_server: ServerFactory, text: str) -> None:
    client = cookied(shared_server(config=OPERATOR.config([A], WEBSOCKET)), text)
    assert client.read_until_closed() == AUTHORIZATION_VIOLATION
    client.close()


def test_accounts_that_were_cut(own_server: ServerFactory, dial: Dial) -> None:
    with pytest.raises(ServerProcessError):
        own_server(config=OPERATOR.config([f'{A.public}: "{Account(OPERATOR, "A").token[:-5]}"']))
