"""The two kinds of groups: where their configurations are, and the consumers of their members.

A member's consumer is pinned to one client.  A static group has a durable consumer on the stream itself.  An
elastic group has a work queue of its own, on which no two consumers may have the same partition; a consumer
there is removed when nobody has used it for its ack wait.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from millstream.client.errors import BadGroup
from millstream.client.groups.config import ElasticConfig, StaticConfig
from millstream.client.groups.pulls import PRIORITY_GROUP
from millstream.golang.json import MOST_VALUES_OF_STRANGERS
from millstream.jsapi.codec import JsonError, decode_strict
from millstream.jsapi.consumer_types import ConsumerConfig
from millstream.jsapi.enums import AckPolicy, PriorityPolicy

_SECOND: Final = 1_000_000_000
_LEAST_PIN_S: Final = 1.0
_MOST_ACK_PENDING: Final = 10_000
_OURS: Final = frozenset(
    {
        "durable_name", "name", "filter_subject", "filter_subjects", "deliver_subject", "deliver_group",
        "idle_heartbeat", "flow_control", "ack_policy", "ack_wait", "max_ack_pending", "inactive_threshold",
        "priority_groups", "priority_policy", "priority_timeout",
    }
)  # fmt: skip


class GroupKind:
    """Static or elastic."""

    def __init__(self, name: str, config: type[StaticConfig] | type[ElasticConfig]) -> None:
        self.name: Final = name
        self.bucket: Final = f"{name}-consumer-groups"
        self.config: Final = config
        self.elastic: Final = config is ElasticConfig

    def stream_of(self, stream: str, group: str) -> str:
        """Return the stream that has the members' consumers."""
        return f"{stream}-{group}" if self.elastic else stream

    def consumer_of(self, group: str, member: str) -> str:
        return member if self.elastic else f"{group}-{member}"


STATIC: Final = GroupKind("static", StaticConfig)
ELASTIC: Final = GroupKind("elastic", ElasticConfig)


class MemberOptions:
    """The options of a member; all programs that run the same member need the same ones."""

    def __init__(self, ack_wait_s: float, max_ack_pending: int, config: Mapping[str, Any] | None) -> None:
        if not 0.5 <= ack_wait_s <= 86_400:
            raise BadGroup(f"ack_wait_s is between half a second and a day, not {ack_wait_s:g}")
        if not 1 <= max_ack_pending <= _MOST_ACK_PENDING:
            raise BadGroup(f"max_ack_pending is between 1 and {_MOST_ACK_PENDING}, not {max_ack_pending}")
        fixed = sorted(_OURS.intersection(config or ()))
        if fixed:
            raise BadGroup(f"{fixed[0]} of a member's consumer is set by the group")
        try:
            self._template = decode_strict(
                msgspec.json.encode(dict(config or {})), ConsumerConfig, MOST_VALUES_OF_STRANGERS
            )
        except (JsonError, TypeError) as error:
            raise BadGroup(f"the configuration of a member's consumer cannot be read: {error}") from None
        self.ack_wait_s: Final = ack_wait_s
        self.pin_s: Final = max(ack_wait_s, _LEAST_PIN_S)
        self._max_ack_pending = max_ack_pending

    def consumer(self, kind: GroupKind, group: str, member: str, filters: list[str]) -> ConsumerConfig:
        """Return the configuration of the member's consumer."""
        name = kind.consumer_of(group, member)
        wait = round(self.ack_wait_s * _SECOND)
        return msgspec.structs.replace(
            self._template,
            name=name,
            durable_name="" if kind.elastic else name,
            filter_subjects=filters,
            ack_policy=AckPolicy.EXPLICIT,
            ack_wait=wait,
            max_ack_pending=self._max_ack_pending,
            inactive_threshold=wait if kind.elastic else 0,
            priority_groups=[PRIORITY_GROUP],
            priority_policy=PriorityPolicy.PINNED_CLIENT,
            priority_timeout=round(self.pin_s * _SECOND),
        )
