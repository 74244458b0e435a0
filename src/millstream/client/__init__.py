"""Millstream's Python client, on top of nats-py: an ordered consumer that runs on any NATS server.

client = await millstream.client.connect("nats://127.0.0.1:4222")
async with client.ordered("ORDERS") as messages:
    async for message in messages:
        ...
"""

from millstream.client.blocking import BlockingClient, BlockingOrderedConsumer, connect_blocking
from millstream.client.connection import Client, connect
from millstream.client.errors import (
    BadOptions,
    Check,
    ClientClosed,
    ClientError,
    CredentialsRefused,
    NoStream,
    OrderedConfigError,
    RequestRefused,
    ServerUnavailable,
    StreamChanged,
    StreamNotFound,
)
from millstream.client.life import Phase
from millstream.client.message import OrderedMessage
from millstream.client.ordered import OrderedConsumer
from millstream.client.start import StartAt
from millstream.client.state import OrderedState, ResetReason

__all__ = [
    "BadOptions",
    "BlockingClient",
    "BlockingOrderedConsumer",
    "Check",
    "Client",
    "ClientClosed",
    "ClientError",
    "CredentialsRefused",
    "NoStream",
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
