"""Requests to create and update streams, accepted and refused: one or more for every rule.

A scenario has an account of its own, which may have limits, on one of two servers: `plain`, with plenty
of everything, or `tight`.  What nats-server answered is in tests/golden/jetstream_config/stream_config.json.
"""

from typing import Any

from tests.kits.conformance.config_suite import PLAIN, TIGHT, Scenario, Step, Suite

SECOND = 10**9
MEGABYTE = 2**20

SERVERS: dict[str, dict[str, Any]] = {
    PLAIN: {"max_mem": 1024 * MEGABYTE, "max_file": 4096 * MEGABYTE},
    TIGHT: {"max_mem": MEGABYTE, "max_file": MEGABYTE, "limits": {"duplicate_window": '"1m"'}},
}


def create(name: str = "S", **fields: Any) -> Step:
    return Step(f"STREAM.CREATE.{name}", {"name": name, **fields})


def update(name: str = "S", **fields: Any) -> Step:
    return Step(f"STREAM.UPDATE.{name}", {"name": name, **fields})


def transform(src: str, dest: str) -> dict[str, str]:
    return {"src": src, "dest": dest}


def mirrored(**fields: Any) -> dict[str, Any]:
    return {"name": "O", **fields}


# -- one request to create a stream ----------------------------------------------------------------------

_DURABLE = {"name": "c", "deliver_subject": "d.x"}
_EXTERNAL = {"api": "$JS.hub.API", "deliver": "d.x"}

