"""A hub that answers the upgrade of a link with nonsense: it is refused, logged, and tried again."""

import base64
import contextlib
import hashlib
import re
import socket
from collections.abc import Iterator

import pytest

from tests.kits.leaf import OURS, client
from tests.kits.reference import ServerProcess
from tests.kits.server.monitor import eventually
from tests.kits.wire import WireClient

_GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"


class LyingPort:
    """A spoke of ours, and the socket at which it expects a websocket."""

    def __init__(self, spoke: ServerProcess, listening: socket.socket) -> None:
        self.spoke = spoke
        self._listening = listening

    def accept(self) -> tuple[WireClient, bytes]:
        """Return a connection, and the answer to its key."""
        connection, _ = self._listening.accept()
        link = WireClient(connection)
        request = link.read_until(b"\r\n\r\n")
        key = re.search(rb"Sec-WebSocket-Key: (\S+)", request)
        assert key is not None
        return link, base64.b64encode(hashlib.sha1(key[1] + _GUID).digest())


@pytest.fixture
def liar() -> Iterator[LyingPort]:
    with contextlib.ExitStack() as stack:
        listening = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        port = listening.getsockname()[1]
        config = f'leafnodes {{ reconnect: 50ms, remotes [ {{ url: "ws://127.0.0.1:{port}" }} ] }}'
        yield LyingPort(stack.enter_context(ServerProcess(OURS, config=config, monitor=True)), listening)


_AGREED = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"


@pytest.mark.parametrize(
    ("answer", "logged"),
    [
        (b"SSH-2.0-OpenSSH_9.2\r\n\r\n", "the answer is not HTTP"),
        (b"HTTP/1.1 404 Not Found\r\n\r\n", "refused the websocket: HTTP/1.1 404 Not Found"),
        (_AGREED + b"Sec-WebSocket-Accept: bm8=\r\n\r\n", "invalid websocket connection"),
        (_AGREED + b"Sec-WebSocket-Accept: %b\r\nbad line\r\n\r\n", "malformed header"),
        (
            _AGREED + b"Sec-WebSocket-Accept: %b\r\nSec-WebSocket-Extensions: permessage-deflate\r\n\r\n",
            "compression negotiation error",
        ),
        (b"HTTP/1.1 101 x\r\n" + b"a: b\r\n" * 20_000, "too large"),
        (b"", "the server hung up"),
    ],
    ids=["no HTTP", "refused", "wrong key", "no header", "not asked for", "endless", "nothing"],
)
def test_a_bad_answer(liar: LyingPort, answer: bytes, logged: str) -> None:
    link, accept = liar.accept()
    with link, contextlib.suppress(OSError):
        link.send(answer.replace(b"%b", accept))
    eventually(lambda: logged in liar.spoke.log)
    link, _ = liar.accept()  # it tries again
    link.close()
    with client(liar.spoke) as user:
        assert user.round_trip(b"SUB a 1\r\nPUB a 1\r\nx\r\n") == b"MSG a 1 1\r\nx\r\n"


@pytest.mark.parametrize(
    "frame",
    [b"\x82\x7f\xff\xff\xff\xff\xff\xff\xff\xff", b"\x8f\x00", b"\xc2\x05hello", b"\x82\x05hello\r\n"],
    ids=["a huge frame", "an unknown opcode", "compressed", "no INFO"],
)
def test_a_bad_frame_ends_the_link(liar: LyingPort, frame: bytes) -> None:
    link, accept = liar.accept()
    with link:
        link.send(_AGREED + b"Sec-WebSocket-Accept: %b\r\n\r\n" % accept + frame)
        with contextlib.suppress(OSError):
            link.read_until_closed()
    link, _ = liar.accept()
    link.close()
