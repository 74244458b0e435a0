"""A hub that lies: it is refused, the log says so, and nothing is let in."""

import contextlib
import json
import socket
from collections.abc import Iterator

import pytest

from tests.kits.leaf import OURS, client
from tests.kits.reference import ServerProcess
from tests.kits.server.monitor import eventually
from tests.kits.wire import WireClient

_INFO = {
    "server_id": "NHUB",
    "server_name": "liar",
    "version": "2.15.1",
    "headers": True,
    "max_payload": 1024 * 1024,
    "client_id": 7,
    "nonce": "abc",
    "info_on_connect": True,
    "leafnode_urls": [],
}
_CONFIRMED = _INFO | {"connect_info": True, "remote_account": "$G"}


def line(info: object) -> bytes:
    return b"INFO " + json.dumps(info).encode() + b"\r\n"


class Liar:
    """A spoke of ours, and the socket at which it expects its hub."""

    def __init__(self, spoke: ServerProcess, listening: socket.socket) -> None:
        self.spoke = spoke
        self._listening = listening

    def accept(self) -> WireClient:
        connection, _ = self._listening.accept()
        return WireClient(connection)

    def log_in(self) -> WireClient:
        link = self.accept()
        link.send(line(_INFO))
        assert b"CONNECT " in link.read_until(b"\r\n")
        link.send(line(_CONFIRMED))
        link.read_until(b"LS+ $LDS.")
        return link


@pytest.fixture
def liar() -> Iterator[Liar]:
    with contextlib.ExitStack() as stack:
        listening = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        port = listening.getsockname()[1]
        config = (
            "jetstream { domain: spoke, max_mem: 64M, max_file: 64M }\n"
            f'leafnodes {{ reconnect: 50ms, remotes [ {{ url: "nats-leaf://127.0.0.1:{port}", '
            "deny_imports: [closed.>] }] }"
        )
        spoke = ServerProcess(OURS, config=config, jetstream=True, monitor=True)
        stack.enter_context(spoke)
        yield Liar(spoke, listening)


@pytest.mark.parametrize(
    "first",
    [
        b"INFO {nonsense}\r\n",
        b"INFO 7\r\n",
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
        line({**_INFO, "leafnode_urls": None}),
        line({**_INFO, "client_id": "7"}),
        line({**_INFO, "server_name": "x" * 10_000}),
        line({**_INFO, "server_name": "a\nb"}),
        b"INFO " + b"x" * 100_000,
        b"LMSG a 1\r\nx\r\n",
        b"LS+ a\r\n",
        line({**_INFO, "info_on_connect": False, "import": {"allow": ["a b"]}}),
    ],
    ids=[
        "no JSON",
        "no object",
        "another protocol",
        "the port of clients",
        "a text as number",
        "a long name",
        "a name of two lines",
        "an endless line",
        "a message first",
        "interest first",
        "a rule that is no subject",
    ],
)
def test_a_bad_beginning(liar: Liar, first: bytes) -> None:
    with liar.accept() as link:
        with contextlib.suppress(OSError):
            link.send(first)
        link.read_until_closed()
    with liar.log_in():  # it tries again, and is well
        pass


@pytest.mark.parametrize(
    "said",
    [
        b"LMSG a b\r\n",
        b"LMSG a * q 1\r\n",
        b"LMSG a 99999999\r\n",
        b"HMSG a 9 3\r\nabc\r\n",
        b"LS+ a b\r\n",
        b"LS+ " + b"a" * 100_000 + b"\r\n",
        b"CONNECT {}\r\n",
        b"SUB a 1\r\n",
        b"NONSENSE\r\n",
        line({**_INFO, "import": {"allow": [""]}}),
        line({**_INFO, "export": {"deny": ["a\r\n[1] 2026/01/01 00:00:00.0 [INF] forged"]}}),
    ],
    ids=[
        "no size",
        "no sign of a reply",
        "too large",
        "more headers than message",
        "a queue without weight",
        "a huge control line",
        "CONNECT",
        "SUB",
        "nonsense",
        "a rule that is no subject",
        "a rule that forges the log",
    ],
)
def test_a_broken_operation_ends_the_link(liar: Liar, said: bytes) -> None:
    with liar.log_in() as link:
        link.send(said)
        assert link.read_until_closed().count(b"\r\n-ERR") <= 1
    with liar.log_in():
        pass
    assert "\n[1] 2026" not in liar.spoke.log


def test_messages_that_nobody_asked_for_or_that_are_denied(liar: Liar) -> None:
    """The API without its domain, the system's subjects and those of a deny list do not come in."""
    create = json.dumps({"name": "STOLEN", "subjects": ["stolen"], "storage": "memory"}).encode()
    with liar.log_in() as link, client(liar.spoke) as user:
        user.round_trip(b"SUB > 1\r\n")
        for subject in (
            b"$JS.API.STREAM.CREATE.STOLEN",
            b"$KV.bucket.key",
            b"$SYS.REQ.USER.INFO",
            b"$NRG.x",
            b"_GR_.x",
            b"closed.a",
        ):
            link.send(b"LMSG %b reply %d\r\n%b\r\n" % (subject, len(create), create))
        link.send(b"LMSG open.a 1\r\nx\r\n")
        assert user.read_frame() == b"MSG open.a 1 1\r\nx\r\n"
        reply = user.round_trip(b"SUB in.x 2\r\nPUB $JS.API.STREAM.NAMES in.x 0\r\n\r\n")
        while b"stream_names_response" not in reply:
            reply = user.read_frame()
        assert b"STOLEN" not in reply
    assert "Publish Violation" in liar.spoke.log


def test_a_message_with_control_characters(liar: Liar) -> None:
    with liar.log_in() as link, client(liar.spoke) as user:
        user.round_trip(b"SUB > 1\r\n")
        link.send(b"LMSG a\x01b 1\r\nx\r\nLMSG ok in\x02 1\r\nx\r\n")
        link.send(b"LMSG ok $JS.ACK.s.c.1.1.1.1.1@bad\x03 1\r\nx\r\nLMSG fine 1\r\nx\r\n")
        assert user.read_frame() == b"MSG fine 1 1\r\nx\r\n"


def test_a_subject_is_never_shown_in_place_of_a_mapped_one(liar: Liar) -> None:
    """A subject that follows the reply is for messages of consumers, not for requests to the API."""
    create = json.dumps({"name": "HIDDEN", "subjects": ["hidden"], "storage": "memory"}).encode()
    with liar.log_in() as link, client(liar.spoke) as user:
        hidden = b"$JS.ACK.s.c.1.1.1.1.1@$JS.API.STREAM.CREATE.HIDDEN"
        link.send(b"LMSG $JS.spoke.API.INFO %b %d\r\n%b\r\nPING\r\n" % (hidden, len(create), create))
        link.read_until(b"PONG\r\n")
        reply = user.round_trip(b"SUB in.x 2\r\nPUB $JS.API.STREAM.NAMES in.x 0\r\n\r\n")
        while b"stream_names_response" not in reply:
            reply = user.read_frame()
        assert b"HIDDEN" not in reply


def test_a_circle_of_links_is_ended(liar: Liar) -> None:
    with liar.accept() as link:
        link.send(line(_INFO))
        link.read_until(b"\r\n")
        link.send(line(_CONFIRMED))
        link.read_until(b"LS+ $LDS.")
        own = b"$LDS." + link.read_until(b"\r\n").rpartition(b".")[2]
        link.send(b"LS+ " + own)
        assert b"Loop detected" in link.read_until_closed()
    eventually(lambda: "Loop detected for leafnode account" in liar.spoke.log)