ALONE: dict[str, dict[str, Any]] = {
    # Texts.
    "nothing but a name": {},
    "a name of 255 bytes": {"name": "n" * 255},
    "a name of 256 bytes": {"name": "n" * 256},
    "a name of two-byte letters": {"name": "é" * 128},
    "half a character in a description": {"description": "x\ud800"},
    "a description": {"description": "what it is for"},
    "a description of 4096 bytes": {"description": "d" * 4096},
    "a description of 4097 bytes": {"description": "d" * 4097},
    "metadata": {"metadata": {"a": "b", "": "c"}},
    "empty metadata": {"metadata": {}},
    "metadata at the limit": {"metadata": {"k": "v" * (128 * 1024 - 17)}},
    "metadata beyond the limit": {"metadata": {"k": "v" * (128 * 1024 - 16)}},
    "metadata of the server": {
        "metadata": {"_nats.ver": "1", "_nats.level": "9", "_nats.req.level": "7", "_nats.other": "x"}
    },
    # Numbers.
    "counts of zero": {
        "max_msgs": 0,
        "max_msgs_per_subject": 0,
        "max_bytes": 0,
        "max_msg_size": 0,
        "max_consumers": 0,
    },
    "counts below minus one": {
        "max_msgs": -2,
        "max_msgs_per_subject": -3,
        "max_bytes": -4,
        "max_msg_size": -5,
        "max_consumers": -6,
    },
    "counts": {
        "max_msgs": 10,
        "max_msgs_per_subject": 2,
        "max_bytes": 1024,
        "max_msg_size": 100,
        "max_consumers": 3,
    },
    "a message size beyond its type": {"max_msg_size": 2**31},
    "no replicas": {"num_replicas": 0},
    "three replicas": {"num_replicas": 3},
    "six replicas": {"num_replicas": 6},
    "negative replicas": {"num_replicas": -1},
    "too many replicas before a bad age": {"num_replicas": 3, "max_age": 1},
    "a negative age": {"max_age": -1},
    "an age too short": {"max_age": SECOND // 10 - 1},
    "the shortest age": {"max_age": SECOND // 10},
    "an age shorter than the usual window": {"max_age": 60 * SECOND},
    "an age longer than the usual window": {"max_age": 600 * SECOND},
    "a window": {"duplicate_window": SECOND},
    "a negative window": {"duplicate_window": -1},
    "a window too short": {"duplicate_window": SECOND // 10 - 1},
    "a window longer than the age": {"duplicate_window": 2 * SECOND, "max_age": SECOND},
    "a window as long as the age": {"duplicate_window": SECOND, "max_age": SECOND},
    "a first sequence": {"first_seq": 1000},
    # Flags.
    "every harmless flag": {
        "no_ack": True,
        "allow_direct": True,
        "deny_delete": True,
        "deny_purge": True,
        "allow_msg_ttl": True,
        "allow_atomic": True,
        "allow_batched": True,
        "compression": "s2",
    },
    "interest": {"retention": "interest"},
    "a work queue in memory": {"retention": "workqueue", "storage": "memory"},
    "discard new": {"discard": "new", "max_msgs": 1},
    "discard new per subject": {"discard": "new", "discard_new_per_subject": True, "max_msgs_per_subject": 1},
    "discard new per subject but old": {"discard_new_per_subject": True, "max_msgs_per_subject": 1},
    "discard new per subject without limit": {"discard": "new", "discard_new_per_subject": True},
    "sealed": {"sealed": True},
    "mirror direct without mirror": {"mirror_direct": True},
    "rollups": {"allow_rollup_hdrs": True},
    "rollups without purge": {"allow_rollup_hdrs": True, "deny_purge": True},
    "limits for consumers": {"consumer_limits": {"inactive_threshold": SECOND, "max_ack_pending": 5}},
    "negative limits for consumers": {"consumer_limits": {"inactive_threshold": -1, "max_ack_pending": -5}},
    "a counter": {"allow_msg_counter": True},
    "a counter that discards new": {"allow_msg_counter": True, "discard": "new"},
    "a counter with TTL": {"allow_msg_counter": True, "allow_msg_ttl": True},
    "a counter with schedules": {"allow_msg_counter": True, "allow_msg_schedules": True},
    "a counter with interest": {"allow_msg_counter": True, "retention": "interest"},
    "a counter with delete markers": {"allow_msg_counter": True, "subject_delete_marker_ttl": SECOND},
    "delete markers": {"subject_delete_marker_ttl": SECOND},
    "delete markers too short": {"subject_delete_marker_ttl": SECOND - 1},
    "delete markers negative": {"subject_delete_marker_ttl": -1},
    "delete markers without purge": {"subject_delete_marker_ttl": SECOND, "deny_purge": True},
    "schedules": {"allow_msg_schedules": True},
    "schedules that discard new": {"allow_msg_schedules": True, "discard": "new"},
    "schedules without purge": {"allow_msg_schedules": True, "deny_purge": True},
    "async": {"persist_mode": "async"},
    "async in memory": {"persist_mode": "async", "storage": "memory"},
    "async with replicas": {"persist_mode": "async", "num_replicas": 3},
    "async with batches": {"persist_mode": "async", "allow_atomic": True},
    "async with fast batches": {"persist_mode": "async", "allow_batched": True},
    "default persistence": {"persist_mode": "default"},
    "TTL": {"allow_msg_ttl": True},
    "atomic batches": {"allow_atomic": True},
    "fast batches": {"allow_batched": True},
    "an empty placement": {"placement": {}},
    "a placement": {"placement": {"cluster": "c", "tags": ["a"]}},
    "a preferred server": {"placement": {"preferred": "p"}},
    # Subjects.
    "subjects": {"subjects": ["a", "b.*", "c.>"]},
    "no subjects": {"subjects": []},
    "an empty subject": {"subjects": [""]},
    "a subject with an empty token": {"subjects": ["a..b"]},
    "a subject with a blank": {"subjects": ["a b"]},
    "a subject after the end": {"subjects": ["a.>.b"]},
    "a subject that looks like a wildcard": {"subjects": ["a.*b", "a.>b"]},
    "a subject twice": {"subjects": ["a", "b", "a"]},
    "overlapping subjects": {"subjects": ["a.*", "b", "a.b"]},
    "overlapping patterns": {"subjects": ["x.*.b", "x.a.*"]},
    "an overlap before a bad subject": {"subjects": ["a", "a", "b..c"]},
    "an overlap with quotes in it": {"subjects": ['a"é', 'a"é']},
    "everything": {"subjects": [">"]},
    "everything without acks": {"subjects": [">"], "no_ack": True},
    "everything without acks thrice": {"subjects": [">"], "no_ack": True, "num_replicas": 3},
    "one token": {"subjects": ["*"]},
    "a star above everything": {"subjects": ["*.>"]},
    "a star above everything without acks": {"subjects": ["*.>"], "no_ack": True},
    "API subjects": {"subjects": ["$JS.>"]},
    "API subjects without acks": {"subjects": ["$JS.>"], "no_ack": True},
    "an API request": {"subjects": ["$JS.API.INFO"]},
    "the bare API word": {"subjects": ["$JS"]},
    "events": {"subjects": ["$JS.EVENT.>"]},
    "advisories": {"subjects": ["$JS.EVENT.ADVISORY.API"]},
    "the bare event word": {"subjects": ["$JS.EVENT"]},
    "a star over events": {"subjects": ["$JS.*.ADVISORY"]},
    "mirror subjects": {"subjects": ["$JSC.R.x"]},
    "raft subjects": {"subjects": ["$NRG.>"]},
    "system subjects": {"subjects": ["$SYS.>"]},
    "system requests": {"subjects": ["$SYS.REQ.*"]},
    "account events": {"subjects": ["$SYS.ACCOUNT.>"]},
    "account events of one kind": {"subjects": ["$SYS.ACCOUNT.A.CONNECT"]},
    "system subjects without acks": {"subjects": ["$SYS.>"], "no_ack": True},
    "a key-value bucket": {"subjects": ["$KV.b.>"]},
    # Transforms.
    "a transform": {"subjects": ["a.*"], "subject_transform": transform("a.*", "b.$1")},
    "a transform of everything": {"subject_transform": transform("", "b.>")},
    "a transform to nothing": {"subject_transform": transform("a", "")},
    "an empty transform": {"subject_transform": {}},
    "a transform of a bad source": {"subject_transform": transform("a..b", "c")},
    "a transform of a blank": {"subject_transform": transform(" ", "c")},
    "a transform to a bad subject": {"subject_transform": transform("a", "b..c")},
    "a transform past the end": {"subject_transform": transform("a.>", "b.>.c")},
    "a transform to a blank": {"subject_transform": transform("a", "b c")},
    "a transform to a star": {"subject_transform": transform("a.*", "b.*")},
    "a transform that loses the rest": {"subject_transform": transform("a.>", "b")},
    "a transform without wildcards": {"subject_transform": transform("a", "b.$1")},
    "a transform out of range": {"subject_transform": transform("a.*", "b.$2")},
    "a transform by a function": {"subject_transform": transform("a.*", "b.{{partition(5,1)}}")},
    "a transform by an unknown function": {"subject_transform": transform("a.*", "b.{{x(1)}}")},
    "a transform by the left part": {"subject_transform": transform("a.*", "b.{{left(1,2)}}")},
    "a transform by the right part": {"subject_transform": transform("a.*", "b.{{right(1,2)}}")},
    "a transform by slices": {"subject_transform": transform("a.*", "b.{{SliceFromLeft(1,2)}}")},
    "a transform with too few arguments": {"subject_transform": transform("a.*", "b.{{split(1)}}")},
    "a transform with too many arguments": {"subject_transform": transform("a.*", "b.{{wildcard(1,2)}}")},
    "a transform with a bad argument": {"subject_transform": transform("a.*", "b.{{wildcard(x)}}")},
    "a random transform": {"subject_transform": transform("a", "b.{{random(3)}}")},
    # Republish.
    "republish": {"subjects": ["a.*"], "republish": transform("a.*", "b.$1")},
    "republish of everything": {"republish": {"dest": "b.>"}},
    "republish of headers": {"republish": {"src": ">", "dest": "b.>", "headers_only": True}},
    "republish to everything": {"republish": transform(">", ">")},
    "republish to itself": {"subjects": ["a.*"], "republish": transform("a.*", "a.x.$1")},
    "republish in a circle": {"subjects": ["a.>"], "republish": transform("a.*", "a.x.$1")},
    "republish in a circle through a star": {"subjects": ["a.*"], "republish": transform("a.*", "a.$1")},
    "republish to nowhere": {"republish": {"src": "a"}},
    "republish of nothing to nowhere": {"republish": {}},
    "republish to nowhere of everything": {"subjects": [">"], "no_ack": True, "republish": {}},
    "republish that can not be made": {"republish": transform("a.*", "b.$2")},
    "republish that loses the rest": {"republish": transform("a.>", "b")},
    "republish of a bad source": {"republish": transform("a..b", "c")},
    "republish of what is transformed": {
        "subjects": ["a"],
        "subject_transform": transform("a", "b"),
        "republish": transform(">", ">"),
    },
    "republish of what is transformed by wildcards": {
        "subjects": ["a.*"],
        "subject_transform": transform("a.*", "b.$1"),
        "republish": transform(">", ">"),
    },
    "republish of what is transformed in part": {
        "subjects": ["a", "c"],
        "subject_transform": transform("a", "b"),
        "republish": transform(">", ">"),
    },
    # Mirrors.
    "a mirror": {"mirror": mirrored()},
    "a mirror from somewhere on": {"mirror": mirrored(opt_start_seq=5, filter_subject="a.*")},
    "a mirror from a time on": {"mirror": mirrored(opt_start_time="2020-01-01T00:00:00.5+02:00")},
    "a mirror from a sequence and a time": {
        "mirror": mirrored(opt_start_seq=5, opt_start_time="2020-01-01T00:00:00Z")
    },
    "a mirror with an age and a window": {
        "mirror": mirrored(),
        "max_age": SECOND,
        "duplicate_window": SECOND,
    },
    "a mirror that is direct": {"mirror": mirrored(), "mirror_direct": True},
    "a mirror with subjects": {"mirror": mirrored(), "subjects": ["a"]},
    "a mirror with a first sequence": {"mirror": mirrored(), "first_seq": 5, "subjects": ["a"]},
    "a mirror with sources": {"mirror": mirrored(), "sources": [{"name": "P"}]},
    "a mirror that counts": {"mirror": mirrored(), "allow_msg_counter": True},
    "a mirror with atomic batches": {"mirror": mirrored(), "allow_atomic": True},
    "a mirror with fast batches": {"mirror": mirrored(), "allow_batched": True},
    "a mirror with schedules": {"mirror": mirrored(), "allow_msg_schedules": True},
    "a mirror with delete markers": {"mirror": mirrored(), "subject_delete_marker_ttl": SECOND},
    "a mirror with TTL": {"mirror": mirrored(), "allow_msg_ttl": True},
    "a mirror with rollups": {"mirror": mirrored(), "allow_rollup_hdrs": True},
    "a mirror of nothing": {"mirror": {}},
    "a mirror of a bad name": {"mirror": {"name": "a.b"}},
    "a mirror of itself": {"mirror": {"name": "S"}},
    "a mirror with a bad filter": {"mirror": mirrored(filter_subject="a..b")},
    "a mirror with filter and transforms": {
        "mirror": mirrored(filter_subject="a", subject_transforms=[transform("a", "b")])
    },
    "a mirror with transforms": {
        "mirror": mirrored(subject_transforms=[transform("a.*", "x.$1"), transform("b", "")])
    },
    "a mirror with a bad transform source": {"mirror": mirrored(subject_transforms=[transform("a..b", "x")])},
    "a mirror with a bad transform": {"mirror": mirrored(subject_transforms=[transform("a", "x.$1")])},
    "a mirror with overlapping transforms": {
        "mirror": mirrored(subject_transforms=[transform("a.*", "x.$1"), transform("a.b", "y")])
    },
    "a mirror with a transform of everything": {
        "mirror": mirrored(subject_transforms=[transform("", "x.>"), transform("*", "y.$1")])
    },
    "a mirror with a transform of everything twice": {
        "mirror": mirrored(subject_transforms=[transform("", "x.>"), transform(">", "y.>")])
    },
    "a mirror with an overlap and a later bad source": {
        "mirror": mirrored(subject_transforms=[transform("a.*", "x.$1"), transform("a.", "y")])
    },
    "a mirror through a consumer": {"mirror": mirrored(consumer=_DURABLE)},
    "a mirror through a consumer without name": {"mirror": mirrored(consumer={"deliver_subject": "d"})},
    "a mirror through a consumer to nowhere": {"mirror": mirrored(consumer={"name": "c"})},
    "a mirror through a consumer to a wildcard": {
        "mirror": mirrored(consumer={"name": "c", "deliver_subject": "d.*"})
    },
    "a mirror through a consumer from a sequence": {"mirror": mirrored(consumer=_DURABLE, opt_start_seq=1)},
    "a mirror through a consumer from a time": {
        "mirror": mirrored(consumer=_DURABLE, opt_start_time="2020-01-01T00:00:00Z")
    },
    "a mirror through a consumer with a filter": {"mirror": mirrored(consumer=_DURABLE, filter_subject="a")},
    "a mirror of another domain": {"mirror": mirrored(external=_EXTERNAL)},
    "a mirror of a bad name elsewhere": {"mirror": {"name": "a.b", "external": _EXTERNAL}},
    "a mirror of itself elsewhere": {"mirror": {"name": "S", "external": _EXTERNAL}},
    "a mirror with an empty external": {"mirror": mirrored(external={})},
    "a mirror with a wildcard to deliver": {"mirror": mirrored(external={"api": "x", "deliver": "d.*"})},
    "a mirror with a wildcard API": {"mirror": mirrored(external={"api": 'x"y.>', "deliver": "d"})},
    "a mirror with the API of here": {"mirror": mirrored(external={"api": "$JS.API", "deliver": "d"})},
    "a mirror with an API below that of here": {"mirror": mirrored(external={"api": "$JS.API.x"})},
    # Sources.
    "a source": {"sources": [{"name": "O"}]},
    "a source and subjects": {"sources": [{"name": "O"}], "subjects": ["a"]},
    "no sources": {"sources": []},
    "a null source": {"sources": [None]},
    "a source without name": {"sources": [{}]},
    "a source of a bad name": {"sources": [{"name": "a*"}]},
    "a source twice": {"sources": [{"name": "O"}, {"name": "O"}]},
    "a source twice with filters": {
        "sources": [{"name": "O", "filter_subject": "a"}, {"name": "O", "filter_subject": "b"}]
    },
    "a source twice with the same filter": {
        "sources": [
            {"name": "O", "filter_subject": ">"},
            {"name": "O", "opt_start_seq": 5},
        ]
    },
    "a source twice with the same transform": {
        "sources": [
            {"name": "O", "subject_transforms": [transform("", "")]},
            {"name": "O"},
        ]
    },
    "a source twice from different places": {
        "sources": [{"name": "O"}, {"name": "O", "external": {"api": "x"}}]
    },
    "a source twice from the same place": {
        "sources": [
            {"name": "O", "external": {"api": "x", "deliver": "d"}},
            {"name": "O", "external": {"api": "x", "deliver": "e"}},
        ]
    },
    "a source with filter and transforms": {
        "sources": [{"name": "O", "filter_subject": "a", "subject_transforms": [transform("a", "b")]}]
    },
    "a source with a bad filter": {"sources": [{"name": "O", "filter_subject": "a b"}]},
    "a source with transforms": {
        "sources": [{"name": "O", "subject_transforms": [transform("a.*", "x.$1"), transform("b", "")]}]
    },
    "a source with a bad transform source": {
        "sources": [{"name": "O", "subject_transforms": [transform("a.", "x")]}]
    },
    "a source with a bad transform": {
        "sources": [{"name": "O", "subject_transforms": [transform("a", "{{x(1)}}")]}]
    },
    "a source with overlapping transforms": {
        "sources": [{"name": "O", "subject_transforms": [transform("a.*", "x.$1"), transform("a.b", "y")]}]
    },
    "a source with crossing transforms": {
        "sources": [{"name": "O", "subject_transforms": [transform("a.*", "x.$1"), transform("*.b", "y.$1")]}]
    },
    "a source with equal transforms": {
        "sources": [{"name": "O", "subject_transforms": [transform("a", "x"), transform("a", "y")]}]
    },
    "a source with two transforms of everything": {
        "sources": [{"name": "O", "subject_transforms": [transform("", "x.>"), transform("", "y.>")]}]
    },
    "a source with schedules": {"sources": [{"name": "O"}], "allow_msg_schedules": True},
    "a source with delete markers": {"sources": [{"name": "O"}], "subject_delete_marker_ttl": SECOND},
    "a source with a counter": {"sources": [{"name": "O"}], "allow_msg_counter": True},
    "a source through a consumer": {"sources": [{"name": "O", "consumer": _DURABLE}]},
    "a source through a bad consumer": {
        "sources": [{"name": "O", "consumer": {"name": "a.b", "deliver_subject": "d"}}]
    },
    "a source through a consumer from a sequence": {
        "sources": [{"name": "O", "consumer": _DURABLE, "opt_start_seq": 3}]
    },
    "two sources through one consumer": {
        "sources": [
            {"name": "O", "consumer": _DURABLE},
            {"name": "O", "consumer": _DURABLE, "subject_transforms": [transform("a", "b")]},
        ]
    },
    "two sources through consumers of one name": {
        "sources": [{"name": "O", "consumer": _DURABLE}, {"name": "P", "consumer": _DURABLE}]
    },
    "a source of itself": {"sources": [{"name": "S"}]},
    "a source of itself and other subjects": {
        "subjects": ["a"],
        "sources": [{"name": "S", "filter_subject": "b"}],
    },
    "a source of itself and its subjects": {
        "subjects": ["a.*"],
        "sources": [{"name": "S", "filter_subject": "*.b"}],
    },
    "a source with a wildcard to deliver": {
        "sources": [{"name": "O", "external": {"api": "x", "deliver": "d.>"}}]
    },
    "a source with the API of here": {"sources": [{"name": "O", "external": {"api": "$JS.API"}}]},
    # Which one is told.
    "a bad age and a bad subject": {"max_age": 1, "subjects": ["a..b"]},
    "a bad subject and a bad transform": {"subjects": ["a..b"], "subject_transform": transform("a..b", "")},
    "a bad transform and a bad republish": {
        "subject_transform": transform("a", "$1"),
        "republish": transform("a", "$1"),
    },
    "a cycle and a bad subject": {"subjects": ["a..b"], "sources": [{"name": "S"}]},
    "sealed and a bad age": {"sealed": True, "max_age": 1},
    "a preferred server and a bad republish": {
        "placement": {"preferred": "p"},
        "republish": transform("a", "$1"),
    },
    # Pedantic.
    "pedantic and complete": {"pedantic": True, "duplicate_window": SECOND, "max_age": SECOND},
    "pedantic and nothing but a name": {"pedantic": True},
    "pedantic and an empty placement": {"pedantic": True, "placement": {}},
    "pedantic and a shorter age": {"pedantic": True, "max_age": SECOND},
    **{
        f"pedantic and {field} below": {"pedantic": True, field: -2}
        for field in ("max_msgs", "max_msgs_per_subject", "max_bytes", "max_msg_size", "max_consumers")
    },
    "pedantic and delete markers without TTL": {"pedantic": True, "subject_delete_marker_ttl": SECOND},
    "pedantic and delete markers without rollups": {
        "pedantic": True,
        "subject_delete_marker_ttl": SECOND,
        "allow_msg_ttl": True,
    },
    "pedantic and delete markers": {
        "pedantic": True,
        "subject_delete_marker_ttl": SECOND,
        "allow_msg_ttl": True,
        "allow_rollup_hdrs": True,
    },
    "pedantic and schedules without rollups": {"pedantic": True, "allow_msg_schedules": True},
    "pedantic and republish of nothing": {"pedantic": True, "republish": {"dest": "b.>"}},
    "pedantic and republish of what is transformed": {
        "pedantic": True,
        "subjects": ["a"],
        "subject_transform": transform("a", "b"),
        "republish": transform(">", ">"),
    },
}

# -- several requests --------------------------------------------------------------------------------------

_FULL: dict[str, Any] = {
    "subjects": ["a.>"],
    "sources": [{"name": "O", "opt_start_time": "2020-01-01T00:00:00+01:00"}],
    "republish": transform("a.>", "b.>"),
    "placement": {"tags": ["x"]},
    "consumer_limits": {"max_ack_pending": 7},
    "metadata": {"a": "b"},
}

_LONG = [
    # Names.
    Scenario("another name in the subject", [Step("STREAM.CREATE.X", {"name": "S"})]),
    Scenario("no name at all", [Step("STREAM.CREATE.X", {})]),
    Scenario("no body", [Step("STREAM.CREATE.X", "")]),
    Scenario("a slash in the name", [create("a/b"), create("a\\b", sealed=True)]),
    Scenario("an unknown field", [create(template_owner="x")]),
    Scenario("a word that is none", [create(retention="forever"), create(storage="tape")]),
    Scenario("a name in the wrong place", [create(name="S", subjects="a")]),
    # The same again.
    Scenario("the same stream again", [create(), create()]),
    Scenario("the same stream written differently", [create(), create(subjects=["S"], max_msgs=-1)]),
    Scenario("the same full stream again", [create(**_FULL), create(**_FULL)]),
    Scenario("another stream of the name", [create(), create(max_msgs=1), create(subjects=["a"])]),
    Scenario("the same again with other metadata", [create(), create(metadata={"a": "b"})]),
    Scenario("the same again with metadata of the server", [create(), create(metadata={"_nats.ver": "1"})]),
    Scenario(
        "the same moment in another zone",
        [
            create(sources=[{"name": "O", "opt_start_time": "2020-01-01T00:00:00Z"}]),
            create(sources=[{"name": "O", "opt_start_time": "2020-01-01T01:00:00+01:00"}]),
        ],
    ),
    Scenario(
        "the same subjects in another order", [create(subjects=["a", "b"]), create(subjects=["b", "a"])]
    ),
    Scenario("a bad request for an existing stream", [create(), create(max_age=1), create(num_replicas=3)]),
    # Other streams.
    Scenario(
        "overlap with another stream", [create("A", subjects=["a.*.c"]), create(subjects=["b", "a.x.*"])]
    ),
    Scenario(
        "overlap with the name of another", [create("A"), create(subjects=["A"]), create(subjects=[">"])]
    ),
    Scenario("no overlap with another stream", [create("A", subjects=["a.*"]), create(subjects=["a.*.>"])]),
    Scenario("a mirror inherits direct gets", [create("O", allow_direct=True), create(mirror=mirrored())]),
    Scenario("a mirror loses direct gets", [create("O"), create(mirror=mirrored(), mirror_direct=True)]),
    Scenario(
        "pedantic mirrors of direct gets",
        [
            create("O", allow_direct=True),
            create(mirror=mirrored(), pedantic=True),
            create(mirror=mirrored(), mirror_direct=True, pedantic=True),
        ],
    ),
    Scenario(
        "a mirror elsewhere inherits nothing",
        [create("O", allow_direct=True), create(mirror=mirrored(external=_EXTERNAL))],
    ),
    Scenario(
        "message sizes of mirrors",
        [
            create("O", max_msg_size=100),
            create("A", mirror=mirrored(), max_msg_size=99),
            create("B", mirror=mirrored(), max_msg_size=100),
            create("C", mirror=mirrored()),
        ],
    ),
    Scenario(
        "message sizes of sources",
        [
            create("O", max_msg_size=100),
            create("A", sources=[{"name": "O"}], max_msg_size=99),
            create("B", sources=[{"name": "O", "external": {"api": "x"}}], max_msg_size=99),
        ],
    ),
    Scenario(
        "delivery prefixes",
        [
            create("P", subjects=["d", "c.>"]),
            create("A", sources=[{"name": "P"}, {"name": "X", "external": {"api": "x", "deliver": "c"}}]),
            create("B", sources=[{"name": "P"}, {"name": "X", "external": {"api": "x", "deliver": "e"}}]),
            create("C", sources=[{"name": "X", "external": {"api": "x", "deliver": "c"}}]),
        ],
    ),
    Scenario(
        "cycles of sources",
        [
            create("A", sources=[{"name": "B"}]),
            create("B", sources=[{"name": "C"}]),
            create("C", sources=[{"name": "A"}]),
            create("C", sources=[{"name": "A", "external": {"api": "x"}}]),
        ],
    ),
    Scenario(
        "cycles of filtered sources",
        [
            create("A", subjects=["a"], sources=[{"name": "B", "filter_subject": "b"}]),
            create("B", subjects=["b"], sources=[{"name": "A", "filter_subject": "a"}]),
            create("C", subjects=["c"], sources=[{"name": "C", "filter_subject": "c"}]),
        ],
    ),
    Scenario(
        "cycles behind mirrors",
        [
            create("M", mirror={"name": "A"}),
            create("A", sources=[{"name": "M"}]),
            create("A", mirror={"name": "M"}),
        ],
    ),
    Scenario(
        "two ways to one stream",
        [
            create("D"),
            create("B", mirror={"name": "D"}),
            create("C", mirror={"name": "D"}),
            create("X", sources=[{"name": "B"}, {"name": "C"}]),
            create("Y", sources=[{"name": "B"}, {"name": "D"}]),
            create("Z", sources=[{"name": "D"}, {"name": "B"}]),
        ],
    ),
    # Updates.
    Scenario("an update of nothing", [update()]),
    Scenario("an update under another name", [create(), Step("STREAM.UPDATE.X", {"name": "S"})]),
    Scenario("an update without name", [create(), Step("STREAM.UPDATE.S", {}), Step("STREAM.UPDATE.S", "")]),
    Scenario("a bad update under another name", [Step("STREAM.UPDATE.X", {"name": "S", "max_age": 1})]),
    Scenario("an update to the same", [create(), update()]),
    Scenario(
        "an update of everything that may change",
        [
            create(),
            update(
                description="new",
                subjects=["x", "y.*"],
                retention="interest",
                max_consumers=3,
                max_msgs=10,
                max_bytes=1000,
                max_age=SECOND,
                max_msgs_per_subject=2,
                max_msg_size=100,
                discard="new",
                discard_new_per_subject=True,
                no_ack=True,
                duplicate_window=SECOND,
                placement={"cluster": "c"},
                sources=[{"name": "O"}],
                compression="s2",
                first_seq=7,
                subject_transform=transform("y.*", "z.$1"),
                republish=transform("", "w.>"),
                allow_direct=True,
                deny_delete=True,
                deny_purge=True,
                consumer_limits={"max_ack_pending": 5},
                allow_msg_ttl=True,
                allow_atomic=True,
                allow_batched=True,
                metadata={"a": "b"},
            ),
            update(deny_delete=True, deny_purge=True, allow_msg_ttl=True),
        ],
    ),
    Scenario("an update of the storage", [create(), update(storage="memory")]),
    Scenario(
        "an update of the retention",
        [
            create(),
            update(retention="workqueue"),
            update(retention="interest"),
            update(),
            create("W", retention="workqueue"),
            update("W"),
            update("W", retention="interest"),
        ],
    ),
    Scenario("an update of the replicas", [create(), update(num_replicas=3), update(num_replicas=-1)]),
    Scenario(
        "sealing",
        [
            create(max_age=SECOND, allow_rollup_hdrs=True),
            update(
                sealed=True, max_age=SECOND, allow_rollup_hdrs=True, pedantic=True, duplicate_window=SECOND
            ),
            update(deny_delete=True, deny_purge=True),
            update(sealed=True),
            update(sealed=True, deny_delete=True, deny_purge=True),
            create(),
        ],
    ),
    Scenario("denials stay", [create(deny_delete=True, deny_purge=True), update(), update(deny_delete=True)]),
    Scenario(
        "denied purges and rollups",
        [
            create(deny_purge=True),
            update(deny_purge=True, allow_rollup_hdrs=True),
            update(deny_purge=True, subject_delete_marker_ttl=SECOND),
        ],
    ),
    Scenario(
        "TTL stays",
        [create(), update(allow_msg_ttl=True), update(), update(subject_delete_marker_ttl=SECOND)],
    ),
    Scenario(
        "counters stay",
        [create("A", allow_msg_counter=True), update("A"), create(), update(allow_msg_counter=True)],
    ),
    Scenario("schedules stay", [create(), update(allow_msg_schedules=True), update()]),
    Scenario(
        "persistence stays",
        [create("A", persist_mode="async"), update("A"), create(), update(persist_mode="async")],
    ),
    Scenario("atomic batches go", [create(allow_atomic=True), update()]),
    Scenario(
        "discard new per subject in an update",
        [create(), update(discard_new_per_subject=True), update(discard_new_per_subject=True, discard="new")],
    ),
    Scenario("an update to overlap", [create("A", subjects=["a"]), create(), update(subjects=["S", "a"])]),
    Scenario("an update that overlaps only itself", [create(subjects=["a.b"]), update(subjects=["a.*"])]),
    Scenario("an update to a mirror", [create(), update(mirror=mirrored())]),
    Scenario(
        "an update of a mirror",
        [
            create(mirror=mirrored(opt_start_time="2020-01-01T00:00:00Z")),
            update(mirror=mirrored(opt_start_time="2020-01-01T00:00:00Z"), max_msgs=5),
            update(mirror=mirrored(opt_start_time="2020-01-01T01:00:00+01:00")),
            update(mirror=mirrored()),
            update(mirror={"name": "P"}),
        ],
    ),
    Scenario(
        "promotion of a mirror",
        [
            create("O", allow_direct=True),
            create(mirror=mirrored()),
            update(mirror_direct=True),
            update(subjects=["x"]),
            update(mirror=mirrored()),
        ],
    ),
    Scenario("mirror direct without mirror in an update", [create(), update(mirror_direct=True)]),
    Scenario(
        "sources in an update",
        [
            create(),
            update(sources=[{"name": "O"}]),
            update(sources=[{"name": "O"}, {"name": "O"}]),
            update(sources=[{"name": "S"}]),
            update(sources=[{"name": "O", "filter_subject": "a..b"}]),
        ],
    ),
    Scenario(
        "republish in an update",
        [
            create(),
            update(republish={"src": ">"}),
            update(republish={"src": "a"}),
            update(republish={}),
            update(republish=transform("S", "S.x")),
            update(republish=transform("S", "$1")),
        ],
    ),
    Scenario(
        "implicit republish in an update",
        [create(), update(subject_transform=transform("S", "x"), republish=transform(">", ">"))],
    ),
    Scenario("transforms in an update", [create(), update(subject_transform=transform("S", "")), update()]),
    Scenario("pedantic updates", [create(), update(pedantic=True), update(pedantic=True, max_age=SECOND)]),
    Scenario(
        "placement in an update", [create(), update(placement={}), update(placement={"preferred": "x"})]
    ),
    Scenario(
        "metadata in an update",
        [
            create(metadata={"a": "b"}),
            update(metadata={"_nats.ver": "x", "_nats.level": "y", "_nats.req.level": "z", "c": "d"}),
            update(metadata={"k": "v" * (128 * 1024 - 17)}),
            update(metadata={"k": "v" * (128 * 1024 - 16)}),
            update(metadata={"k": "v" * (128 * 1024)}),
        ],
    ),
    Scenario(
        "limits that consumers exceed",
        [
            create(),
            Step(
                "CONSUMER.CREATE.S.c", {"stream_name": "S", "config": {"name": "c", "ack_policy": "explicit"}}
            ),
            update(consumer_limits={"max_ack_pending": 10}),
            update(consumer_limits={"max_ack_pending": 1000}),
            update(consumer_limits={"inactive_threshold": SECOND}),
            update(consumer_limits={"inactive_threshold": 3600 * SECOND, "max_ack_pending": 1000}),
        ],
    ),
    # Limits of the account.
    Scenario(
        "as many streams as allowed",
        [create("A"), create("B"), create("C"), create("A"), create("C", max_age=1), update("A", max_msgs=5)],
        account={"max_streams": 2},
    ),
    Scenario(
        "as many consumers as allowed",
        [
            create("A", max_consumers=3),
            create("B"),
            create("C", max_consumers=2),
            update("C", max_consumers=3),
        ],
        account={"max_consumers": 2},
    ),
    Scenario(
        "a size is required",
        [create(), create(max_bytes=-1), create(max_bytes=10), update(), create("B", subjects=["a..b"])],
        account={"max_bytes_required": True},
    ),
    Scenario(
        "sizes of streams are limited",
        [
            create("A", max_bytes=101),
            create("A", max_bytes=100),
            create("B", max_bytes=51, storage="memory"),
            create("B", max_bytes=50, storage="memory"),
            create("C"),
            update("A", max_bytes=101),
        ],
        account={"store_max_stream_bytes": 100, "memory_max_stream_bytes": 50},
    ),
    Scenario(
        "the account has so much storage",
        [
            create("A", max_bytes=60, storage="file"),
            create("B", max_bytes=60, storage="file"),
            create("B", max_bytes=40, storage="file"),
            create("C", storage="file"),
            create("C", storage="file", max_bytes=-1),
            create("C"),
            create("D", storage="memory", max_bytes=1000),
            update("A", max_bytes=61),
            update("A", max_bytes=50),
            create("C"),
            update("A", max_bytes=60),
            update("A"),
            update("A", max_bytes=61),
            create("E", max_bytes=1000, storage="file", max_age=1),
            create("E", max_bytes=1000, max_age=1),
            create("E", max_consumers=1000, max_age=1),
            create("E", max_bytes=20, storage="file", num_replicas=3),
        ],
        account={"max_store": 100, "max_consumers": 999},
    ),
    Scenario(
        "the account has so much memory",
        [
            create("A", max_bytes=60, storage="memory"),
            create("B", max_bytes=60, storage="memory"),
            create("B", storage="memory"),
            create("C", max_bytes=60),
            update("A", max_bytes=101, storage="memory"),
            update("A", max_bytes=100, storage="memory"),
            create("D", storage="memory"),
        ],
        account={"max_memory": 100},
    ),
    Scenario(
        "the account has no storage",
        [create(), create(storage="memory")],
        account={"max_store": 0},
    ),
    # Limits of the server.
    Scenario(
        "the server has so much storage",
        [
            create("A", max_bytes=MEGABYTE + 1),
            create("A", max_bytes=MEGABYTE, storage="file"),
            create("A", max_bytes=MEGABYTE, storage="file"),
            create("A", max_bytes=MEGABYTE),
            create("B", storage="file"),
            create("B", max_bytes=1, storage="file"),
            create("B", max_bytes=0),
            update("A", max_bytes=MEGABYTE + 1),
            update("A", max_bytes=MEGABYTE - 1),
            create("B"),
        ],
        server=TIGHT,
    ),
    Scenario(
        "the server has so much memory",
        [
            create("A", max_bytes=MEGABYTE + 1, storage="memory"),
            create("A", max_bytes=MEGABYTE, storage="memory"),
            create("B", storage="memory"),
        ],
        server=TIGHT,
    ),
    Scenario(
        "the server limits the window",
        [
            create("A"),
            create("B", duplicate_window=61 * SECOND),
            create("B", duplicate_window=60 * SECOND),
            create("C", max_age=30 * SECOND),
            create("D", pedantic=True),
            create("D", pedantic=True, duplicate_window=SECOND),
            create("E", mirror=mirrored()),
        ],
        server=TIGHT,
    ),
]

SCENARIOS = [
    *(Scenario(name, [create(**fields)]) for name, fields in ALONE.items()),
    *_LONG,
]

STREAM_CONFIG = Suite("stream_config", SERVERS, SCENARIOS)
