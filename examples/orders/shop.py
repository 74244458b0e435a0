"""The order desk's stream and consumers, and the sample traffic that keeps them busy.

An order walks through the stream ORDERS under a subject for each step:

    ORDERS.received ──▶ consumer NEW ──▶ ORDERS.processed ──▶ consumer DISPATCH ──▶ ORDERS.completed
            └──────────────┴───────────── consumer MONITOR sees every step ────────────┘

NEW and DISPATCH are pull consumers: as many workers as one likes ask for work and acknowledge it. MONITOR
is a push consumer that needs no acknowledgement. The workers here are a little clumsy on purpose, so that
redelivery, dead letters and their analysis have something to show.
"""

import asyncio
import contextlib
import json
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any, Final

import nats.errors
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.js import JetStreamContext, api
from nats.js.errors import BadRequestError

STREAM: Final = "ORDERS"
EVENTS: Final = "ORDERS_EVENTS"
CONSUMERS: Final = ("NEW", "DISPATCH", "MONITOR")
MONITOR_SUBJECT: Final = "monitor.ORDERS"

_NAME_IN_USE: Final = 10058  # by a stream with another configuration
_ITEMS: Final = ("kettle", "lamp", "desk", "chair", "clock", "radio")
_BATCH: Final = 20
_FORGOTTEN: Final = 0.02  # of the messages a worker takes, it never acknowledges
_REFUSED: Final = 0.01  # and of these it says that nobody can handle them


async def open_shop(jetstream: JetStreamContext) -> None:
    """Make the streams and consumers; they are kept, so a second start finds them as they were."""
    await _keep_stream(jetstream, STREAM, subjects=["ORDERS.*"], max_age=7 * 24 * 3600, duplicate_window=600)
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
        jetstream, "REVENUE", subjects=["revenue.*"], max_age=7 * 24 * 3600, duplicate_window=600
    )
    await _keep_stream(jetstream, "ORDERS_DLQ", subjects=["dlq.>"], duplicate_window=600)
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


async def _keep_stream(jetstream: JetStreamContext, name: str, **config: Any) -> None:
    """Make it, or bring one that an earlier version of this example made up to date."""
    try:
        await jetstream.add_stream(name=name, **config)
    except BadRequestError as refused:
        if refused.err_code != _NAME_IN_USE:
            raise
        await jetstream.update_stream(name=name, **config)


@contextlib.asynccontextmanager
async def sample_traffic(connection: Client, orders_per_second: float) -> AsyncIterator[None]:
    """Customers and workers while the context lasts; nobody if nothing is ordered."""
    if orders_per_second <= 0:
        yield
        return
    traffic = _Traffic(connection, orders_per_second)
    people = asyncio.create_task(traffic.run())
    try:
        yield
    finally:
        traffic.over = True
        people.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await people


class _Traffic:
    """Customers who order, and workers who handle what they ordered."""

    def __init__(self, connection: Client, orders_per_second: float) -> None:
        self._connection = connection
        self._jetstream = connection.jetstream()
        self._rate = orders_per_second
        self._chance = random.Random()
        self.watched = 0
        self.over = False  # a cancel alone may be lost: nats-py can take it for the end of a wait

    async def run(self) -> None:
        """Until cancelled."""
        await self._connection.subscribe(MONITOR_SUBJECT, cb=self._watch)
        async with asyncio.TaskGroup() as people:
            people.create_task(self._customers())
            people.create_task(self._worker("NEW", self._process))
            people.create_task(self._worker("DISPATCH", self._dispatch))

    async def _watch(self, message: Msg) -> None:
        self.watched += 1

    async def _customers(self) -> None:
        number = self._chance.randrange(10**6) * 1000
        while not self.over:
            number += 1
            order = {
                "order": number,
                "item": self._chance.choice(_ITEMS),
                "quantity": self._chance.randint(1, 9),
                "price": round(self._chance.uniform(3, 300), 2),
            }
            await self._send("ORDERS.received", order, f"received:{number}")
            await asyncio.sleep(self._chance.expovariate(self._rate))

    async def _worker(self, consumer: str, handle: Callable[[Msg], Awaitable[None]]) -> None:
        work = await self._jetstream.pull_subscribe_bind(consumer, stream=STREAM)
        while not self.over:
            try:
                messages = await work.fetch(_BATCH, timeout=5)
            except TimeoutError:  # nats-py's own, or Python's: there was no work
                continue
            except nats.errors.Error:  # the line is being mended
                await asyncio.sleep(1)
                continue
            for message in messages:
                mood = self._chance.random()
                if mood < _REFUSED:
                    await message.term()
                elif mood > _FORGOTTEN:
                    await handle(message)
                    await message.ack()

    async def _process(self, message: Msg) -> None:
        order = json.loads(message.data)
        await self._send("ORDERS.processed", order, f"processed:{order['order']}")

    async def _dispatch(self, message: Msg) -> None:
        order = json.loads(message.data)
        await self._send("ORDERS.completed", order, f"completed:{order['order']}")

    async def _send(self, subject: str, order: Mapping[str, object], message_id: str) -> None:
        # With an id, an order that is handled twice is stored once.
        body = json.dumps(order).encode()
        with contextlib.suppress(TimeoutError, nats.errors.Error):
            await self._jetstream.publish(subject, body, headers={"Nats-Msg-Id": message_id})
