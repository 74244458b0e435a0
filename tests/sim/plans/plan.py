"""The plan of a run: streams and consumers, what actors do, and which faults happen.

A plan is data, so that ``shrink`` can take parts of it away.  Operations refer to things by numbers that mean
something in any history: "the third message that was acknowledged", not "sequence 17".
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

SECOND_NS = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Op:
    """Something that an actor does, not before `at`: a publisher, or the reader of a consumer."""

    actor: str
    at: float
    kind: str
    args: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.at:8.3f} {self.actor}: {self.kind} {self.args}"


@dataclass(frozen=True, slots=True)
class Fault:
    """Something that goes wrong at `at`."""

    at: float
    kind: str
    args: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.at:8.3f} fault: {self.kind} {self.args}"


@dataclass(frozen=True, slots=True)
class ConsumerPlan:
    """A consumer, and the actor that reads it."""

    stream: str
    name: str
    config: dict[str, Any]
    push: bool = False
    wide: bool = False  # its reader creates it, and does more than others
    left: bool = False  # it is not read to its end

    @property
    def path(self) -> str:
        return f"{self.stream}.{self.name}"


@dataclass(frozen=True, slots=True)
class Plan:
    """Everything that a run does."""

    seed: int
    streams: dict[str, dict[str, Any]]
    consumers: tuple[ConsumerPlan, ...]
    ordered: tuple[str, ...]  # streams that an ordered consumer reads
    ops: tuple[Op, ...]
    faults: tuple[Fault, ...]
    last_cut: bool  # power goes once more before the final reading
    calm: bool = False  # network and disk never stall

    def __str__(self) -> str:
        lines = [f"stream {name}: {config}" for name, config in self.streams.items()]
        lines += [f"consumer {each.stream}/{each.name}: {each.config}" for each in self.consumers]
        lines += [f"ordered reader of {name}" for name in self.ordered]
        lines += [str(each) for each in sorted((*self.ops, *self.faults), key=lambda each: each.at)]
        return "\n".join(lines)

    def without(self, **parts: Any) -> Plan:
        return replace(self, **parts)
