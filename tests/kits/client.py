"""Shared by the tests of the client: a stream under observation, and short ways to read it."""

import asyncio
import contextlib
import itertools
import time
import weakref
from collections.abc import Awaitable, Callable
from typing import Any, Final

import nats
from nats.aio.client import Client as Connection
from nats.js import JetStreamContext
from nats.js.api import StreamConfig
from nats.js.errors import NotFoundError

import millstream.client
from millstream.base.ids import nuid
from millstream.client import Client, OrderedConsumer, OrderedMessage
from millstream.link.servers import Reconnect
from tests.kits.frame_proxy import Fate, ServerFrame
from tests.kits.patience import PATIENCE_S
from tests.kits.reference import ServerProcess

BEAT_S: Final = 0.2  # heartbeats, where a test waits for some
CALM_BEAT_S: Final = 2.0  # where none may be missed, however slow the server is

Connect = Callable[..., Awaitable[Client]]


KINDS: Final = ("link", "nats-py")  # of connections that an ordered consumer runs on
_admins: Final[weakref.WeakKeyDictionary[Client, Connection]] = weakref.WeakKeyDictionary()


async def connect_quickly(kind: str, server: int | list[str], **options: Any) -> Client:
    """A client that tries to reconnect all the time and does not complain about it.

    `reconnected` is called whenever it is back; `attempts` ends its tries.
    """
    urls = server if isinstance(server, list) else [f"nats://127.0.0.1:{server}"]
    reconnected: Callable[[], None] = options.pop("reconnected", lambda: None)
    attempts: int = options.pop("attempts", -1)

    async def ignore(error: Exception) -> None:
        pass  # lines are cut on purpose

    async def back() -> None:
        reconnected()

    admin = await nats.connect(
        urls,
        reconnect_time_wait=0.02,
        error_cb=ignore,
        connect_timeout=10,
        max_reconnect_attempts=-1,
        reconnected_cb=back if kind == "nats-py" else None,
        dont_randomize=True,
    )
    if kind == "nats-py":
        client = Client(admin, **options)
    else:
        reconnect = Reconnect(first_s=0.02, longest_s=0.05, attempts=attempts)
        client = await millstream.client.connect(urls, reconnect=reconnect, connect_timeout_s=10, **options)
        link = client.connection
        link.listen(lambda: reconnected() if link.is_up else None)
    _admins[client] = admin
    return client


async def close_quickly(client: Client) -> None:
    await client.close()
    admin = _admins.pop(client)
    if not admin.is_closed:
        # nats-py gives up closing, and leaves its tasks, if it has something to send on a line that was cut.
        admin._pending.clear()
        admin._pending_data_size = 0
        await admin.close()


class Lab:
    """One stream with subjects `<name>.>`, and a connection to look at it that no fault touches."""

    def __init__(self, server: ServerProcess, client: Client, **config: Any) -> None:
        self.server = server
        self.client = client
        self.stream = f"S{nuid()}"
        self.timeout_s = 10.0  # of a request
        self._config = config

    @property
    def js(self) -> JetStreamContext:
        return self.admin.jetstream(timeout=self.timeout_s)

    @property
    def admin(self) -> Connection:
        """A connection of nats-py to the same server."""
        return _admins[self.client]

    async def create(self, **config: Any) -> None:
        await self.js.add_stream(
            StreamConfig(name=self.stream, subjects=[f"{self.stream}.>"], **{**self._config, **config})
        )

    async def remove(self) -> None:
        with contextlib.suppress(NotFoundError):  # the test did it
            await self.js.delete_stream(self.stream)

    def subject(self, token: str = "a") -> str:
        return f"{self.stream}.{token}"

    async def publish(self, *numbers: int | range, token: str = "a", size: int = 0) -> None:
        """Store a message for each number, which is its body, filled up to `size`."""
        for number in itertools.chain(*(n if isinstance(n, range) else [n] for n in numbers)):
            await self.js.publish(self.subject(token), str(number).encode().ljust(size))

    async def consumers(self) -> list[str]:
        return [info.name for info in await self.js.consumers_info(self.stream)]

    async def no_consumers_left(self) -> None:
        async def gone() -> bool:
            return not await self.consumers()

        await eventually(gone, "the consumers of the stream did not go")


async def eventually(check: Callable[[], Awaitable[bool]], complaint: str) -> None:
    """Ask until it is so: for what happens on the other side and is told to nobody."""
    deadline = time.monotonic() + PATIENCE_S
    while not await check():
        assert time.monotonic() < deadline, complaint
        await asyncio.sleep(0.01)


async def read(consumer: OrderedConsumer, count: int) -> list[OrderedMessage]:
    async with asyncio.timeout(PATIENCE_S):
        return [await consumer.next() for _ in range(count)]


async def read_numbers(consumer: OrderedConsumer, count: int) -> list[int]:
    return [int(message.data) for message in await read(consumer, count)]


def nothing_more(consumer: OrderedConsumer) -> bool:
    """Return whether everything was read, by the last message and heartbeat."""
    return consumer.state.lag == 0


def is_message(frame: ServerFrame) -> bool:
    return frame.reply.startswith("$JS.ACK.")


def is_heartbeat(frame: ServerFrame) -> bool:
    return b"NATS/1.0 100 Idle Heartbeat" in frame.raw


def is_flow_control(frame: ServerFrame) -> bool:
    return b"NATS/1.0 100 FlowControl Request" in frame.raw


def nth(wanted: Callable[[ServerFrame], bool], number: int, fate: Fate) -> Callable[[ServerFrame], Fate]:
    """The `number`th frame that is `wanted` meets `fate`, all others pass."""
    count = itertools.count(1)

    def judge(frame: ServerFrame) -> Fate:
        return fate if wanted(frame) and next(count) == number else Fate.PASS

    return judge
