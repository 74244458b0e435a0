"""The state of a link that outlives its connections; it uses neither sockets nor the loop.

It holds subscriptions, open requests, the last INFO, and the known servers.  Both kinds of link feed it the
operations that their parser found, and write what it returns::

    op = dialogue.dispatcher.run(parser)       # messages go to their receivers
    answer = dialogue.take(op, parser)         # bytes to send; raises what ends the connection
    …
    frames = dialogue.restored()               # after a login: every subscription again, under its number
"""

import re
from collections.abc import Callable
from typing import Final

from millstream.link.deliveries import Dispatcher, Receiver
from millstream.link.errors import LinkError, PermissionViolation
from millstream.link.frames import end_frame, subscription_frame
from millstream.link.login import ServerInfo, new_inbox, read_info, refusal
from millstream.link.options import LinkOptions, ServerAddress
from millstream.link.parser import LinkOp, LinkParser
from millstream.link.requests import Requests
from millstream.link.servers import ServerPool

_DENIED: Final = re.compile(r'permissions violation for (publish|subscription) to "([^"]*)"', re.IGNORECASE)
# Errors after which a server keeps the connection open.
_HARMLESS: Final = (
    "permissions violation",
    "invalid subject",
    "invalid publish subject",
    "maximum subscriptions exceeded",
)

Denied = Callable[[bytes, PermissionViolation], object]  # a subject that may not be published to


class _Entry:
    """A subscription as the server knows it."""

    __slots__ = ("denied", "left", "queue", "subject")

    def __init__(
        self, subject: str, queue: str, left: int, denied: Callable[[LinkError], None] | None
    ) -> None:
        self.subject = subject
        self.queue = queue
        self.left = left  # messages after which it ends by itself; 0: never
        self.denied = denied


class Dialogue:
    """The state of one link."""

    def __init__(self, options: LinkOptions) -> None:
        self.options: Final = options
        self.pool: Final = ServerPool(options)
        self.dispatcher: Final = Dispatcher()
        self.requests: Final = Requests(new_inbox(options))
        self.info = ServerInfo()
        self.server: ServerAddress | None = None
        self.pongs = 0  # that came so far
        self.denied: Final[set[Denied]] = set()  # publishers, which get permission errors too
        self.complaint: Callable[[LinkError], None] | None = (
            None  # called with errors that do not end the connection
        )
        self._entries: dict[int, _Entry] = {}
        self._last_sid = 0
        self._inbox_sid = 0

    # -- subscriptions ------------------------------------------------------------------------------

    def subscribe(
        self,
        subject: str,
        queue: str,
        receiver: Receiver,
        *,
        most: int = 0,
        denied: Callable[[LinkError], None] | None = None,
    ) -> tuple[int, bytes]:
        """Return the number of a new subscription and the frames that create it."""
        sid = self._last_sid + 1
        frames = subscription_frame(subject, queue, sid)
        self._last_sid = sid
        self._entries[sid] = _Entry(subject, queue, most, denied)
        self.dispatcher.put(sid, receiver)
        return sid, frames + end_frame(sid, most) if most else frames

    def unsubscribe(self, sid: int, *, keep_receiver: bool = False) -> bytes:
        """Return the frame that ends a subscription, or nothing if it has ended."""
        if not keep_receiver:
            self.dispatcher.remove(sid)
        return end_frame(sid) if self._entries.pop(sid, None) is not None else b""

    def received(self, sid: int, count: int) -> bool:
        """Count messages of a subscription that ends by itself; return whether it has ended."""
        entry = self._entries.get(sid)
        if entry is None or not entry.left:
            return False
        entry.left -= count
        if entry.left > 0:
            return False
        self.unsubscribe(sid)
        return True

    def restored(self) -> bytes:
        """Return the frames that restore every subscription."""
        return b"".join(
            subscription_frame(entry.subject, entry.queue, sid)
            + (end_frame(sid, entry.left) if entry.left else b"")
            for sid, entry in self._entries.items()
        )

    def open_inbox(self) -> bytes:
        """Return the frame that subscribes to the inbox of requests, or nothing if that was done."""
        if self._inbox_sid:
            return b""
        self._inbox_sid, frame = self.subscribe(self.requests.pattern, "", self.requests)
        return frame

    def clear(self) -> None:
        """Forget all subscriptions when the link is closed."""
        for sid in self._entries:
            self.dispatcher.remove(sid)
        self._entries.clear()
        self._inbox_sid = 0

    # -- operations ---------------------------------------------------------------------------------

    def greeted(self, server: ServerAddress, info: ServerInfo) -> None:
        """Note that a server has accepted us."""
        self.server = server
        self.info = info
        self.pool.learn(info)
        self.pool.connected(server)

    def take(self, op: int, parser: LinkParser) -> bytes:
        """Process an operation that is no message; return bytes to send.  Raises what ends the connection."""
        if op == LinkOp.PING:
            return b"PONG\r\n"
        if op == LinkOp.PONG:
            self.pongs += 1
        elif op == LinkOp.INFO:
            self.info = read_info(parser.line())
            self.pool.learn(self.info)
            if self.info.ldm and self.server is not None:
                self.pool.avoid(self.server)
        elif op == LinkOp.ERR:
            self._take_error(parser.line())
        return b""

    def _take_error(self, line: bytes) -> None:
        text = line.decode("utf-8", "replace").strip().strip("'")
        if not text.lower().startswith(_HARMLESS):
            assert self.server is not None
            raise refusal(self.server, line, self.options)
        error = PermissionViolation(text)
        match = _DENIED.search(text)
        if match is not None:
            subject = match[2]
            if match[1].lower() == "publish":
                self.requests.deny(subject, error)
                for denied in list(self.denied):
                    denied(subject.encode(), error)
            elif subject == self.requests.pattern:
                self.requests.deny_all(error)
            else:
                self._deny_subscriptions(subject, error)
        if self.complaint is not None:
            self.complaint(error)

    def _deny_subscriptions(self, subject: str, error: PermissionViolation) -> None:
        for entry in list(self._entries.values()):
            if entry.subject == subject and entry.denied is not None:
                entry.denied(error)
