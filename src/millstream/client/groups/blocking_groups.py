"""Consumer groups for programs without an event loop: `BlockingClient.groups`.

group = client.groups.elastic("ORDERS", "billing")
with group.consume("m1") as messages:
    for message in messages:
        …
        message.ack()
"""

from __future__ import annotations

from collections.abc import Coroutine, Iterable, Mapping
from types import TracebackType
from typing import Any, Final, Protocol, Self, TypeVar

from millstream.client.groups.catalog import GroupListing, Groups
from millstream.client.groups.config import ElasticConfig, StaticConfig
from millstream.client.groups.group import ElasticGroup, MemberState, StaticGroup
from millstream.client.groups.member import GroupMember
from millstream.client.groups.message import GroupMessage

T = TypeVar("T")


class Runner(Protocol):
    """The thread with the event loop."""

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Return the result of `work`."""


class BlockingGroupMessage:
    """A message; it has the attributes of `GroupMessage`, and blocking methods."""

    __slots__ = ("_message", "_runner")

    def __init__(self, message: GroupMessage, runner: Runner) -> None:
        self._message = message
        self._runner = runner

    def __getattr__(self, name: str) -> Any:
        return getattr(self._message, name)

    def __repr__(self) -> str:
        return repr(self._message)

    def ack(self, *, wait: bool = True) -> None:
        """Acknowledge the message, as `GroupMessage.ack` does."""
        self._runner.run(self._message.ack(wait=wait))

    def nak(self, delay_s: float = 0.0) -> None:
        """Ask for the message again, at once or after a time."""
        self._runner.run(self._message.nak(delay_s))

    def term(self, reason: str = "") -> None:
        """Give the message up: it is not delivered again."""
        self._runner.run(self._message.term(reason))

    def in_progress(self) -> None:
        """Ask for more time: `ack_wait_s` begins again."""
        self._runner.run(self._message.in_progress())


class BlockingGroupMember:
    """A member at work; use it with ``with``, then iterate in one thread."""

    def __init__(self, member: GroupMember, runner: Runner) -> None:
        self._member = member
        self._runner = runner

    def open(self) -> Self:
        """Join the group, as `GroupMember.open` does."""
        self._runner.run(self._member.open())
        return self

    def close(self) -> None:
        """Stop consuming; an iteration in another thread ends."""
        self._runner.run(self._member.close())

    def next(self, timeout_s: float | None = None) -> BlockingGroupMessage:
        """Return the next message; raises TimeoutError if none comes in time, ClientClosed after the end."""
        return BlockingGroupMessage(self._runner.run(self._member.next(timeout_s)), self._runner)

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> BlockingGroupMessage:
        async def fetch() -> GroupMessage | None:
            return await anext(self._member, None)

        message = self._runner.run(fetch())
        if message is None:
            raise StopIteration
        return BlockingGroupMessage(message, self._runner)

    def __enter__(self) -> Self:
        return self.open()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class BlockingGroup:
    """A group of either kind."""

    def __init__(self, group: StaticGroup | ElasticGroup, runner: Runner) -> None:
        self.stream: Final = group.stream
        self.name: Final = group.name
        self._group = group
        self._runner = runner

    def config(self) -> StaticConfig | ElasticConfig:
        """Return the stored configuration; raises GroupNotFound."""
        if isinstance(self._group, StaticGroup):
            return self._runner.run(self._group.config())
        return self._runner.run(self._group.config())

    def members(self) -> list[MemberState]:
        """Return the members by name, and what their consumers do."""
        return self._runner.run(self._group.members())

    def step_down(self, member: str) -> None:
        """Take the member from the program that runs it, so that another one that waits gets it."""
        self._runner.run(self._group.step_down(member))

    def delete(self) -> None:
        """Delete the group; members at work end."""
        self._runner.run(self._group.delete())

    def consume(self, member: str, /, **options: Any) -> BlockingGroupMember:
        """Return the messages of a member, for ``with``; options as for `ConsumerGroup.consume`."""

        async def make() -> GroupMember:
            return self._group.consume(member, **options)

        return BlockingGroupMember(self._runner.run(make()), self._runner)


class BlockingElasticGroup(BlockingGroup):
    """A group whose members can change."""

    _group: ElasticGroup

    def add(self, *members: str) -> list[str]:
        """Add members, and return all of them."""
        return self._runner.run(self._group.add(*members))

    def drop(self, *members: str) -> list[str]:
        """Remove members, and return those that stay."""
        return self._runner.run(self._group.drop(*members))

    def set_mappings(self, mappings: Mapping[str, Iterable[int]]) -> None:
        """Give each member its own partitions, in place of all members and mappings before."""
        self._runner.run(self._group.set_mappings(mappings))

    def clear_mappings(self) -> None:
        """Remove all mappings; the group has no members then."""
        self._runner.run(self._group.clear_mappings())


class BlockingGroups:
    """The consumer groups of an account; arguments as for `Groups`."""

    def __init__(self, groups: Groups, runner: Runner) -> None:
        self._groups = groups
        self._runner = runner

    def static(self, stream: str, name: str) -> BlockingGroup:
        """Return a group without asking whether it exists."""
        return BlockingGroup(self._groups.static(stream, name), self._runner)

    def elastic(self, stream: str, name: str) -> BlockingElasticGroup:
        """Return a group without asking whether it exists."""
        return BlockingElasticGroup(self._groups.elastic(stream, name), self._runner)

    def create_static(self, stream: str, name: str, partitions: int, **options: Any) -> BlockingGroup:
        """Create a static group, as `Groups.create_static` does."""
        made = self._runner.run(self._groups.create_static(stream, name, partitions, **options))
        return BlockingGroup(made, self._runner)

    def create_elastic(self, stream: str, name: str, partitions: int, **options: Any) -> BlockingElasticGroup:
        """Create an elastic group, as `Groups.create_elastic` does."""
        made = self._runner.run(self._groups.create_elastic(stream, name, partitions, **options))
        return BlockingElasticGroup(made, self._runner)

    def list(self, stream: str = "") -> list[GroupListing]:
        """Return the groups of both kinds, of all streams or of one."""
        return self._runner.run(self._groups.list(stream))
