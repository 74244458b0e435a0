"""Consumer groups: stored texts and shares of partitions as the Go library has them, and wrong input."""

from typing import Any

import pytest

from millstream.client import BadGroup
from millstream.client.groups.config import (
    ElasticConfig,
    MemberMapping,
    PartitioningFilter,
    StaticConfig,
    check_config,
    check_group,
    filters_of,
    mappings_of,
    member_names,
    partitions_of,
    read_config,
    transforms,
)
from millstream.client.groups.kinds import ELASTIC, STATIC, MemberOptions
from millstream.jsapi.codec import encode

# Texts that the Go library wrote.
STORED_ELASTIC: Any = [
    (b'{"max_members":4,"partitioning_filters":null}', ElasticConfig(4)),
    (
        b'{"max_members":4,"partitioning_filters":[{"filter":"gs.*","partitioning_wildcards":[1]}],'
        b'"members":["b","a"]}',
        ElasticConfig(4, [PartitioningFilter("gs.*", [1])], members=["b", "a"]),
    ),
    (
        b'{"max_members":4,"partitioning_filters":[{"filter":"gs.*","partitioning_wildcards":[1]}],'
        b'"max_buffered_msg":100,"max_buffered_bytes":10000,"member_mappings":'
        b'[{"member":"m1","partitions":[0,1]},{"member":"m2","partitions":[2,3]}]}',
        ElasticConfig(
            4,
            [PartitioningFilter("gs.*", [1])],
            100,
            10_000,
            member_mappings=mappings_of({"m1": [0, 1], "m2": [2, 3]}),
        ),
    ),
    (
        b'{"max_members":6,"partitioning_filters":[{"filter":"a.*.*.\\u003e","partitioning_wildcards":[2,1]},'
        b'{"filter":"b.\\u003e","partitioning_wildcards":null},{"filter":"c.*","partitioning_wildcards":[]}],'
        b'"members":["m2","m1"]}',
        ElasticConfig(
            6,
            [
                PartitioningFilter("a.*.*.>", [2, 1]),
                PartitioningFilter("b.>", None),
                PartitioningFilter("c.*", []),
            ],
            members=["m2", "m1"],
        ),
    ),
]
STORED_STATIC: Any = [
    (b'{"max_members":4,"members":["m1","m2"]}', StaticConfig(4, members=["m1", "m2"])),
    (
        b'{"max_members":4,"filters":["ps.*"],"members":["m1","m2"]}',
        StaticConfig(4, ["ps.*"], ["m1", "m2"]),
    ),
    (
        b'{"max_members":4,"member_mappings":[{"member":"m1","partitions":[0,2]},'
        b'{"member":"m2","partitions":[1,3]}]}',
        StaticConfig(4, member_mappings=mappings_of({"m1": [0, 2], "m2": [1, 3]})),
    ),
]


@pytest.mark.parametrize(("text", "config"), STORED_ELASTIC + STORED_STATIC)
def test_stored_texts_are_those_of_the_go_library(text: bytes, config: Any) -> None:
    assert encode(config) == text
    assert read_config(text, type(config)) == config


@pytest.mark.parametrize(
    ("partitions", "members", "subject", "shares"),
    [
        (3, ["b", "a"], ">", {"a": ["0.>", "2.>"], "b": ["1.>"]}),
        (
            7,
            ["c", "a", "b", "a"],
            "x.*",
            {"a": ["0.x.*", "1.x.*", "6.x.*"], "b": ["2.x.*", "3.x.*"], "c": ["4.x.*", "5.x.*"]},
        ),
        (2, ["c", "a", "b"], ">", {"a": ["0.>"], "b": ["1.>"], "c": []}),
        (
            8,
            ["m1", "m2", "m3"],
            "o.>",
            {
                "m1": ["0.o.>", "1.o.>", "6.o.>"],
                "m2": ["2.o.>", "3.o.>", "7.o.>"],
                "m3": ["4.o.>", "5.o.>"],
            },
        ),
        (1, ["z"], ">", {"z": ["0.>"], "y": []}),
    ],
)
def test_members_share_partitions_as_in_the_go_library(
    partitions: int, members: list[str], subject: str, shares: dict[str, list[str]]
) -> None:
    config = StaticConfig(partitions, [subject], members)
    assert {name: filters_of(config, name) for name in shares} == shares


def test_several_filters_come_one_after_the_other() -> None:
    config = ElasticConfig(
        6, [PartitioningFilter("a.*", [1]), PartitioningFilter("b.>")], members=["m1", "m2"]
    )
    assert filters_of(config, "m1") == ["0.a.*", "1.a.*", "2.a.*", "0.b.>", "1.b.>", "2.b.>"]


def test_mapped_members_have_their_partitions_and_all_subjects() -> None:
    config = ElasticConfig(
        3, [PartitioningFilter("a.*"), PartitioningFilter("b.*")],
        member_mappings=mappings_of({"m1": [2, 0], "m2": [1]}),
    )  # fmt: skip
    assert partitions_of(config, "m1") == [2, 0]
    assert filters_of(config, "m1") == ["2.>", "0.>"]
    assert filters_of(config, "m3") == []
    assert member_names(config) == ["m1", "m2"]


