"""Rules for a stream's subjects and for their rewriting: transform and republish.

A stream may not listen to subjects that the server itself answers on, unless it sends no acks: its ack would
be a second response.  Two streams may not listen to the same subject, nor one stream twice.
"""

import logging
import re
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from millstream.golang.quote import quoted
from millstream.jetstream.config.registry import StreamConfigs
from millstream.jetstream.config.values import invalid, pedantic_refusal
from millstream.jsapi.errors import ApiError, Err
from millstream.jsapi.names import EVENT_ALL
from millstream.jsapi.stream_types import RePublish, StreamConfig, SubjectTransformConfig
from millstream.subjects.functions import TransformError
from millstream.subjects.match import collide, is_subset
from millstream.subjects.overlap import PatternSet
from millstream.subjects.tokens import is_literal, valid_subject
from millstream.subjects.transform import SubjectTransform, check_mapping

_log = logging.getLogger("millstream.jetstream")

_ALL: Final = ">"
_API_SUBJECTS: Final = (b"$JS.>", b"$JSC.>", b"$NRG.>")
_SYSTEM_SUBJECTS: Final = b"$SYS.>"
_RESERVED_STARTS: Final = (b"$", b"*", b">")  # of subjects that may overlap with those
_ACCOUNT_EVENTS: Final = b"$SYS.ACCOUNT.>"
_BAD_SUBJECT: Final = "invalid subject"
_PLAIN: Final = re.compile(rb"[^.\x00-\x20]++(?:[.\n][^.\x00-\x20]++)*+")  # subjects with a line each
_MOST_INVALID: Final = 8  # how many are compared; one of them is refused anyway


def patterns_collide(left: str, right: str) -> bool:
    """Return True if a subject matches both; unlike `collide`, also for invalid patterns."""
    one, other = left.encode(), right.encode()
    if one == other:
        return True
    if is_literal(one):
        return not is_literal(other) and is_subset(one, other)
    if is_literal(other):
        return is_subset(other, one)
    return collide(one, other)


def complete_subjects(config: StreamConfig) -> None:
    """Check the subjects; a stream without subjects, mirror and sources listens to its own name."""
    if config.subjects:
        _check_subjects(config)
    elif config.mirror is None and not config.sources:
        config.subjects = [config.name]


def _check_subjects(config: StreamConfig) -> None:
    if _are_plain(config.subjects):
        return
    doubled = first_doubled(config.subjects)
    for index, subject in enumerate(config.subjects):
        if not valid_subject(subject.encode()):
            raise invalid(_BAD_SUBJECT)
        if subject == _ALL:
            if not config.no_ack:
                raise invalid("capturing all subjects requires no-ack to be true")
            if config.num_replicas != 1:
                raise invalid("capturing all subjects requires replicas of 1")
        if not config.no_ack:
            _check_reserved(subject.encode())
        if index == doubled:
            other = next(other for other in config.subjects[index + 1 :] if patterns_collide(other, subject))
            raise invalid(f"subject {quoted(subject)} overlaps with {quoted(other)}")


def _are_plain(subjects: Sequence[str]) -> bool:
    """Return True if all subjects are valid, literal and different, and none is the server's: nearly always.

    Thousands of subjects are checked at once.
    """
    text = "\n".join(subjects)
    return (
        not _may_be_pattern(text)
        and not text.startswith("$")
        and "\n$" not in text
        and text.count("\n") == len(subjects) - 1
        and len(set(subjects)) == len(subjects)
        and _PLAIN.fullmatch(text.encode()) is not None
    )


def first_doubled(subjects: Sequence[str]) -> int | None:
    """Return the index of the first subject that occurs again, or is valid and collides with a later one.

    An empty subject, which some lists may contain, collides with ``>``.
    """
    doubled = None
    seen: set[str] = set(subjects)
    if len(seen) == len(subjects) and not any(map(_may_be_pattern, subjects)):
        return None  # literal subjects collide only if they are equal
    seen.clear()
    later = PatternSet()
    later_invalid: list[str] = []
    for index in range(len(subjects) - 1, -1, -1):
        subject = subjects[index]
        pattern = subject.encode()
        if subject in seen or (not subject and _ALL in seen):
            doubled = index
        seen.add(subject)
        if not valid_subject(pattern):
            later_invalid[_MOST_INVALID:] = [subject]
            continue
        if later.collides(pattern) or (
            # A literal subject has nothing in common with an invalid one.
            not is_literal(pattern) and any(patterns_collide(other, subject) for other in later_invalid)
        ):
            doubled = index
        later.add(pattern)
    return doubled


