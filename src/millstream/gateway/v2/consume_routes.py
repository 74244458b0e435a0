"""Fetches of messages from a consumer, and acknowledgements, as single calls to any gateway.

`live` has messages as they come, `socket` has both over one WebSocket.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from enum import StrEnum
from typing import Annotated, Any, Final

import msgspec

from millstream.gateway.error_map import text_of
from millstream.gateway.errors import BadRequest, Conflict
from millstream.gateway.link import CallerLink
from millstream.gateway.v2.ack_ids import EXAMPLE, ack_subject
from millstream.gateway.v2.calls import Call, Flow, Headers, Reply, answer, begun
from millstream.gateway.v2.consumer_session import AckWait, OnDisconnect, progressed, settled
from millstream.gateway.v2.consumers import consumer_of
from millstream.gateway.v2.message_headers import to_json
from millstream.gateway.v2.operations import JSON, Section, Tag, json_answer, json_body
from millstream.gateway.v2.payload import DeliveredMessage, PayloadForm, delivered_message, encode
from millstream.gateway.v2.pull_batch import PullInbox, PullOutcome, Taken, give_back
from millstream.gateway.v2.streams import stream_of
from millstream.link.errors import ConnectionLost, LinkError, NoResponders, RequestTimeout

section: Final = Section(Tag.CONSUMING)

_CONSUMER: Final = "/streams/{stream}/consumers/{consumer}"
_MOST_MESSAGES: Final = 10_000
_MOST_ACKS: Final = 10_000
_LONGEST_S: Final = 300
_GRACE_S: Final = 2.0  # seconds for the status that ends a request to arrive
_MOST_BYTES: Final = 64 * 1024 * 1024
_BREATH_S: Final = 0.02  # seconds in which messages are collected for one write
_SECOND: Final = 1_000_000_000


class Fetch(msgspec.Struct, forbid_unknown_fields=True):
    """The messages to fetch; the answer ends when all have come, or after `expires`."""

    batch: Annotated[int, msgspec.Meta(ge=1, le=_MOST_MESSAGES, description="how many at most")] = 1
    max_bytes: Annotated[
        int, msgspec.Meta(ge=0, le=_MOST_BYTES, description="of subjects, headers and bodies; 0 is 8 MiB")
    ] = 0
    expires: Annotated[
        float, msgspec.Meta(ge=0.01, le=_LONGEST_S, description="how many seconds to wait")
    ] = 5.0
    no_wait: Annotated[bool, msgspec.Meta(description="take only what is there")] = False
    on_disconnect: Annotated[
        OnDisconnect,
        msgspec.Meta(
            description="`nak`: a caller that leaves before the end of the answer gives it all back at once"
        ),
    ] = OnDisconnect.WAIT
    payload: PayloadForm = PayloadForm.AUTO


class Fetched(msgspec.Struct):
    """The fetched messages; the list may be empty."""

    messages: list[DeliveredMessage]


class AckKind(StrEnum):
    """The kind of an acknowledgement."""

    ACK = "ack"  # it is done
    NAK = "nak"  # deliver it again, now or after `delay`
    TERM = "term"  # never deliver it again
    PROGRESS = "progress"  # it takes longer: restart ack_wait


class AckItem(msgspec.Struct, forbid_unknown_fields=True):
    ack_id: Annotated[str, msgspec.Meta(max_length=300, examples=[EXAMPLE])]
    op: AckKind = AckKind.ACK
    delay: Annotated[float, msgspec.Meta(ge=0, le=10**8, description="seconds, of a nak")] = 0.0
    reason: Annotated[str, msgspec.Meta(max_length=1000, description="of a term")] = ""


class Acks(msgspec.Struct, forbid_unknown_fields=True):
    acks: Annotated[list[AckItem], msgspec.Meta(min_length=1, max_length=_MOST_ACKS)]
    confirm: Annotated[bool, msgspec.Meta(description="wait until the consumer says that it has them")] = True
    timeout: Annotated[float, msgspec.Meta(gt=0, le=_LONGEST_S, description="of a confirmation, seconds")] = (
        5.0
    )


class AckStatus(StrEnum):
    """The result of an acknowledgement."""

    CONFIRMED = "confirmed"  # the consumer has processed it
    SENT = "sent"  # it was sent without waiting for a confirmation (`confirm` is false)
    UNANSWERED = (
        "unanswered"  # no confirmation came: the sequence was never delivered, or the server is too slow
    )
    GONE = "gone"  # there is no such consumer
    REFUSED = "refused"  # the ack_id is invalid, or the options do not fit the kind
    FAILED = "failed"  # the connection to NATS was lost


class AckResult(msgspec.Struct, omit_defaults=True):
    ack_id: str
    ok: bool = msgspec.field(default_factory=bool)
    status: AckStatus = msgspec.field(default_factory=lambda: AckStatus.SENT)
    detail: str = ""


class AckResults(msgspec.Struct):
    """The results in the order of the request; `ok` if all are."""

    ok: bool
    results: list[AckResult]


def message_of(taken: Taken, form: PayloadForm) -> DeliveredMessage:
    return delivered_message(taken.delivery, taken.subject, to_json(taken.headers), taken.body, form)


@section.post(
    f"{_CONSUMER}/fetch",
    "Take messages",
    body=json_body(Fetch, "without a body: one message", required=False),
    answers=(json_answer(200, "messages, perhaps none", Fetched),),
    problems=(404, 409, 415, 422),
)
async def fetch(call: Call) -> Reply:
    """Each message has an `ack_id` for the acks of this consumer. The answer begins with the first message
    and continues as others come, so nothing waits in the gateway. If the caller disconnects before the end,
    the messages that it was sent are redelivered after `ack_wait`, or with `"on_disconnect":"nak"` at
    once."""
    fetching = _Fetching(call, await call.json(Fetch))
    fetching.open()
    try:
        await call.while_there(fetching.begin())
    except BaseException:
        await fetching.close()
        raise
    return await fetching.reply()


class _Fetching:
    """The messages of one fetch: those that wait to be written, and those that were written."""

    def __init__(self, call: Call, wanted: Fetch) -> None:
        self._call = call
        self._wanted = wanted
        self._inbox = PullInbox(call.link, stream_of(call), consumer_of(call))
        self._most_bytes = wanted.max_bytes or 8 * 1024 * 1024
        self._loop = asyncio.get_running_loop()
        wait_s = call.settings.nats.link.request_timeout_s if wanted.no_wait else wanted.expires
        self._deadline = self._loop.time() + wait_s + _GRACE_S
        self._unsent: list[Taken] = []
        self._sent: list[tuple[str, float]] = []  # reply subject, and the end of its ack_wait
        self._ack_wait = AckWait({})
        self._is_last = False  # the piece that is being sent ends the answer
        self._is_whole = False  # the answer was sent to its end

    def open(self) -> None:
        self._inbox.open()

    async def begin(self) -> None:
        """Send the pull request and wait for messages; raises if the consumer cannot deliver."""
        wanted = self._wanted
        if wanted.on_disconnect is OnDisconnect.NAK:
            call = self._call
            info = await call.link.api(f"CONSUMER.INFO.{stream_of(call)}.{consumer_of(call)}")
            self._ack_wait = AckWait(info["config"])
        self._inbox.ask(
            wanted.batch,
            most_bytes=self._most_bytes,
            expires_s=0 if wanted.no_wait else wanted.expires,
            no_wait=wanted.no_wait,
        )
        while not self._unsent and self._may_come:
            await self._wait(self._deadline)
            if not self._call.link.is_up:
                raise ConnectionLost("the connection to NATS was lost")
        breath = min(self._deadline, self._loop.time() + _BREATH_S)
        while self._may_come and self._loop.time() < breath:
            await self._wait(breath)
        if not self._unsent:
            await self._explain()

    @property
    def _may_come(self) -> bool:
        return self._inbox.asking and self._loop.time() < self._deadline and self._call.link.is_up

    async def _wait(self, until: float) -> None:
        await self._inbox.wait(until - self._loop.time())
        self._unsent += self._inbox.take(self._wanted.batch)

    async def _explain(self) -> None:
        """Raise the reason why the consumer does not answer, if one is found."""
        call, inbox = self._call, self._inbox
        outcome = inbox.outcome()  # raises if the consumer cannot be pulled from
        if outcome is PullOutcome.TOO_BIG:
            raise Conflict(f"the next message has more than {self._most_bytes} bytes")
        if outcome is not PullOutcome.ENDED or inbox.asking:
            # Not even a status: the consumer does not exist, or is a push consumer, or JetStream is too slow.
            info = await call.link.api(f"CONSUMER.INFO.{stream_of(call)}.{consumer_of(call)}")
            if info["config"].get("deliver_subject"):
                raise Conflict("this is a push consumer; messages are taken from pull consumers")
            if outcome is PullOutcome.LOST:
                raise RequestTimeout("the consumer does not answer")

    # -- the answer -----------------------------------------------------------------------------------

    async def reply(self) -> Reply:
        """Return the answer: complete if the request has ended, in pieces otherwise."""
        headers: Headers = []
        pieces = self._pieces()
        if not self._may_come:
            self._unsent += await self._inbox.close()
            self._is_last = True
            text = b'{"messages":[' + self._text() + b"]}\n"
            headers, pieces = [("Content-Length", str(len(text)))], self._one_piece(text)
        return Flow(JSON, await begun(pieces), headers, sent=self.sent)

    async def _one_piece(self, text: bytes) -> AsyncGenerator[bytes, None]:
        try:
            yield b""  # for `begun`
            yield text
        finally:
            await self.close()

    async def _pieces(self) -> AsyncGenerator[bytes, None]:
        try:
            yield b""  # for `begun`
            yield b'{"messages":[' + self._text()
            while self._may_come:
                await self._wait(self._deadline)
                if self._unsent:
                    yield b"," + self._text()
            self._unsent += await self._inbox.close()
            self._is_last = True
            yield b"," + self._text() + b"]}\n" if self._unsent else b"]}\n"
        finally:
            await self.close()

    def _text(self) -> bytes:
        form = self._wanted.payload
        return b",".join([encode(message_of(message, form)) for message in self._unsent])

    def sent(self) -> None:
        """Note that the messages of the last piece have reached the socket."""
        now = self._loop.time()
        self._sent += [(each.reply, now + self._ack_wait.of(each.delivery)) for each in self._unsent]
        self._unsent = []
        self._is_whole = self._is_last

    async def close(self) -> None:
        """Nak messages that were never sent; after an early disconnect, with `nak`, those that were, too."""
        replies = [message.reply for message in self._unsent + await self._inbox.close()]
        self._unsent = []
        if not self._is_whole and self._wanted.on_disconnect is OnDisconnect.NAK:
            now = self._loop.time()
            replies += [reply for reply, deadline in self._sent if deadline > now]
        await give_back(self._call.link, replies)


@section.post(
    f"{_CONSUMER}/acks",
    "Acknowledge messages",
    body=json_body(Acks),
    answers=(json_answer(200, "a result for each", AckResults),),
    problems=(404, 415),
)
async def acknowledge(call: Call) -> Reply:
    """Acks, naks, terms and progress of many messages, by their `ack_id`, from any gateway. `confirmed` means
    that the consumer has processed it: an ack or term is stored. A nak or progress for a message that is
    already acknowledged changes nothing, and JetStream does not report that."""
    wanted = await call.json(Acks)
    stream, consumer = stream_of(call), consumer_of(call)
    timeout = wanted.timeout if wanted.confirm else 0.0
    results = await acknowledge_all(call.link, stream, consumer, wanted.acks, timeout)
    return answer(AckResults(all(result.ok for result in results), results))


async def acknowledge_all(
    link: CallerLink, stream: str, consumer: str, items: list[AckItem], timeout_s: float
) -> list[AckResult]:
    """Return the result of each item; with a `timeout_s` of 0, do not wait for confirmations."""
    results = await asyncio.gather(*(_acknowledge(link, stream, consumer, item, timeout_s) for item in items))
    return list(results)


async def _acknowledge(
    link: CallerLink, stream: str, consumer: str, item: AckItem, timeout_s: float
) -> AckResult:
    try:
        subject = ack_subject(stream, consumer, item.ack_id)
        payload = ack_payload(item)
    except BadRequest as error:
        return AckResult(item.ack_id, False, AckStatus.REFUSED, str(error))
    try:
        if timeout_s:
            await link.request(subject, payload, timeout_s=timeout_s)
        else:
            link.publish(subject, payload)
    except NoResponders:
        return AckResult(item.ack_id, False, AckStatus.GONE, "there is no such consumer")
    except RequestTimeout:
        return AckResult(item.ack_id, False, AckStatus.UNANSWERED, "the consumer did not confirm in time")
    except LinkError as error:
        return AckResult(item.ack_id, False, AckStatus.FAILED, text_of(error))
    if item.op is AckKind.PROGRESS:
        progressed(link, subject)
    else:
        settled(link, subject, acked=item.op is AckKind.ACK)
    return AckResult(item.ack_id, True, AckStatus.CONFIRMED if timeout_s else AckStatus.SENT)


def ack_payload(item: AckItem) -> bytes:
    """Return the payload of an acknowledgement; 400 for options that do not fit its kind."""
    if item.delay and item.op is not AckKind.NAK:
        raise BadRequest("only a nak has a `delay`")
    if item.reason and item.op is not AckKind.TERM:
        raise BadRequest("only a term has a `reason`")
    match item.op:
        case AckKind.ACK:
            return b"+ACK"
        case AckKind.PROGRESS:
            return b"+WPI"
        case AckKind.TERM:
            return b"+TERM" + (f" {item.reason}".encode() if item.reason else b"")
    if not item.delay:
        return b"-NAK"
    options: dict[str, Any] = {"delay": int(item.delay * _SECOND)}
    return b"-NAK " + msgspec.json.encode(options)
