"""The `ack_id`, by which a caller acknowledges a delivered message.

An `ack_id` is the reply subject (``protocol.ack_subject``) without stream and consumer, which are in the path
of the resource.  So the gateway stores nothing, every gateway can use the id, and it reaches only ack
subjects of the consumer in the path.
"""

import re
from typing import Final

from millstream.gateway.errors import BadRequest
from millstream.protocol.ack_subject import ACK_PREFIX, AckSubject

_NUMBERS: Final = r"[0-9]{1,20}(?:\.[0-9]{1,20}){4}"
_TOKEN: Final = r"[^\x00-\x20.*>]+"
_PLAIN: Final = re.compile(_NUMBERS)
_WITH_DOMAIN: Final = re.compile(rf"({_TOKEN}\.{_TOKEN})\.({_NUMBERS}(?:\.{_TOKEN})*)")

EXAMPLE: Final = "1.42.7.1767225600000000000.0"


def ack_id_of(delivery: AckSubject) -> str:
    if not delivery.domain:
        return delivery.numbers
    end = f".{delivery.rest}" if delivery.rest else ""
    return f"{delivery.domain}.{delivery.account}.{delivery.numbers}{end}"


def ack_subject(stream: str, consumer: str, ack_id: str) -> str:
    """Return the ack subject of a message; 400 if no gateway can have made this `ack_id`."""
    if _PLAIN.fullmatch(ack_id):
        return f"{ACK_PREFIX}{stream}.{consumer}.{ack_id}"
    found = _WITH_DOMAIN.fullmatch(ack_id)
    if found is None:
        raise BadRequest(f"{ack_id!r} is no ack_id")
    home, delivery = found.groups()
    return f"{ACK_PREFIX}{home}.{stream}.{consumer}.{delivery}"
