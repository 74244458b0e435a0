"""Taking messages from a consumer and acknowledging them, call by call; any gateway can do either.

Not here: messages as they come (live), and both over one WebSocket (socket).
"""

from __future__ import annotations

import asyncio
from enum import StrEnum
from typing import Annotated, Any, Final

import msgspec
from nats.errors import Error as NatsError

from millstream.gateway.errors import BadRequest, Conflict, GatewayError, LinkDown, LinkTimeout, NoResponders
from millstream.gateway.link import Link
from millstream.gateway.v2.ack_ids import EXAMPLE, ack_subject
from millstream.gateway.v2.calls import Call, Reply, answer
from millstream.gateway.v2.consumer_session import settled
from millstream.gateway.v2.consumers import consumer_of
from millstream.gateway.v2.message_headers import to_json
from millstream.gateway.v2.operations import Section, Tag, json_answer, json_body
from millstream.gateway.v2.payload import DeliveredMessage, PayloadForm, delivered_message
from millstream.gateway.v2.pulling import Outcome, PullInbox, Taken, give_back
from millstream.gateway.v2.streams import stream_of

section: Final = Section(Tag.CONSUMING)

_CONSUMER: Final = "/streams/{stream}/consumers/{consumer}"
_MOST_MESSAGES: Final = 10_000
_MOST_ACKS: Final = 10_000
_LONGEST_S: Final = 300
_GRACE_S: Final = 2.0  # for the status that ends a request to arrive
_MOST_BYTES: Final = 64 * 1024 * 1024
_SECOND: Final = 1_000_000_000


class Fetch(msgspec.Struct, forbid_unknown_fields=True):
    """What to take; it waits until all of it is there, or `expires`."""

    batch: Annotated[int, msgspec.Meta(ge=1, le=_MOST_MESSAGES, description="how many at most")] = 1
    max_bytes: Annotated[
        int, msgspec.Meta(ge=0, le=_MOST_BYTES, description="of subjects, headers and bodies; 0 is 8 MiB")
    ] = 0
    expires: Annotated[
        float, msgspec.Meta(ge=0.01, le=_LONGEST_S, description="how many seconds to wait")
    ] = 5.0
    no_wait: Annotated[bool, msgspec.Meta(description="take only what is there")] = False
    payload: PayloadForm = PayloadForm.AUTO


class Fetched(msgspec.Struct):
    """Perhaps none."""

    messages: list[DeliveredMessage]


class AckKind(StrEnum):
    """What is said about a message."""

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
    """What became of an acknowledgement."""

    CONFIRMED = "confirmed"  # the consumer has it
    SENT = "sent"  # it was sent; nobody was asked (`confirm` is false)
    UNANSWERED = (
        "unanswered"  # no confirmation: a sequence that was never delivered, or the server is too slow
    )
    GONE = "gone"  # there is no such consumer
    REFUSED = "refused"  # the ack_id is none, or goes with another operation
    FAILED = "failed"  # the connection to NATS was lost


class AckResult(msgspec.Struct, omit_defaults=True):
    ack_id: str
    ok: bool = msgspec.field(default_factory=bool)
    status: AckStatus = msgspec.field(default_factory=lambda: AckStatus.SENT)
    detail: str = ""


class AckResults(msgspec.Struct):
    """In the order of the request; `ok` if all of them are."""

    ok: bool
    results: list[AckResult]


def message_of(taken: Taken, form: PayloadForm) -> DeliveredMessage:
    return delivered_message(taken.delivery, taken.subject, to_json(taken.headers.items()), taken.body, form)


@section.post(
    f"{_CONSUMER}/fetch",
    "Take messages",
    body=json_body(Fetch, "without a body: one message", required=False),
    answers=(json_answer(200, "messages, perhaps none", Fetched),),
    problems=(404, 409, 415, 422),
)
async def fetch(call: Call) -> Reply:
    """Each message has an `ack_id` for the acks of this consumer. A caller that goes away before it is
    answered gets nothing: the messages are given back at once."""
    wanted = await call.json(Fetch)
    inbox = PullInbox(call.link, call.settings.nats, stream_of(call), consumer_of(call))
    await inbox.open()
    taken: list[Taken] = []
    try:
        await call.while_there(_gather(call, inbox, wanted, taken))
    except BaseException:
        taken += await inbox.close()
        await give_back(call.link, [message.reply for message in taken])
        raise
    taken += await inbox.close()
    return answer(Fetched([message_of(message, wanted.payload) for message in taken]))


