"""Base class for destinations of messages, so that the sender (JetStream) does not depend on the broker.

A message of a consumer is routed by its destination, while the receiver sees the subject that the message
was published on.  Compiled, because it is on the path of a message.
"""

from typing import Any

from millstream.protocol.parser import Frame

LONG = 64 * 1024  # bytes of a body; a longer one is delivered without a copy where that is possible
_MOST_UNUSED = 4  # parts of a memory for each that is used: it stays until the receiver has read the message


class Outlet:
    """One destination."""

    def send(self, subject: bytes, frame: Frame) -> int:
        """Deliver a message under `subject`; return the number of receivers.  The frame must not be kept."""
        raise NotImplementedError(type(self).__name__)

    def send_parts(self, subject: bytes, reply: bytes, block: bytes, parts: list[Any], size: int) -> int:
        """Do the same as ``send`` with a body of headers and parts; return -1 if a receiver needs a copy.

        The headers may be empty; the parts have `size` bytes together and must never change.
        """
        return -1

    def has_interest(self) -> bool:
        """Return True if there is a subscription for this destination."""
        raise NotImplementedError(type(self).__name__)

    def is_named(self) -> bool:
        """Return True if there is a subscription to exactly this destination, not to a pattern."""
        return self.has_interest()

    def behind(self) -> bool:
        """Return True if a receiver has a backlog, so that the sender should wait."""
        raise NotImplementedError(type(self).__name__)


def long_part(memory: bytes, start: int, size: int) -> Any:
    """Return a view of a long part of `memory`, which it keeps; None if it is short, or little of it."""
    if size < LONG or size * _MOST_UNUSED < len(memory):
        return None
    return memoryview(memory)[start : start + size]


def send_long(outlet: Outlet, subject: bytes, frame: Frame, payload: Any) -> int:
    """Send a message whose frame has only reply and headers; return the number of receivers."""
    taken = outlet.send_parts(subject, frame.reply(), frame.headers(), [payload], len(payload))
    if taken < 0:
        frame.buf = b"%b%b\r\n" % (frame.buf, payload)
        frame.body_size += len(payload)
        taken = outlet.send(subject, frame)
    return taken
