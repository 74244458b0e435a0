"""Millstream's Python client: an ordered consumer and consumer groups, on any NATS server.

client = await millstream.client.connect("nats://127.0.0.1:4222")
async with client.ordered("ORDERS") as messages:
    async for message in messages:
        ...
"""

from millstream.client.blocking_client import BlockingClient, BlockingOrderedConsumer, connect_blocking
from millstream.client.client import Client, connect, ordered
from millstream.client.config import StartAt
from millstream.client.errors import (
    AckLost,
    BadGroup,
    BadOptions,
    Check,
    ClientClosed,
    ClientError,
    CredentialsRefused,
    GroupChanged,
    GroupError,
    GroupExists,
    GroupNotFound,
    NoStream,
    NotAMember,
    OrderedConfigError,
    RequestRefused,
    ServerUnavailable,
    StreamChanged,
    StreamNotFound,
)
from millstream.client.ordered import OrderedConsumer
from millstream.client.state import OrderedMessage, OrderedState, Phase, ResetReason

__all__ = [
    "AckLost",
    "BadGroup",
    "BadOptions",
    "BlockingClient",
    "BlockingOrderedConsumer",
    "Check",
    "Client",
    "ClientClosed",
    "ClientError",
    "CredentialsRefused",
    "GroupChanged",
    "GroupError",
    "GroupExists",
    "GroupNotFound",
    "NoStream",
    "NotAMember",
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
    "ordered",
]
