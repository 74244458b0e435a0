"""Messages of the server itself: with its identity and a number, and encoded only if there is a subscriber.

The modules that build the documents are imported with the first message, for a faster start.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from millstream.base.complaints import Complaints
from millstream.base.slices import Pieces, Result, finish
from millstream.broker.info import SERVER_VERSION
from millstream.protocol.headers import make_text

if TYPE_CHECKING:
    from millstream.broker.accounts import Account
    from millstream.broker.broker import Broker
    from millstream.server.system.messages import ServerDocument, ServerId

# JetStream, binary snapshots of streams, replication inside the account: the flags of a 2.15 with
# JetStream.
_JETSTREAM_CAPABILITIES: Final = 7

_AT_A_TIME: Final = 4  # long responses that are built at once
_MOST_WAITING: Final = 256  # waiting requests; further ones are dropped
_GZIP: Final = 31  # window bits: the largest window, in gzip's format
_BYTES_PER_ITEM: Final = 256  # compressing this many takes as long as an item

_log = logging.getLogger("millstream.server")


class Outbox:
    """Sends events and responses."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._sequence = 0
        self._long = broker.turns.lane(width=_AT_A_TIME, most_waiting=_MOST_WAITING)
        self._full = Complaints(_log)

    def server_id(self) -> ServerId:
        from millstream.server.system.messages import ServerId

        broker = self._broker
        return ServerId(
            name=broker.identity.server_name, host=broker.identity.listen_host, id=broker.identity.server_id
        )

    def server_info(self) -> ServerDocument:
        """Return the identity for the next message, with its number."""
        from millstream.broker import feature_flags
        from millstream.golang.time import format_time
        from millstream.server.system.messages import ServerDocument

        broker = self._broker
        has_jetstream = broker.identity.jetstream_domain is not None
        self._sequence += 1
        return ServerDocument(
            name=broker.identity.server_name,
            host=broker.identity.listen_host,
            id=broker.identity.server_id,
            domain=broker.identity.jetstream_domain or "",
            ver=SERVER_VERSION,
            tags=broker.options.server_tags,
            metadata=broker.options.server_metadata,
            feature_flags=feature_flags.in_force(broker.options.feature_flags),
            jetstream=has_jetstream,
            flags=_JETSTREAM_CAPABILITIES if has_jetstream else 0,
            seq=self._sequence,
            time=format_time(time.time_ns()),
        )

    def is_heard(self, account: Account, subject: bytes) -> bool:
        return self._broker.has_interest(account, subject)

    def announce(self, account: Account, subject: bytes, make: Callable[[ServerDocument], Any]) -> None:
        """Publish what `make` returns; without a subscriber `make` is not called."""
        if self.is_heard(account, subject):
            from millstream.server.monitor.formats import compact

            self._broker.publish(account, subject, compact(make(self.server_info())))

    def announce_in_slices(
        self, name: str, account: Account, subject: bytes, document: Pieces[Callable[[ServerDocument], Any]]
    ) -> None:
        """Publish a document that takes long to build; the work returns its `make`."""

        def made(make: Callable[[ServerDocument], Any] | None, _: Exception | None) -> None:
            if make is not None:
                self.announce(account, subject, make)

        if self.is_heard(account, subject):
            self.in_slices(name, document, made)

    def answer(self, account: Account, reply: bytes, document: Any, encoding: str = "") -> None:
        """Send a short document to the requester, compressed with `encoding`."""
        self.send(account, reply, finish(encoded(document, encoding)), encoding)

    def send(self, account: Account, reply: bytes, parts: list[bytes], encoding: str = "") -> None:
        """Send a document returned by ``encoded``."""
        headers = make_text([("Content-Encoding", _used(encoding))]) if encoding else None
        self._broker.publish_parts(account, reply, parts, headers=headers)

    def in_slices(
        self,
        name: str,
        pieces: Pieces[Result],
        done: Callable[[Result | None, Exception | None], None],
        wanted: Callable[[], bool] | None = None,
    ) -> bool:
        """Run long work (``base.lanes``); return False if too much is waiting."""
        if self._long.begin(name, pieces, done, wanted) is not None:
            return True
        self._full.warn("too many system requests wait, one is dropped")
        return False


def encoded(document: Any, encoding: str) -> Pieces[list[bytes]]:
    """Return the bytes of a document in parts, compressed as requested; works in pieces."""
    from millstream.server.monitor.json_page import render

    parts = yield from render(document, pretty=False)
    if _used(encoding) != "gzip":
        return parts
    import zlib

    packer = zlib.compressobj(wbits=_GZIP)
    packed = []
    for part in parts:
        packed.append(packer.compress(part))
        yield len(part) // _BYTES_PER_ITEM
    return [*packed, packer.flush()]


def _used(encoding: str) -> str:
    return "gzip" if "gzip" in encoding else "identity"
