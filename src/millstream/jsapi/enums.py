"""The words that configuration fields accept, and the error for any other word.

The first word of each enumeration is the meaning of an absent field.
"""

from enum import Enum, StrEnum
from typing import Final, NamedTuple


class RetentionPolicy(StrEnum):
    LIMITS = "limits"
    INTEREST = "interest"
    WORKQUEUE = "workqueue"


class DiscardPolicy(StrEnum):
    OLD = "old"
    NEW = "new"


class StorageType(StrEnum):
    FILE = "file"
    MEMORY = "memory"


class StoreCompression(StrEnum):
    NONE = "none"
    S2 = "s2"


class PersistMode(StrEnum):
    DEFAULT = "default"
    ASYNC = "async"


class DeliverPolicy(StrEnum):
    ALL = "all"
    LAST = "last"
    NEW = "new"
    BY_START_SEQUENCE = "by_start_sequence"
    BY_START_TIME = "by_start_time"
    LAST_PER_SUBJECT = "last_per_subject"


class AckPolicy(StrEnum):
    NONE = "none"
    ALL = "all"
    EXPLICIT = "explicit"
    FLOW_CONTROL = "flow_control"


class ReplayPolicy(StrEnum):
    INSTANT = "instant"
    ORIGINAL = "original"


class PriorityPolicy(StrEnum):
    NONE = "none"
    OVERFLOW = "overflow"
    PINNED_CLIENT = "pinned_client"
    PRIORITIZED = "prioritized"


class ConsumerAction(StrEnum):
    CREATE_OR_UPDATE = ""
    CREATE = "create"
    UPDATE = "update"


class AdvisoryAction(StrEnum):
    CREATE = "create"
    MODIFY = "modify"
    DELETE = "delete"


class BatchAbandonReason(StrEnum):
    TIMEOUT = "timeout"
    LARGE = "large"
    INCOMPLETE = "incomplete"
    UNSUPPORTED = "unsupported"


class WordRule(NamedTuple):
    """The rule for a word.  `complaint` may contain the bytes as {raw} or, in Go's quotes, as {quoted}."""

    complaint: str = "can not unmarshal {quoted}"
    any_case: bool = False
    aliases: tuple[tuple[str, str], ...] = ()
    any_spelling: bool = False  # escapes are resolved before the comparison


WORD_RULES: Final[dict[type[Enum], WordRule]] = {
    RetentionPolicy: WordRule(),
    DiscardPolicy: WordRule(any_case=True),
    StorageType: WordRule(),
    StoreCompression: WordRule(complaint="unknown compression algorithm", any_spelling=True),
    PersistMode: WordRule(aliases=(("", "default"),)),
    DeliverPolicy: WordRule(aliases=(("undefined", "all"),)),
    AckPolicy: WordRule(),
    ReplayPolicy: WordRule(),
    PriorityPolicy: WordRule(complaint="unknown priority policy: {raw}"),
    ConsumerAction: WordRule(complaint="unknown consumer action: {raw}"),
    # Only clients read these, from servers.
    AdvisoryAction: WordRule(),
    BatchAbandonReason: WordRule(),
}
