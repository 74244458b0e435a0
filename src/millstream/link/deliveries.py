"""Delivery of messages from the parser to subscriptions, many at a time.

    LinkParser ─▶ Dispatcher.run ─▶ Receiver.take            once for each message, compiled
                     │
                     └─▶ chunk_ended ─▶ BatchReceiver ─▶ deliver([LinkMessage, …])   once for each read

A ``Receiver`` takes the parser's current message.  ``BatchReceiver`` copies messages into a list and delivers
the list once everything that was read together is parsed, so a message costs no task, future or queue.  A
subscription without a receiver has just ended; its messages are dropped.

This module does no I/O.  `subscriptions` has the buffers that readers wait at.
"""

from collections.abc import Callable

from millstream.link.parser import LinkParser
from millstream.protocol.headers import read_pairs

_MSG = 1
_NO_SUBJECT = ""
_NO_BYTES = b""


class LinkMessage:
    """One message.  `block` has the raw headers; `status` is 0 unless it is a status message."""

    def __init__(
        self,
        subject: str,
        payload: bytes,
        reply: str = "",
        block: bytes = b"",
        status: int = 0,
        sid: int = 0,
    ) -> None:
        self.subject = subject
        self.payload = payload
        self.reply = reply
        self.block = block
        self.status = status
        self.sid = sid  # number of its subscription

    def __repr__(self) -> str:
        return f"<Message on {self.subject}, {len(self.payload)} bytes>"

    @property
    def headers(self) -> dict[str, str]:
        """The headers by name; the last value counts if a name is repeated."""
        return dict(read_pairs(self.block)) if self.block else {}

    @property
    def description(self) -> str:
        """The text after the status number."""
        return (
            self.block[12 : self.block.find(b"\r\n")].decode("utf-8", "replace").strip() if self.block else ""
        )


def copy_message(parser: LinkParser) -> LinkMessage:
    """Return a copy of the parser's current message."""
    return LinkMessage(
        parser.subject().decode("utf-8", "replace"),
        parser.payload(),
        parser.reply().decode("utf-8", "replace") if parser.reply_size else _NO_SUBJECT,
        parser.headers() if parser.header_size else _NO_BYTES,
        parser.status() if parser.header_size else 0,
        parser.sid,
    )


class Receiver:
    """Takes the messages of one subscription."""

    def take(self, parser: LinkParser) -> bool:
        """Take the parser's current message; return True to get `chunk_ended`."""
        raise NotImplementedError

    def chunk_ended(self) -> None:
        """Called when everything that was read together has been taken."""


class Direct(Receiver):
    """Passes the parser to `handler`, which copies what it needs."""

    def __init__(self, handler: Callable[[LinkParser], object]) -> None:
        self._handler = handler

    def take(self, parser: LinkParser) -> bool:
        self._handler(parser)
        return False


class BatchReceiver(Receiver):
    """Passes lists of messages to `deliver`."""

    def __init__(self, deliver: Callable[[list[LinkMessage]], object]) -> None:
        self._deliver = deliver
        self._messages: list[LinkMessage] = []

    def take(self, parser: LinkParser) -> bool:
        self._messages.append(copy_message(parser))
        return True

    def chunk_ended(self) -> None:
        messages = self._messages
        if messages:
            self._messages = []
            self._deliver(messages)


class Dispatcher:
    """The receivers of a connection by the number of their subscription."""

    def __init__(self) -> None:
        self._receivers: dict[int, Receiver] = {}
        self._touched: dict[int, Receiver] = {}

    def put(self, sid: int, receiver: Receiver) -> None:
        self._receivers[sid] = receiver

    def remove(self, sid: int) -> None:
        self._receivers.pop(sid, None)

    def run(self, parser: LinkParser) -> int:
        """Take messages up to the next operation of another kind, and return its `parser.Op`."""
        while True:
            op = parser.next()
            if op != _MSG:
                return op
            receiver = self._receivers.get(parser.sid)
            if receiver is not None and receiver.take(parser):
                self._touched[parser.sid] = receiver

    def take(self, parser: LinkParser) -> bool:
        """Take the parser's current message; return False if it has no receiver."""
        receiver = self._receivers.get(parser.sid)
        if receiver is None:
            return False
        if receiver.take(parser):
            self._touched[parser.sid] = receiver
        return True

    def chunk_ended(self) -> list[Exception]:
        """Deliver what was gathered; return the exceptions of receivers, so that none harms another."""
        failures: list[Exception] = []
        while self._touched:
            touched = self._touched
            self._touched = {}
            for receiver in touched.values():
                try:
                    receiver.chunk_ended()
                except Exception as error:
                    failures.append(error)
        return failures
