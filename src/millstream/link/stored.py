"""Single messages of a stream, read over a link without a consumer.

    found = await last_message(link, "KV_users", "$KV.users.alice")
    found = await next_message(link, "ORDERS", 7, "orders.eu.>")

Each function returns None if the stream has no such message, and raises LinkApiError if there is no such
stream. A stream that allows direct reads is read directly; the answer then has the message's body as it is,
not in JSON.
"""

from typing import Any, Final, NamedTuple

from millstream.golang.time import Time, TimeError, parse_time
from millstream.jsapi import headers as wire
from millstream.jsapi.errors import Err
from millstream.link.calls import Calls
from millstream.link.deliveries import LinkMessage
from millstream.link.errors import LinkApiError, NoResponders, ProtocolViolation
from millstream.link.verbs import STREAM_MSG_GET, request_body
from millstream.protocol.headers import Pairs, read_pairs

_NOT_FOUND: Final = 404
_ADDED: Final = frozenset({wire.STREAM, wire.SUBJECT, wire.SEQUENCE, wire.TIME_STAMP})
_ABSENT: Final = (Err.NO_MESSAGE_FOUND, Err.SEQUENCE_NOT_FOUND)


class Stored(NamedTuple):
    """A message as its stream has it."""

    subject: str
    seq: int
    time: Time
    pairs: Pairs  # headers, in their order
    payload: bytes

    def header(self, name: str) -> str:
        """Return the last value of a header, or nothing."""
        return next((value for key, value in reversed(self.pairs) if key.lower() == name.lower()), "")


async def message_at(link: Calls, stream: str, seq: int, *, of_leader: bool = False) -> Stored | None:
    """Return the message with this sequence; `of_leader` leaves out copies that may lag behind."""
    if of_leader:
        return await _read_by_api(link, stream, {"seq": seq})
    return await _read(link, stream, {"seq": seq})


async def last_message(link: Calls, stream: str, subject: str = ">") -> Stored | None:
    """Return the last message whose subject matches."""
    return await _read(link, stream, {"last_by_subj": subject})


async def next_message(link: Calls, stream: str, seq: int, subject: str = ">") -> Stored | None:
    """Return the first message at or after `seq` whose subject matches."""
    return await _read(link, stream, {"seq": max(seq, 1), "next_by_subj": subject})


async def _read(link: Calls, stream: str, request: dict[str, Any]) -> Stored | None:
    try:
        message = await link.request(f"{link.options.api}.DIRECT.GET.{stream}", request_body(request))
    except NoResponders:  # no direct reads, no such stream, or no JetStream: the API says which
        return await _read_by_api(link, stream, request)
    return read_direct(message)


def read_direct(message: LinkMessage) -> Stored | None:
    """Return the message in an answer to a direct read; None if it says that there is none."""
    if message.status == _NOT_FOUND:
        return None
    if message.status:
        raise LinkApiError(message.status, 0, message.description, "DIRECT.GET")
    pairs = read_pairs(message.block)
    said = dict(pairs)  # the server's own lines are the last of their name
    try:
        time = Time(parse_time(said[wire.TIME_STAMP]))
        own = [pair for pair in pairs if pair[0] not in _ADDED]
        return Stored(said[wire.SUBJECT], int(said[wire.SEQUENCE]), time, own, message.payload)
    except (KeyError, ValueError, TimeError):
        raise ProtocolViolation("the answer to DIRECT.GET does not say which message it is") from None


async def _read_by_api(link: Calls, stream: str, request: dict[str, Any]) -> Stored | None:
    try:
        found = (await link.ask(STREAM_MSG_GET, stream, request=request)).message
    except LinkApiError as error:
        if error.err in _ABSENT:
            return None
        raise
    if found is None:
        return None
    pairs = read_pairs(found.hdrs) if found.hdrs else []
    return Stored(found.subject, found.seq, found.time, pairs, found.data)
