"""A server that speaks just enough NATS to say what a test wants it to, one connection at a time."""

import json
import socket
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

INFO = {"server_id": "X", "version": "2.15.0", "headers": True, "max_payload": 1_048_576, "proto": 1}

# Gets a subject and a JSON body; returns what to send to the reply subject: (headers, payload) each, or
# whole frames that begin with b"MSG" or b"HMSG", where `{sid}` stands for the number of the subscription.
Answer = Callable[[str, dict[str, Any]], list[bytes]]


class ScriptedServer:
    def __init__(self, answer: Answer) -> None:
        self._answer = answer
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.url = f"nats://127.0.0.1:{self._listening.getsockname()[1]}"
        self.requests: list[tuple[str, dict[str, Any]]] = []
        self._thread = threading.Thread(target=self._serve)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        self._thread.join()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listening.accept()
            except OSError:
                return
            with connection, connection.makefile("rb") as lines:
                connection.sendall(b"INFO %b\r\n" % json.dumps(INFO).encode())
                self._talk(connection, lines)

    def _talk(self, connection: socket.socket, lines: Any) -> None:
        subscriptions: list[tuple[str, str]] = []  # prefix, sid
        while line := lines.readline().decode().split():
            match line[0]:
                case "PING":
                    connection.sendall(b"PONG\r\n")
                case "SUB":
                    subscriptions.append((line[1].removesuffix("*"), line[2]))
                case "PUB":
                    body = lines.read(int(line[-1]) + 2)[:-2]
                    request = json.loads(body) if body else {}
                    self.requests.append((line[1], request))
                    reply = line[2] if len(line) == 4 else ""
                    sid = next((sid for prefix, sid in subscriptions if reply.startswith(prefix)), "0")
                    for frame in self._answer(line[1], request):
                        connection.sendall(
                            frame.replace(b"{reply}", reply.encode()).replace(b"{sid}", sid.encode())
                        )


def api(document: dict[str, Any]) -> bytes:
    """The frame that answers a request of the API."""
    body = json.dumps(document).encode()
    return b"MSG {reply} {sid} %d\r\n%b\r\n" % (len(body), body)


def status(text: str) -> bytes:
    """The frame of a status, such as `404 No Messages`."""
    block = b"NATS/1.0 %b\r\n\r\n" % text.encode()
    return b"HMSG {reply} {sid} %d %d\r\n%b\r\n" % (len(block), len(block), block)


def delivered(stream: str, consumer: str, seq: int, number: int) -> bytes:
    """The frame of a message that a consumer delivers."""
    reply = f"$JS.ACK.{stream}.{consumer}.1.{seq}.{number}.1700000000000000000.0"
    return b"MSG a.b {sid} %b 1\r\nx\r\n" % reply.encode()
