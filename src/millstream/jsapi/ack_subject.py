"""The reply subject of a delivered message: the message's position, and the address of its ack.

    $JS.ACK.<stream>.<consumer>.<delivered>.<stream seq>.<consumer seq>.<time>.<pending>
    $JS.ACK.<domain>.<account>.<stream>.<consumer>.<the same five>[.<anything>]

This reader is for single messages.  The compiled modules on the path of a message read the subject in
place (``jetstream.consumers.ack_reader``, ``jetstream.sourcing.intake``, ``spark.intake``).
"""

from typing import Final, NamedTuple

from millstream.jsapi.names import ACK_PREFIX

_TOKENS: Final = 9
_TOKENS_WITH_DOMAIN: Final = 11
_MOST_DIGITS: Final = 20  # digits of a 64-bit number; Python refuses to convert thousands of digits


class AckSubject(NamedTuple):
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


def read_ack_subject(subject: str) -> AckSubject | None:
    """Parse an ack subject; return None if `subject` is not one."""
    if not subject.startswith(ACK_PREFIX):
        return None
    tokens = subject.split(".")
    domain = account = rest = ""
    if len(tokens) >= _TOKENS_WITH_DOMAIN:
        domain, account = tokens[2:4]
        rest = ".".join(tokens[_TOKENS_WITH_DOMAIN:])
        tokens = tokens[2:_TOKENS_WITH_DOMAIN]
    elif len(tokens) != _TOKENS:
        return None
    stream, consumer, *numbers = tokens[2:]
    if not all(number.isascii() and number.isdigit() and len(number) <= _MOST_DIGITS for number in numbers):
        return None
    delivered, stream_seq, consumer_seq, timestamp_ns, pending = map(int, numbers)
    return AckSubject(
        stream, consumer, delivered, stream_seq, consumer_seq, timestamp_ns, pending, domain, account, rest
    )
