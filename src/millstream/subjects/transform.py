"""Rewrite subjects with a source pattern and a destination that contains place holders.

    source orders.*.*       destination shop.$2.{{partition(3,1)}}
    subject orders.eu.42    becomes     shop.42.2

A place holder is a whole token: ``$n`` or ``{{wildcard(n)}}`` stands for the token that the n-th ``*`` of the
source matched; the other functions cut, split, hash or draw a number.  ``>`` copies the remaining tokens, so
it is in both or in neither.  Function names and error texts are nats-server's, because configuration files
and stream definitions rely on them.

Used for account mappings, for imports (which must be reversible: `strict`) and for streams.  The weighted
choice between destinations is at the end.
"""

import operator
import random
from collections.abc import Callable, Sequence
from typing import Any, Final

from msgspec.structs import replace

from millstream.subjects.functions import (
    Fault,
    Place,
    Step,
    TransformError,
    compile_call,
    known_call,
    looks_like_call,
    read_call,
    wildcard_number,
)
from millstream.subjects.match import is_subset, matches, valid_literal_subject
from millstream.subjects.tokens import is_literal, valid_subject

_BLANKS: Final = frozenset(map(chr, range(0x21)))  # includes all control characters

_MOST_KNOWN: Final = 1024  # results that are kept
_chance: Final = random.Random()  # seeding one takes longer than all else that a transform needs


class SubjectTransform:
    """One source pattern and one destination, checked by the constructor."""

    def __init__(
        self,
        source: str,
        destination: str,
        *,
        strict: bool = False,
        generator: random.Random | None = None,
    ) -> None:
        """Check both; `strict` refuses what is not reversible, `generator` is for ``{{random(n)}}``."""
        self.source = source or ">"
        self.destination = destination
        self._random = generator or _chance
        self._pattern = self.source.encode()
        source_tokens = _checked_tokens(self.source)
        destination_tokens = _checked_tokens(destination)
        self._carries_rest = source_tokens[-1] == ">"
        if "*" in destination_tokens or (destination_tokens[-1] == ">") != self._carries_rest:
            raise TransformError(Fault.BAD_SUBJECT)
        self._identity = self.source == ">" == destination
        self._fixed_tokens = len(source_tokens) - 1  # before the remaining tokens that `>` copies
        if self._carries_rest:
            destination_tokens.pop()
        self._known: dict[bytes, bytes] = {}  # results of ``apply``
        self._steps = self._build(source_tokens, destination_tokens, strict)
        self._form, self._moves = _form_of(self._steps)  # a shortcut where tokens only change their places
        calls = [read_call(token) for token in destination_tokens]
        self.by_chance = any(call is not None and call.name == "random" for call in calls)

    def __repr__(self) -> str:
        return f"SubjectTransform({self.source!r}, {self.destination!r})"

    def apply(self, subject: bytes) -> bytes | None:
        """Return the rewritten subject, or None if `subject` is not literal and valid or does not match."""
        if self._identity:
            return subject
        known = self._known.get(subject)
        if known is not None:
            return known
        if not valid_literal_subject(subject) or not matches(subject, self._pattern):
            return None
        found = self.rewrite(subject)
        if not self.by_chance:
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            self._known[subject] = found
        return found

    def rewrite(self, subject: bytes) -> bytes:
        """Rewrite a subject that is known to match the source."""
        tokens = subject.split(b".")
        if self._moves is not None:
            start: bytes = self._form % self._moves(tokens)
        else:
            start = b".".join([step if isinstance(step, bytes) else step(tokens) for step in self._steps])
        if not self._carries_rest:
            return start
        rest = tokens[self._fixed_tokens :]
        return b".".join([start, *rest] if self._steps else rest)

    def inverse(self) -> "SubjectTransform | None":
        """Return the reverse transform, or None if this one loses information."""
        back: dict[int, int] = {}  # wildcard of the source -> wildcard of the destination
        pattern: list[str] = []
        stars = 0
        for token in self.destination.split("."):
            number = wildcard_number(token)
            if number is None:
                if read_call(token) is not None:
                    return None
                pattern.append(token)
                continue
            stars += 1
            pattern.append("*")
            back.setdefault(number, stars)
        places: list[str] = []
        star = 0
        for token in self.source.split("."):
            if token != "*":
                places.append(token)
                continue
            star += 1
            if star not in back:
                return None
            places.append(f"${back[star]}")
        try:
            return SubjectTransform(".".join(pattern), ".".join(places), strict=True)
        except TransformError:
            return None

    def _build(self, source: list[str], destination: list[str], strict: bool) -> list[bytes | Step]:
        positions = [index for index, token in enumerate(source) if token == "*"]
        has_wildcards = bool(positions) or self._carries_rest
        used = 0
        steps: list[bytes | Step] = []
        for token in destination:
            call = read_call(token)
            if call is None:
                steps.append(token.encode())
                continue
            if not has_wildcards:
                if call.name not in ("random", "partition"):
                    raise TransformError(Fault.OUT_OF_RANGE, token)
                call = replace(call, wildcards=())
            elif strict and call.name != "wildcard":
                raise TransformError(Fault.NOT_FOR_IMPORTS, token)
            used += len(call.wildcards)
            for number in call.wildcards:
                if number > len(positions):
                    raise TransformError(Fault.OUT_OF_RANGE, f"{token}: [{number}]")
            # As in nats-server, a number below one means the first token of the subject.
            chosen = [positions[number - 1] if number > 0 else 0 for number in call.wildcards]
            steps.append(compile_call(call, chosen, self._random))
        if has_wildcards and strict and used < len(positions):
            raise TransformError(Fault.NOT_ALL_USED, self.destination)
        return steps


