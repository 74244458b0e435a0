"""Where messages leave: a base class, so that who sends (JetStream) need not know who delivers (the broker).

A message of a consumer is routed by one subject, its destination, and seen by the receiver under another,
the one it was published on.  On the path of a message, so compiled.
"""

from millstream.protocol.parser import Frame


class Outlet:
    """One destination."""

    def send(self, subject: bytes, frame: Frame) -> int:
        """Deliver a message under its own subject; how many took it.  The frame is only lent."""
        raise NotImplementedError(type(self).__name__)

    def has_interest(self) -> bool:
        """Whether anybody listens."""
        raise NotImplementedError(type(self).__name__)

    def is_named(self) -> bool:
        """Whether somebody listens to exactly this destination, not only to a pattern that has it, too."""
        return self.has_interest()

    def behind(self) -> bool:
        """Whether a receiver has not taken what it was sent, so that more had better wait."""
        raise NotImplementedError(type(self).__name__)
