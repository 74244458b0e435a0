"""The configuration of an ordered consumer: the fields that a user may set, and those that are fixed.

Some fields must be absent and some may only have one value, so it matters whether a field was *provided*.
In a mapping, a field is provided if it is present and neither None, zero nor empty, which mean the same as
absence on the wire.  In a `ConsumerConfig`, a field that is zero or empty is absent.

    StartAt.FIRST, StartAt.LAST, StartAt.NEW, StartAt.LAST_PER_SUBJECT
    StartAt.by_sequence(1000)
    StartAt.by_time(datetime(2026, 1, 1, tzinfo=UTC))

The server makes the other checks (overlapping filters, heartbeats that are too short).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, ClassVar, Final, Self

import msgspec

from millstream.client.errors import Check, OrderedConfigError
from millstream.golang.json import MOST_VALUES
from millstream.golang.time import Time, format_time
from millstream.jsapi.codec import JsonError, decode_strict
from millstream.jsapi.consumer_types import ConsumerConfig
from millstream.jsapi.enums import AckPolicy, DeliverPolicy, ReplayPolicy
from millstream.subjects.tokens import valid_subject

ALL_SUBJECTS: Final = ">"
DEFAULT_HEARTBEAT_S: Final = 5.0
ACK_WAIT_NS: Final = 22 * 3600 * 1_000_000_000  # nothing is acknowledged, so no ack may time out
_SECOND: Final = 1_000_000_000

# Fields that must not be provided at all.
_ABSENT: Final = {
    "durable_name": Check.DURABLE_NAME,
    "deliver_subject": Check.DELIVER_SUBJECT,
    "num_replicas": Check.NUM_REPLICAS,
    "deliver_group": Check.DELIVER_GROUP,
    "name": Check.BIND,
    "direct": Check.DIRECT,
    "sourcing": Check.DIRECT,
    "max_waiting": Check.PULL,
    "max_batch": Check.PULL,
    "max_expires": Check.PULL,
    "max_bytes": Check.PULL,
    "priority_groups": Check.PULL,
    "priority_policy": Check.PULL,
    "priority_timeout": Check.PULL,
}

# Fields that may be provided with this value only.
_FIXED: Final[dict[str, tuple[object, Check]]] = {
    "ack_policy": (AckPolicy.NONE, Check.ACK_POLICY),
    "max_deliver": (1, Check.MAX_DELIVER),
    "flow_control": (True, Check.FLOW_CONTROL),
    "mem_storage": (True, Check.MEM_STORAGE),
}

_START_FIELDS: Final = ("deliver_policy", "opt_start_seq", "opt_start_time")
_FILTER_FIELDS: Final = ("filter_subject", "filter_subjects")

UserConfig = Mapping[str, Any] | ConsumerConfig

_MICROSECOND: Final = 1_000  # in nanoseconds
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class StartAt:
    """The start of a reading; use the constants or the two methods."""

    policy: DeliverPolicy
    sequence: int = 0
    time: Time | None = None

    FIRST: ClassVar["StartAt"]  # the oldest message that the stream has
    LAST: ClassVar["StartAt"]  # the newest one
    NEW: ClassVar["StartAt"]  # messages that come after the reading was opened
    LAST_PER_SUBJECT: ClassVar["StartAt"]  # the newest one of each subject, then new messages

    @classmethod
    def by_sequence(cls, sequence: int) -> Self:
        """Start at this stream sequence, or at the next message that exists."""
        if sequence < 1:
            raise ValueError(f"sequences start at 1, not at {sequence}")
        return cls(DeliverPolicy.BY_START_SEQUENCE, sequence=sequence)

    @classmethod
    def by_time(cls, when: datetime) -> Self:
        """Start at the first message stored at `when` or later; `when` must have a time zone."""
        if when.tzinfo is None:
            raise ValueError(f"{when} does not say in which time zone")
        since = when - _EPOCH
        microseconds = (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds
        return cls(DeliverPolicy.BY_START_TIME, time=Time(microseconds * _MICROSECOND))


StartAt.FIRST = StartAt(DeliverPolicy.ALL)
StartAt.LAST = StartAt(DeliverPolicy.LAST)
StartAt.NEW = StartAt(DeliverPolicy.NEW)
StartAt.LAST_PER_SUBJECT = StartAt(DeliverPolicy.LAST_PER_SUBJECT)


def ordered_config(
    config: UserConfig | None = None,
    *,
    subjects: str | Sequence[str] = (ALL_SUBJECTS,),
    start: StartAt = StartAt.FIRST,
    heartbeat_s: float = DEFAULT_HEARTBEAT_S,
    headers_only: bool = False,
    replay: ReplayPolicy = ReplayPolicy.INSTANT,
) -> ConsumerConfig:
    """Return the configuration without name and deliver subject; raises OrderedConfigError."""
    provided = _provided(config or {})
    for field, check in _ABSENT.items():
        if field in provided:
            raise OrderedConfigError(check, field)
    for field, (value, check) in _FIXED.items():
        if provided.get(field, value) != value:
            raise OrderedConfigError(check, field)

    if start != StartAt.FIRST:
        _only_once(provided, "start", _START_FIELDS)
        provided |= {
            "deliver_policy": start.policy,
            "opt_start_seq": start.sequence,
            "opt_start_time": start.time,
        }
    filters = [subjects] if isinstance(subjects, str) else list(subjects)
    _check_subjects("subjects", filters)
    if filters != [ALL_SUBJECTS]:
        _only_once(provided, "subjects", _FILTER_FIELDS)
        provided |= {"filter_subject": filters[0]} if len(filters) == 1 else {"filter_subjects": filters}
    if heartbeat_s != DEFAULT_HEARTBEAT_S:
        _only_once(provided, "heartbeat_s", ("idle_heartbeat",))
        provided["idle_heartbeat"] = round(heartbeat_s * _SECOND)
    if headers_only:
        _only_once(provided, "headers_only", ("headers_only",))
        provided["headers_only"] = True
    if replay is not ReplayPolicy.INSTANT:
        _only_once(provided, "replay", ("replay_policy",))
        provided["replay_policy"] = replay
    config = _read(provided)
    _check_subjects("filter_subject", [config.filter_subject] if config.filter_subject else [])
    _check_subjects("filter_subjects", config.filter_subjects or [])
    return _completed(config)


def _check_subjects(field: str, subjects: Sequence[str]) -> None:
    """Raise OrderedConfigError for an invalid subject: a blank, an empty token, `>` in the middle."""
    for subject in subjects:
        if not valid_subject(subject.encode(errors="surrogatepass")):
            raise OrderedConfigError(Check.SUBJECT, field, f"{subject!r} is no subject")


def _completed(config: ConsumerConfig) -> ConsumerConfig:
    config.ack_policy = AckPolicy.NONE
    config.max_deliver = 1
    config.flow_control = True
    config.mem_storage = True
    config.num_replicas = 1
    config.ack_wait = ACK_WAIT_NS
    config.idle_heartbeat = config.idle_heartbeat or round(DEFAULT_HEARTBEAT_S * _SECOND)
    if config.deliver_policy is DeliverPolicy.LAST_PER_SUBJECT and not config.filter_subjects:
        config.filter_subject = config.filter_subject or ALL_SUBJECTS  # the server insists on one
    return config


def _provided(config: UserConfig) -> dict[str, Any]:
    if isinstance(config, ConsumerConfig):
        default = ConsumerConfig()
        fields = msgspec.structs.asdict(config)
        return {name: value for name, value in fields.items() if value != getattr(default, name)}
    return {name: value for name, value in config.items() if not _absent(value)}


def _absent(value: object) -> bool:
    """Return whether the wire omits this value; the zero of a time is 1970, which is not omitted."""
    return not isinstance(value, bool | Time) and value in (None, "", 0, [], (), {})


def _only_once(provided: Mapping[str, Any], argument: str, fields: Sequence[str]) -> None:
    for field in fields:
        if field in provided:
            raise OrderedConfigError(Check.GIVEN_TWICE, argument, f"also in the configuration as {field}")


def _read(provided: Mapping[str, Any]) -> ConsumerConfig:
    said = {name: value for name, value in provided.items() if not _absent(value)}
    try:
        return decode_strict(msgspec.json.encode(said, enc_hook=_write_time), ConsumerConfig, MOST_VALUES)
    except (JsonError, TypeError) as error:
        raise OrderedConfigError(Check.UNREADABLE, "config", str(error)) from None


def _write_time(value: object) -> str:
    if isinstance(value, Time):
        return format_time(value)
    raise TypeError(f"{type(value).__name__} is no part of a configuration")
