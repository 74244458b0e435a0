"""FastStream: a worker that packs orders and announces parcels, with acks and a durable consumer.

faststream run examples.ecosystem.parcels:app
"""

import os

from faststream import AckPolicy, FastStream
from faststream.nats import JStream, NatsBroker
from pydantic import BaseModel

SERVER = os.environ.get("NATS_URL", "nats://127.0.0.1:4222")

broker = NatsBroker(SERVER)
app = FastStream(broker)
stream = JStream(name="SHIPPING", subjects=["shipping.>"])


class Order(BaseModel):
    number: int
    items: list[str]


@broker.subscriber(
    "shipping.ordered", stream=stream, durable="packers", pull_sub=True, ack_policy=AckPolicy.REJECT_ON_ERROR
)
@broker.publisher("shipping.packed", stream="SHIPPING")
async def pack(order: Order) -> str:
    """Return what is published: an order that cannot be read is terminated, not delivered for ever."""
    return f"parcel {order.number}: {len(order.items)} items"
