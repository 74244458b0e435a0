"""The rules of stream configurations as a whole, beyond single answers."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.jetstream.config.stream import (
    StreamLimits,
    check_new,
    check_update,
    complete,
    decorated,
    names_storage,
    required_level,
    same,
)
from millstream.jetstream.options import AccountJetStreamOptions
from millstream.jsapi.codec import encode
from millstream.jsapi.consumer_types import ConsumerConfig
from millstream.jsapi.enums import DiscardPolicy, PersistMode, RetentionPolicy, StorageType
from millstream.jsapi.errors import ApiError, Err
from millstream.jsapi.stream_types import (
    Placement,
    RePublish,
    StreamConfig,
    StreamConsumerLimits,
    StreamSource,
    SubjectTransformConfig,
)

LIMITS = StreamLimits()
SECOND = 10**9

_counts = st.integers(-2, 3)
_subjects = st.sampled_from(["a", "a.b", "a.*", "b.>", ">", "$JS.x", "x..y", ""])
_destinations = st.sampled_from(["", "x", "x.$1", "x.>", ">", "a.b"])
_names = st.sampled_from(["S", "O", "P", "a.b", ""])
_sources = st.builds(StreamSource, name=_names, filter_subject=st.sampled_from(["", "a", "x..y"]))
_configs = st.builds(
    StreamConfig,
    name=st.sampled_from(["S", "S", "S", "T", ""]),
    subjects=st.lists(_subjects, max_size=2),
    retention=st.sampled_from(RetentionPolicy),
    max_consumers=_counts,
    max_msgs=_counts,
    max_bytes=_counts,
    max_age=st.sampled_from([0, 0, 1, SECOND]),
    max_msgs_per_subject=_counts,
    discard=st.sampled_from(DiscardPolicy),
    storage=st.sampled_from(StorageType),
    num_replicas=st.sampled_from([0, 1, 1, 3]),
    no_ack=st.booleans(),
    duplicate_window=st.sampled_from([0, 0, 1, SECOND]),
    placement=st.sampled_from([None, Placement(), Placement(tags=["x"])]),
    mirror=st.one_of(st.none(), st.none(), _sources),
    sources=st.one_of(st.just([]), st.lists(_sources, max_size=2)),
    subject_transform=st.one_of(
        st.none(), st.builds(SubjectTransformConfig, src=_subjects, dest=_destinations)
    ),
    republish=st.one_of(st.none(), st.builds(RePublish, src=_subjects, dest=_destinations)),
    allow_direct=st.booleans(),
    deny_purge=st.booleans(),
    allow_rollup_hdrs=st.booleans(),
    subject_delete_marker_ttl=st.sampled_from([0, 0, SECOND]),
    allow_msg_schedules=st.booleans(),
    metadata=st.sampled_from([{}, {"a": "b"}, {"_nats.ver": "x"}]),
)
_STREAMS = {
    "O": StreamConfig(name="O", subjects=["o"], allow_direct=True, max_msg_size=-1),
    "P": StreamConfig(name="P", sources=[StreamSource(name="S")]),
}


def refused_with(error: pytest.ExceptionInfo[ApiError]) -> tuple[Err, str]:
    return error.value.err, error.value.description


@given(_configs, st.booleans())
def test_whatever_is_asked_for_is_completed_or_refused_and_left_as_it_was(
    config: StreamConfig, pedantic: bool
) -> None:
    before = encode(config)
    others = {name: encode(each) for name, each in _STREAMS.items()}
    try:
        completed = check_new("S", config, _STREAMS, LIMITS, pedantic=pedantic)
    except ApiError:
        completed = None
    assert encode(config) == before
    assert {name: encode(each) for name, each in _STREAMS.items()} == others
    if completed is not None:
        assert completed.metadata["_nats.req.level"] == str(required_level(completed))
        assert complete(completed, _STREAMS, LIMITS) == completed
        again = check_new("S", config, {**_STREAMS, "S": completed}, LIMITS, pedantic=pedantic)
        assert again is completed


@given(_configs, _configs)
def test_an_update_is_checked_like_a_creation_and_leaves_all_as_it_was(
    config: StreamConfig, other: StreamConfig
) -> None:
    try:
        old = check_new("S", config, {}, LIMITS)
    except ApiError:
        return
    streams = {"S": old}
    before = encode(old), encode(other)
    try:
        new = check_update("S", other, streams, LIMITS)
    except ApiError:
        new = None
    assert (encode(old), encode(other)) == before
    if new is not None and new.republish is None:
        assert complete(new, streams, LIMITS) == new


def test_tells_by_the_features_which_level_is_required() -> None:
    levels = {
        0: StreamConfig(allow_direct=True),
        1: StreamConfig(subject_delete_marker_ttl=SECOND),
        2: StreamConfig(persist_mode=PersistMode.ASYNC, allow_msg_ttl=True),
        4: StreamConfig(allow_batched=True, allow_atomic=True),
    }
    assert {level: required_level(config) for level, config in levels.items()} == {n: n for n in levels}


def test_shows_who_answers_without_storing_it() -> None:
    stored = check_new("S", StreamConfig(name="S", metadata={"a": "b", "_nats.ver": "0"}), {}, LIMITS)
    assert stored.metadata == {"a": "b", "_nats.req.level": "0"}
    assert decorated(stored, "1.2.3").metadata == {
        "a": "b",
        "_nats.req.level": "0",
        "_nats.ver": "1.2.3",
        "_nats.level": "5",
    }
    assert "_nats.ver" not in stored.metadata


def test_a_configuration_is_the_same_whatever_level_another_server_noted() -> None:
    one = check_new("S", StreamConfig(name="S"), {}, LIMITS)
    assert same(one, msgspec.structs.replace(one, metadata={"_nats.req.level": "3"}))
    assert same(one, msgspec.structs.replace(one, metadata={}))
    assert not same(one, msgspec.structs.replace(one, metadata={"a": "b"}))


@pytest.mark.parametrize(
    ("limit", "text"),
    [
        (SECOND // 2, "500ms"),
        (SECOND, "1s"),
        (1_500_000_000, "1.5s"),
        (60 * SECOND, "1m0s"),
        (90 * SECOND + SECOND // 4, "1m30.25s"),
        (3 * 3600 * SECOND + 61 * SECOND, "3h1m1s"),
    ],
)
def test_tells_the_longest_window_as_go_would(limit: int, text: str) -> None:
    config = StreamConfig(name="S", duplicate_window=limit + 1)
    with pytest.raises(ApiError) as error:
        check_new("S", config, {}, StreamLimits(duplicate_window=limit))
    expected = f"duplicates window can not be larger then server limit of {text}"
    assert refused_with(error) == (Err.STREAM_CONFIG_INVALID, expected)


def test_room_is_what_all_accounts_left_of_the_server() -> None:
    limits = StreamLimits(max_store=100, reserved_store=90)
    config = StreamConfig(name="S", max_bytes=10)
    assert check_new("S", config, {}, limits).max_bytes == 10
    with pytest.raises(ApiError) as error:
        check_new("S", config, {}, msgspec.structs.replace(limits, reserved_store=91))
    assert error.value.err is Err.STORAGE_RESOURCES_EXCEEDED


def test_a_stream_may_shrink_where_more_is_reserved_than_there_is() -> None:
    """Limits are lowered by a restart; streams that exist then may still be changed."""
    old = check_new("S", StreamConfig(name="S", max_bytes=100), {}, LIMITS)
    tight = StreamLimits(account=AccountJetStreamOptions(max_store=50))
    smaller = check_update("S", StreamConfig(name="S", max_bytes=50), {"S": old}, tight)
    assert smaller.max_bytes == 50
    with pytest.raises(ApiError) as error:
        check_update("S", StreamConfig(name="S", max_bytes=51), {"S": old}, tight)
    assert error.value.err is Err.STORAGE_RESOURCES_EXCEEDED


def test_names_all_consumers_that_new_limits_would_break() -> None:
    old = check_new("S", StreamConfig(name="S"), {}, LIMITS)
    consumers = {
        "slow": ConsumerConfig(inactive_threshold=10 * SECOND),
        "small": ConsumerConfig(max_ack_pending=1),
        "large": ConsumerConfig(max_ack_pending=100),
    }
    tighter = StreamConsumerLimits(inactive_threshold=SECOND, max_ack_pending=10)
    config = StreamConfig(name="S", consumer_limits=tighter)
    with pytest.raises(ApiError) as error:
        check_update("S", config, {"S": old}, LIMITS, consumers=consumers)
    assert refused_with(error) == (
        Err.STREAM_UPDATE_FAILED,
        "change to limits violates consumers: slow, large",
    )
    # What was so before is nobody's fault now.
    kept = msgspec.structs.replace(old, consumer_limits=tighter)
    assert check_update("S", config, {"S": kept}, LIMITS, consumers=consumers).consumer_limits == tighter


def test_sees_whether_a_request_names_the_storage() -> None:
    assert names_storage(b'{"name":"S","storage":"file"}')
    assert names_storage(b'{"name":"S","Storage" : "memory"}')
    assert not names_storage(b'{"name":"storage room"}')
