"""Base class for destinations of messages, so that the sender (JetStream) does not depend on the broker.

A message of a consumer is routed by its destination, while the receiver sees the subject that the message
was published on.  Compiled, because it is on the path of a message.
"""

from millstream.protocol.parser import Frame


class Outlet:
    """One destination."""

    def send(self, subject: bytes, frame: Frame) -> int:
        """Deliver a message under `subject`; return the number of receivers.  The frame must not be kept."""
        raise NotImplementedError(type(self).__name__)

    def has_interest(self) -> bool:
        """Return True if there is a subscription for this destination."""
        raise NotImplementedError(type(self).__name__)

    def is_named(self) -> bool:
        """Return True if there is a subscription to exactly this destination, not to a pattern."""
        return self.has_interest()

    def behind(self) -> bool:
        """Return True if a receiver has a backlog, so that the sender should wait."""
        raise NotImplementedError(type(self).__name__)
