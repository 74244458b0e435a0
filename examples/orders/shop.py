"""The order desk's stream and consumers, and the sample traffic that keeps them busy.

An order walks through the stream ORDERS under a subject for each step:

    ORDERS.received ──▶ consumer NEW ──▶ ORDERS.processed ──▶ consumer DISPATCH ──▶ ORDERS.completed
            └──────────────┴───────────── consumer MONITOR sees every step ────────────┘

NEW and DISPATCH are pull consumers: as many workers as one likes ask for work and acknowledge it. MONITOR
is a push consumer that needs no acknowledgement. The workers here are a little clumsy on purpose, so that
redelivery, dead letters and their analysis have something to show.

Anybody may publish anything to ORDERS.*: an order that a worker cannot read becomes a dead letter in
ORDERS_DLQ and is never delivered again; everything else goes on.
"""

import asyncio
import contextlib
import json
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from typing import Any, Final

from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.js import JetStreamContext, api
from nats.js.errors import BadRequestError, NotFoundError

STREAM: Final = "ORDERS"
EVENTS: Final = "ORDERS_EVENTS"
REVENUE: Final = "REVENUE"
DEAD_LETTERS: Final = "ORDERS_DLQ"
CONSUMERS: Final = ("NEW", "DISPATCH", "MONITOR")
MONITOR_SUBJECT: Final = "monitor.ORDERS"

_NAME_IN_USE: Final = 10058  # by a stream with another configuration
_DUPLICATES_S: Final = 600
_ITEMS: Final = ("kettle", "lamp", "desk", "chair", "clock", "radio")
_BATCH: Final = 20
_AGAIN_S: Final = 1.0
_MOST_ORDERS: Final = 2**63
_LETTER_BYTES: Final = 900_000  # of a body; with its own headers a larger one is no message any more
_FORGOTTEN: Final = 0.02  # of the messages a worker takes, it never acknowledges
_REFUSED: Final = 0.01  # and of these it says that nobody can handle them


async def open_shop(jetstream: JetStreamContext) -> None:
    """Make the streams and consumers; they are kept, so a second start finds them as they were."""
    await _keep_stream(
        jetstream, STREAM, subjects=["ORDERS.*"], max_age=7 * 24 * 3600, duplicate_window=_DUPLICATES_S
    )
    # What the server tells about deliveries is a stream, too: the pipeline's analysis reads it.
    await _keep_stream(
        jetstream,
        EVENTS,
        subjects=[
            f"$JS.EVENT.METRIC.CONSUMER.ACK.{STREAM}.*",
            f"$JS.EVENT.ADVISORY.CONSUMER.MAX_DELIVERIES.{STREAM}.*",
            f"$JS.EVENT.ADVISORY.CONSUMER.MSG_TERMINATED.{STREAM}.*",
        ],
        max_age=24 * 3600,
        allow_direct=True,
    )
    # What the pipeline publishes: sales by the minute, and orders that were given up.
    await _keep_stream(
        jetstream, REVENUE, subjects=["revenue.*"], max_age=7 * 24 * 3600, duplicate_window=_DUPLICATES_S
    )
    await _keep_stream(jetstream, DEAD_LETTERS, subjects=["dlq.>"], duplicate_window=_DUPLICATES_S)
    for name, subject in (("NEW", "ORDERS.received"), ("DISPATCH", "ORDERS.processed")):
        await jetstream.add_consumer(
            STREAM,
            durable_name=name,
            filter_subject=subject,
            ack_policy=api.AckPolicy.EXPLICIT,
            ack_wait=5,
            max_deliver=3,
            sample_freq="100",
        )
    await jetstream.add_consumer(
        STREAM,
        durable_name="MONITOR",
        deliver_subject=MONITOR_SUBJECT,
        ack_policy=api.AckPolicy.NONE,
        deliver_policy=api.DeliverPolicy.NEW,
    )


async def is_complete(jetstream: JetStreamContext) -> bool:
    """Tell whether nobody has deleted a stream or a consumer of the shop."""
    try:
        for name in (STREAM, EVENTS, REVENUE, DEAD_LETTERS):
            await jetstream.stream_info(name)
        for name in CONSUMERS:
            await jetstream.consumer_info(STREAM, name)
    except NotFoundError:
        return False
    return True


async def _keep_stream(jetstream: JetStreamContext, name: str, **config: Any) -> None:
    """Make it, or bring one that an earlier version of this example made up to date."""
    try:
        await jetstream.add_stream(name=name, **config)
    except BadRequestError as refused:
        if refused.err_code != _NAME_IN_USE:
            raise
        await jetstream.update_stream(name=name, **config)


class BadOrder(Exception):
    """A message that is no order; the text says why."""