async def _gather(call: Call, inbox: PullInbox, wanted: Fetch, taken: list[Taken]) -> None:
    loop = asyncio.get_running_loop()
    most_bytes = wanted.max_bytes or 8 * 1024 * 1024
    await inbox.ask(
        wanted.batch,
        most_bytes=most_bytes,
        expires_s=0 if wanted.no_wait else wanted.expires,
        no_wait=wanted.no_wait,
    )
    wait_s = call.settings.nats.request_timeout_s if wanted.no_wait else wanted.expires
    deadline = loop.time() + wait_s + _GRACE_S
    while inbox.asking and loop.time() < deadline:
        await inbox.wait(deadline - loop.time())
        taken += inbox.take(wanted.batch)
        if not call.link.is_up:
            raise LinkDown("the connection to NATS was lost")
    if taken:
        return
    outcome = inbox.outcome()  # raises what is wrong with the consumer
    if outcome is Outcome.TOO_BIG:
        raise Conflict(f"the next message has more than {most_bytes} bytes")
    if outcome is not Outcome.ENDED or inbox.asking:
        # Not even a status: the consumer is not there, or does not pull, or JetStream is too slow.
        info = await call.link.api(f"CONSUMER.INFO.{stream_of(call)}.{consumer_of(call)}")
        if info["config"].get("deliver_subject"):
            raise Conflict("this is a push consumer; messages are taken from pull consumers")
        if outcome is Outcome.LOST:
            raise LinkTimeout("the consumer does not answer")


@section.post(
    f"{_CONSUMER}/acks",
    "Acknowledge messages",
    body=json_body(Acks),
    answers=(json_answer(200, "a result for each", AckResults),),
    problems=(404, 415),
)
async def acknowledge(call: Call) -> Reply:
    """Acks, naks, terms and progress of many messages, by their `ack_id`, wherever they were taken.
    `confirmed` means that the consumer has it: an ack or term is stored. A nak or progress for a message that
    is acknowledged already changes nothing, and JetStream does not tell."""
    wanted = await call.json(Acks)
    stream, consumer = stream_of(call), consumer_of(call)
    timeout = wanted.timeout if wanted.confirm else 0.0
    results = await acknowledge_all(call.link, stream, consumer, wanted.acks, timeout)
    return answer(AckResults(all(result.ok for result in results), results))


async def acknowledge_all(
    link: Link, stream: str, consumer: str, items: list[AckItem], timeout_s: float
) -> list[AckResult]:
    """The result for each; `timeout_s` 0 does not wait for confirmations."""
    results = await asyncio.gather(*(_acknowledge(link, stream, consumer, item, timeout_s) for item in items))
    return list(results)


async def _acknowledge(link: Link, stream: str, consumer: str, item: AckItem, timeout_s: float) -> AckResult:
    try:
        subject = ack_subject(stream, consumer, item.ack_id)
        payload = ack_payload(item)
    except BadRequest as error:
        return AckResult(item.ack_id, False, AckStatus.REFUSED, str(error))
    try:
        if timeout_s:
            await link.request(subject, payload, timeout=timeout_s)
        else:
            await link.nats.publish(subject, payload)
    except NoResponders:
        return AckResult(item.ack_id, False, AckStatus.GONE, "there is no such consumer")
    except LinkTimeout:
        return AckResult(item.ack_id, False, AckStatus.UNANSWERED, "the consumer did not confirm in time")
    except (GatewayError, NatsError) as error:
        return AckResult(item.ack_id, False, AckStatus.FAILED, str(error))
    if item.op is not AckKind.PROGRESS:
        settled(link, subject, acked=item.op is AckKind.ACK)
    return AckResult(item.ack_id, True, AckStatus.CONFIRMED if timeout_s else AckStatus.SENT)


def ack_payload(item: AckItem) -> bytes:
    """What JetStream is told; 400 for what does not go together."""
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
