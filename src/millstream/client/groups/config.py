"""The configurations of consumer groups, as the Go library pcgroups stores them, and what they mean.

A group divides the keys of a stream into partitions, whose number is in `max_members` and never changes.
Members own partitions: either all members share them evenly (`members`), or each has its own
(`member_mappings`).  A message of a partition has the partition's number as the first token of its subject.

A static group reads a stream whose subjects have that token already.  An elastic group has a stream of its
own, which sources the other stream and adds the token; `transforms` computes it from the tokens that the
wildcards of a partitioning filter stand for, or from the whole subject.

Programs in Go read and write the same texts, so the names, the order of the fields and the sharing of
partitions are fixed.  No I/O.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, TypeVar

from millstream.client.errors import BadGroup
from millstream.golang.json import MOST_VALUES_OF_STRANGERS
from millstream.jsapi.codec import JsonError, decode_lenient
from millstream.jsapi.go_types import Int, Int64, Struct, UInt64, always, no_items
from millstream.jsapi.stream_types import SubjectTransformConfig
from millstream.subjects.tokens import valid_subject

MOST_PARTITIONS: Final = 1024  # a member has a filter for each of its partitions
_ALL: Final = ">"
_NAME: Final = re.compile(r"[-_=a-zA-Z0-9]+")  # what keys of a bucket and names of consumers have in common


class MemberMapping(Struct):
    """The partitions of one member."""

    member: str = always("")
    partitions: list[Int] | None = always(None)


class PartitioningFilter(Struct):
    """Subjects of a group, and the wildcards, counted from 1, whose tokens are the key; none: all tokens."""

    filter: str = always("")
    partitioning_wildcards: list[Int] | None = always(None)


class StaticConfig(Struct):
    """The configuration of a static group."""

    max_members: UInt64 = always(0)  # the number of partitions
    filters: list[str] = no_items()  # without the partition's token
    members: list[str] = no_items()
    member_mappings: list[MemberMapping] = no_items()


class ElasticConfig(Struct):
    """The configuration of an elastic group."""

    max_members: UInt64 = always(0)  # the number of partitions
    partitioning_filters: list[PartitioningFilter] | None = always(None)
    max_buffered_msg: Int64 = 0  # limits of the group's stream; 0: none
    max_buffered_bytes: Int64 = 0
    members: list[str] = no_items()
    member_mappings: list[MemberMapping] = no_items()


GroupConfig = StaticConfig | ElasticConfig
Config = TypeVar("Config", bound=GroupConfig)


# -- members and their partitions ---------------------------------------------------------------------


def member_names(config: GroupConfig) -> list[str]:
    """Return the members that count, sorted: of shared members no more than there are partitions."""
    if config.members:
        return sorted(set(config.members))[: config.max_members]
    return sorted(mapping.member for mapping in config.member_mappings)


def partitions_of(config: GroupConfig, member: str) -> list[int]:
    """Return the partitions of a member; none if it is not one.

    Shared partitions are given out in blocks of equal size, in the order of the members' names, and the
    remaining ones singly.
    """
    if not config.members:
        mappings = (each for each in config.member_mappings if each.member == member)
        return [number for each in mappings for number in each.partitions or ()]
    names = member_names(config)
    block = config.max_members // len(names)
    even = block * len(names)
    return [
        number
        for number in range(config.max_members)
        if names[number // block if number < even else number - even] == member
    ]


def filters_of(config: GroupConfig, member: str) -> list[str]:
    """Return the filters of a member's consumer; mapped partitions come with all of their subjects."""
    subjects = [_ALL] if config.member_mappings else _subjects(config) or [_ALL]
    partitions = partitions_of(config, member)
    return [f"{number}.{subject}" for subject in subjects for number in partitions]


def _subjects(config: GroupConfig) -> list[str]:
    if isinstance(config, StaticConfig):
        return config.filters
    return [each.filter for each in config.partitioning_filters or ()]


def transforms(config: ElasticConfig) -> list[SubjectTransformConfig]:
    """Return how the group's stream adds the partition to the subjects of its origin."""
    filters = config.partitioning_filters or [PartitioningFilter(_ALL)]
    return [SubjectTransformConfig(each.filter, _destination(each, config.max_members)) for each in filters]


