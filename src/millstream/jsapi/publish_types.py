"""What a publisher gets back, for single messages and for batches.

A success is written by hand, with the domain before the sequence and a blank where nats-server has one,
because it is written for every message; refusals are ordinary structs.  One struct reads them all.
"""

from collections.abc import Mapping

from millstream.jsapi.errors import ErrorBody
from millstream.jsapi.go_types import Struct, UInt16, UInt64, always
from millstream.jsapi.json_text import quoted

CounterSources = Mapping[str, Mapping[str, str]]  # by stream and subject, in a header


class PubAckResponse(Struct):
    """The answer to a publish to a stream."""

    go_name = "JSPubAckResponse"

    error: ErrorBody | None = None
    stream: str = always("")
    seq: UInt64 = always(0)
    domain: str = ""
    duplicate: bool = False
    val: str = ""  # of a counter
    batch: str = ""
    count: UInt64 = 0  # messages of the batch


class CounterValue(Struct):
    """The body of a message of a counter."""

    val: str = always("")


class BatchFlowAck(Struct):
    """So far a fast batch is stored; the next of these comes after `msgs` more messages."""

    type: str = always("ack")
    seq: UInt64 = always(0)
    msgs: UInt16 = always(0)


class BatchFlowGap(Struct):
    """Messages of a fast batch from `last_seq` up to, not including, `seq` were lost."""

    type: str = always("gap")
    last_seq: UInt64 = always(0)
    seq: UInt64 = always(0)


class BatchFlowErr(Struct):
    """A message of a fast batch was refused."""

    type: str = always("err")
    seq: UInt64 = always(0)
    error: ErrorBody | None = always(None)


def pub_ack_start(stream: str, domain: str = "") -> bytes:
    """What a success begins with; sequence and one of the ends below follow."""
    name = quoted(stream).encode()
    if domain:
        return b'{"stream":%b,"domain":%b,"seq":' % (name, quoted(domain).encode())
    return b'{"stream":%b,"seq":' % name


PUB_ACK_END = b"}"
PUB_ACK_DUPLICATE_END = b',"duplicate": true}'


def pub_ack_counter_end(value: str) -> bytes:
    """The end for a message of a counter."""
    return b',"val":"%b"}' % value.encode()


def pub_ack_batch_end(batch: str, count: int) -> bytes:
    """The end for the last message of a batch."""
    return b',"batch":%b,"count":%d}' % (quoted(batch).encode(), count)
