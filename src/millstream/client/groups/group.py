"""Consumer groups: making, editing and deleting them, and consuming as one of their members.

    group = await client.groups.create_elastic("ORDERS", "billing", 8, filters=["orders.*"])
    await group.add("m1", "m2")
    async with group.consume("m1") as messages:
        async for message in messages:
            …
            await message.ack()

A group is compatible with the library pcgroups for Go: programs of both may share one.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from millstream.client.api import Api
from millstream.client.errors import (
    BadGroup,
    GroupChanged,
    GroupExists,
    NotAMember,
    RequestRefused,
    StreamNotFound,
)
from millstream.client.groups.config import (
    ElasticConfig,
    GroupConfig,
    StaticConfig,
    check_config,
    check_group,
    check_member,
    mappings_of,
    member_names,
    partitions_of,
    read_config,
    transforms,
)
from millstream.client.groups.kinds import ELASTIC, STATIC, GroupKind, MemberOptions
from millstream.client.groups.member import GroupMember
from millstream.client.groups.pulls import PRIORITY_GROUP
from millstream.client.groups.store import ConfigStore
from millstream.jsapi.codec import encode
from millstream.jsapi.consumer_types import ConsumerInfo
from millstream.jsapi.enums import DiscardPolicy, RetentionPolicy
from millstream.jsapi.errors import Err
from millstream.jsapi.requests import ConsumerUnpinRequest
from millstream.jsapi.stream_types import StreamConfig, StreamInfo, StreamSource
from millstream.link.verbs import CONSUMER_INFO, CONSUMER_UNPIN, STREAM_CREATE, STREAM_DELETE

DEFAULT_ACK_WAIT_S: Final = 5.0
_ATTEMPTS: Final = 20  # of an edit that others interrupt


@dataclass(frozen=True, slots=True)
class MemberState:
    """A member of a group as it is now."""

    name: str
    partitions: list[int]
    is_active: bool  # a program asks for its messages
    pinned_id: str  # of the program that gets them
    unsettled: int  # messages in the hands of that program
    pending: int  # messages to come


class ConsumerGroup:
    """A group of either kind; `Groups` makes it, without asking whether it exists."""

    kind: GroupKind

    def __init__(self, api: Api, stream: str, name: str) -> None:
        check_group(stream, name)
        self.stream: Final = stream
        self.name: Final = name
        self._api = api
        self._store = ConfigStore(api, self.kind.bucket)
        self._members_stream: Final = self.kind.stream_of(stream, name)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name} of {self.stream}>"

    def consume(
        self,
        member: str,
        /,
        *,
        ack_wait_s: float = DEFAULT_ACK_WAIT_S,
        max_ack_pending: int = 1,
        config: Mapping[str, Any] | None = None,
    ) -> GroupMember:
        """Return the messages of a member, for ``async with``.

        `max_ack_pending` is how many messages the member may have in hand; with more than one, a message that
        is delivered again comes after later ones of its key.  `ack_wait_s` is the time to settle a message,
        and how soon another program takes over from one that died.  `config` has further fields of the
        consumer's configuration, by their names on the wire.
        """
        check_member(member)
        options = MemberOptions(ack_wait_s, max_ack_pending, config)
        return GroupMember(self._api, self._store, self.kind, self.stream, self.name, member, options)

    async def members(self) -> list[MemberState]:
        """Return the members by name, and what their consumers do."""
        entry = await self._store.get(self.stream, self.name)
        config = read_config(entry.text, self.kind.config)
        return [
            _state(name, partitions_of(config, name), await self._info(name)) for name in member_names(config)
        ]

    async def step_down(self, member: str) -> None:
        """Take the member from the program that runs it, so that another one that waits gets it."""
        check_member(member)
        consumer = self.kind.consumer_of(self.name, member)
        body = encode(ConsumerUnpinRequest(group=PRIORITY_GROUP))
        try:
            await self._api.ask(CONSUMER_UNPIN, self._members_stream, consumer, body=body)
        except RequestRefused as error:
            if error.err is Err.CONSUMER_NOT_FOUND:
                raise NotAMember(f"nobody runs the member {member} of the group {self.name}") from None
            raise

    async def _info(self, member: str) -> ConsumerInfo | None:
        consumer = self.kind.consumer_of(self.name, member)
        try:
            return (await self._api.ask(CONSUMER_INFO, self._members_stream, consumer)).info
        except RequestRefused as error:
            if error.err is Err.CONSUMER_NOT_FOUND:
                return None
            raise

    async def _put_new(self, config: GroupConfig, origin: StreamInfo) -> bool:
        """Store the configuration of a new group; return False if it has it already, or raise GroupExists."""
        assert origin.config is not None
        await self._store.create(origin.config.num_replicas)
        last = await self._store.last(self.stream, self.name)
        if last is None or last.deleted:
            with contextlib.suppress(GroupChanged):
                expected = last.revision if last is not None else 0
                await self._store.put(self.stream, self.name, encode(config), expected)
                return True
            last = await self._store.get(self.stream, self.name)  # another program was faster
        found = read_config(last.text, self.kind.config)
        if _comparable(found) != _comparable(config):
            raise GroupExists(
                f"stream {self.stream} has a group {self.name} with another configuration; delete it first"
            )
        return False


class StaticGroup(ConsumerGroup):
    """A group on a stream whose subjects begin with a partition; its members never change."""

    kind = STATIC

    async def config(self) -> StaticConfig:
        """Return the stored configuration; raises GroupNotFound."""
        return read_config((await self._store.get(self.stream, self.name)).text, StaticConfig)

    async def create(self, config: StaticConfig) -> None:
        """Create the group; `Groups.create_static` says what is raised."""
        check_config(config)
        if not member_names(config):
            raise BadGroup("a static group needs its members when it is made")
        for name in member_names(config):
            check_member(name)
        await self._put_new(config, await self._api.stream_info(self.stream))

    async def delete(self) -> None:
        """Delete the group and the consumers of its members; members at work end."""
        entry = await self._store.get(self.stream, self.name)
        names: list[str] = []
        with contextlib.suppress(BadGroup):  # nobody can join a group like that
            names = member_names(read_config(entry.text, StaticConfig))
        await self._store.delete(self.stream, self.name)
        for name in names:
            info = await self._info(name)
            if (
                info is not None
                and info.config is not None
                and info.config.priority_groups == [PRIORITY_GROUP]
            ):
                with contextlib.suppress(RequestRefused):  # its member was faster
                    await self._api.delete_consumer(self.stream, info.name)


class ElasticGroup(ConsumerGroup):
    """A group on any stream; its members can change at any time."""

    kind = ELASTIC

    async def config(self) -> ElasticConfig:
        """Return the stored configuration; raises GroupNotFound."""
        return read_config((await self._store.get(self.stream, self.name)).text, ElasticConfig)

    async def create(self, config: ElasticConfig) -> None:
        """Create the group and its stream; `Groups.create_elastic` says what is raised."""
        check_config(config)
        origin = await self._api.stream_info(self.stream)
        is_new = await self._put_new(config, origin)
        assert origin.config is not None
        stream = StreamConfig(
            name=self._members_stream,
            retention=RetentionPolicy.WORKQUEUE,
            discard=DiscardPolicy.NEW,
            storage=origin.config.storage,
            num_replicas=origin.config.num_replicas,
            max_msgs=config.max_buffered_msg,
            max_bytes=config.max_buffered_bytes,
            sources=[StreamSource(name=self.stream, subject_transforms=transforms(config))],
            allow_direct=True,
        )
        try:
            await self._api.ask(STREAM_CREATE, self._members_stream, body=encode(stream))
        except RequestRefused:
            if is_new:
                await self._store.delete(self.stream, self.name)
            raise

    async def delete(self) -> None:
        """Delete the group and its stream; members at work end.

        Messages that were not consumed stay in the stream that they come from.
        """
        with contextlib.suppress(StreamNotFound):
            await self._store.get(self.stream, self.name)
            await self._store.delete(self.stream, self.name)
            await self._api.ask(STREAM_DELETE, self._members_stream)

    async def add(self, *members: str) -> list[str]:
        """Add members, and return all of them; raises BadGroup for a group with mappings."""
        for name in members:
            check_member(name)

        def edit(config: ElasticConfig) -> None:
            self._must_share(config)
            config.members = sorted({*config.members, *members})

        return (await self._edit(edit)).members

    async def drop(self, *members: str) -> list[str]:
        """Remove members, and return those that stay; raises NotAMember for a name that is none."""

        def edit(config: ElasticConfig) -> None:
            self._must_share(config)
            for name in members:
                if name not in config.members:
                    raise NotAMember(f"{name} is no member of the group {self.name} of {self.stream}")
            config.members = [name for name in config.members if name not in members]

        return (await self._edit(edit)).members

    async def set_mappings(self, mappings: Mapping[str, Iterable[int]]) -> None:
        """Give each member its own partitions, in place of all members and mappings before."""
        for name in mappings:
            check_member(name)

        def edit(config: ElasticConfig) -> None:
            config.members = []
            config.member_mappings = mappings_of(mappings)
            if not config.member_mappings:
                raise BadGroup("mappings need at least one member")

        await self._edit(edit)

    async def clear_mappings(self) -> None:
        """Remove all mappings; the group has no members then."""

        def edit(config: ElasticConfig) -> None:
            config.member_mappings = []

        await self._edit(edit)

    def _must_share(self, config: ElasticConfig) -> None:
        if config.member_mappings:
            raise BadGroup(f"the members of the group {self.name} have mappings; change these instead")

    async def _edit(self, edit: Any) -> ElasticConfig:
        """Change the stored configuration by `edit`; of edits at the same time, none is lost."""
        for _ in range(_ATTEMPTS):
            entry = await self._store.get(self.stream, self.name)
            config = read_config(entry.text, ElasticConfig)
            edit(config)
            check_config(config)
            text = encode(config)
            with contextlib.suppress(GroupChanged):
                if text != entry.text:
                    await self._store.put(self.stream, self.name, text, entry.revision)
                return config
        raise GroupChanged(f"other programs change the group {self.name} of {self.stream} all the time")


def _comparable(config: GroupConfig) -> object:
    """Return what two configurations of the same group have in common."""
    if isinstance(config, StaticConfig):
        mappings = [(each.member, sorted(each.partitions or ())) for each in config.member_mappings]
        return config.max_members, config.filters, sorted(config.members), sorted(mappings)
    filters = [
        (each.filter, list(each.partitioning_wildcards or ())) for each in config.partitioning_filters or ()
    ]
    return config.max_members, filters, config.max_buffered_msg, config.max_buffered_bytes


def _state(name: str, partitions: list[int], info: ConsumerInfo | None) -> MemberState:
    if info is None:
        return MemberState(name, partitions, False, "", 0, 0)
    pinned = next((each.pinned_client_id for each in info.priority_groups), "")
    return MemberState(name, partitions, info.num_waiting > 0, pinned, info.num_ack_pending, info.num_pending)