def _check_reserved(subject: bytes) -> None:
    if not subject.startswith(_RESERVED_STARTS):
        return
    # Streams of events were allowed once, and some exist.
    if any(collide(subject, api) for api in _API_SUBJECTS) and not is_subset(subject, EVENT_ALL.encode()):
        raise invalid("subjects that overlap with jetstream api require no-ack to be true")
    if collide(subject, _SYSTEM_SUBJECTS) and not is_subset(subject, _ACCOUNT_EVENTS):
        raise invalid("subjects that overlap with system api require no-ack to be true")


def check_overlap(config: StreamConfig, streams: Mapping[str, StreamConfig]) -> None:
    """Raise ApiError if another stream has one of the subjects."""
    if isinstance(streams, StreamConfigs):
        if streams.others_listen_to(config.name, config.subjects):
            raise ApiError(Err.STREAM_SUBJECT_OVERLAP)
        return
    own = frozenset(config.subjects)
    all_literal = not any(map(_may_be_pattern, own))
    patterns = PatternSet()
    for subject in own:
        patterns.add(subject.encode())
    for name, other in streams.items():
        if name == config.name:
            continue
        for taken in other.subjects:
            # Two literal subjects, which almost all are, collide only if they are equal.
            if taken in own or (
                (_may_be_pattern(taken) or not all_literal) and patterns.collides(taken.encode())
            ):
                raise ApiError(Err.STREAM_SUBJECT_OVERLAP)


def _may_be_pattern(subject: str) -> bool:
    return "*" in subject or ">" in subject


def check_transform(transform: SubjectTransformConfig, bad_source: Err, bad_destination: Err) -> None:
    """Raise ApiError, with the given errors, if a transform is invalid."""
    if transform.src and not valid_subject(transform.src.encode()):
        raise ApiError(bad_source, err=f"{_BAD_SUBJECT} {transform.src}")
    if transform.dest:  # without a destination it is only a filter
        try:
            check_mapping(transform.src, transform.dest)
        except TransformError as error:
            raise ApiError(bad_destination, err=error) from None


def usable_transform(
    stream: str, what: str, config: SubjectTransformConfig | RePublish | None
) -> SubjectTransform | None:
    """Return the transform of a stream's configuration, or None.

    A configuration written by hand, or before this was checked, may have an invalid one: the stream then
    works without it, and an error is logged.
    """
    if config is None or not config.dest:
        return None
    try:
        return SubjectTransform(config.src or _ALL, config.dest)
    except TransformError as error:
        _log.error("stream %s: its %s to %r is not used: %s", stream, what, config.dest, error)
        return None


def check_stream_transform(config: StreamConfig) -> None:
    """Raise ApiError if the input transform is invalid."""
    if config.subject_transform is not None:
        check_transform(
            config.subject_transform,
            Err.STREAM_TRANSFORM_INVALID_SOURCE,
            Err.STREAM_TRANSFORM_INVALID_DESTINATION,
        )


def complete_republish(config: StreamConfig, *, pedantic: bool) -> None:
    """Fill in the default source of republishing; refuse a destination inside the stream itself."""
    if config.republish is None:
        return
    republish = config.republish = msgspec.structs.replace(config.republish)
    if not republish.src:
        if pedantic:
            raise pedantic_refusal("republish source can not be empty")
        republish.src = _ALL
    transform = config.subject_transform
    # Republishing everything under its own name is no cycle if the transform renames everything that comes
    # in.
    if (
        republish.src == republish.dest == _ALL
        and transform is not None
        and config.subjects == [transform.src]
    ):
        if pedantic:
            raise pedantic_refusal("implicit republish based on subject transform")
        republish.src = republish.dest = transform.dest
    if any(patterns_collide(republish.dest, subject) for subject in config.subjects):
        raise invalid("stream configuration for republish destination forms a cycle")
    if not _can_republish(republish):
        raise invalid(
            f"stream configuration for republish with transform from '{republish.src}'"
            f" to '{republish.dest}' not valid"
        )


def complete_updated_republish(config: StreamConfig) -> None:
    """Complete the republishing of an update: unlike in a creation, no destination means all subjects."""
    if config.republish is None or config.republish.dest:
        return
    republish = config.republish = msgspec.structs.replace(config.republish, dest=_ALL)
    if not _can_republish(republish):
        raise ApiError(
            Err.STREAM_UPDATE_FAILED,
            err=f"stream configuration for republish from '{republish.src}' to '{_ALL}': {_BAD_SUBJECT}",
        )


def _can_republish(republish: RePublish) -> bool:
    if not republish.dest:
        return True
    try:
        SubjectTransform(republish.src, republish.dest)
    except TransformError:
        return False
    return True
