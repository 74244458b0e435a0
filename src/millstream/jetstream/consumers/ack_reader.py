"""Parse clients' responses to a delivery: the subject (``protocol.ack_subject``) identifies the message, the
payload the response.

Compiled, because every ack passes through it.  An ack of a pending message goes straight to the ledger of a
consumer without special rules, everything else to `slow`.  Confirmations that clients ask for are collected.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from millstream.base import guard
from millstream.base.buffer import equal_bytes
from millstream.jetstream.consumers.ledger import Ledger
from millstream.protocol.ack_subject import AckNumbers
from millstream.protocol.inlet import Inlet
from millstream.protocol.parser import Frame

if TYPE_CHECKING:
    from millstream.jetstream.consumers.delivery_spans import ConsumerSpans

ACKED = "ack"  # the outcome of a delivery
_NUMBERS = 3  # of the subject that are needed
_PLUS_ACK = b"+ACK"
_NEVER_DELIVERED = 2**62


class AckSink(Inlet):
    """Receives the acks of one consumer."""

    def __init__(
        self, ledger: Ledger, slow: Callable[[int, int, int, bytes, bytes], None], settled: Callable[[], None]
    ) -> None:
        self.plain = False  # an ack settles one message and needs no other rule
        self.release: Callable[[int], object] | None = None  # told of each settled message
        self.taken = 0  # by the fast path
        self.spans: ConsumerSpans | None = None  # records deliveries of sampled traces
        self.open_spans: Any = None  # those that wait for an ack
        self._owed: list[bytes] = []  # reply subjects of the confirmations to send
        self._ledger = ledger
        self._slow = slow
        self._settled = settled
        self._told = False
        self._numbers = AckNumbers()

    def let_go(self) -> None:
        """Forget the consumer, which has ended; later responses have no effect."""
        self.plain = False
        self.spans = self.release = None
        self._slow, self._settled = _ignore, _nothing

    def take_at(self, buf: bytes, start: int, size: int, frame: Frame) -> None:
        """Receive a message on the consumer's ack subjects; the frame must not be kept."""
        ack = self._numbers
        end = start + size
        at = ack.find(buf, start, end)
        if at < 0:
            return
        ack.read(buf, at, end, _NUMBERS)  # an invalid number identifies no message
        sseq = ack.stream_seq if ack.stream_seq >= 0 else _NEVER_DELIVERED
        if self.plain and _says_ack(frame):
            if self._ledger.ack(sseq):
                self.taken += 1
                if self.open_spans is not None and len(self.open_spans) > 0 and self.spans is not None:
                    self.spans.settled(sseq, ACKED)
                self._tell()
                released = self.release is None or guard.alone("an acknowledgement", self.release, sseq)
                if released and frame.reply_size > 0:
                    self._owed.append(frame.reply())
                return
            if frame.reply_size == 0 and self.release is None:
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

    def owe(self, reply: bytes) -> None:
        """Add a confirmation."""
        self._owed.append(reply)
        self._tell()

    def _tell(self) -> None:
        if not self._told:
            self._told = True
            self._settled()

    def tell_again(self) -> list[bytes]:
        """Call `settled` for the next ack; return the confirmations to send, which are forgotten here."""
        self._told = False
        owed = self._owed
        self._owed = []
        return owed


def _ignore(sseq: int, dseq: int, deliveries: int, payload: bytes, reply: bytes) -> None: ...


def _nothing() -> None: ...


def _says_ack(frame: Frame) -> bool:
    """Return True if the payload is empty or ``+ACK``; other forms of an ack are rare."""
    size = frame.body_size - (frame.header_size if frame.header_size > 0 else 0)
    if size == 0:
        return True
    return size == 4 and equal_bytes(frame.buf, frame.body_start + frame.body_size - 4, _PLUS_ACK)
