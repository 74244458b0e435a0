"""The groups of an account: `Client.groups` makes, finds and lists them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from millstream.client.api import Api
from millstream.client.errors import BadGroup, GroupError
from millstream.client.groups.config import (
    ElasticConfig,
    GroupConfig,
    PartitioningFilter,
    StaticConfig,
    check_group,
    mappings_of,
    read_config,
)
from millstream.client.groups.group import ElasticGroup, StaticGroup
from millstream.client.groups.kinds import ELASTIC, STATIC
from millstream.client.groups.store import ConfigStore


class GroupListing(NamedTuple):
    """A group in a list; `problem` says why its configuration cannot be used."""

    kind: str
    stream: str
    name: str
    config: GroupConfig | None
    problem: str = ""


class Groups:
    """The consumer groups of an account: `Client.groups`."""

    def __init__(self, api: Api) -> None:
        self._api = api

    def static(self, stream: str, name: str) -> StaticGroup:
        """Return a group without asking whether it exists."""
        return StaticGroup(self._api, stream, name)

    def elastic(self, stream: str, name: str) -> ElasticGroup:
        """Return a group without asking whether it exists."""
        return ElasticGroup(self._api, stream, name)

    async def create_static(
        self,
        stream: str,
        name: str,
        partitions: int,
        *,
        members: Sequence[str] = (),
        mappings: Mapping[str, Iterable[int]] | None = None,
        filters: Sequence[str] = (),
    ) -> StaticGroup:
        """Create a static group with either `members` that share all partitions, or `mappings`.

        `filters` are subjects without the partition's token.  A group with the same configuration is
        returned; one with another raises GroupExists.  Raises BadGroup and StreamNotFound.
        """
        config = StaticConfig(partitions, list(filters), list(members), mappings_of(mappings or {}))
        group = self.static(stream, name)
        await group.create(config)
        return group

    async def create_elastic(
        self,
        stream: str,
        name: str,
        partitions: int,
        *,
        filters: Sequence[str | tuple[str, Sequence[int]]] = (),
        max_buffered_messages: int = 0,
        max_buffered_bytes: int = 0,
    ) -> ElasticGroup:
        """Create an elastic group; it has no members yet.

        A filter is a subject, or a pair of a subject and the numbers of its wildcards that are the key; by
        default, the whole subject is.  `max_buffered_messages` and `max_buffered_bytes` limit the stream of
        the group: at a limit, it waits until members have consumed messages.  A group with the same
        configuration is returned; one with another raises GroupExists.  Raises BadGroup and StreamNotFound.
        """
        if max_buffered_messages < 0 or max_buffered_bytes < 0:
            raise BadGroup("a limit of buffered messages or bytes is not negative; 0 is none")
        config = ElasticConfig(
            partitions,
            [_filter(each) for each in filters] or None,
            max_buffered_messages,
            max_buffered_bytes,
        )
        group = self.elastic(stream, name)
        await group.create(config)
        return group

    async def list(self, stream: str = "") -> list[GroupListing]:
        """Return the groups of both kinds, of all streams or of one."""
        if stream:
            check_group(stream, "any")
        found: list[GroupListing] = []
        for kind in (STATIC, ELASTIC):
            for entry in await ConfigStore(self._api, kind.bucket).groups(stream):
                config, problem = None, ""
                try:
                    config = read_config(entry.text, kind.config)
                except GroupError as error:
                    problem = str(error)
                found.append(GroupListing(kind.name, entry.stream, entry.group, config, problem))
        return sorted(found, key=lambda each: (each.stream, each.name, each.kind))


def _filter(given: str | tuple[str, Sequence[int]]) -> PartitioningFilter:
    subject, wildcards = (given, ()) if isinstance(given, str) else given
    return PartitioningFilter(subject, list(wildcards))
