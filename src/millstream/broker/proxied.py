"""Take the header of a proxy from the front of a connection, before anything else is read.

INFO goes out at once, without the address of the client, because a client that comes without a proxy waits
for it.  What follows the header belongs to the connection, which then replaces this protocol.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any, Final

from millstream.broker.close_reason import CloseReason
from millstream.protocol.proxy_header import BadProxyHeader, read_proxy_header

if TYPE_CHECKING:
    from millstream.broker.broker import Broker
    from millstream.broker.connection import Connection
    from millstream.broker.turns import Planned

_log = logging.getLogger("millstream.broker")

_PATIENCE_S: Final = 5.0  # for the rest of a header that has begun


class ProxiedProtocol(asyncio.Protocol):
    """Reads the header of one connection."""

    def __init__(self, broker: Broker, connection: Connection) -> None:
        self._broker = broker
        self._connection = connection
        self._data = b""
        self._timer: Planned | None = None

    def connection_made(self, transport: Any) -> None:
        self._connection.connection_made(transport)

    def data_received(self, data: bytes) -> None:
        self._data += data
        try:
            header = read_proxy_header(self._data)
        except BadProxyHeader as error:
            self._refuse(str(error))
            return
        if header is None:
            if self._timer is None:
                late = "timeout reading PROXY protocol header"
                self._timer = self._broker.turns.later(_PATIENCE_S, self._refuse, late)
            return
        connection, session = self._connection, self._connection.session
        self._stop_timer()
        if header.host:
            session.ip, session.port = header.host, header.port
        connection.transport.set_protocol(connection)
        rest, self._data = self._data[header.size :], b""
        if rest and not connection.closed:
            connection.data_received(rest)

    def eof_received(self) -> bool:
        return self._connection.eof_received()

    def connection_lost(self, error: Exception | None) -> None:
        self._stop_timer()
        self._connection.connection_lost(error)

    def pause_writing(self) -> None:
        self._connection.pause_writing()

    def resume_writing(self) -> None:
        self._connection.resume_writing()

    def _refuse(self, reason: str) -> None:
        self._stop_timer()
        _log.warning("Error reading PROXY protocol header from %s: %s", self._connection, reason)
        self._broker.close(self._connection, CloseReason.PROTOCOL_VIOLATION)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
