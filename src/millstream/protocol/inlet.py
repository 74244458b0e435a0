"""Base classes for receivers of messages whose subject differs each time; the counterpart of ``outlet``.

An ack carries everything in its subject.  The receiver (JetStream) reads the subject in place, so the sender
(the broker) creates no object for it.  Compiled, because it is on the path of a message.
"""

from millstream.protocol.outlet import Outlet
from millstream.protocol.parser import Frame


class Inlet:
    """A receiver; also callable with subject and frame, like any other."""

    def take_at(self, buf: bytes, start: int, size: int, frame: Frame) -> None:
        """Receive a message whose subject is in `buf`; neither `buf` nor `frame` may be kept."""
        raise NotImplementedError(type(self).__name__)

    def __call__(self, subject: bytes, frame: Frame) -> None:
        self.take_at(subject, 0, len(subject), frame)


class Responder:
    """Answers the common form of a request without creating an object for it."""

    def respond(self, subject: bytes, frame: Frame, outlet: Outlet) -> bool:
        """Send the response to the frame's reply subject; return False if the request needs the slow path.

        The frame has a reply subject and no headers, and must not be kept.
        """
        raise NotImplementedError(type(self).__name__)
