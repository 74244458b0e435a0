"""Acknowledgements by the pair of sequences, at any gateway, with or without an open subscription.

JetStream finds a pending message by its stream sequence, so the reply subject can be made from the sequences
that the caller sends, and the pair of an earlier delivery works, too.
"""

from __future__ import annotations

from millstream.gateway.core import Core
from millstream.gateway.errors import FAILURES, Conflict
from millstream.gateway.exchange import Exchange
from millstream.gateway.link import CallerLink
from millstream.gateway.v1.answers import refuse, refuse_for, succeed
from millstream.gateway.v1.bodies import Fields, Unreadable
from millstream.gateway.v1.delivery import ACK, ack_subject
from millstream.gateway.v1.rules import Rules, failed
from millstream.gateway.v1.subscribe import board_of
from millstream.jsapi.errors import Err
from millstream.link.errors import LinkApiError, NoResponders, RequestTimeout

_UNKNOWN = (Err.CONSUMER_NOT_FOUND, Err.STREAM_NOT_FOUND)


class AckHandler:
    """The handler of `POST …/consumer/{consumerName}/ack`."""

    def __init__(self, rules: Rules) -> None:
        self._rules = rules

    async def acknowledge(self, exchange: Exchange, core: Core) -> None:
        stream, consumer = exchange.parameters
        for name, what in ((stream, "stream"), (consumer, "consumer")):
            if not self._rules.is_name(name):
                await refuse(exchange, 400, f"Invalid {what} name", failed("", "", "alphanum|uuid"))
                return
        body = await exchange.body()
        try:
            fields = Fields(body)
            stream_seq, consumer_seq = fields.unsigned("stream"), fields.unsigned("consumer")
            if not stream_seq or not consumer_seq:
                missing = "Stream" if not stream_seq else "Consumer"
                raise Unreadable(failed("AckSeqNum", missing, "required"))
        except Unreadable as error:
            await refuse(exchange, 400, "Unable to parse request body", str(error))
            return
        link = await core.links.link_for(exchange.caller.credentials, exchange.address)
        try:
            acked = await _acknowledge(link, stream, consumer, stream_seq, consumer_seq)
        except FAILURES as error:
            await refuse_for(exchange, core, f"Failed to broadcast ACK <{stream_seq},{consumer_seq}>", error)
            return
        if acked:
            board_of(link).announce((stream, consumer), stream_seq, consumer_seq)
        elif not core.settings.strict:
            raise Conflict("no such message waits for an acknowledgement")
        await succeed(exchange, acked=acked)


async def _acknowledge(
    link: CallerLink, stream: str, consumer: str, stream_seq: int, consumer_seq: int
) -> bool:
    """Acknowledge a message; return whether it was pending."""
    try:
        info = await link.api(f"CONSUMER.INFO.{stream}.{consumer}")
    except LinkApiError as error:
        if error.err in _UNKNOWN:
            return False
        raise
    if not info["ack_floor"]["stream_seq"] < stream_seq <= info["delivered"]["stream_seq"]:
        return False  # JetStream does not answer an ack of a message that is not pending
    try:
        await link.request(ack_subject(stream, consumer, stream_seq, consumer_seq), ACK)
    except (NoResponders, RequestTimeout):
        return False
    return True
