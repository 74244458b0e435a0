"""Where messages arrive whose subject is another one each time: a base class, as ``outlet`` for the way out.

An acknowledgement says everything in its subject.  Who takes it (JetStream) reads it where it lies, so that
who brings it (the broker) need not make an object of it.  On the path of a message, so compiled.
"""

from millstream.protocol.outlet import Outlet
from millstream.protocol.parser import Frame


class Inlet:
    """Also callable with subject and frame, as any other taker of messages."""

    def take_at(self, buf: bytes, start: int, size: int, frame: Frame) -> None:
        """A message whose subject lies in `buf`; nothing of it may be kept."""
        raise NotImplementedError(type(self).__name__)

    def __call__(self, subject: bytes, frame: Frame) -> None:
        self.take_at(subject, 0, len(subject), frame)


class Responder:
    """Answers requests of the form that most have, without making an object of them."""

    def respond(self, subject: bytes, frame: Frame, outlet: Outlet) -> bool:
        """Send the answer to the frame's reply subject; False if that takes whoever knows all forms.

        The frame has a reply subject and no headers, and nothing of it may be kept.
        """
        raise NotImplementedError(type(self).__name__)
