"""The server's own messages: signed with who it is, numbered, and encoded only for somebody.

What makes the documents is imported with the first one: a server starts without it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from millstream.broker.info import SERVER_VERSION

if TYPE_CHECKING:
    from millstream.broker.accounts import Account
    from millstream.broker.broker import Broker
    from millstream.server.system_messages import ServerId, ServerInfo

# JetStream, binary snapshots of streams, replication inside the account: what a 2.15 with JetStream says.
_JETSTREAM_CAPABILITIES: Final = 7


class Outbox:
    """Where events and answers leave from."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._sequence = 0

    def server_id(self) -> ServerId:
        from millstream.server.system_messages import ServerId

        broker = self._broker
        return ServerId(name=broker.server_name, host=broker.listen_host, id=broker.server_id)

    def server_info(self) -> ServerInfo:
        """The signature of the next message."""
        from millstream.server.monitor.formats import timestamp
        from millstream.server.monitor.varz import FEATURE_FLAGS
        from millstream.server.system_messages import ServerInfo

        broker = self._broker
        has_jetstream = broker.jetstream_domain is not None
        self._sequence += 1
        return ServerInfo(
            name=broker.server_name,
            host=broker.listen_host,
            id=broker.server_id,
            domain=broker.jetstream_domain or "",
            ver=SERVER_VERSION,
            tags=broker.options.server_tags,
            metadata=broker.options.server_metadata,
            feature_flags=FEATURE_FLAGS,
            jetstream=has_jetstream,
            flags=_JETSTREAM_CAPABILITIES if has_jetstream else 0,
            seq=self._sequence,
            time=timestamp(time.time_ns()),
        )

    def announce(self, account: Account, subject: bytes, make: Callable[[ServerInfo], Any]) -> None:
        """Publish what `make` returns, if somebody listens; otherwise it is not even called."""
        if self._broker.has_interest(account, subject):
            from millstream.server.monitor.formats import compact

            self._broker.publish(account, subject, compact(make(self.server_info())))

    def answer(self, account: Account, reply: bytes, document: Any, encoding: str = "") -> None:
        """Send a document to whoever asked; `encoding` is the kind of compression asked for."""
        from millstream.server.monitor.formats import compact

        payload = compact(document)
        headers: bytes | None = None
        if encoding:
            used = "gzip" if "gzip" in encoding else "identity"
            if used == "gzip":
                import gzip

                payload = gzip.compress(payload)
            headers = f"NATS/1.0\r\nContent-Encoding: {used}\r\n\r\n".encode()
        self._broker.publish(account, reply, payload, headers=headers)
