"""Requests to create and update consumers, accepted and refused: one or more for every rule.

A scenario has an account of its own, which may have limits, on one of two servers: `plain`, or `tight`, which
has limits for consumers.  What nats-server answered is in tests/golden/jetstream_config/consumer_config.json.
"""

from typing import Any

from tests.kits.conformance.config_suite import PLAIN, SUBSCRIBE, TIGHT, Scenario, Step, Suite

MILLISECOND = 10**6
SECOND = 10**9
FUTURE = "2100-01-01T00:00:00Z"
PAST = "2020-01-01T00:00:00Z"

SERVERS: dict[str, dict[str, Any]] = {
    PLAIN: {"max_mem": 2**30, "max_file": 2**32},
    TIGHT: {
        "max_mem": 2**30,
        "max_file": 2**32,
        "limits": {"max_ack_pending": 500, "max_request_batch": 50, "default_max_consumers": 2},
    },
}


def stream(name: str = "S", **fields: Any) -> Step:
    return Step(f"STREAM.CREATE.{name}", {"name": name, "subjects": [f"{name.lower()}.>"], **fields})


def body(config: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {"stream_name": "S", "config": config, **fields}


def _split(config: dict[str, Any]) -> dict[str, Any]:
    """Remove from `config` the fields that stand beside the configuration in the body, and return them."""
    return {key: config.pop(key) for key in ("action", "pedantic", "stream_name") if key in config}


def new(consumer: str = "c", **config: Any) -> Step:
    """An ephemeral with a name, or with `durable_name` a durable, by the subject that clients use today."""
    beside = _split(config)
    return Step(f"CONSUMER.CREATE.S.{consumer}", body({"name": consumer.split(".")[0], **config}, **beside))


def durable(consumer: str = "d", **config: Any) -> Step:
    return new(consumer, **{"durable_name": consumer, **config})


def legacy(**config: Any) -> Step:
    beside = _split(config)
    return Step("CONSUMER.CREATE.S", body(config, **beside))


def legacy_durable(consumer: str = "d", **config: Any) -> Step:
    beside = _split(config)
    return Step(f"CONSUMER.DURABLE.CREATE.S.{consumer}", body({"durable_name": consumer, **config}, **beside))


_PUSH: dict[str, Any] = {"deliver_subject": "d.x"}
_EXPLICIT = {"ack_policy": "explicit"}
_BACKOFF = [SECOND, 2 * SECOND, 3 * SECOND]
_HEARTBEAT: dict[str, Any] = {"idle_heartbeat": SECOND}
_FLOW = {"deliver_subject": "d.x", "ack_policy": "flow_control"}
_FLOW_WHOLE = {**_FLOW, "flow_control": True, "idle_heartbeat": SECOND}
_PINNED: dict[str, Any] = {"priority_policy": "pinned_client", "priority_groups": ["A"]}
_POLICIES = ["all", "last", "new", "by_start_sequence", "by_start_time", "last_per_subject"]

# -- one request, on a stream of s.> -----------------------------------------------------------------------

ALONE: dict[str, dict[str, Any]] = {
    "nothing but a name": {},
    "a durable": {"durable_name": "c"},
    "a push consumer": _PUSH,
    "a durable push consumer": {"durable_name": "c", **_PUSH},
    "every field of a pull consumer": {
        "durable_name": "c",
        "description": "what it is for",
        "deliver_policy": "by_start_sequence",
        "opt_start_seq": 7,
        "ack_policy": "explicit",
        "ack_wait": 5 * SECOND,
        "max_deliver": 5,
        "backoff": _BACKOFF,
        "filter_subjects": ["s.a", "s.b.*"],
        "replay_policy": "original",
        "sample_freq": "30%",
        "max_waiting": 10,
        "max_ack_pending": 20,
        "headers_only": True,
        "max_batch": 30,
        "max_expires": 40 * SECOND,
        "max_bytes": 50,
        "inactive_threshold": 60 * SECOND,
        "num_replicas": 1,
        "mem_storage": True,
        "metadata": {"a": "b"},
        "pause_until": FUTURE,
        "priority_policy": "overflow",
        "priority_groups": ["A", "B"],
    },
    "every field of a push consumer": {
        "durable_name": "c",
        "deliver_policy": "by_start_time",
        "opt_start_time": "2020-01-01T01:00:00.5+01:00",
        "ack_policy": "all",
        "filter_subject": "s.>",
        "rate_limit_bps": 100,
        "flow_control": True,
        "deliver_subject": "d.x",
        "deliver_group": "g",
        "idle_heartbeat": SECOND,
    },
    # Texts.
    "a name of 255 bytes": {"name": "n" * 255},
    "a name with a blank": {"name": "a b"},
    "a description of 4096 bytes": {"description": "d" * 4096},
    "a description of 4097 bytes": {"description": "d" * 4097},
    "a description of two-byte letters": {"description": "é" * 2049},
    "metadata": {"metadata": {"a": "b", "": "c"}},
    "metadata at the limit": {"metadata": {"k": "v" * (128 * 1024 - 17)}},
    "metadata beyond the limit": {"metadata": {"k": "v" * (128 * 1024 - 16)}},
    "metadata far beyond the limit": {"metadata": {"k": "v" * (128 * 1024)}},
    "metadata of the server": {
        "metadata": {"_nats.ver": "1", "_nats.level": "9", "_nats.req.level": "7", "_nats.other": "x"}
    },
    # Numbers that are put right, and those that are not.
    "numbers below what they may be": {
        "max_deliver": -5,
        "max_waiting": -1,
        "max_ack_pending": -7,
        "max_batch": -1,
        "max_expires": -1,
        "max_bytes": -1,
        "idle_heartbeat": -1,
        "inactive_threshold": -1,
    },
    "a negative priority timeout": {"priority_timeout": -1},
    "unlimited deliveries": {"max_deliver": -1},
    "one delivery": {"max_deliver": 1, **_EXPLICIT},
    "no acks pending limit": {"max_ack_pending": -1, **_EXPLICIT},
    "max ack pending without acks": {"max_ack_pending": 5},
    "max ack pending without acks on push": {"max_ack_pending": 5, **_PUSH},
    "unlimited ack pending without acks on push": {"max_ack_pending": -1, **_PUSH},
    "ack explicit": _EXPLICIT,
    "ack all": {"ack_policy": "all"},
    "ack none on purpose": {"ack_policy": "none"},
    "an ack wait": {"ack_wait": 5, **_EXPLICIT},
    "an ack wait without acks": {"ack_wait": 5},
    "a negative ack wait": {"ack_wait": -1},
    "a negative ack wait with backoff": {"ack_wait": -1, "backoff": [SECOND]},
    "backoff": {"backoff": _BACKOFF, **_EXPLICIT},
    "backoff without acks": {"backoff": _BACKOFF},
    "backoff of nothing": {"backoff": [], **_EXPLICIT},
    "backoff of zero": {"backoff": [0], **_EXPLICIT},
    "negative backoff": {"backoff": [SECOND, -1], **_EXPLICIT},
    "negative backoff first": {"backoff": [-1], "ack_wait": -1, **_EXPLICIT},
    "backoff as long as deliveries": {"backoff": _BACKOFF, "max_deliver": 3, **_EXPLICIT},
    "backoff longer than deliveries": {"backoff": _BACKOFF, "max_deliver": 2, **_EXPLICIT},
    "backoff shorter than deliveries": {"backoff": _BACKOFF, "max_deliver": 9, **_EXPLICIT},
    # Limits of pull requests.
    "max expires too short": {"max_expires": MILLISECOND - 1},
    "the shortest max expires": {"max_expires": MILLISECOND},
    "max expires too short on push": {"max_expires": 1, **_PUSH},
    "limits of requests on push": {"max_batch": 5, "max_bytes": 5, **_PUSH},
    "max waiting on push": {"max_waiting": 5, **_PUSH},
    "negative max waiting on push": {"max_waiting": -5, **_PUSH},
    # Push.
    "a rate limit": {"rate_limit_bps": 100, **_PUSH},
    "a rate limit on pull": {"rate_limit_bps": 100},
    "a heartbeat": {**_HEARTBEAT, **_PUSH},
    "a heartbeat on pull": _HEARTBEAT,
    "a heartbeat too short": {"idle_heartbeat": 100 * MILLISECOND - 1, **_PUSH},
    "the shortest heartbeat": {"idle_heartbeat": 100 * MILLISECOND, **_PUSH},
    "flow control": {"flow_control": True, **_HEARTBEAT, **_PUSH},
    "flow control without heartbeat": {"flow_control": True, **_PUSH},
    "flow control on pull": {"flow_control": True},
    "flow control and heartbeat on pull": {"flow_control": True, **_HEARTBEAT},
    "a deliver group on pull": {"deliver_group": "g"},
    "a deliver group with a blank": {"deliver_group": "g h", **_PUSH},
    "delivery to a wildcard": {"deliver_subject": "d.*"},
    "delivery to everything": {"deliver_subject": "d.>"},
    "delivery to nothing valid": {"deliver_subject": "d..x"},
    "delivery to a blank": {"deliver_subject": "d x"},
    "delivery to a star inside a token": {"deliver_subject": "d.x*"},
    "delivery in a cycle": {"deliver_subject": "s.x"},
    "delivery in a cycle before other mistakes": {
        "deliver_subject": "s.x",
        "max_waiting": 5,
        "sample_freq": "x",
    },
    "delivery beside the stream": {"deliver_subject": "s"},
    "delivery into the API": {"deliver_subject": "$JS.API.x"},
    # Ack policy of flow control.
    "flow control acks": _FLOW,
    "flow control acks in full": _FLOW_WHOLE,
    "flow control acks on pull": {"ack_policy": "flow_control"},
    "flow control acks with another heartbeat": {**_FLOW, "idle_heartbeat": 2 * SECOND},
    "flow control acks without limit": {**_FLOW, "max_ack_pending": -1},
    "flow control acks with a limit": {**_FLOW, "max_ack_pending": 10},
    "flow control acks with ack wait": {**_FLOW, "ack_wait": SECOND},
    "flow control acks with a negative ack wait": {**_FLOW, "ack_wait": -1},
    "flow control acks with backoff": {**_FLOW, "backoff": [0]},
    "flow control acks with max deliver": {**_FLOW, "max_deliver": 2},
    "flow control acks with unlimited deliveries": {**_FLOW, "max_deliver": -1},
    # Where it starts.
    **{f"deliver policy {policy} alone": {"deliver_policy": policy} for policy in _POLICIES},
    **{
        f"deliver policy {policy} with sequence": {"deliver_policy": policy, "opt_start_seq": 5}
        for policy in _POLICIES
    },
    **{
        f"deliver policy {policy} with time": {"deliver_policy": policy, "opt_start_time": PAST}
        for policy in _POLICIES
    },
    **{
        f"deliver policy {policy} with both": {
            "deliver_policy": policy,
            "opt_start_time": PAST,
            "opt_start_seq": 5,
        }
        for policy in _POLICIES
    },
    "last per subject with a filter": {"deliver_policy": "last_per_subject", "filter_subject": "s.*"},
    "last per subject with filters": {
        "deliver_policy": "last_per_subject",
        "filter_subjects": ["s.a", "s.b"],
    },
    "an undefined deliver policy": {"deliver_policy": "undefined"},
    "the zero time": {"deliver_policy": "by_start_time", "opt_start_time": "0001-01-01T00:00:00Z"},
    # Filters.
    "a filter": {"filter_subject": "s.a"},
    "a filter outside the stream": {"filter_subject": "t.a"},
    "a filter that is no subject": {"filter_subject": "s..a"},
    "a filter with a blank": {"filter_subject": "s. a"},
    "filters": {"filter_subjects": ["s.a", "s.b"]},
    "one filter in a list": {"filter_subjects": ["s.a"]},
    "no filters in a list": {"filter_subjects": []},
    "both forms of filters": {"filter_subject": "s.a", "filter_subjects": ["s.b"]},
    "both forms of filters, one invalid": {"filter_subject": "s..a", "filter_subjects": ["s.b"]},
    "a filter and an empty list": {"filter_subject": "s.a", "filter_subjects": []},
    "an empty filter in a list": {"filter_subjects": ["s.a", ""]},
    "an invalid filter in a list": {"filter_subjects": ["s.a", "s..b"]},
    "an invalid and an empty filter in a list": {"filter_subjects": ["s..b", ""]},
    "the same filter twice": {"filter_subjects": ["s.a", "s.a"]},
    "overlapping filters": {"filter_subjects": ["s.a", "s.*"]},
    "overlapping filters the other way": {"filter_subjects": ["s.>", "s.a"]},
    "filters that cross": {"filter_subjects": ["s.a.*", "s.*.b"]},
    "overlapping and invalid filters": {"filter_subjects": ["s.a", "s.*", "s..c"]},
    "an invalid filter below another": {"filter_subjects": ["s.>", "s..a"]},
    "an invalid filter above another": {"filter_subjects": ["s..a", "s.>"]},
    # Sampling.
    **{
        f"sampling {text!r}": {"sample_freq": text}
        for text in (
            "30",
            "30%",
            "0",
            "100%",
            "101",
            "+5",
            "-5",
            "-5%",
            "x",
            "%",
            "%%",
            "1.5",
            " 5",
            "5 ",
            "1_0",
            "99999999999999999999",
            "é",
            "0x10",
            "٣",
        )
    },
    # Replicas.
    "one replica": {"num_replicas": 1},
    "two replicas": {"num_replicas": 2},
    "negative replicas": {"num_replicas": -1},
    # Inactivity.
    "an inactive threshold": {"inactive_threshold": SECOND},
    "an inactive threshold of a durable": {"durable_name": "c", "inactive_threshold": SECOND},
    # Flags.
    "memory storage": {"mem_storage": True},
    "headers only": {"headers_only": True},
    "direct": {"direct": True, **_PUSH},
    "direct pull": {"direct": True},
    "direct durable": {"direct": True, "durable_name": "c", **_PUSH},
    "sourcing": {"sourcing": True},
    # Pauses.
    "a pause": {"pause_until": FUTURE},
    "a pause in another zone": {"pause_until": "2100-01-01T01:00:00+01:00"},
    "a pause in the past": {"pause_until": PAST},
    "a pause until the zero time": {"pause_until": "0001-01-01T00:00:00Z"},
    # Priority groups.
    "overflow": {"priority_policy": "overflow", "priority_groups": ["A"]},
    "pinned client": _PINNED,
    "pinned client with a timeout": {**_PINNED, "priority_timeout": SECOND},
    "overflow with a timeout": {
        "priority_policy": "overflow",
        "priority_groups": ["A"],
        "priority_timeout": SECOND,
    },
    "prioritized": {"priority_policy": "prioritized", "priority_groups": ["A"]},
    "a policy without groups": {"priority_policy": "overflow"},
    "a policy with an empty group": {"priority_policy": "overflow", "priority_groups": [""]},
    "a policy with an empty second group": {"priority_policy": "overflow", "priority_groups": ["A", ""]},
    "a group with a blank": {"priority_policy": "overflow", "priority_groups": ["a b"]},
    "a group of every character": {"priority_policy": "overflow", "priority_groups": ["aZ09/_=-"]},
    "a group of 16 characters": {"priority_policy": "overflow", "priority_groups": ["a" * 16]},
    "a group of 17 characters": {"priority_policy": "overflow", "priority_groups": ["a" * 17]},
    "a group with a line end": {"priority_policy": "overflow", "priority_groups": ["a\n"]},
    "the same group twice": {"priority_policy": "overflow", "priority_groups": ["A", "A"]},
    "groups without policy": {"priority_groups": ["A"]},
    "groups with policy none": {"priority_groups": ["A"], "priority_policy": "none"},
    "a timeout without policy": {"priority_timeout": SECOND},
    "groups and a timeout without policy": {"priority_groups": ["A"], "priority_timeout": SECOND},
    "groups on push": {**_PINNED, **_PUSH},
    "a policy on push without groups": {"priority_policy": "overflow", **_PUSH},
    "groups on push without policy": {"priority_groups": ["A"], **_PUSH},
    # JSON.
    "an unknown field": {"what": 1},
    "an unknown ack policy": {"ack_policy": "maybe"},
    "an unknown deliver policy": {"deliver_policy": "maybe"},
    "an unknown replay policy": {"replay_policy": "maybe"},
    "an unknown priority policy": {"priority_policy": "maybe"},
    "a number as text": {"max_deliver": "5"},
    "a time that is none": {"opt_start_time": "yesterday"},
    "an unsigned number below zero": {"opt_start_seq": -1},
    "null everywhere": {"backoff": None, "filter_subjects": None, "metadata": None, "pause_until": None},
    # The first of two mistakes.
    "replicas before ack wait": {"num_replicas": -1, "ack_wait": -1},
    "backoff before ack wait": {"backoff": [SECOND, -1], "ack_wait": -1},
    "ack wait before description": {"ack_wait": -1, "description": "d" * 5000},
    "max deliver before description": {"backoff": _BACKOFF, "max_deliver": 1, "description": "d" * 5000},
    "description before delivery": {"description": "d" * 5000, "deliver_subject": "*"},
    "max waiting before heartbeat": {"max_waiting": 1, "idle_heartbeat": 1, **_PUSH},
    "ack pending before heartbeat": {"max_ack_pending": 1, "idle_heartbeat": 1, **_PUSH},
    "heartbeat before filters": {"idle_heartbeat": 1, "filter_subjects": [""], **_PUSH},
    "rate limit before heartbeat": {"rate_limit_bps": 1, **_HEARTBEAT},
    "max expires before direct": {"max_expires": 1, "direct": True},
    "direct before filters": {"direct": True, "filter_subjects": [""]},
    "filters before policy": {"filter_subjects": [""], "opt_start_seq": 5},
    "policy before sampling": {"opt_start_seq": 5, "sample_freq": "x"},
    "sampling before flow control": {"sample_freq": "x", "flow_control": True, **_PUSH},
    "flow control before names": {"flow_control": True, **_PUSH, "metadata": {"k": "v" * (128 * 1024)}},
    "metadata before groups": {"metadata": {"k": "v" * (128 * 1024)}, "priority_groups": ["A"]},
}

PEDANTIC: dict[str, dict[str, Any]] = {
    "nothing": {},
    "max deliver": {"max_deliver": -2},
    "max deliver zero": {"max_deliver": 0},
    "max waiting": {"max_waiting": -1},
    "max ack pending": {"max_ack_pending": -2},
    "max batch": {"max_batch": -1},
    "max expires": {"max_expires": -1},
    "max bytes": {"max_bytes": -1},
    "heartbeat": {"idle_heartbeat": -1},
    "inactive threshold": {"inactive_threshold": -1},
    "priority timeout": {"priority_timeout": -1},
    "backoff": {"backoff": _BACKOFF, **_EXPLICIT},
    "backoff with its ack wait": {"backoff": _BACKOFF, "ack_wait": SECOND, **_EXPLICIT},
    "backoff that is the default": {"backoff": [30 * SECOND], **_EXPLICIT},
    "flow control acks": _FLOW,
    "flow control acks in full": _FLOW_WHOLE,
    "flow control acks with another heartbeat": {**_FLOW_WHOLE, "idle_heartbeat": 2 * SECOND},
    "flow control acks without heartbeat": {**_FLOW, "flow_control": True},
    "pinned": _PINNED,
    "the first of two": {"max_bytes": -1, "max_waiting": -1},
    "before a mistake": {"max_bytes": -1, "num_replicas": -1},
}

_LIMITED: dict[str, Any] = {"consumer_limits": {"max_ack_pending": 10, "inactive_threshold": 60 * SECOND}}
_QUEUE = {"retention": "workqueue"}
_INTEREST = {"retention": "interest"}

_LONG: list[Scenario] = [
    # The forms of the subject.
    Scenario("an ephemeral without name", [stream(), legacy(), legacy(**_PUSH), legacy(durable_name="")]),
    Scenario(
        "an ephemeral with a name the old way",
        [stream(), legacy(name="n"), legacy(name="n"), legacy(name="a.b"), legacy(name="a/b")],
    ),
    Scenario(
        "a durable in the old subject for ephemerals",
        [stream(), legacy(durable_name="d"), legacy(durable_name="d", name="n")],
    ),
    Scenario(
        "a durable the old way",
        [
            stream(),
            legacy_durable(),
            legacy_durable(name="d"),
            legacy_durable(name="n"),
            legacy_durable("e", name="n"),
            Step("CONSUMER.DURABLE.CREATE.S.d", body({})),
            Step("CONSUMER.DURABLE.CREATE.S.d", body({"durable_name": "e"})),
            Step("CONSUMER.DURABLE.CREATE.S.d/e", body({"durable_name": "d/e"})),
            Step("CONSUMER.DURABLE.CREATE.S.d", body({"name": "d"})),
        ],
    ),
    Scenario(
        "names in the subject",
        [
            stream(),
            Step("CONSUMER.CREATE.S.n", body({})),
            Step("CONSUMER.CREATE.S.n", body({"name": "m"})),
            Step("CONSUMER.CREATE.S.m", body({"durable_name": "n"})),
            Step("CONSUMER.CREATE.S.n", body({"durable_name": "n", "name": "m"})),
            Step("CONSUMER.CREATE.S.o", body({"durable_name": "o", "name": "m"})),
            Step("CONSUMER.CREATE.S.a/b", body({})),
            Step("CONSUMER.CREATE.S.a\\b", body({"durable_name": "x"})),
            Step("CONSUMER.CREATE.S.*", body({})),
            Step("CONSUMER.CREATE.S.>", body({})),
            Step("CONSUMER.CREATE.S.a*b", body({})),
            Step("CONSUMER.CREATE.S.a>", body({"durable_name": "a>"})),
        ],
    ),
    Scenario(
        "long names",
        [
            stream(),
            stream("M", storage="memory"),
            Step(f"CONSUMER.CREATE.S.{'n' * 255}", body({})),
            Step(f"CONSUMER.CREATE.S.{'m' * 255}", body({"durable_name": "m" * 255})),
            Step(f"CONSUMER.CREATE.S.{'m' * 256}", body({"durable_name": "m" * 256})),
            Step(f"CONSUMER.CREATE.S.{'n' * 256}", body({})),
            Step(f"CONSUMER.CREATE.S.{'n' * 256}", body({"mem_storage": True})),
            Step(f"CONSUMER.CREATE.M.{'n' * 256}", body({}, stream_name="M")),
            Step(f"CONSUMER.CREATE.M.{'n' * 256}", body({"durable_name": "n" * 256}, stream_name="M")),
        ],
    ),
    Scenario(
        "filters in the subject",
        [
            stream(),
            Step("CONSUMER.CREATE.S.a.s.x", body({"filter_subject": "s.x"})),
            Step("CONSUMER.CREATE.S.a.s.>", body({"filter_subject": "s.>"})),
            Step("CONSUMER.CREATE.S.b.s.x", body({"filter_subject": "s.y"})),
            Step("CONSUMER.CREATE.S.b.s.x", body({})),
            Step("CONSUMER.CREATE.S.b.s.x", body({"filter_subjects": ["s.x"]})),
            Step("CONSUMER.CREATE.S.b.s.x", body({"filter_subjects": ["s.x"], "filter_subject": "s.y"})),
            Step("CONSUMER.CREATE.S.b", body({"filter_subject": "s.y"})),
            Step("CONSUMER.CREATE.S.b.s.x", body({"durable_name": "c", "filter_subject": "s.y"})),
        ],
    ),
    Scenario(
        "the name of the stream",
        [
            stream(),
            Step("CONSUMER.CREATE.S.c", {"config": {}}),
            Step("CONSUMER.CREATE.S.c", {"stream_name": "T", "config": {}}),
            Step("CONSUMER.CREATE.T.c", {"stream_name": "T", "config": {}}),
            Step("CONSUMER.CREATE.T", {"stream_name": "T", "config": {}}),
            Step("CONSUMER.DURABLE.CREATE.T.c", {"stream_name": "T", "config": {"durable_name": "c"}}),
            Step("CONSUMER.CREATE.T.a/b", {"stream_name": "S", "config": {}}),
            Step("CONSUMER.CREATE.T.c", {"stream_name": "T", "config": {"num_replicas": 3}}),
            Step("CONSUMER.CREATE.T.c", {"stream_name": "T", "config": {"ack_wait": -1}}),
        ],
    ),
    Scenario(
        "bodies",
        [
            stream(),
            Step("CONSUMER.CREATE.S.c", ""),
            Step("CONSUMER.CREATE.S.c", "{"),
            Step("CONSUMER.CREATE.S.c", "x"),
            Step("CONSUMER.CREATE.S.c", "[]"),
            Step("CONSUMER.CREATE.S.c", {"stream_name": "S"}),
            Step("CONSUMER.CREATE.S.c", {"stream_name": "S", "config": None}),
            Step("CONSUMER.CREATE.S.c", {"stream_name": "S", "config": [], "what": 1}),
            Step("CONSUMER.CREATE.S.c", {"stream_name": "S", "what": 1}),
            Step("CONSUMER.CREATE.S.c", {"stream_name": "S", "action": "maybe"}),
            Step("CONSUMER.CREATE.S.c", {"stream_name": "S", "action": 1}),
            Step("CONSUMER.CREATE.S.c", {"stream_name": "S", "action": None}),
            Step("CONSUMER.CREATE.S.c", {"stream_name": "S", "pedantic": "yes"}),
        ],
    ),
    # Actions.
    Scenario(
        "actions on a durable",
        [
            stream(),
            durable(action="update"),
            durable(action="create"),
            durable(action="create"),
            durable(action="update"),
            durable(),
            durable(action="create", description="new"),
            durable(action="update", description="new"),
            durable(action="create", description="new"),
            durable(description="newer"),
            durable(action="create"),
            durable(action="update", ack_wait=-1),
            durable("e", action="update", ack_wait=-1),
        ],
    ),
    Scenario(
        "actions on an ephemeral",
        [
            stream(),
            new(action="update"),
            new(action="create"),
            new(action="create"),
            new(action="create", inactive_threshold=5 * SECOND),
            new(action="update"),
            new(),
            new(action="create", description="new"),
            new(description="new"),
            new(inactive_threshold=6 * SECOND),
            new(),
            legacy(action="update"),
            legacy(action="create"),
        ],
    ),
    Scenario(
        "creating again with what means the same",
        [
            stream(),
            durable(ack_policy="explicit"),
            durable(
                ack_policy="explicit", action="create", ack_wait=30 * SECOND, max_deliver=-1, max_waiting=512
            ),
            durable(
                ack_policy="explicit", action="create", max_ack_pending=1000, max_deliver=-9, metadata={}
            ),
            durable(
                ack_policy="explicit", action="create", metadata={"_nats.ver": "x", "_nats.req.level": "9"}
            ),
            durable(ack_policy="explicit", action="create", metadata={"a": "b"}),
            durable("f", filter_subject="s.a"),
            durable("f", filter_subject="s.a", action="create"),
            durable("f", filter_subjects=["s.a"], action="create"),
            durable("f", filter_subjects=["s.a"]),
            durable("f", filter_subject="s.a", action="create"),
            durable("p", pause_until=FUTURE),
            durable("p", action="create"),
            durable("p", action="create", pause_until=FUTURE),
            durable("p", action="create", pause_until=PAST),
            durable("t", deliver_policy="by_start_time", opt_start_time=PAST),
            durable("t", deliver_policy="by_start_time", opt_start_time=PAST, action="create"),
            durable(
                "t",
                deliver_policy="by_start_time",
                opt_start_time="2020-01-01T01:00:00+01:00",
                action="create",
            ),
            durable("t", deliver_policy="by_start_time", opt_start_time="2020-01-01T01:00:00+01:00"),
        ],
    ),
    Scenario(
        "a durable as ephemeral and back",
        [
            stream(),
            durable(),
            new("d"),
            durable(),
            new("e"),
            durable("e"),
            new("e"),
            new("e", inactive_threshold=SECOND),
        ],
    ),
    Scenario(
        "creating again the old ways",
        [
            stream(),
            durable(),
            legacy_durable(),
            legacy_durable(action="create"),
            legacy(name="d"),
            legacy(name="d", action="create"),
        ],
    ),
    # Updates.
    Scenario(
        "an update of everything that may change",
        [
            stream(),
            durable(**_EXPLICIT),
            durable(
                **_EXPLICIT,
                description="new",
                ack_wait=SECOND,
                max_deliver=4,
                backoff=[SECOND, 2 * SECOND],
                filter_subjects=["s.a", "s.b"],
                sample_freq="5%",
                max_ack_pending=7,
                headers_only=True,
                max_batch=1,
                max_expires=SECOND,
                max_bytes=2,
                deliver_group="g",
                inactive_threshold=SECOND,
                num_replicas=1,
                metadata={"a": "b"},
                priority_policy="pinned_client",
                priority_groups=["A"],
                priority_timeout=SECOND,
            ),
            durable(**_EXPLICIT),
            durable(**_EXPLICIT, filter_subject="s.c", priority_policy="overflow", priority_groups=["B"]),
        ],
    ),
    Scenario(
        "an update of what may not change on pull",
        [
            stream(),
            durable(**_EXPLICIT),
            durable(**_EXPLICIT, deliver_policy="new"),
            durable(**_EXPLICIT, deliver_policy="new", mem_storage=True),
            durable(**_EXPLICIT, mem_storage=True),
            durable(ack_policy="none"),
            durable(ack_policy="all"),
            durable(**_EXPLICIT, replay_policy="original"),
            durable(**_EXPLICIT, max_waiting=5),
            durable(**_EXPLICIT, deliver_subject="d.x"),
            durable(**_EXPLICIT, deliver_subject="d.x", idle_heartbeat=SECOND),
            durable(**_EXPLICIT, deliver_subject="d.x", idle_heartbeat=SECOND, flow_control=True),
            durable(**_EXPLICIT, sourcing=True),
            durable(**_EXPLICIT, sourcing=True, mem_storage=True),
            durable(**_EXPLICIT, backoff=_BACKOFF, max_deliver=1),
            durable(ack_policy="flow_control"),
            durable(ack_policy="all", mem_storage=True),
            durable(ack_policy="all", replay_policy="original"),
        ],
    ),
    Scenario(
        "an update of what may not change on push",
        [
            stream(),
            durable(**_PUSH, **_HEARTBEAT, **_EXPLICIT),
            durable(**_PUSH, **_EXPLICIT),
            durable(**_PUSH, **_HEARTBEAT, **_EXPLICIT, flow_control=True),
            durable(**_PUSH, idle_heartbeat=2 * SECOND, **_EXPLICIT),
            durable(**_EXPLICIT),
            durable(deliver_subject="d.y", **_HEARTBEAT, **_EXPLICIT),
            durable(deliver_subject="s.y", **_HEARTBEAT, **_EXPLICIT),
            durable(deliver_subject="d.*", **_HEARTBEAT, **_EXPLICIT),
            durable(deliver_subject="d.y", **_HEARTBEAT, **_EXPLICIT, deliver_group="g"),
            durable(deliver_subject="d.y", **_HEARTBEAT, **_EXPLICIT, rate_limit_bps=5),
            durable(deliver_subject="d.y", **_HEARTBEAT, **_EXPLICIT, direct=True),
            durable(deliver_subject="d.y", **_HEARTBEAT, **_EXPLICIT, **_PINNED),
        ],
    ),
    Scenario(
        "pull to push and push to pull",
        [
            stream(),
            durable("a", ack_policy="all", max_ack_pending=5),
            durable("a", ack_policy="all", max_ack_pending=5, deliver_subject="d.x"),
            durable("b", ack_policy="all", deliver_subject="d.x"),
            durable("b", ack_policy="all"),
        ],
    ),
    Scenario(
        "an update of where to deliver while somebody listens",
        [
            stream(),
            Step(SUBSCRIBE, "d.x"),
            durable(**_PUSH),
            durable(deliver_subject="d.y"),
            durable(**_PUSH, description="new"),
            durable(deliver_subject="d.y", deliver_policy="new"),
            durable(deliver_subject="d.y", action="create"),
            durable("e", deliver_subject="d.y"),
            durable("e", deliver_subject="d.z"),
            durable("e", deliver_subject="d.x"),
            durable("e", deliver_subject="d.z"),
        ],
    ),
    Scenario(
        "an update of the start",
        [
            stream(),
            durable("a", deliver_policy="by_start_sequence", opt_start_seq=5),
            durable("a", deliver_policy="by_start_sequence", opt_start_seq=6),
            durable("a", deliver_policy="by_start_time", opt_start_time=PAST),
            durable("a"),
            durable("t", deliver_policy="by_start_time", opt_start_time=PAST),
            durable("t", deliver_policy="by_start_time", opt_start_time="2020-01-01T00:00:00.000000001Z"),
            durable("t", deliver_policy="by_start_time", opt_start_time="2020-01-01T01:00:00+01:00"),
            durable("t", deliver_policy="by_start_time", opt_start_time=PAST),
        ],
    ),
    Scenario(
        "an update of the pause does nothing",
        [
            stream(),
            durable(pause_until=FUTURE),
            durable(pause_until=PAST),
            durable(),
            durable("e"),
            durable("e", pause_until=FUTURE),
            durable("z", pause_until="2100-01-01T01:00:00+01:00"),
            durable("z", description="new"),
        ],
    ),
    Scenario(
        "an update of the level that is required",
        [
            stream(),
            durable(),
            durable(**_PINNED),
            durable(),
            durable(priority_policy="prioritized", priority_groups=["x"]),
        ],
    ),
    Scenario(
        "an update of a direct consumer",
        [
            stream(),
            new(direct=True, **_PUSH),
            new(**_PUSH),
            new(direct=True, **_PUSH),
            new("e", **_PUSH),
            new("e", direct=True, **_PUSH),
            new("e", sourcing=True, **_PUSH),
        ],
    ),
    Scenario(
        "a pedantic update",
        [stream(), durable(), durable(pedantic=True), durable(pedantic=True, max_bytes=-1)],
    ),
    Scenario(
        "an update of backoff and max deliver",
        [
            stream(),
            durable(**_EXPLICIT, max_deliver=3),
            durable(**_EXPLICIT, max_deliver=3, backoff=_BACKOFF),
            durable(**_EXPLICIT, max_deliver=2, backoff=_BACKOFF),
            durable(**_EXPLICIT, backoff=_BACKOFF),
        ],
    ),
    # Work queues.
    Scenario(
        "one consumer of a work queue",
        [
            stream(**_QUEUE),
            durable(),
            durable(**_PUSH),
            durable(ack_policy="all"),
            durable(ack_policy="all", **_PUSH),
            durable(**_EXPLICIT),
            durable("e", **_EXPLICIT),
        ],
    ),
    Scenario(
        "the start in a work queue",
        [
            stream(**_QUEUE),
            durable(**_EXPLICIT, deliver_policy="new"),
            durable(**_EXPLICIT, deliver_policy="last"),
            durable(ack_policy="all", deliver_policy="new"),
            durable(**_EXPLICIT, deliver_policy="by_start_sequence", opt_start_seq=5),
            durable(**_EXPLICIT),
        ],
    ),
    Scenario(
        "filters in a work queue",
        [
            stream(**_QUEUE),
            durable("a", **_EXPLICIT, filter_subject="s.a"),
            durable("b", **_EXPLICIT, filter_subject="s.b"),
            durable("c", **_EXPLICIT, filter_subject="s.a"),
            durable("c", **_EXPLICIT, filter_subject="s.*"),
            durable("c", **_EXPLICIT, filter_subjects=["s.c", "s.b"]),
            durable("c", **_EXPLICIT, filter_subjects=["s.c", "s.d.>"]),
            durable("e", **_EXPLICIT, filter_subject="s.d.e"),
            durable("e", **_EXPLICIT),
            durable("e", **_EXPLICIT, filter_subject="s.*.e"),
            durable("b", **_EXPLICIT, filter_subject="s.a"),
            durable("b", **_EXPLICIT, filter_subject="s.x"),
            durable("b", **_EXPLICIT, filter_subject="s.b"),
            durable("b", **_EXPLICIT),
            durable("e", **_EXPLICIT, filter_subject="s.e"),
            durable("b", **_EXPLICIT, filter_subject="s.c"),
            new("f", **_EXPLICIT, filter_subject="s.a"),
            legacy(**_EXPLICIT, filter_subject="s.a"),
            legacy(**_EXPLICIT),
            durable("a", **_EXPLICIT, filter_subject="s.a", action="create"),
        ],
    ),
    Scenario(
        "an unfiltered consumer of a work queue first",
        [
            stream(**_QUEUE),
            durable("a", **_EXPLICIT),
            durable("b", **_EXPLICIT, filter_subject="s.a"),
            durable("a", **_EXPLICIT, filter_subject="s.b"),
            durable("b", **_EXPLICIT, filter_subject="s.a"),
        ],
    ),
    Scenario(
        "a work queue and consumers that do not count",
        [
            stream(**_QUEUE),
            new("a", direct=True, **_PUSH),
            new("b", sourcing=True, **_PUSH),
            durable("c", **_EXPLICIT),
            new("e", direct=True, **_PUSH),
            new("f", sourcing=True, filter_subject="s.x", **_PUSH),
        ],
    ),
    Scenario(
        "flow control acks on a work queue",
        [
            stream(**_QUEUE),
            durable(**_FLOW),
            durable("e", **_EXPLICIT, filter_subject="s.e"),
            durable("f", **_FLOW),
        ],
    ),
    Scenario(
        "an interest stream takes any consumer",
        [
            stream(**_INTEREST),
            durable("a"),
            durable("b", ack_policy="all", deliver_policy="new"),
            durable("c", num_replicas=1),
            durable("e", num_replicas=-1),
            durable("a", filter_subject="s.x"),
        ],
    ),
    Scenario(
        "replicas on a work queue",
        [
            stream(**_QUEUE),
            durable(**_EXPLICIT, num_replicas=1),
            durable("e", num_replicas=3),
            durable("e", num_replicas=-1),
        ],
    ),
    # Consumers of mirrors and sources.
    Scenario(
        "direct sourcing",
        [
            stream(),
            legacy(direct=True, sourcing=True, **_PUSH),
            new(direct=True, sourcing=True),
        ],
    ),
    Scenario(
        "direct sourcing from an interest stream",
        [
            stream(**_INTEREST),
            new(direct=True, sourcing=True, **_PUSH),
            new(direct=True, sourcing=True, **_PUSH, ack_wait=5, max_deliver=7, inactive_threshold=SECOND),
            new(direct=True, sourcing=True, **_PUSH, deliver_policy="new"),
            new("e", direct=True, sourcing=True),
        ],
    ),
    Scenario(
        "durable sourcing",
        [
            stream(),
            durable(sourcing=True, **_FLOW, deliver_policy="by_start_sequence", opt_start_seq=5),
            durable(sourcing=True, **_FLOW, deliver_policy="new"),
            durable(sourcing=True, **_FLOW),
            durable("e", sourcing=True),
        ],
    ),
    # Limits of the stream.
    Scenario(
        "limits of the stream",
        [
            stream(**_LIMITED),
            durable("a", **_EXPLICIT),
            durable("b", **_EXPLICIT, max_ack_pending=10),
            durable("b", **_EXPLICIT, max_ack_pending=11),
            durable("b", **_EXPLICIT, max_ack_pending=-1),
            durable("b", **_EXPLICIT, inactive_threshold=60 * SECOND),
            durable("b", **_EXPLICIT, inactive_threshold=60 * SECOND + 1),
            durable("c"),
            durable("c", **_PUSH),
            new("e"),
            new("e", inactive_threshold=SECOND),
            durable("f", pedantic=True, **_EXPLICIT),
            durable("f", pedantic=True, **_EXPLICIT, max_ack_pending=5),
            durable("f", pedantic=True, **_EXPLICIT, max_ack_pending=5, inactive_threshold=SECOND),
            durable("g", **_EXPLICIT, inactive_threshold=61 * SECOND, max_ack_pending=11),
        ],
    ),
    *(
        Scenario(
            f"a threshold of {threshold} is exceeded",
            [stream(consumer_limits={"inactive_threshold": threshold}), durable(inactive_threshold=10**18)],
        )
        for threshold in (
            1,
            999,
            1500,
            10**6,
            1_234_567,
            10**9,
            1_500_000_000,
            60 * 10**9,
            3_661_000_000_001,
            90 * 3600 * 10**9,
        )
    ),
    Scenario(
        "as many consumers as the stream has",
        [
            stream(max_consumers=2),
            durable("a"),
            new("b"),
            durable("c"),
            legacy(),
            durable("a", description="new"),
            new("e", direct=True, **_PUSH),
            new("f", sourcing=True, **_PUSH),
            new("g", action="update"),
            new("g", ack_wait=-1),
        ],
    ),
    Scenario(
        "as many consumers as a work queue has",
        [
            stream(max_consumers=1, **_QUEUE),
            durable("a", **_EXPLICIT),
            durable("b"),
            durable("b", ack_policy="all"),
        ],
    ),
    # Limits of the account.
    Scenario(
        "as many consumers as the account has",
        [
            stream(),
            stream("T"),
            durable("a"),
            durable("b"),
            durable("c"),
            Step("CONSUMER.CREATE.T.c", {"stream_name": "T", "config": {}}),
        ],
        account={"max_consumers": 2},
    ),
    Scenario(
        "account and stream limit consumers",
        [stream(max_consumers=1), stream("T", max_consumers=2), durable("a"), durable("b")],
        account={"max_consumers": 2},
    ),
    Scenario(
        "the account limits pending acks",
        [
            stream(),
            durable("a", **_EXPLICIT),
            durable("b", **_EXPLICIT, max_ack_pending=100),
            durable("b", **_EXPLICIT, max_ack_pending=101),
            durable("b", **_EXPLICIT, max_ack_pending=-1),
            durable("b", max_ack_pending=101),
            durable("c", **_EXPLICIT, max_ack_pending=1001, pedantic=True),
        ],
        account={"max_ack_pending": 100},
    ),
    # Limits of the server.
    Scenario(
        "the server limits pending acks",
        [
            stream(),
            durable("a", **_EXPLICIT),
            durable("b", **_EXPLICIT, max_ack_pending=501),
            durable("b", **_EXPLICIT, max_ack_pending=-1),
        ],
        server=TIGHT,
    ),
    Scenario(
        "server, account and stream limit pending acks",
        [
            stream(consumer_limits={"max_ack_pending": 300}),
            durable("a", **_EXPLICIT),
            durable("b", **_EXPLICIT, max_ack_pending=1000),
            durable("b", **_EXPLICIT, max_ack_pending=450),
            durable("b", **_EXPLICIT, max_ack_pending=350),
        ],
        server=TIGHT,
        account={"max_ack_pending": 400},
    ),
    Scenario(
        "the account limits pending acks more than the server",
        [stream(), durable("a", **_EXPLICIT)],
        server=TIGHT,
        account={"max_ack_pending": 400},
    ),
    Scenario(
        "the server limits batches",
        [
            stream(),
            durable("a"),
            durable("a", max_batch=50),
            durable("a", max_batch=51),
            durable("a", pedantic=True),
            durable("b", **_PUSH),
            durable("b", **_PUSH, max_batch=51),
        ],
        server=TIGHT,
    ),
    Scenario(
        "the server limits consumers",
        [stream(), durable("a"), durable("b"), durable("c"), stream("T", max_consumers=3)]
        + [Step(f"CONSUMER.CREATE.T.{name}", {"stream_name": "T", "config": {}}) for name in "abcd"],
        server=TIGHT,
    ),
    Scenario(
        "the account has more consumers than the server by default",
        [stream(), durable("a"), durable("b"), durable("c"), durable("e")],
        server=TIGHT,
        account={"max_consumers": 3},
    ),
]

SCENARIOS = [
    *(Scenario(name, [stream(), new("c", **fields)]) for name, fields in ALONE.items()),
    *(
        Scenario(f"pedantic: {name}", [stream(), new("c", pedantic=True, **fields)])
        for name, fields in PEDANTIC.items()
    ),
    *_LONG,
]

CONSUMER_CONFIG = Suite("consumer_config", SERVERS, SCENARIOS, scenery=("STREAM.",))
