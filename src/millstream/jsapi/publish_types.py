"""Responses to publishers, for single messages and for batches.

A success is built from byte strings, because one is written for every message: the domain comes before the
sequence, with a space where nats-server has one.  Refusals are structs.  `PubAckResponse` reads both.
"""

from collections.abc import Mapping

from millstream.golang.quote import quoted
from millstream.jsapi.errors import ErrorBody
from millstream.jsapi.go_types import Struct, UInt16, UInt64, always

CounterSources = Mapping[str, Mapping[str, str]]  # by stream and subject; the content of a header


class PubAckResponse(Struct):
    """The response to a message published to a stream."""

    go_name = "JSPubAckResponse"

    error: ErrorBody | None = None
    stream: str = always("")
    seq: UInt64 = always(0)
    domain: str = ""
    duplicate: bool = False
    val: str = ""  # the value of a counter
    batch: str = ""
    count: UInt64 = 0  # messages in the batch


class CounterValue(Struct):
    """The payload of a counter message."""

    val: str = always("")


class BatchFlowAck(Struct):
    """A fast batch is stored up to `seq`; the next such ack follows after `msgs` messages."""

    type: str = always("ack")
    seq: UInt64 = always(0)
    msgs: UInt16 = always(0)


class BatchFlowGap(Struct):
    """Messages of a fast batch from `last_seq` up to, but not including, `seq` were lost."""

    type: str = always("gap")
    last_seq: UInt64 = always(0)
    seq: UInt64 = always(0)


class BatchFlowErr(Struct):
    """A message of a fast batch was refused."""

    type: str = always("err")
    seq: UInt64 = always(0)
    error: ErrorBody | None = always(None)


def pub_ack_start(stream: str, domain: str = "") -> bytes:
    """Return the beginning of a success; the sequence and one of the ends below follow."""
    name = quoted(stream).encode()
    if domain:
        return b'{"stream":%b,"domain":%b,"seq":' % (name, quoted(domain).encode())
    return b'{"stream":%b,"seq":' % name


PUB_ACK_END = b"}"
PUB_ACK_DUPLICATE_END = b',"duplicate": true}'


def pub_ack_counter_end(value: str) -> bytes:
    """Return the end for a counter message."""
    return b',"val":"%b"}' % value.encode()


def pub_ack_batch_end(batch: str, count: int) -> bytes:
    """Return the end for the last message of a batch."""
    return b',"batch":%b,"count":%d}' % (quoted(batch).encode(), count)