def test_the_partition_is_computed_from_the_chosen_wildcards() -> None:
    config = ElasticConfig(6, [PartitioningFilter("a.*.*.>", [2, 1]), PartitioningFilter("b.>", [])])
    assert [(each.src, each.dest) for each in transforms(config)] == [
        ("a.*.*.>", "{{Partition(6,2,1)}}.a.{{Wildcard(1)}}.{{Wildcard(2)}}.>"),
        ("b.>", "{{Partition(6)}}.b.>"),
    ]
    assert [(each.src, each.dest) for each in transforms(ElasticConfig(4))] == [(">", "{{Partition(4)}}.>")]


def mapped(*mappings: tuple[str, list[int]]) -> StaticConfig:
    return StaticConfig(3, member_mappings=[MemberMapping(*each) for each in mappings])


@pytest.mark.parametrize(
    ("config", "complaint"),
    [
        (StaticConfig(0), "at least one partition"),
        (StaticConfig(2**40), "too many"),
        (StaticConfig(2, ["a b"]), "no subject"),
        (StaticConfig(2, members=["a"], member_mappings=mappings_of({"b": [0, 1]})), "either"),
        (mapped(("a", [0, 1])), "partition 2 has none"),
        (mapped(("a", [0, 1]), ("b", [1, 2])), "mapped to two members"),
        (mapped(("a", [0, 1, 2]), ("b", [3])), "no partition 3"),
        (mapped(("a", [0, 1, -1])), "no partition -1"),
        (mapped(("a", [0, 1]), ("a", [2])), "two mappings"),
        (mapped(("a", [0]), ("b", [1]), ("c", [2]), ("d", [])), "4 members cannot share 3"),
        (ElasticConfig(2, [PartitioningFilter("a.b")]), "has no wildcard"),
        (ElasticConfig(2, [PartitioningFilter("")]), "no subject"),
        (ElasticConfig(2, [PartitioningFilter("a.*", [2])]), "no wildcard \\* with the number 2"),
        (ElasticConfig(2, [PartitioningFilter("a.*", [0])]), "no wildcard"),
        (ElasticConfig(2, [PartitioningFilter("a.*.*", [1, 1])]), "twice"),
    ],
)
def test_a_wrong_configuration_is_refused(config: Any, complaint: str) -> None:
    with pytest.raises(BadGroup, match=complaint):
        check_config(config)
    with pytest.raises(BadGroup, match="is invalid"):
        read_config(encode(config), type(config))


@pytest.mark.parametrize("text", [b"", b"{", b"[]", b'{"max_members":"4"}', b'{"max_members":-1}', b"\xff"])
def test_an_unreadable_configuration_is_refused(text: bytes) -> None:
    with pytest.raises(BadGroup, match="the stored configuration"):
        read_config(text, ElasticConfig)


@pytest.mark.parametrize("name", ["", "a.b", "a b", "*", ">", "a/b", "größe", "x\n"])
def test_a_wrong_name_is_refused(name: str) -> None:
    with pytest.raises(BadGroup, match="no name for a group"):
        check_group("ORDERS", name)
    with pytest.raises(BadGroup, match="no name for the stream"):
        check_group(name, "g")


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ((0.1, 1, None), "ack_wait_s"),
        ((float("nan"), 1, None), "ack_wait_s"),
        ((5, 0, None), "max_ack_pending"),
        ((5, 10**6, None), "max_ack_pending"),
        ((5, 1, {"ack_wait": 1}), "ack_wait of a member's consumer is set by the group"),
        ((5, 1, {"colour": "red"}), "colour"),
        ((5, 1, {"max_deliver": "often"}), "cannot be read"),
        ((5, 1, {"max_deliver": object()}), "cannot be read"),
    ],
)
def test_wrong_options_are_refused(options: Any, complaint: str) -> None:
    with pytest.raises(BadGroup, match=complaint):
        MemberOptions(*options)


def test_consumers_are_those_of_the_go_library() -> None:
    options = MemberOptions(2, 1, {"max_deliver": 5})
    elastic = options.consumer(ELASTIC, "g", "m1", ["0.>"])
    assert encode(elastic) == (
        b'{"name":"m1","deliver_policy":"all","ack_policy":"explicit","ack_wait":2000000000,"max_deliver":5,'
        b'"filter_subjects":["0.\\u003e"],"replay_policy":"instant","max_ack_pending":1,'
        b'"inactive_threshold":2000000000,"num_replicas":0,"priority_groups":["PCG"],'
        b'"priority_policy":"pinned_client","priority_timeout":2000000000}'
    )
    static = options.consumer(STATIC, "g", "m1", ["0.>"])
    assert (static.durable_name, static.inactive_threshold) == ("g-m1", 0)
    assert (STATIC.bucket, ELASTIC.bucket) == ("static-consumer-groups", "elastic-consumer-groups")
    assert (STATIC.stream_of("S", "g"), ELASTIC.stream_of("S", "g")) == ("S", "S-g")
