"""The record of one run: what clients sent, what they were answered, and what was delivered to them.

The checker sees nothing else.  Times are simulated seconds.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tests.sim.consumer_history import ConsumerHistory, Pull


@dataclass(slots=True)
class Publish:
    """A message that a client sent, or wanted to send."""

    uid: int  # in the payload; a retry of the same message has the same
    actor: str
    stream: str
    subject: str
    at: float
    connection: int
    msg_id: str = ""
    ttl_s: int = 0
    expected: int | None = None  # the last sequence of the subject, or of the stream
    expects: str = ""  # "subject", "stream", or nothing
    batch: str = ""
    increment: int = 0  # of a counter
    size: int = -1  # of the payload, without the number of the message
    due: float = 0.0  # of a scheduled message
    headers: dict[str, str] = field(default_factory=dict)
    size: int = -1  # of the payload; -1 if it is not that of the uid
    sent: bool = True
    answered_at: float | None = None
    answer: dict[str, Any] | None = None

    @property
    def seq(self) -> int:
        """Return the sequence in the ack; 0 if it was not acknowledged."""
        if self.answer is None or "error" in self.answer:
            return 0
        return int(self.answer.get("seq", 0))

    @property
    def duplicate(self) -> bool:
        return self.answer is not None and bool(self.answer.get("duplicate"))

    @property
    def refused(self) -> bool:
        return self.answer is not None and "error" in self.answer


@dataclass(slots=True)
class BatchOutcome:
    """An atomic batch."""

    name: str
    stream: str
    uids: list[int]
    at: float
    answer: dict[str, Any] | None = None
    answered_at: float | None = None


@dataclass(slots=True)
class FastBatch:
    """Messages of a fast ingest; each is stored on its own."""

    name: str
    stream: str
    uids: list[int]
    at: float
    stored: int = 0  # so many of them are stored, as the client was told


@dataclass(slots=True)
class Copy:
    """A stream that was restored from a snapshot of another."""

    name: str
    of: str
    at: float  # when the snapshot was asked for
    taken_at: float = 0.0  # when the snapshot was complete
    consumers: bool = False  # they were copied, too
    config: dict[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class Incarnation:
    """The deletion of a stream and its creation under the same name."""

    stream: str
    at: float
    deleted_at: float | None = None  # when the deletion was confirmed
    created_at: float | None = None


@dataclass(slots=True)
class Rot:
    """A byte of a file that changed by itself."""

    at: float
    path: str

    @property
    def stream(self) -> str:
        """Return the name of the stream; empty if it is a file of none."""
        words = self.path.split("/")
        return words[words.index("streams") + 1] if "streams" in words else ""

    @property
    def of_messages(self) -> bool:
        return "/log/" in self.path


@dataclass(slots=True)
class Delivery:
    """A message that a consumer sent to a client."""

    at: float
    actor: str
    connection: int
    stream: str
    consumer: str
    seq: int
    dseq: int
    count: int
    uid: int
    subject: str
    pending: int = -1  # messages that are left, as the reply subject says; -1: nobody looked
    size: int = -1  # of the payload
    headers: dict[str, str] = field(default_factory=dict)
    stamp_ns: int = 0  # when the message was stored
    pull: Pull | None = None  # the request that it answers


@dataclass(slots=True)
class AckSent:
    """An acknowledgement of any kind."""

    at: float
    actor: str
    connection: int
    stream: str
    consumer: str
    seq: int
    kind: str  # "+ACK", "-NAK", "+WPI", "+TERM"
    confirmed_at: float | None = None
    delay_s: float = 0.0  # of a negative one


@dataclass(slots=True)
class Removal:
    """A request that removes messages: a deletion or a purge."""

    stream: str
    at: float
    request: dict[str, Any]
    answer: dict[str, Any] | None = None
    answered_at: float | None = None

    @property
    def happened(self) -> bool:
        return self.answer is not None and bool(self.answer.get("success"))

    @property
    def refused(self) -> bool:
        return self.answer is not None and "error" in self.answer


@dataclass(slots=True)
class Change:
    """A request to change some values of a configuration."""

    name: str  # of a stream, or path of a consumer
    at: float
    values: dict[str, Any]
    answered_at: float | None = None  # when it was confirmed


@dataclass(slots=True)
class Stored:
    """A message that the stream has in the end."""

    seq: int
    subject: str
    uid: int
    time: str
    headers: dict[str, str]
    size: int = -1  # of the payload; -1 if it is not known


@dataclass(slots=True)
class Reading:
    """A request for one message, and its answer."""

    at: float
    stream: str
    how: str  # "last", "first", "seq", "next" or "time"
    subject: str  # that was asked for
    seq: int  # likewise
    answered_at: float
    found: Stored | None  # None: there is no such message
    direct: bool = False


@dataclass(slots=True)
class StateLook:
    """An answer to a request for the info of a stream."""

    at: float
    answered_at: float
    stream: str
    state: dict[str, Any]


@dataclass(slots=True)
class Update:
    """A request for another configuration of a stream."""

    at: float
    stream: str
    config: dict[str, Any]
    answered_at: float | None = None
    answer: dict[str, Any] | None = None

    @property
    def refused(self) -> bool:
        return self.answer is not None and "error" in self.answer

    @property
    def happened(self) -> bool:
        return self.answer is not None and "error" not in self.answer


@dataclass(slots=True)
class Republished:
    """A copy of a stored message that subscribers got."""

    stream: str
    seq: int
    uid: int
    subject: str


@dataclass(slots=True)
class ConsumerLook:
    """An answer to a request for a consumer's info."""

    at: float  # when it was answered
    stream: str
    consumer: str
    info: dict[str, Any]
    asked: float = 0.0
    connection: int = 0


