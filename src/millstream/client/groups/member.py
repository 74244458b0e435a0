"""A member of a group at work: messages of its partitions, each until it is settled.

    async with group.consume("m1") as messages:
        async for message in messages:
            …
            await message.ack()

Several programs may run the same member: the server pins the member's consumer to one of them, and the
others wait.  The configuration of the group is watched.  When the partitions of a member of an elastic group
change, the member stops receiving, waits until messages in hand are settled, and only then removes its
consumer; the others cannot have its partitions before.  So a key is in one member's hands at a time, as long
as messages are settled within `ack_wait_s`.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections import deque
from types import TracebackType
from typing import Final, Self

from millstream.client.api import Api
from millstream.client.core import Arrival
from millstream.client.errors import (
    ClientClosed,
    ClientError,
    GroupChanged,
    NotAMember,
    RequestRefused,
    ServerUnavailable,
    StreamNotFound,
)
from millstream.client.groups.config import GroupConfig, filters_of, read_config
from millstream.client.groups.kinds import GroupKind, MemberOptions
from millstream.client.groups.message import GroupMessage
from millstream.client.groups.pulls import PRIORITY_GROUP, Pulls
from millstream.client.groups.store import ConfigStore, StoredConfig
from millstream.golang.time import ZERO_TIME
from millstream.jsapi.codec import encode
from millstream.jsapi.errors import Err
from millstream.jsapi.requests import ConsumerUnpinRequest
from millstream.link.verbs import CONSUMER_INFO, CONSUMER_UNPIN
from millstream.protocol.ack_subject import AckSubject

_RETRY_S: Final = 0.5
_STANDBY_S: Final = (0.4, 0.5)  # the program that has the pin goes first
_NAK: Final = b"-NAK"


class GroupMember:
    """The messages of a member; use it with ``async with``, then iterate.

    The iteration ends when the group is deleted or the member is closed.  It raises GroupChanged if the
    configuration changed in a way that ends the members: any change of a static group, and any of an elastic
    group except its members.
    """

    def __init__(
        self, api: Api, store: ConfigStore, kind: GroupKind, stream: str, group: str, member: str,
        options: MemberOptions,
    ) -> None:  # fmt: skip
        self.name: Final = member
        self._api = api
        self._store = store
        self._kind = kind
        self._origin = stream
        self._group = group
        self._options = options
        self._stream = kind.stream_of(stream, group)
        self._consumer = kind.consumer_of(group, member)
        self._config: GroupConfig = kind.config()
        self._filters: list[str] = []  # of the consumer that delivers to us; empty without one
        self._pulls: Pulls | None = None
        self._created = ZERO_TIME  # when the consumer was
        self._lost = False  # the consumer no longer delivers
        self._refused_since: float | None = None  # since when the consumer has another configuration
        self._stopped = False  # the group is deleted, or changed in a way that ends its members
        self._obsolete = False  # the consumer goes with it
        self._failure: ClientError | None = None
        self._ended = False
        self._buffer: deque[GroupMessage] = deque()
        self._in_hand: set[GroupMessage] = set()
        self._idle = asyncio.Event()
        self._readable = asyncio.Event()
        self._wake = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []

    # -- its life ---------------------------------------------------------------------------------------

    async def open(self) -> Self:
        """Join the group; raises GroupNotFound, StreamNotFound, and NotAMember for a static group."""
        await self._api.stream_info(self._stream)
        entry = await self._store.get(self._origin, self._group)
        self._config = read_config(entry.text, self._kind.config)
        if not self._kind.elastic:
            wanted = filters_of(self._config, self.name)
            if not wanted:
                raise NotAMember(f"{self.name} is no member of the group {self._group} of {self._origin}")
            await self._create(wanted)
        loop = asyncio.get_running_loop()
        self._tasks = [loop.create_task(self._follow(entry.revision)), loop.create_task(self._serve())]
        return self

    async def close(self) -> None:
        """Stop consuming; messages that were not handed out go to another program or member at once."""
        tasks, self._tasks = self._tasks, []
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        returned = list(self._buffer)
        pulls = await self._stop_pulls()
        for message in returned:
            self._api.carrier.publish(message.reply, _NAK)
        if pulls is not None and self._api.carrier.is_up:
            with contextlib.suppress(ClientError):
                if await self._is_pinned(pulls):
                    body = encode(ConsumerUnpinRequest(group=PRIORITY_GROUP))
                    await self._api.ask(CONSUMER_UNPIN, self._stream, self._consumer, body=body)
        self._end()

    async def __aenter__(self) -> Self:
        return await self.open()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    @property
    def is_receiving(self) -> bool:
        """Return whether the member has partitions and its consumer is there."""
        return self._pulls is not None

    @property
    def is_pinned(self) -> bool:
        """Return whether this program has received messages, rather than another one that runs the member."""
        return self._pulls is not None and bool(self._pulls.pin_id)

    # -- messages ---------------------------------------------------------------------------------------

    async def next(self, timeout_s: float | None = None) -> GroupMessage:
        """Return the next message; raises TimeoutError if none comes in time, ClientClosed after the end."""
        async with asyncio.timeout(timeout_s):
            message = await self._next()
        if message is None:
            raise ClientClosed(f"the member {self.name} of the group {self._group} has ended")
        return message

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> GroupMessage:
        message = await self._next()
        if message is None:
            raise StopAsyncIteration
        return message

    async def _next(self) -> GroupMessage | None:
        """Return the next message, or None at the end."""
        while True:
            oldest = asyncio.get_running_loop().time() - self._options.ack_wait_s
            self._in_hand = {each for each in self._in_hand if each.arrived_s > oldest}
            while self._buffer:
                message = self._buffer.popleft()
                if message.arrived_s > oldest:  # or it is delivered again
                    self._in_hand.add(message)
                    return message
            if self._failure is not None:
                raise self._failure
            if self._ended:
                return None
            self._readable.clear()
            await self._readable.wait()

    def _received(self, arrival: Arrival, position: AckSubject) -> None:
        now = asyncio.get_running_loop().time()
        self._buffer.append(GroupMessage(self._api, arrival, position, now, self._settled))
        self._readable.set()

    def _settled(self, message: GroupMessage) -> None:
        self._in_hand.discard(message)
        if not self._in_hand:
            self._idle.set()

    # -- the configuration ------------------------------------------------------------------------------

    async def _follow(self, revision: int) -> None:
        """Take over changes of the configuration, until one of them ends the group's members."""
        try:
            async with contextlib.aclosing(
                self._store.changes(self._origin, self._group, revision)
            ) as changes:
                async for entry in changes:
                    self._obsolete = not self._kind.elastic
                    if entry.deleted:
                        break
                    self._config = self._checked(entry)
                    self._obsolete = False
                    self._wake.set()
        except ClientError as error:
            self._failure = error
        self._stopped = True
        self._wake.set()

    def _checked(self, entry: StoredConfig) -> GroupConfig:
        config = read_config(entry.text, self._kind.config)
        if not self._kind.elastic and config != self._config:
            raise GroupChanged(f"the configuration of the static group {self._group} was changed")
        if _without_members(config) != _without_members(self._config):
            raise GroupChanged(f"more than the members of the group {self._group} was changed")
        return config

    # -- the consumer -----------------------------------------------------------------------------------

    async def _serve(self) -> None:
        """Have the consumer that the configuration asks for, until the group ends."""
        try:
            await self._keep_consumer()
        except ClientError as error:
            self._failure = self._failure or error
        await self._stop_pulls()
        if self._obsolete:
            await self._remove_consumer()
        self._end()

    async def _keep_consumer(self) -> None:
        while not self._stopped:
            self._wake.clear()
            wanted = filters_of(self._config, self.name)
            if self._lost or wanted != self._filters:
                await self._join(wanted)
            missing = wanted and self._pulls is None
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_RETRY_S if missing else None):
                    await self._wake.wait()

    async def _join(self, wanted: list[str]) -> None:
        """Leave the consumer that was ours, and create the one with these filters if there are any."""
        moved = self._filters and wanted != self._filters
        pulls = await self._stop_pulls()
        if moved:
            await self._until_settled()
            if pulls is not None and await self._is_pinned(pulls):
                await self._remove_consumer()
            else:
                await asyncio.sleep(random.uniform(*_STANDBY_S))
        self._filters = []
        self._lost = False
        if wanted and await self._try_to_create(wanted):
            pulls = Pulls(
                self._api,
                self._stream,
                self._consumer,
                self._options.pin_s / 2,
                deliver=self._received,
                lost=self._consumer_lost,
            )
            self._pulls = pulls
            self._filters = wanted
            await pulls.start()

    async def _try_to_create(self, filters: list[str]) -> bool:
        """Create the consumer; return False if that may work later."""
        now = asyncio.get_running_loop().time()
        try:
            await self._create(filters)
        except ServerUnavailable:
            return False
        except StreamNotFound:
            last = await self._store.last(self._origin, self._group)
            if last is None or not last.deleted:
                raise
            self._stopped = True
            self._wake.set()
            return False
        except RequestRefused as error:
            if error.err is Err.WORKQUEUE_CONSUMER_NOT_UNIQUE:  # another member has not left yet
                return False
            if error.err is not Err.CONSUMER_ALREADY_EXISTS or not self._kind.elastic:
                if error.may_pass:
                    return False
                raise
            # Another program that runs this member has not replaced it yet, or is gone.
            if self._refused_since is None:
                self._refused_since = now
            if now - self._refused_since > self._options.ack_wait_s:
                await self._remove_consumer()
            return False
        self._refused_since = None
        return True

    async def _create(self, filters: list[str]) -> None:
        config = self._options.consumer(self._kind, self._group, self.name, filters)
        info = await self._api.create_consumer(self._stream, config)
        if info.created != self._created:
            self._created = info.created
            self._lose_messages()

    async def _remove_consumer(self) -> None:
        with contextlib.suppress(RequestRefused, ServerUnavailable):  # gone, or unused from now on
            await self._api.delete_consumer(self._stream, self._consumer)

    async def _is_pinned(self, pulls: Pulls) -> bool:
        """Return whether the consumer is pinned to us."""
        if not pulls.pin_id:
            return False
        try:
            answer = await self._api.ask(CONSUMER_INFO, self._stream, self._consumer)
        except (RequestRefused, ServerUnavailable):
            return False
        groups = answer.info.priority_groups if answer.info is not None else []
        return any(each.pinned_client_id == pulls.pin_id for each in groups)

    def _consumer_lost(self, is_gone: bool) -> None:
        if is_gone:
            self._lose_messages()
        self._lost = True
        self._wake.set()

    def _lose_messages(self) -> None:
        """Tell the messages in hand that their consumer is gone."""
        for message in self._in_hand:
            message.lose()
        self._in_hand.clear()
        self._idle.set()

    async def _stop_pulls(self) -> Pulls | None:
        """Stop receiving, and drop what was not handed out: it is delivered again."""
        pulls, self._pulls = self._pulls, None
        if pulls is not None:
            await pulls.stop()
        self._buffer.clear()
        return pulls

    async def _until_settled(self) -> None:
        """Wait until the program has settled the messages in hand, or the server gives them to others."""
        while self._in_hand:
            self._idle.clear()
            deadline = max(each.arrived_s for each in self._in_hand) + self._options.ack_wait_s
            if deadline <= asyncio.get_running_loop().time():
                return
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout_at(deadline):
                    await self._idle.wait()

    # -- the end ----------------------------------------------------------------------------------------

    def _end(self) -> None:
        self._ended = True
        self._readable.set()


def _without_members(config: GroupConfig) -> dict[str, object]:
    names = [name for name in config.__struct_fields__ if name not in ("members", "member_mappings")]
    return {name: getattr(config, name) for name in names}
