"""Millrace's Python client, on top of nats-py: an ordered consumer that runs on any NATS server.

client = await millrace.client.connect("nats://127.0.0.1:4222")
async with client.ordered("ORDERS") as messages:
    async for message in messages:
        ...
"""

from millrace.client.blocking import BlockingClient, BlockingOrderedConsumer, connect_blocking
from millrace.client.connection import Client, connect
from millrace.client.errors import (
    Check,
    ClientClosed,
    ClientError,
    OrderedConfigError,
    RequestRefused,
    ServerUnavailable,
    StreamChanged,
    StreamNotFound,
)
from millrace.client.life import Phase
from millrace.client.message import OrderedMessage
from millrace.client.ordered import OrderedConsumer
from millrace.client.start import StartAt
from millrace.client.state import OrderedState, ResetReason

__all__ = [
    "BlockingClient",
    "BlockingOrderedConsumer",
    "Check",
    "Client",
    "ClientClosed",
    "ClientError",
    "OrderedConfigError",
    "OrderedConsumer",
    "OrderedMessage",
    "OrderedState",
    "Phase",
    "RequestRefused",
    "ResetReason",
    "ServerUnavailable",
    "StartAt",
    "StreamChanged",
    "StreamNotFound",
    "connect",
    "connect_blocking",
]
