"""A connection without a loop, on both servers: logging in, asking, breaking, coming back."""

import socket
import threading
import time
from pathlib import Path

import pytest

from millstream.base.nkeys import KeyKind
from millstream.base.seeds import Signer, make_seed
from millstream.link.blocking_link import BlockingLink
from millstream.link.errors import (
    AuthorizationViolation,
    LinkApiError,
    LinkError,
    NoResponders,
    NotConnected,
    RequestTimeout,
)
from millstream.link.frames import header_block, message_frame
from millstream.link.options import LinkOptions, LinkTlsOptions, parse_servers
from millstream.link.parser import LinkOp
from tests.kits.certs import CertificateAuthority
from tests.kits.link import Operator, RogueServer, ServerFactory, options_for
from tests.kits.patience import PATIENCE_S
from tests.kits.reference import ServerKind, ServerProcess

SEED = make_seed(KeyKind.USER, b"k" * 32)
USERS = f"""
authorization {{ users: [
  {{ user: joe, password: "hush-hush" }}
  {{ nkey: {Signer(SEED).public_key} }}
  {{ user: shy, password: shy, permissions: {{ publish: ["ok.>"], subscribe: ["_INBOX.>", "_MINE.shy.>"] }} }}
] }}
"""
TOKEN = 'authorization { token: "hush-token" }'


@pytest.fixture
def js(shared_server: ServerFactory) -> ServerProcess:
    return shared_server(jetstream=True)


# -- who we are -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("config", "fields"),
    [
        (USERS, {"user": "joe", "password": "hush-hush"}),
        (USERS, {"nkey_seed": SEED}),
        (USERS, {"creds_text": f"-----BEGIN USER NKEY SEED-----\n{SEED}\n------END USER NKEY SEED------\n"}),
        (TOKEN, {"token": "hush-token"}),
    ],
    ids=["password", "nkey", "seed file", "token"],
)
def test_every_way_to_log_in(shared_server: ServerFactory, config: str, fields: dict[str, str]) -> None:
    with BlockingLink(options_for(shared_server(config=config), **fields)) as link:
        link.flush()
        assert link.connected


@pytest.mark.parametrize("user", ["joe:hush-hush@", "hush-token@"])
def test_the_address_may_say_who_we_are(shared_server: ServerFactory, user: str) -> None:
    server = shared_server(config=USERS if "joe" in user else TOKEN)
    with BlockingLink(LinkOptions(servers=parse_servers(f"nats://{user}127.0.0.1:{server.port}"))) as link:
        link.flush()


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"user": "joe", "password": "wrong-word"},
        {"token": "wrong-word"},
        {"nkey_seed": make_seed(KeyKind.USER, b"x" * 32)},
    ],
    ids=["nobody", "password", "token", "nkey"],
)
def test_wrong_credentials_are_told_with_the_server_and_without_the_secret(
    shared_server: ServerFactory, fields: dict[str, str]
) -> None:
    server = shared_server(config=USERS)
    link = BlockingLink(options_for(server, **fields))
    with pytest.raises(AuthorizationViolation, match=f"127.0.0.1:{server.port} (refused|asks for)") as caught:
        link.connect()
    assert not link.connected
    assert all(secret not in str(caught.value) for secret in fields.values())
    with pytest.raises(AuthorizationViolation):  # at once: waiting does not make credentials better
        link.reconnect(within_s=1000)


@pytest.mark.oracle
def test_credentials_that_an_operator_signed(tmp_path: Path) -> None:
    """Only nats-server has operators."""
    operator = Operator()
    file = tmp_path / "user.creds"
    file.write_text(operator.credentials)
    with ServerProcess(ServerKind.NATS_SERVER, config=operator.config) as server:
        with BlockingLink(options_for(server, creds_file=str(file))) as link:
            link.flush()
        with pytest.raises(AuthorizationViolation):
            BlockingLink(options_for(server)).connect()