@dataclass(slots=True)
class Final:
    """The contents of a stream when everything has settled and the server was started once more."""

    content: list[Stored]
    state: dict[str, Any]
    complete: bool = True  # False: it could not be read
    config: dict[str, Any] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)  # other ways to read give something else


@dataclass(slots=True)
class History:
    """Everything that happened."""

    publishes: list[Publish] = field(default_factory=list)
    batches: list[BatchOutcome] = field(default_factory=list)
    deliveries: list[Delivery] = field(default_factory=list)
    acks: list[AckSent] = field(default_factory=list)
    removals: list[Removal] = field(default_factory=list)
    changes: list[Change] = field(default_factory=list)
    on_disk: dict[int, str] = field(default_factory=dict)  # paths, by messages that lie there in the end
    fast: list[FastBatch] = field(default_factory=list)
    copies: list[Copy] = field(default_factory=list)
    incarnations: list[Incarnation] = field(default_factory=list)
    rot: list[Rot] = field(default_factory=list)
    reported: list[str] = field(default_factory=list)  # damage, in the words of the server
    clock_set: bool = False
    power_cuts: int = 0
    read_at_ns: int = 0  # the wall clock when the content was read in the end
    looks: list[ConsumerLook] = field(default_factory=list)
    readings: list[Reading] = field(default_factory=list)
    states: list[StateLook] = field(default_factory=list)
    updates: list[Update] = field(default_factory=list)
    republished: list[Republished] = field(default_factory=list)
    ends: list[float] = field(default_factory=list)  # when the server ended, in whatever way
    names: list[str] | None = None  # of streams, that are listed in the end
    final: dict[str, Final] = field(default_factory=dict)
    limits: list[int] = field(default_factory=list)  # of stream L, that were asked for
    ordered: dict[str, list[tuple[int, int]]] = field(default_factory=dict)  # reader: sequence and uid
    problems: list[str] = field(default_factory=list)  # seen while it ran
    faults: int = 0
    lines: list[str] = field(default_factory=list)
    wide: ConsumerHistory = field(default_factory=ConsumerHistory)
    uids: int = 0

    def next_uid(self) -> int:
        self.uids += 1
        return self.uids

    def note(self, at: float, *words: object) -> None:
        self.lines.append(f"{at:10.4f}  {' '.join(str(word) for word in words)}")

    @property
    def operations(self) -> int:
        return (
            len(self.publishes)
            + len(self.deliveries)
            + len(self.acks)
            + len(self.removals)
            + len(self.looks)
            + len(self.readings)
            + len(self.states)
            + len(self.updates)
        )
