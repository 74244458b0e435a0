"""Partitioned consumer groups on any NATS server, compatible with the library pcgroups for Go.

Every message of a group belongs to a partition, and every partition to one member, which gets its messages in
order, one at a time.  `catalog` is the entrance; `docs/groups.md` has examples.
"""

from millstream.client.groups.blocking_groups import (
    BlockingElasticGroup,
    BlockingGroup,
    BlockingGroupMember,
    BlockingGroupMessage,
    BlockingGroups,
)
from millstream.client.groups.catalog import GroupListing, Groups
from millstream.client.groups.config import ElasticConfig, MemberMapping, PartitioningFilter, StaticConfig
from millstream.client.groups.group import (
    ConsumerGroup,
    ElasticGroup,
    MemberState,
    StaticGroup,
)
from millstream.client.groups.member import GroupMember
from millstream.client.groups.message import GroupMessage

__all__ = [
    "BlockingElasticGroup",
    "BlockingGroup",
    "BlockingGroupMember",
    "BlockingGroupMessage",
    "BlockingGroups",
    "ConsumerGroup",
    "ElasticConfig",
    "ElasticGroup",
    "GroupListing",
    "GroupMember",
    "GroupMessage",
    "Groups",
    "MemberMapping",
    "MemberState",
    "PartitioningFilter",
    "StaticConfig",
    "StaticGroup",
]