def _destination(filter: PartitioningFilter, partitions: int) -> str:
    arguments = ",".join(map(str, [partitions, *(filter.partitioning_wildcards or ())]))
    tokens = [f"{{{{Partition({arguments})}}}}"]
    wildcards = 0
    for token in filter.filter.split("."):
        if token == "*":
            wildcards += 1
            token = f"{{{{Wildcard({wildcards})}}}}"
        tokens.append(token)
    return ".".join(tokens)


# -- checks -------------------------------------------------------------------------------------------


def check_group(stream: str, name: str) -> None:
    """Raise BadGroup if there can be no group of this name on a stream of that name."""
    for text, what in ((stream, "the stream of a group"), (name, "a group")):
        if _NAME.fullmatch(text) is None:
            raise BadGroup(f"{text!r} is no name for {what}: use letters, digits, - and _")


def check_member(name: str) -> None:
    """Raise BadGroup if a member cannot have this name."""
    if _NAME.fullmatch(name) is None:
        raise BadGroup(f"{name!r} is no name for a member: use letters, digits, - and _")


def mappings_of(partitions: Mapping[str, Iterable[int]]) -> list[MemberMapping]:
    """Return mappings from a dict of members and their partitions."""
    return [MemberMapping(member, list(numbers)) for member, numbers in partitions.items()]


def check_config(config: GroupConfig) -> None:
    """Raise BadGroup for a configuration that the Go library refuses, or that no server can serve."""
    if config.max_members < 1:
        raise BadGroup("a group has at least one partition")
    if config.max_members > MOST_PARTITIONS:
        raise BadGroup(f"{config.max_members} partitions are too many; a group has at most {MOST_PARTITIONS}")
    if config.members and config.member_mappings:
        raise BadGroup("a group has either members that share all partitions, or members with mappings")
    for subject in _subjects(config):
        if not valid_subject(subject.encode(errors="surrogatepass")):
            raise BadGroup(f"the filter {subject!r} is no subject")
    if isinstance(config, ElasticConfig):
        for filter in config.partitioning_filters or ():
            _check_filter(filter)
    if config.member_mappings:
        _check_mappings(config.member_mappings, config.max_members)


def _check_filter(filter: PartitioningFilter) -> None:
    tokens = filter.filter.split(".")
    wildcards = tokens.count("*")
    if not wildcards and tokens[-1] != _ALL:
        raise BadGroup(f"the filter {filter.filter} has no wildcard: all messages would be in one partition")
    chosen = filter.partitioning_wildcards or []
    if len(set(chosen)) != len(chosen):
        raise BadGroup(f"the filter {filter.filter} names a wildcard twice")
    for number in chosen:
        if not 1 <= number <= wildcards:
            raise BadGroup(f"the filter {filter.filter} has no wildcard * with the number {number}")


def _check_mappings(mappings: Sequence[MemberMapping], partitions: int) -> None:
    names = [each.member for each in mappings]
    if len(set(names)) != len(names):
        raise BadGroup("a member has two mappings")
    if len(names) > partitions:
        raise BadGroup(f"{len(names)} members cannot share {partitions} partitions")
    numbers = [number for each in mappings for number in each.partitions or ()]
    for number in numbers:
        if not 0 <= number < partitions:
            raise BadGroup(f"there is no partition {number}; the last one is {partitions - 1}")
    if len(set(numbers)) != len(numbers):
        raise BadGroup("a partition is mapped to two members")
    if len(numbers) != partitions:
        missing = min(set(range(partitions)) - set(numbers))
        raise BadGroup(f"every partition needs a member, and partition {missing} has none")


def read_config(text: bytes, kind: type[Config]) -> Config:
    """Return a stored configuration; raises BadGroup if it cannot be read or is invalid."""
    try:
        config = decode_lenient(text, kind, MOST_VALUES_OF_STRANGERS)
    except JsonError as error:
        raise BadGroup(f"the stored configuration of the group cannot be read: {error}") from None
    try:
        check_config(config)
    except BadGroup as error:
        raise BadGroup(f"the stored configuration of the group is invalid: {error}") from None
    return config
