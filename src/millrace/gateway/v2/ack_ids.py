"""The place of a delivered message, and the name under which it is acknowledged.

JetStream puts both into the reply subject of what a consumer delivers:

    $JS.ACK.<stream>.<consumer>.<delivered>.<stream seq>.<consumer seq>.<time>.<pending>
    $JS.ACK.<domain>.<account>.<stream>.<consumer>.<the same five>.<random>

An `ack_id` is what is left of it without stream and consumer, which are in the path of the resource.  So it
needs no memory in the gateway, any gateway can use it, and it reaches no subject but acknowledgements of
the consumer that it is used with.
"""

import re
from typing import Final

import msgspec

from millrace.gateway.errors import BadRequest
from millrace.jsapi.names import ACK_PREFIX

_NUMBERS: Final = r"[0-9]{1,20}(?:\.[0-9]{1,20}){4}"
_PLAIN: Final = re.compile(_NUMBERS)
_WITH_DOMAIN: Final = re.compile(rf"([^\x00-\x20.*>]+)\.([^\x00-\x20.*>]+)\.({_NUMBERS})\.([^\x00-\x20.*>]+)")
_PLAIN_TOKENS: Final = 9
_DOMAIN_TOKENS: Final = 12  # at least

EXAMPLE: Final = "1.42.7.1767225600000000000.0"


class Delivery(msgspec.Struct, frozen=True):
    """What the reply subject of a delivered message says."""

    stream: str
    consumer: str
    delivered: int  # how often, this time included
    stream_seq: int
    consumer_seq: int
    timestamp_ns: int
    pending: int
    ack_id: str


def read_delivery(reply: str) -> Delivery | None:
    """What `reply` says, or None if it is no reply subject of a consumer."""
    tokens = reply.split(".")
    if not reply.startswith(ACK_PREFIX):
        return None
    if len(tokens) == _PLAIN_TOKENS:
        stream, consumer, *numbers = tokens[2:]
        ack_id = ".".join(numbers)
    elif len(tokens) >= _DOMAIN_TOKENS:
        domain, account, stream, consumer, *rest = tokens[2:]
        numbers = rest[:5]
        ack_id = ".".join([domain, account, *rest[:6]])
    else:
        return None
    try:
        delivered, stream_seq, consumer_seq, timestamp_ns, pending = map(int, numbers)
    except ValueError:
        return None
    return Delivery(stream, consumer, delivered, stream_seq, consumer_seq, timestamp_ns, pending, ack_id)


def ack_subject(stream: str, consumer: str, ack_id: str) -> str:
    """Where a message is acknowledged; 400 if `ack_id` was not handed out by a gateway."""
    if _PLAIN.fullmatch(ack_id):
        return f"{ACK_PREFIX}{stream}.{consumer}.{ack_id}"
    found = _WITH_DOMAIN.fullmatch(ack_id)
    if found is None:
        raise BadRequest(f"{ack_id!r} is no ack_id")
    domain, account, numbers, random = found.groups()
    return f"{ACK_PREFIX}{domain}.{account}.{stream}.{consumer}.{numbers}.{random}"