def test_an_inbox_prefix_is_where_answers_are_awaited(shared_server: ServerFactory) -> None:
    server = shared_server(config=USERS)
    with BlockingLink(options_for(server, user="shy", password="shy", inbox_prefix="_MINE.shy")) as link:
        assert link.inbox.startswith("_MINE.shy.")
        with pytest.raises(NoResponders):
            link.request("ok.question")
    with (
        BlockingLink(options_for(server, user="shy", password="shy", inbox_prefix="_THEIRS")) as link,
        pytest.raises(LinkError, match="Permissions Violation for Subscription"),
    ):
        link.request("ok.question")


def test_a_forbidden_publish_is_told_and_the_connection_lives_on(shared_server: ServerFactory) -> None:
    with BlockingLink(options_for(shared_server(config=USERS), user="shy", password="shy")) as link:
        link.publish("not.ok", b"x")
        with pytest.raises(LinkError, match=r'Permissions Violation for Publish to "not\.ok"'):
            link.flush()
        link.flush()


# -- TLS --------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> CertificateAuthority:
    return CertificateAuthority(tmp_path_factory.mktemp("papers"))


def _tls_config(authority: CertificateAuthority, extra: str = "") -> str:
    issued = authority.issue_for_loopback()
    files = (
        f'cert_file: "{issued.cert_file}", key_file: "{issued.key_file}", ca_file: "{authority.cert_file}"'
    )
    return f"tls {{ {files}, {extra} }}"


@pytest.mark.parametrize("first", [False, True])
def test_tls_before_or_after_the_first_word(
    own_server: ServerFactory, authority: CertificateAuthority, first: bool
) -> None:
    server = own_server(config=_tls_config(authority, "handshake_first: true" if first else ""))
    tls = LinkTlsOptions(ca_file=str(authority.cert_file), first=first)
    with BlockingLink(options_for(server, tls=tls)) as link:
        sid = link.subscribe("large")
        link.publish("large", b"x" * 300_000)
        message = link.next_message(20)
        assert message is not None
        assert (message.sid, len(message.payload)) == (sid, 300_000)


def test_a_client_certificate_is_shown(own_server: ServerFactory, authority: CertificateAuthority) -> None:
    server = own_server(config=_tls_config(authority, "verify: true"))
    papers = authority.issue("client")
    trusting = LinkTlsOptions(ca_file=str(authority.cert_file))
    with pytest.raises(NotConnected):
        BlockingLink(options_for(server, tls=trusting)).connect()
    shown = LinkTlsOptions(str(authority.cert_file), str(papers.cert_file), str(papers.key_file))
    with BlockingLink(options_for(server, tls=shown)) as link:
        link.flush()


def test_a_server_that_is_not_trusted_is_not_talked_to(
    own_server: ServerFactory, authority: CertificateAuthority
) -> None:
    server = own_server(config=_tls_config(authority))
    with pytest.raises(NotConnected, match="certificate is not trusted"):
        BlockingLink(options_for(server, tls=LinkTlsOptions())).connect()
    with BlockingLink(options_for(server, tls=LinkTlsOptions(verify=False))) as link:
        link.flush()


def test_tls_asked_of_a_server_without_it_is_refused(js: ServerProcess) -> None:
    with pytest.raises(NotConnected, match="does not offer"):
        BlockingLink(options_for(js, tls=LinkTlsOptions())).connect()


# -- asking -----------------------------------------------------------------------------------------


def test_the_api_answers_and_refuses(js: ServerProcess) -> None:
    with BlockingLink(options_for(js)) as link:
        created = link.api(
            "STREAM.CREATE.WIRE", {"name": "WIRE", "subjects": ["wire.>"], "storage": "memory"}
        )
        assert created["config"]["name"] == "WIRE"
        assert link.api("STREAM.INFO.WIRE")["state"]["messages"] == 0
        with pytest.raises(LinkApiError, match=r"STREAM\.INFO\.NONE: stream not found") as caught:
            link.api("STREAM.INFO.NONE")
        assert (caught.value.code, caught.value.err_code) == (404, 10059)
        assert link.api("STREAM.DELETE.WIRE")["success"]


