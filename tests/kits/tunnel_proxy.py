"""An HTTP proxy on loopback that knows CONNECT alone."""

import contextlib
import select
import socket
import threading
from types import TracebackType
from typing import Self

_READ = 64 * 1024


class TunnelProxy:
    """Use it with ``with``; `requests` has the head of each request."""

    def __init__(self, answer: bytes = b"HTTP/1.1 200 Connection established\r\n\r\n") -> None:
        """Answer every request with `answer`; if it is no success, end the connection."""
        self.requests: list[str] = []
        self._answer = answer
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._open: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._accept)]

    def __enter__(self) -> Self:
        self._threads[0].start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for each in self._open:
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self._open.append(connection)
            thread = threading.Thread(target=self._serve, args=(connection,))
            self._threads.append(thread)
            thread.start()

    def _serve(self, near: socket.socket) -> None:
        with near, contextlib.suppress(OSError):
            head = b""
            while b"\r\n\r\n" not in head:
                chunk = near.recv(_READ)
                if not chunk:
                    return
                head += chunk
            text = head.decode()
            self.requests.append(text)
            near.sendall(self._answer)
            if b" 200 " not in self._answer:
                return
            host, port = text.split()[1].rsplit(":", 1)
            with socket.create_connection((host, int(port))) as far:
                self._open.append(far)
                other = {near: far, far: near}
                while True:
                    for each in select.select(list(other), [], [])[0]:
                        data = each.recv(_READ)
                        if not data:
                            return
                        other[each].sendall(data)
