"""Parse clients' responses to a delivery: the subject (``protocol.ack_subject``) identifies the message, the
payload the response.

Compiled, because every ack passes through it.  A plain ack of a consumer without special rules goes straight
to its ledger, everything else to `slow`.
"""

from collections.abc import Callable

from millstream.base import guard
from millstream.base.buffer import equal_bytes
from millstream.jetstream.consumers.ledger import Ledger
from millstream.protocol.ack_subject import AckNumbers
from millstream.protocol.inlet import Inlet
from millstream.protocol.parser import Frame

_NUMBERS = 3  # of the subject that are needed
_PLUS_ACK = b"+ACK"
_NEVER_DELIVERED = 2**62


class AckSink(Inlet):
    """Receives the acks of one consumer."""

    def __init__(
        self, ledger: Ledger, slow: Callable[[int, int, int, bytes, bytes], None], settled: Callable[[], None]
    ) -> None:
        self.plain = False  # an ack settles one message, and nobody else wants to know
        self.taken = 0  # by the short way
        self._ledger = ledger
        self._slow = slow
        self._settled = settled
        self._told = False
        self._numbers = AckNumbers()

    def take_at(self, buf: bytes, start: int, size: int, frame: Frame) -> None:
        """Receive a message on the consumer's ack subjects; the frame must not be kept."""
        ack = self._numbers
        end = start + size
        at = ack.find(buf, start, end)
        if at < 0:
            return
        ack.read(buf, at, end, _NUMBERS)  # an invalid number identifies no message
        sseq = ack.stream_seq if ack.stream_seq >= 0 else _NEVER_DELIVERED
        if self.plain and frame.reply_size == 0 and _says_ack(frame):
            if self._ledger.ack(sseq):
                self.taken += 1
                if not self._told:
                    self._told = True
                    self._settled()
            return
        deliveries = ack.delivered if ack.delivered >= 0 else 0
        guard.alone(
            "an acknowledgement",
            self._slow,
            sseq,
            ack.consumer_seq,
            deliveries,
            frame.payload(),
            frame.reply(),
        )

    def tell_again(self) -> None:
        """Call `settled` for the next ack."""
        self._told = False


def _says_ack(frame: Frame) -> bool:
    """Return True if the payload is empty or ``+ACK``; other forms of an ack are rare."""
    size = frame.body_size - (frame.header_size if frame.header_size > 0 else 0)
    if size == 0:
        return True
    return size == 4 and equal_bytes(frame.buf, frame.body_start + frame.body_size - 4, _PLUS_ACK)