def test_without_jetstream_the_api_says_so(shared_server: ServerFactory) -> None:
    with (
        BlockingLink(options_for(shared_server())) as link,
        pytest.raises(NoResponders, match="JetStream is not enabled"),
    ):
        link.api("INFO")


def test_a_domain_changes_where_the_api_is(own_server: ServerFactory) -> None:
    server = own_server(config="jetstream { domain: hub }", jetstream=True)
    with BlockingLink(options_for(server, domain="hub")) as link:
        assert link.api("INFO")["domain"] == "hub"
    with BlockingLink(options_for(server, domain="other")) as link, pytest.raises(NoResponders):
        link.api("INFO")


def test_requests_are_answered_by_whoever_listens(js: ServerProcess) -> None:
    with BlockingLink(options_for(js)) as asking, BlockingLink(options_for(js)) as answering:
        answering.subscribe("question")
        answering.flush()
        with pytest.raises(RequestTimeout, match=r"no answer on question within 0\.05 s"):
            asking.request("question", b"first", timeout_s=0.05)
        late = answering.next_message(10)
        assert late is not None
        answering.publish(late.reply, b"too late")
        sid = asking.subscribe("meanwhile")
        asking.publish("meanwhile", b"stray")
        asking.publish("question", b"second", reply=f"{asking.inbox}.mine")
        answering.flush()
        asked = answering.next_message(10)
        assert asked is not None
        answering.publish(asked.reply, b"answer", headers={"A": "b"})
        answering.flush()
        with pytest.raises(NoResponders):  # what is not its answer does not disturb a request
            asking.request("nobody")
        stray = asking.next_message(10)
        assert stray is not None
        assert (stray.sid, stray.payload) == (sid, b"stray")


def test_messages_can_be_read_out_of_the_parser(js: ServerProcess) -> None:
    with BlockingLink(options_for(js)) as link:
        sid = link.subscribe("many.*")
        for number in range(1000):
            link.publish(f"many.{number}", b"%d" % number, headers={"N": str(number)} if number % 2 else b"")
        seen = []
        while len(seen) < 1000:
            while (op := link.parser.next()) != LinkOp.NEED_MORE:
                if op == LinkOp.MSG:
                    assert link.parser.sid == sid
                    seen.append((link.parser.subject(), link.parser.headers(), link.parser.payload()))
                else:
                    link.take(op)
            if len(seen) < 1000:
                assert link.fill(10)
        assert seen == [
            (b"many.%d" % n, b"NATS/1.0\r\nN: %d\r\n\r\n" % n if n % 2 else b"", b"%d" % n)
            for n in range(1000)
        ]
        link.unsubscribe(sid)
        link.publish("many.1", b"more")
        link.flush()
        assert link.next_message(0.05) is None


@pytest.mark.parametrize("subject", ["", "a b", "a\r\nPUB x 0", "a\tb"])
def test_a_subject_that_would_break_its_line_is_refused(subject: str) -> None:
    with pytest.raises(LinkError, match="no subject"):
        message_frame(subject, b"", "", b"")


@pytest.mark.parametrize("headers", [{"a b": "c"}, {"a:": "c"}, {"": "c"}, {"a": "c\r\nd: e"}, {"a\n": "c"}])
def test_a_header_that_would_break_its_line_is_refused(headers: dict[str, str]) -> None:
    with pytest.raises(LinkError, match="header"):
        header_block(headers)


# -- breaking and coming back -----------------------------------------------------------------------


def test_a_dead_server_is_noticed_and_its_return_too(own_server: ServerFactory) -> None:
    server = own_server()
    link = BlockingLink(options_for(server))
    link.connect()
    sid = link.subscribe("still.here")
    server.kill()
    for _ in range(2):
        with pytest.raises(NotConnected, match=str(server.port)):
            link.flush()
    with pytest.raises(NotConnected, match=r"no server came back within 0\.2 s.*refused"):
        link.reconnect(within_s=0.2)
    server.start()
    link.reconnect(within_s=30)
    link.publish("still.here", b"yes")
    message = link.next_message(10)
    assert message is not None
    assert (message.sid, message.payload) == (sid, b"yes")
    link.close()


