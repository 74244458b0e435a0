"""What clients answer to a delivery: who is meant (the subject) and what is said (the payload).

The subject has nine tokens, or eleven and more in its second version:

    $JS.ACK.<stream>.<consumer>.<deliveries>.<sseq>.<dseq>.<timestamp>.<pending>
    $JS.ACK.<domain>.<account hash>.<stream>.<consumer>.<deliveries>.<sseq>.<dseq>.<timestamp>.<pending>[.…]

On the path of every ack, so compiled; the plain ack of a consumer without special rules goes straight to
its ledger, and everything else to `slow`.
"""

from collections.abc import Callable

from millrace.jetstream.consumers.ledger import Ledger
from millrace.protocol.parser import Frame

_TOKENS_V1 = 9
_TOKENS_V2 = 11
_DOT = 46
_ZERO = 48
_NO_NUMBER = -1
_NEVER_DELIVERED = 2**62


class AckSubject:
    """The numbers of an ack; what is no number names no message, and else does not matter."""

    def __init__(self) -> None:
        self.deliveries = 0
        self.sseq = 0
        self.dseq = 0

    def read(self, subject: bytes) -> bool:
        """False if it is not the subject of an ack."""
        p = subject
        size = len(subject)
        tokens = 1
        for index in range(size):
            if p[index] == _DOT:
                tokens += 1
        if tokens == _TOKENS_V1:
            skip = 4
        elif tokens >= _TOKENS_V2:
            skip = 6
        else:
            return False
        index = 0
        while skip:
            if p[index] == _DOT:
                skip -= 1
            index += 1
        self.deliveries = self._number(subject, index)
        index = subject.index(b".", index) + 1
        self.sseq = self._number(subject, index)
        index = subject.index(b".", index) + 1
        self.dseq = self._number(subject, index)
        if self.deliveries < 0:
            self.deliveries = 0
        if self.sseq < 0:
            self.sseq = _NEVER_DELIVERED
        return True

    def _number(self, subject: bytes, start: int) -> int:
        """The decimal number that ends before a dot; -1 if it is none."""
        p = subject
        value = 0
        index = start
        while p[index] != _DOT:
            digit = p[index] - _ZERO
            if digit < 0 or digit > 9 or index - start > 18:
                return _NO_NUMBER
            value = value * 10 + digit
            index += 1
        return value if index > start else _NO_NUMBER


class AckSink:
    """Takes the acks of one consumer."""

    def __init__(
        self, ledger: Ledger, slow: Callable[[AckSubject, bytes, bytes], None], settled: Callable[[], None]
    ) -> None:
        self.plain = False  # an ack settles one message, and nobody else wants to know
        self.taken = 0  # by the short way
        self._ledger = ledger
        self._slow = slow
        self._settled = settled
        self._told = False
        self._subject = AckSubject()

    def take(self, subject: bytes, frame: Frame) -> None:
        """A message on the consumer's ack subjects; the frame is only lent."""
        ack = self._subject
        if not ack.read(subject):
            return
        if self.plain and frame.reply_size == 0 and _says_ack(frame):
            if self._ledger.ack(ack.sseq):
                self.taken += 1
                if not self._told:
                    self._told = True
                    self._settled()
            return
        self._slow(ack, frame.payload(), frame.reply())

    def tell_again(self) -> None:
        """Call `settled` with the next ack that comes."""
        self._told = False


def _says_ack(frame: Frame) -> bool:
    """Whether the payload is empty or ``+ACK``; the other ways to say it are rare."""
    size = frame.body_size - (frame.header_size if frame.header_size > 0 else 0)
    if size == 0:
        return True
    return size == 4 and frame.payload() == b"+ACK"