def read_order(data: bytes) -> dict[str, Any]:
    """Return the order in a message's body; raise BadOrder if there is none."""
    try:
        order = json.loads(data)
    except (ValueError, RecursionError):
        raise BadOrder("the body is not JSON") from None
    if not isinstance(order, dict):
        raise BadOrder("the body is not a JSON object")
    number = order.get("order")
    if isinstance(number, bool) or not isinstance(number, int) or not 0 <= number < _MOST_ORDERS:
        raise BadOrder('"order" is not a number of an order')
    return order


def one_line(what: str, error: Exception) -> str:
    """Return what went wrong, and why, without line breaks."""
    return " ".join(f"{what}: {type(error).__name__}: {error}".split())


class Traffic:
    """Customers who order, and workers who handle what they ordered."""

    def __init__(self, orders_per_second: float, *, clumsy: bool = True) -> None:
        self._rate = orders_per_second
        self._clumsy = clumsy  # workers forget and refuse some orders
        self._chance = random.Random()
        self.trouble = ""  # the last error of a customer or worker, until work is done again
        self._over = asyncio.Event()  # a cancel alone may be lost: nats-py can take it for the end of a wait

    @contextlib.asynccontextmanager
    async def on(self, connection: Client) -> AsyncIterator[None]:
        """Have customers and workers while the context lasts; nobody if nothing is ordered."""
        if self._rate <= 0:
            yield
            return
        self._connection, self._jetstream = connection, connection.jetstream()
        self._over.clear()
        people = [
            asyncio.create_task(self._again_and_again(work))
            for work in (
                self._watch,
                self._customer,
                partial(self._worker, "NEW", "ORDERS.processed"),
                partial(self._worker, "DISPATCH", "ORDERS.completed"),
            )
        ]
        try:
            yield
        finally:
            self._over.set()
            for each in people:
                each.cancel()
            await asyncio.wait(people)

    async def _again_and_again(self, work: Callable[[], Awaitable[None]]) -> None:
        """Begin `work` anew after a pause, whatever it met: the server may be away, or refuse a message."""
        while not self._over.is_set():
            try:
                await work()
            except Exception as error:
                self.trouble = one_line("sample traffic", error)
            await asyncio.sleep(_AGAIN_S)

    async def _watch(self) -> None:
        """Receive what MONITOR delivers, as somebody who looks on would."""
        await self._connection.subscribe(MONITOR_SUBJECT, cb=_look_on)
        await self._over.wait()

    async def _customer(self) -> None:
        number = self._chance.randrange(10**6) * 1000
        while not self._over.is_set():
            number += 1
            order = {
                "order": number,
                "item": self._chance.choice(_ITEMS),
                "quantity": self._chance.randint(1, 9),
                "price": round(self._chance.uniform(3, 300), 2),
            }
            await self._send("ORDERS.received", json.dumps(order).encode(), f"received:{number}")
            await asyncio.sleep(self._chance.expovariate(self._rate))

    async def _worker(self, consumer: str, next_step: str) -> None:
        work = await self._jetstream.pull_subscribe_bind(consumer, stream=STREAM)
        while not self._over.is_set():
            try:
                messages = await work.fetch(_BATCH, timeout=5)
            except TimeoutError:  # nats-py's own, or Python's: there was no work
                continue
            self.trouble = ""
            for message in messages:
                mood = self._chance.random() if self._clumsy else 1.0
                if mood < _REFUSED:
                    await message.term()
                elif mood > _FORGOTTEN:
                    await self._handle(message, consumer, next_step)

    async def _handle(self, message: Msg, consumer: str, next_step: str) -> None:
        try:
            order = read_order(message.data)
        except BadOrder as bad:
            await self._bury(message, consumer, str(bad))
            return
        await self._send(next_step, message.data, f"{next_step}:{order['order']}")
        await message.ack()

    async def _bury(self, message: Msg, consumer: str, reason: str) -> None:
        """Store a dead letter, then tell the server never to deliver the message again.

        The pipeline's dead-letter job makes the same letter of the server's advisory; the common id keeps
        the second one out.
        """
        sequence = message.metadata.sequence.stream
        headers = {
            "Nats-Msg-Id": f"dlq:{STREAM}:{consumer}:{sequence}",
            "Millstream-Orig-Stream": STREAM,
            "Millstream-Orig-Subject": message.subject,
            "Millstream-Orig-Seq": str(sequence),
            "Millstream-Dlq-Consumer": consumer,
            "Millstream-Dlq-Deliveries": str(message.metadata.num_delivered),
            "Millstream-Dlq-Reason": f"terminated: {reason}",
        }
        body = message.data
        if len(body) > _LETTER_BYTES:
            headers["Millstream-Dlq-Gone"] = "true"
            body = b""
        await self._jetstream.publish(f"dlq.{STREAM}.{consumer}", body, headers=headers)
        await self._connection.publish(message.reply, f"+TERM {reason}".encode())

    async def _send(self, subject: str, body: bytes, message_id: str) -> None:
        """Publish with an id, so that an order that is handled twice is stored once."""
        await self._jetstream.publish(subject, body, headers={"Nats-Msg-Id": message_id})


async def _look_on(message: Msg) -> None: ...
