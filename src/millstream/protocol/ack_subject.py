"""The reply subject of a delivered message: the message's position, and the address of its ack.

    $JS.ACK.<stream>.<consumer>.<delivered>.<stream seq>.<consumer seq>.<time>.<pending>
    $JS.ACK.<domain>.<account>.<stream>.<consumer>.<the same five>[.<anything>]

``AckNumbers`` reads the numbers in place, for the modules on the path of a message; compiled.
``read_ack_subject`` gives all parts of a single subject.
"""

import msgspec

from millstream.protocol.digits import read_number

ACK_PREFIX = "$JS.ACK."
ACK_START = ACK_PREFIX.encode()

_START_SIZE = len(ACK_START)
_TOKENS = 9
_TOKENS_WITH_DOMAIN = 11
_FIRST_NUMBER = 5  # the token
_FIRST_NUMBER_WITH_DOMAIN = 7
_NUMBERS = 5
_DOT = ord(".")


class AckNumbers:
    """The numbers of one delivery.  A number that cannot be read is -1."""

    def __init__(self) -> None:
        self.delivered = 0
        self.stream_seq = 0
        self.consumer_seq = 0
        self.timestamp_ns = 0
        self.pending = 0
        self.end = 0  # behind the last number that was read

    def find(self, p: bytes | bytearray, start: int, end: int) -> int:
        """Return where the numbers begin in the ack subject ``p[start:end]``; -1 if it has not enough tokens.

        Not checked: its first two tokens.
        """
        tokens = 1
        at = at_with_domain = start
        for index in range(start, end):
            if p[index] == _DOT:
                tokens += 1
                if tokens == _FIRST_NUMBER:
                    at = index + 1
                elif tokens == _FIRST_NUMBER_WITH_DOMAIN:
                    at_with_domain = index + 1
        if tokens == _TOKENS:
            return at
        return at_with_domain if tokens >= _TOKENS_WITH_DOMAIN else -1

    def read(self, p: bytes | bytearray, at: int, end: int, count: int = _NUMBERS) -> bool:
        """Read the first three numbers at `at`, or all five; return True if all of them are sound."""
        self.end = at - 1
        self.delivered = self._next(p, end)
        self.stream_seq = self._next(p, end)
        self.consumer_seq = self._next(p, end)
        if count == _NUMBERS:
            self.timestamp_ns = self._next(p, end)
            self.pending = self._next(p, end)
            if self.timestamp_ns < 0 or self.pending < 0:
                return False
        return self.delivered >= 0 and self.stream_seq >= 0 and self.consumer_seq >= 0

    def _next(self, p: bytes | bytearray, end: int) -> int:
        start = self.end + 1
        at = start
        while at < end and p[at] != _DOT:
            at += 1
        self.end = at
        return read_number(p, start, at)


class AckSubject(msgspec.Struct, frozen=True):
    """The parts of an ack subject."""

    stream: str
    consumer: str
    delivered: int  # number of deliveries, this one included
    stream_seq: int
    consumer_seq: int
    timestamp_ns: int
    pending: int  # messages that the consumer has left after this one
    domain: str = ""  # empty: the short form
    account: str = ""  # a hash of the account's name
    rest: str = ""  # the tokens after the numbers of the long form

    @property
    def numbers(self) -> str:
        """Return the five tokens that identify one delivery of a consumer."""
        return f"{self.delivered}.{self.stream_seq}.{self.consumer_seq}.{self.timestamp_ns}.{self.pending}"

    @property
    def short_form(self) -> str:
        """Return the ack subject of the same delivery on a server without a domain."""
        return f"{ACK_PREFIX}{self.stream}.{self.consumer}.{self.numbers}"


def ack_start(stream: bytes, consumer: bytes) -> bytes:
    """Return what the ack subjects of a consumer begin with, in the short form."""
    return b"%b%b.%b." % (ACK_START, stream, consumer)


def read_ack_subject(subject: str) -> AckSubject | None:
    """Parse an ack subject; return None if `subject` is not one."""
    data = subject.encode(errors="surrogatepass")
    if not data.startswith(ACK_START):
        return None
    numbers = AckNumbers()
    at = numbers.find(data, 0, len(data))
    if at < 0 or not numbers.read(data, at, len(data)):
        return None
    *home, stream, consumer = data[_START_SIZE : at - 1].decode(errors="surrogatepass").split(".")
    domain, account = home or ("", "")
    return AckSubject(
        stream,
        consumer,
        numbers.delivered,
        numbers.stream_seq,
        numbers.consumer_seq,
        numbers.timestamp_ns,
        numbers.pending,
        domain,
        account,
        data[numbers.end + 1 :].decode(errors="surrogatepass"),
    )
