"""A blocking socket from its login to its end; `connection` is its counterpart with an event loop.

Input goes directly into the link's parser.  A line that fails raises NotConnected and is closed.
"""

import contextlib
import socket
import ssl
import time
from typing import Final

from millstream.base.reasons import connection_reason
from millstream.link.errors import NotConnected, ProtocolViolation
from millstream.link.login import ServerInfo, connect_frames, read_info, refusal, tls_context, wants_tls
from millstream.link.options import LinkOptions, ServerAddress
from millstream.link.parser import LinkOp, LinkParser

_ROOM: Final = 512 * 1024  # bytes of one read
_RECEIVE_BUFFER: Final = (
    4 * 1024 * 1024
)  # of the socket, so that the server can send while a batch is processed


class SocketLine:
    """A connected and logged-in socket; the constructor raises NotConnected or a subclass."""

    def __init__(
        self, server: ServerAddress, options: LinkOptions, parser: LinkParser, tls_name: str, proof_key: str
    ) -> None:
        self.server: Final = server
        self.info = ServerInfo()
        self._options = options
        self._parser = parser
        self._tls_name = tls_name
        parser.clear()
        deadline = time.monotonic() + options.connect_timeout_s
        try:
            self._socket: socket.socket = socket.create_connection(
                (server.host, server.port), options.connect_timeout_s
            )
        except OSError as error:
            raise NotConnected(f"cannot connect to {server}: {connection_reason(error)}") from None
        try:
            self._log_in(deadline, proof_key)
        except ProtocolViolation as error:
            self.close()
            reason = f"it does not speak NATS; check the port ({error})"
            raise NotConnected(f"cannot connect to {server}: {reason}") from None
        except OSError as error:
            self.close()
            raise NotConnected(f"cannot connect to {server}: {connection_reason(error)}") from None
        except BaseException:
            self.close()
            raise

    def _log_in(self, deadline: float, proof_key: str) -> None:
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with contextlib.suppress(OSError):
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _RECEIVE_BUFFER)
        first = self._options.tls is not None and self._options.tls.first
        if first:
            self._encrypt()
        self._await_op(LinkOp.INFO, deadline)
        self.info = read_info(self._parser.line())
        if not first and wants_tls(self._options, self.server, self.info):
            if self._parser.rest():
                raise ProtocolViolation("the server spoke in the clear where TLS should begin")
            self._encrypt()
        frames = connect_frames(self._options, self.server, self.info, proof_key)
        self.send(frames, self._options.connect_timeout_s)
        self._await_op(LinkOp.PONG, deadline)

    def _encrypt(self) -> None:
        context = tls_context(self._options)
        self._socket = context.wrap_socket(self._socket, server_hostname=self._tls_name)

    def _await_op(self, wanted: LinkOp, deadline: float) -> None:
        while True:
            op = self._parser.next()
            if op == wanted:
                return
            if op == LinkOp.ERR:
                raise refusal(self.server, self._parser.line(), self._options)
            if op == LinkOp.NEED_MORE:
                try:
                    left_s = deadline - time.monotonic()
                    come = left_s > 0 and self.fill(left_s)
                except NotConnected:
                    raise NotConnected(
                        f"cannot connect to {self.server}: it closed the connection during the login; check "
                        "the credentials, and TLS"
                    ) from None
                if not come:
                    raise NotConnected(
                        f"cannot connect to {self.server}: it did not say {wanted.name} in time; check that "
                        "it is a NATS server"
                    )
            elif op == LinkOp.INFO:
                self.info = read_info(self._parser.line())

    # -- bytes --------------------------------------------------------------------------------------

    @property
    def encrypted(self) -> bool:
        return isinstance(self._socket, ssl.SSLSocket)

    @property
    def peer(self) -> str:
        """The IP address of the server, or an empty string after the end."""
        try:
            return str(self._socket.getpeername()[0])
        except OSError:
            return ""

    def send(self, data: bytes | memoryview, timeout_s: float) -> None:
        """Write all of `data`."""
        try:
            self._socket.settimeout(max(timeout_s, 0.001))
            self._socket.sendall(data)
        except TimeoutError:
            raise NotConnected(f"{self.server} does not read what we send") from None
        except OSError as error:
            raise self._lost(error) from None

    def fill(self, timeout_s: float) -> bool:
        """Read once into the parser; return False if nothing came within `timeout_s`."""
        with self._parser.room(_ROOM) as room:
            try:
                self._socket.settimeout(max(timeout_s, 0.000001))
                count = self._socket.recv_into(room)
            except (TimeoutError, ssl.SSLWantReadError):
                return False
            except OSError as error:
                raise self._lost(error) from None
        if count == 0:
            raise NotConnected(f"{self.server} closed the connection")
        self._parser.filled(count)
        return True

    def end(self) -> None:
        """Close the line; what was sent still arrives."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        self._socket.close()

    def _lost(self, error: OSError) -> NotConnected:
        return NotConnected(f"the connection to {self.server} broke: {connection_reason(error)}")
