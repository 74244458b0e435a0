"""The subscriptions that are open on one link, and what concerns them: acks, and consumers that were deleted.

An acknowledgement may come to any gateway.  It is told to all of them, as httpmq does it, on
``ack-rx.<stream>.<consumer>``, so that the one with the subscription knows that there is room for more.
Ours say in it that JetStream knows already; from httpmq's own instances it is the request to acknowledge.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any, Final

import msgspec
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription
from nats.errors import Error as NatsError

from millstream.gateway.errors import GatewayError
from millstream.gateway.link import Link

if TYPE_CHECKING:
    from millstream.gateway.v1.session import Session

_ACKS: Final = "ack-rx."
_CONSUMER_DELETED: Final = "$JS.EVENT.ADVISORY.CONSUMER.DELETED."
_STREAM_DELETED: Final = "$JS.EVENT.ADVISORY.STREAM.DELETED."

Key = tuple[str, str]  # stream and consumer


class Board:
    """Of one link; listens to NATS only while there are sessions."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._sessions: dict[Key, set[Session]] = {}
        self._subscriptions: list[Subscription] = []
        self._generation = -1
        self._lock = asyncio.Lock()
        self._tasks: set[asyncio.Task[None]] = set()

    def __len__(self) -> int:
        return sum(len(sessions) for sessions in self._sessions.values())

    def at(self, key: Key) -> set[Session]:
        return self._sessions.get(key, set())

    async def add(self, session: Session) -> None:
        if not self._sessions:
            self._link.listen(self._link_changed)
        self._sessions.setdefault(session.key, set()).add(session)
        await self._listen()

    async def remove(self, session: Session) -> None:
        sessions = self._sessions.get(session.key)
        if sessions is None or session not in sessions:
            return
        sessions.discard(session)
        if not sessions:
            del self._sessions[session.key]
        if not self._sessions:
            self._link.unlisten(self._link_changed)
            async with self._lock:
                if self._sessions:
                    return
                old, self._subscriptions, self._generation = self._subscriptions, [], -1
                for subscription in old:
                    with contextlib.suppress(NatsError, OSError):
                        await subscription.unsubscribe()

    async def close(self) -> None:
        """The link is over, and with it what was subscribed; sessions are told by the link itself."""
        self._link.unlisten(self._link_changed)

    async def announce(self, key: Key, stream_seq: int, consumer_seq: int) -> None:
        """Tell every gateway that a message was acknowledged; it is a courtesy, and may be lost."""
        self.acked(key, stream_seq)
        told = {
            "stream": key[0],
            "consumer": key[1],
            "seq_num": {"stream": stream_seq, "consumer": consumer_seq},
            "acked": True,
        }
        with contextlib.suppress(NatsError, OSError, GatewayError):
            await self._link.nats.publish(f"{_ACKS}{key[0]}.{key[1]}", msgspec.json.encode(told))

    def acked(self, key: Key, stream_seq: int) -> bool:
        """Free the message's place, wherever it is; whether some session had it."""
        found = [session.acked(stream_seq) for session in self.at(key)]  # each is told
        return any(found)

    def _link_changed(self) -> None:
        if self._link.is_up and self._link.generation != self._generation:
            task = asyncio.get_running_loop().create_task(self._listen())
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _listen(self) -> None:
        async with self._lock:
            if self._generation == self._link.generation or not self._link.is_up or not self._sessions:
                return
            generation = self._link.generation
            try:
                nats = self._link.nats
                self._subscriptions = [
                    await nats.subscribe(_ACKS + "*.*", cb=self._take_ack),
                    await nats.subscribe(_CONSUMER_DELETED + "*.*", cb=self._take_consumer_deleted),
                    await nats.subscribe(_STREAM_DELETED + "*", cb=self._take_stream_deleted),
                ]
                self._generation = generation
            except (NatsError, OSError, GatewayError):
                pass  # the link is down again, and will tell

    async def _take_ack(self, message: Msg) -> None:
        with contextlib.suppress(msgspec.DecodeError, KeyError, TypeError, ValueError):
            told: Any = msgspec.json.decode(message.data)
            key = (str(told["stream"]), str(told["consumer"]))
            stream_seq = int(told["seq_num"]["stream"])
            is_known = told.get("acked") is True
            for session in list(self.at(key)):
                if is_known:
                    session.acked(stream_seq)
                else:
                    await session.acknowledge(stream_seq)

    async def _take_consumer_deleted(self, message: Msg) -> None:
        stream, _, consumer = message.subject[len(_CONSUMER_DELETED) :].partition(".")
        for session in list(self.at((stream, consumer))):
            session.fail("the consumer was deleted")

    async def _take_stream_deleted(self, message: Msg) -> None:
        stream = message.subject[len(_STREAM_DELETED) :]
        for key, sessions in list(self._sessions.items()):
            if key[0] == stream:
                for session in list(sessions):
                    session.fail("the stream was deleted")