def _form_of(steps: list[bytes | Step]) -> tuple[bytes, Callable[[list[bytes]], Any] | None]:
    """Return a format, and a function that gives its arguments; no function if a step computes something."""
    places = [step for step in steps if isinstance(step, Place)]
    if not places or any(not isinstance(step, bytes | Place) for step in steps):
        return b"", None
    form = b".".join([step.replace(b"%", b"%%") if isinstance(step, bytes) else b"%b" for step in steps])
    return form, operator.itemgetter(*[place.index for place in places])


def check_mapping(source: str, destination: str) -> None:
    """Raise TransformError unless `source` may be mapped to `destination`.

    Stricter than building the transform: blanks are refused outside of functions.
    """
    ended = False
    for token in destination.split("."):
        if not token or ended:
            raise TransformError(Fault.BAD_TRANSFORM, token)
        if looks_like_call(token):
            if not known_call(token):
                raise TransformError(Fault.UNKNOWN_FUNCTION, token)
        elif token == ">":
            ended = True
        elif not _BLANKS.isdisjoint(token):
            raise TransformError(Fault.BAD_TRANSFORM)
    SubjectTransform(source, destination)


def pattern_to_destination(pattern: str) -> str:
    """Number the wildcards: ``foo.*.*`` becomes ``foo.$1.$2``."""
    star = 0
    tokens = pattern.split(".")
    for index, token in enumerate(tokens):
        if token == "*":
            star += 1
            tokens[index] = f"${star}"
    return ".".join(tokens)


def destination_to_pattern(destination: str) -> str:
    """Return the pattern of the subjects that a destination produces: ``foo.$2.x`` becomes ``foo.*.x``."""
    return ".".join("*" if wildcard_number(token) is not None else token for token in destination.split("."))


class WeightedMapping:
    """A source pattern whose subjects are mapped to one of several destinations, at random.

    Weights are percentages.  The remaining share keeps its subject, unless the source itself is one of the
    destinations: then messages of the remaining share are dropped.
    """

    def __init__(
        self, source: str, destinations: Sequence[tuple[str, int]], generator: random.Random
    ) -> None:
        if not valid_subject(source.encode()):
            raise TransformError(Fault.BAD_SUBJECT)
        self.source = source
        self._pattern = source.encode()
        self._literal = is_literal(self._pattern)
        self._random = generator
        weighted: list[tuple[int, SubjectTransform]] = []
        seen: set[str] = set()
        total = 0
        for destination, weight in destinations:
            if destination in seen:
                raise TransformError(Fault.DUPLICATE, f'"{destination}"', joint="for")
            seen.add(destination)
            if not 0 <= weight <= 100:
                raise TransformError(Fault.WEIGHT)
            total += weight
            if total > 100:
                raise TransformError(Fault.TOTAL_WEIGHT)
            check_mapping(source, destination)
            weighted.append((weight, SubjectTransform(source, destination, generator=generator)))
        if total != 100 and source not in seen:
            weighted.append((100 - total, SubjectTransform(source, pattern_to_destination(source))))
        self._choices: list[tuple[int, SubjectTransform]] = []  # (upper end of its share, transform)
        end = 0
        for weight, transform in weighted:
            if weight:
                end += weight
                self._choices.append((end, transform))
        # Whether the same subject may go to another destination each time.
        self.by_chance = len(self._choices) != 1 or end != 100 or self._choices[0][1].by_chance

    def covers(self, subject: bytes) -> bool:
        """Return True if this mapping applies to `subject`."""
        if self._literal:
            return subject == self._pattern
        return is_subset(subject, self._pattern)  # a published `*` is a token like any other, a `>` is not

    def apply(self, subject: bytes) -> bytes | None:
        """Return the rewritten subject; empty: drop the message, None: the mapping does not apply."""
        return self.choose(subject) if self.covers(subject) else None

    def choose(self, subject: bytes) -> bytes:
        """Return what a subject that is covered becomes; empty: drop the message."""
        choices = self._choices
        if len(choices) == 1 and choices[0][0] == 100:
            return choices[0][1].rewrite(subject)
        drawn = int(self._random.random() * 100)
        for end, transform in choices:
            if drawn < end:
                return transform.rewrite(subject)
        return b""


def _checked_tokens(subject: str) -> list[str]:
    """Split a subject into tokens.

    Raises TransformError if a token is empty or, unless it is a function, contains a blank or control
    character.
    """
    tokens = subject.split(".")
    if "" in tokens or ">" in tokens[:-1]:
        raise TransformError(Fault.BAD_SUBJECT)
    if any(not looks_like_call(token) and not _BLANKS.isdisjoint(token) for token in tokens):
        raise TransformError(Fault.BAD_SUBJECT)
    return tokens