def test_the_next_server_of_the_list_is_tried(js: ServerProcess) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        dead = closed.getsockname()[1]
    for _ in range(4):  # the order is random
        servers = parse_servers([f"127.0.0.1:{dead}", js.client_url])
        with BlockingLink(LinkOptions(servers=servers)) as link:
            assert link.server is not None
            assert link.server.port == js.port


def test_nobody_there_is_told_for_each_server() -> None:
    with socket.create_server(("127.0.0.1", 0)) as first, socket.create_server(("127.0.0.1", 0)) as second:
        ports = [listener.getsockname()[1] for listener in (first, second)]
    link = BlockingLink(LinkOptions(servers=parse_servers([f"127.0.0.1:{port}" for port in ports])))
    with pytest.raises(NotConnected) as caught:
        link.connect()
    assert all(f"127.0.0.1:{port}: Connection refused" in str(caught.value) for port in ports)
    with pytest.raises(NotConnected, match="not connected"):
        link.flush()


def test_what_is_no_nats_server_is_told() -> None:
    def web(connection: socket.socket) -> None:
        connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        connection.recv(100)

    with RogueServer(web) as rogue, pytest.raises(NotConnected, match="no NATS operation"):
        BlockingLink(rogue.options).connect()


def test_a_server_that_hangs_up_is_told() -> None:
    with (
        RogueServer(lambda connection: None) as rogue,
        pytest.raises(NotConnected, match="closed the connection during the login"),
    ):
        BlockingLink(rogue.options).connect()


def test_a_server_that_says_nothing_is_left() -> None:
    def silent(connection: socket.socket) -> None:
        connection.recv(100)

    with RogueServer(silent) as rogue:
        options = LinkOptions(servers=rogue.options.servers, connect_timeout_s=0.1)
        with pytest.raises(NotConnected, match="did not say INFO in time"):
            BlockingLink(options).connect()


def test_a_hostile_answer_breaks_the_connection_and_not_the_memory() -> None:
    def hostile(connection: socket.socket) -> None:
        connection.sendall(b'INFO {"server_id":"x"}\r\n')
        connection.recv(1000)
        connection.sendall(b"PONG\r\nMSG a 1 999999999\r\n")
        connection.recv(1000)

    announced = "announced a message of 999999999 bytes"
    with (
        RogueServer(hostile) as rogue,
        BlockingLink(rogue.options) as link,
        pytest.raises(LinkError, match=announced),
    ):
        link.next_message(10)


def test_an_answer_of_the_api_that_is_no_json_is_told(js: ServerProcess) -> None:
    with (
        BlockingLink(options_for(js, api_prefix="fake", request_timeout_s=PATIENCE_S)) as link,
        BlockingLink(options_for(js)) as fake,
    ):
        fake.subscribe("fake.>")
        fake.flush()

        def play() -> None:
            asked = fake.next_message(30)
            assert asked is not None
            fake.publish(asked.reply, b"[]")

        thread = threading.Thread(target=play)
        thread.start()
        with pytest.raises(LinkError, match="no JSON object"):
            link.api("INFO")
        thread.join()


def test_pings_of_the_server_are_answered(own_server: ServerFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    # Many may go unanswered: one alone would cut us off for being slow.
    server = own_server(config='ping_interval: "100ms"\nping_max: 1000')
    with BlockingLink(options_for(server)) as link:
        send = link.send
        sent: list[bytes] = []

        def spy(data: bytes | memoryview, timeout_s: float | None = None) -> None:
            sent.append(bytes(data))
            send(data, timeout_s)

        monkeypatch.setattr(link, "send", spy)
        deadline = time.monotonic() + 60
        while sent.count(b"PONG\r\n") < 3:
            assert time.monotonic() < deadline, sent
            link.next_message(0.05)
        link.flush()


def test_closing_twice_is_harmless(js: ServerProcess) -> None:
    link = BlockingLink(options_for(js))
    link.connect()
    link.connect()
    link.close()
    link.close()
    with pytest.raises(NotConnected):
        link.flush()
