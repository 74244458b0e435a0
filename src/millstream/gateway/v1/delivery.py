"""One message as JetStream handed it out: what its reply subject tells, and what to answer there."""

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
    """`consumer_seq` differs with every attempt, `stream_seq` stays.

    `message` is dropped when it was written: an acknowledgement needs the reply subject only.
    """

    message: LinkMessage | None
    reply: str
    stream: str
    delivered: int
    stream_seq: int
    consumer_seq: int
    timestamp_ns: int
    taken: float  # when it came or was last said to be in progress, in the loop's time
    size: int = 0


def delivery_of(message: LinkMessage, now: float) -> HttpDelivery | None:
    """None if it is no message of a stream."""
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
        size=len(message.payload) + len(message.subject) + 512,  # of the objects around it
    )


def ack_subject(stream: str, consumer: str, stream_seq: int, consumer_seq: int) -> str:
    """Where to acknowledge a message by its sequences; JetStream goes by the one of the stream."""
    return AckSubject(stream, consumer, 1, stream_seq, consumer_seq, 0, 0).short_form


class LineWriter:
    """httpmq's line for a message; what is further known about it comes behind what httpmq has."""

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
