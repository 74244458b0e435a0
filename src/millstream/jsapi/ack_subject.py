"""The reply subject of a delivered message: where the message stands, and where it is acknowledged.

    $JS.ACK.<stream>.<consumer>.<delivered>.<stream seq>.<consumer seq>.<time>.<pending>
    $JS.ACK.<domain>.<account>.<stream>.<consumer>.<the same five>[.<anything>]

Whoever has a message at hand reads it with this.  On the path of a message it is read where it lies, compiled
(``jetstream.consumers.acks``, ``jetstream.sourcing.intake``, ``spark.intake``).
"""

from typing import Final, NamedTuple

from millstream.jsapi.names import ACK_PREFIX

_TOKENS: Final = 9
_TOKENS_WITH_DOMAIN: Final = 11
_MOST_DIGITS: Final = 20  # of 64 bits; Python refuses to read thousands of them


class AckSubject(NamedTuple):
    """What the subject says."""

    stream: str
    consumer: str
    delivered: int  # how often, this time included
    stream_seq: int
    consumer_seq: int
    timestamp_ns: int
    pending: int  # how many the consumer has left after this one
    domain: str = ""  # empty: the short form
    account: str = ""  # a hash of it
    rest: str = ""  # behind the numbers of the long form

    @property
    def numbers(self) -> str:
        """The five tokens that tell one delivery of a consumer from another."""
        return f"{self.delivered}.{self.stream_seq}.{self.consumer_seq}.{self.timestamp_ns}.{self.pending}"

    @property
    def short_form(self) -> str:
        """Where the same is acknowledged on a server without a domain."""
        return f"{ACK_PREFIX}{self.stream}.{self.consumer}.{self.numbers}"


def read_ack_subject(subject: str) -> AckSubject | None:
    """What `subject` says; None if it is no reply subject of a delivered message."""
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
