"""Parse clients' responses to a delivery: the subject identifies the message, the payload the response.

The subject has nine tokens, or eleven and more in its second version:

    $JS.ACK.<stream>.<consumer>.<deliveries>.<sseq>.<dseq>.<timestamp>.<pending>
    $JS.ACK.<domain>.<account hash>.<stream>.<consumer>.<deliveries>.<sseq>.<dseq>.<timestamp>.<pending>[.…]

Compiled, because every ack passes through it.  An ack of a pending message goes straight to the ledger of a
consumer without special rules, everything else to `slow`.  Confirmations that clients ask for are collected.
"""

from collections.abc import Callable

from millstream.base import guard
from millstream.base.buffer import equal_bytes
from millstream.jetstream.consumers.ledger import Ledger
from millstream.protocol.inlet import Inlet
from millstream.protocol.parser import Frame

_TOKENS_V1 = 9
_TOKENS_V2 = 11
_DOT = 46
_ZERO = 48
_NO_NUMBER = -1
_PLUS_ACK = b"+ACK"
_NEVER_DELIVERED = 2**62


class AckSubject:
    """The numbers in an ack subject; an invalid number identifies no message."""

    def __init__(self) -> None:
        self.deliveries = 0
        self.sseq = 0
        self.dseq = 0
        self._at = 0

    def read(self, buf: bytes, start: int, size: int) -> bool:
        """Parse the subject in `buf`; return False if it is not an ack subject."""
        p = buf
        end = start + size
        tokens = 1
        for index in range(start, end):
            if p[index] == _DOT:
                tokens += 1
        if tokens == _TOKENS_V1:
            skip = 4
        elif tokens >= _TOKENS_V2:
            skip = 6
        else:
            return False
        index = start
        while skip:
            if p[index] == _DOT:
                skip -= 1
            index += 1
        self._at = index
        self.deliveries = self._number(buf)
        self.sseq = self._number(buf)
        self.dseq = self._number(buf)
        if self.deliveries < 0:
            self.deliveries = 0
        if self.sseq < 0:
            self.sseq = _NEVER_DELIVERED
        return True

    def _number(self, buf: bytes) -> int:
        """Read the decimal number up to the next dot, which must exist; return -1 if it is invalid."""
        p = buf
        value = 0
        start = index = self._at
        sound = True
        while p[index] != _DOT:
            digit = p[index] - _ZERO
            if digit < 0 or digit > 9 or index - start > 17:
                sound = False
            if sound:
                value = value * 10 + digit
            index += 1
        self._at = index + 1
        return value if sound and index > start else _NO_NUMBER


class AckSink(Inlet):
    """Receives the acks of one consumer."""

    def __init__(
        self, ledger: Ledger, slow: Callable[[AckSubject, bytes, bytes], None], settled: Callable[[], None]
    ) -> None:
        self.plain = False  # an ack settles one message and needs no other rule
        self.release: Callable[[int], object] | None = None  # told of each settled message
        self.taken = 0  # by the fast path
        self._owed: list[bytes] = []  # reply subjects of the confirmations to send
        self._ledger = ledger
        self._slow = slow
        self._settled = settled
        self._told = False
        self._subject = AckSubject()

    def take_at(self, buf: bytes, start: int, size: int, frame: Frame) -> None:
        """Receive a message on the consumer's ack subjects; the frame must not be kept."""
        ack = self._subject
        if not ack.read(buf, start, size):
            return
        if self.plain and _says_ack(frame):
            if self._ledger.ack(ack.sseq):
                self.taken += 1
                self._tell()
                released = self.release is None or guard.alone("an acknowledgement", self.release, ack.sseq)
                if released and frame.reply_size > 0:
                    self._owed.append(frame.reply())
                return
            if frame.reply_size == 0 and self.release is None:
                return
        guard.alone("an acknowledgement", self._slow, ack, frame.payload(), frame.reply())

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


def _says_ack(frame: Frame) -> bool:
    """Return True if the payload is empty or ``+ACK``; other forms of an ack are rare."""
    size = frame.body_size - (frame.header_size if frame.header_size > 0 else 0)
    if size == 0:
        return True
    return size == 4 and equal_bytes(frame.buf, frame.body_start + frame.body_size - 4, _PLUS_ACK)
