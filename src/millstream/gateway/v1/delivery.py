"""A delivery of a message: the numbers in its reply subject, and its acknowledgement."""

from __future__ import annotations

import base64
from datetime import UTC, datetime
from typing import Final

import msgspec

from millstream.gateway.error_map import ascii_json
from millstream.gateway.v1.answers import quoted
from millstream.link.deliveries import LinkMessage
from millstream.protocol.ack_subject import AckSubject, read_ack_subject

ACK: Final = b"+ACK"
NAK: Final = b"-NAK"
PROGRESS: Final = b"+WPI"


class HttpDelivery(msgspec.Struct):
    """A delivery; `consumer_seq` is new for each attempt, `stream_seq` stays.

    `message` is dropped once it was written: an acknowledgement needs the reply subject only.
    """

    message: LinkMessage | None
    reply: str
    stream: str
    delivered: int
    stream_seq: int
    consumer_seq: int
    timestamp_ns: int
    taken: float  # loop time of its arrival or of the last in-progress ack
    size: int = 0


def delivery_of(message: LinkMessage, now: float) -> HttpDelivery | None:
    """Return the delivery of a message; None if it does not come from a stream."""
    told = read_ack_subject(message.reply)
    if told is None:
        return None
    return HttpDelivery(
        message,
        message.reply,
        told.stream,
        told.delivered,
        told.stream_seq,
        told.consumer_seq,
        told.timestamp_ns,
        now,
        size=len(message.payload) + len(message.subject) + 512,  # for the objects around it
    )


def ack_subject(stream: str, consumer: str, stream_seq: int, consumer_seq: int) -> str:
    """Return the ack subject of a message from its sequences; JetStream uses only the stream sequence."""
    return AckSubject(stream, consumer, 1, stream_seq, consumer_seq, 0, 0).short_form


class LineWriter:
    """Writes httpmq's line for a message; further fields follow httpmq's."""

    def __init__(self, request_id: str, subject: str, consumer: str) -> None:
        self._head = f'{{"success":true,"request_id":{quoted(request_id)},"stream":'.encode()
        self._middle = (
            f',"subject":{quoted(subject)},"consumer":{quoted(consumer)},"sequence":{{"stream":'.encode()
        )

    def line(self, delivery: HttpDelivery) -> bytes:
        message = delivery.message
        assert message is not None
        tail = b""
        if message.block:
            tail = b',"headers":' + ascii_json(message.headers)
        return b'%s%s%s%d,"consumer":%d},"b64_msg":"%s"%s%s}' % (
            self._head,
            quoted(delivery.stream).encode(),
            self._middle,
            delivery.stream_seq,
            delivery.consumer_seq,
            base64.b64encode(message.payload),
            b',"subject_actual":%s,"timestamp":"%s","num_delivered":%d'
            % (quoted(message.subject).encode(), _time(delivery.timestamp_ns), delivery.delivered),
            tail,
        )


def _time(nanoseconds: int) -> bytes:
    seconds, rest = divmod(nanoseconds, 1_000_000_000)
    moment = datetime.fromtimestamp(seconds, UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{rest:09d}Z".encode()
