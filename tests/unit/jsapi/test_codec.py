"""The codec beyond the golden files: round trips of anything, and the corners of reading."""

import contextlib
import json
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from millstream.golang.time import Time
from millstream.jsapi.account_types import AccountInfo, AccountTier
from millstream.jsapi.codec import JsonError, decode_lenient, decode_strict, decode_written, encode
from millstream.jsapi.consumer_types import ConsumerConfig, ConsumerInfo, SequenceInfo
from millstream.jsapi.enums import (
    AckPolicy,
    DeliverPolicy,
    DiscardPolicy,
    PersistMode,
    PriorityPolicy,
    ReplayPolicy,
    RetentionPolicy,
    StorageType,
    StoreCompression,
)
from millstream.jsapi.errors import ApiError, Err
from millstream.jsapi.go_types import Struct
from millstream.jsapi.requests import (
    CreateConsumerRequest,
    NextRequest,
    StreamConfigRequest,
    StreamPurgeRequest,
)
from millstream.jsapi.responses import (
    AccountInfoResponse,
    MsgGetResponse,
    Response,
    StreamCreateResponse,
    StreamInfoResponse,
)
from millstream.jsapi.stream_types import (
    ExternalStream,
    Placement,
    RePublish,
    StoredMessage,
    StreamConfig,
    StreamConsumerLimits,
    StreamInfo,
    StreamSource,
    StreamState,
    SubjectTransformConfig,
)

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
int64s = st.integers(-(2**63), 2**63 - 1)
uint64s = st.integers(0, 2**64 - 1)
times = st.builds(
    Time,
    st.integers(-(10**18), 2 * 10**18),
    st.integers(-12 * 60, 12 * 60).map(lambda minutes: minutes * 60),
)
maybe_times = st.none() | times
lists = st.lists(texts, max_size=3)
maps = st.dictionaries(texts, texts, max_size=3)
transforms = st.builds(SubjectTransformConfig, src=texts, dest=texts)
sources = st.builds(
    StreamSource,
    name=texts,
    opt_start_seq=uint64s,
    opt_start_time=maybe_times,
    filter_subject=texts,
    subject_transforms=st.lists(transforms, max_size=2),
    external=st.none() | st.builds(ExternalStream, api=texts, deliver=texts),
)
stream_configs = st.builds(
    StreamConfig,
    name=texts,
    description=texts,
    subjects=lists,
    retention=st.sampled_from(RetentionPolicy),
    max_msgs=int64s,
    max_msg_size=st.integers(-(2**31), 2**31 - 1),
    discard=st.sampled_from(DiscardPolicy),
    storage=st.sampled_from(StorageType),
    no_ack=st.booleans(),
    placement=st.none() | st.builds(Placement, cluster=texts, tags=lists),
    mirror=st.none() | sources,
    sources=st.lists(sources, max_size=2),
    compression=st.sampled_from(StoreCompression),
    first_seq=uint64s,
    subject_transform=st.none() | transforms,
    republish=st.none() | st.builds(RePublish, src=texts, dest=texts, headers_only=st.booleans()),
    sealed=st.booleans(),
    consumer_limits=st.builds(StreamConsumerLimits, inactive_threshold=int64s, max_ack_pending=int64s),
    persist_mode=st.sampled_from(PersistMode),
    metadata=maps,
)
stream_infos = st.builds(
    StreamInfo,
    config=stream_configs,
    created=times,
    state=st.builds(
        StreamState,
        messages=uint64s,
        first_ts=times,
        subjects=st.dictionaries(texts, uint64s, max_size=3),
        deleted=st.lists(uint64s, max_size=3),
    ),
    domain=texts,
    ts=times,
)
consumer_configs = st.builds(
    ConsumerConfig,
    durable_name=texts,
    deliver_policy=st.sampled_from(DeliverPolicy),
    opt_start_time=maybe_times,
    ack_policy=st.sampled_from(AckPolicy),
    backoff=st.lists(int64s, max_size=3),
    filter_subjects=lists,
    replay_policy=st.sampled_from(ReplayPolicy),
    rate_limit_bps=uint64s,
    metadata=maps,
    pause_until=maybe_times,
    priority_policy=st.sampled_from(PriorityPolicy),
)
structs = st.one_of(
    st.builds(StreamConfigRequest, config=stream_configs, pedantic=st.booleans()),
    st.builds(StreamInfoResponse, total=int64s, info=st.none() | stream_infos),
    st.builds(StreamCreateResponse, info=st.none() | stream_infos, did_create=st.booleans()),
    st.builds(CreateConsumerRequest, stream_name=texts, config=consumer_configs),
    st.builds(
        ConsumerInfo,
        config=st.none() | consumer_configs,
        delivered=st.builds(SequenceInfo, consumer_seq=uint64s, last_active=maybe_times),
    ),
    st.builds(MsgGetResponse, message=st.builds(StoredMessage, subject=texts, data=st.binary(max_size=9))),
)


@given(structs)
def test_anything_that_is_written_is_read_again(struct: Struct) -> None:
    text = encode(struct)
    assert decode_strict(text, type(struct)) == struct
    assert decode_lenient(text, type(struct)) == struct
    assert encode(decode_strict(text, type(struct))) == text


@given(stream_configs | consumer_configs)
def test_what_we_wrote_ourselves_is_read_the_same_the_short_way(
    config: StreamConfig | ConsumerConfig,
) -> None:
    text = encode(config)
    assert decode_written(text, type(config)) == decode_lenient(text, type(config)) == config


def test_what_others_wrote_is_read_the_long_way() -> None:
    assert decode_written(b'{"max_age":1,"subjects":null}', StreamConfig).max_age == 1
    with pytest.raises(JsonError):
        decode_written(b'{"max_age":"x"}', StreamConfig)


@given(structs)
def test_what_is_written_is_json_that_can_stand_inside_html(struct: Struct) -> None:
    text = encode(struct)
    json.loads(text)
    assert not set(b"<>&") & set(text)


almost_json = st.text(alphabet='{}[]",:0123.eE+-trufalsn\\ \n', max_size=30).map(str.encode)


@given(st.binary(max_size=40) | almost_json)
def test_no_text_does_anything_but_be_read_or_be_refused(text: bytes) -> None:
    for decode in (decode_strict, decode_lenient):
        with contextlib.suppress(JsonError):
            decode(text, StreamConfigRequest)


floats = st.floats(allow_nan=False, allow_infinity=False)
documents = st.recursive(
    st.none() | st.booleans() | st.integers() | floats | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
)


@given(documents)
def test_any_json_is_read_leniently_or_refused_for_its_kind(document: Any) -> None:
    text = json.dumps(document, ensure_ascii=False).encode()
    if document is None or isinstance(document, dict):
        # Hypothesis knows the names in our modules: a field of the request would need a value of its type.
        assume(not {key.lower() for key in document or ()} & {"filter", "seq", "keep"})
        decode_lenient(text, StreamPurgeRequest)
    else:
        with pytest.raises(JsonError, match=r"into Go value of type server\.JSApiStreamPurgeRequest"):
            decode_lenient(text, StreamPurgeRequest)


def test_least_stream_config_has_the_fields_that_are_always_written() -> None:
    assert list(json.loads(encode(StreamConfig()))) == [
        "name",
        "retention",
        "max_consumers",
        "max_msgs",
        "max_bytes",
        "max_age",
        "max_msgs_per_subject",
        "discard",
        "storage",
        "num_replicas",
        "compression",
        "allow_direct",
        "mirror_direct",
        "sealed",
        "deny_delete",
        "deny_purge",
        "allow_rollup_hdrs",
        "consumer_limits",
        "allow_msg_ttl",
    ]


def test_least_consumer_config_has_the_fields_that_are_always_written() -> None:
    assert encode(ConsumerConfig()) == (
        b'{"deliver_policy":"all","ack_policy":"none","replay_policy":"instant","num_replicas":0}'
    )


def test_keys_of_maps_are_sorted() -> None:
    config = StreamConfig(metadata={"b": "1", "é": "2", "a": "3", "B": "4"})
    assert encode(config).endswith('"metadata":{"B":"4","a":"3","b":"1","é":"2"}}'.encode())


def test_tiers_are_written_only_if_there_are_some() -> None:
    answer = AccountInfoResponse(info=AccountInfo(tiers={"R3": AccountTier(streams=1), "R1": AccountTier()}))
    document = json.loads(encode(answer))
    assert list(document["tiers"]) == ["R1", "R3"]
    assert "tiers" not in json.loads(encode(AccountInfoResponse(info=AccountInfo())))
    assert decode_strict(encode(answer), AccountInfoResponse) == answer


def test_refusal_has_no_info() -> None:
    refusal = ApiError(Err.STREAM_NOT_FOUND).body
    assert json.loads(encode(StreamInfoResponse(error=refusal))) == {
        "type": "io.nats.jetstream.api.v1.stream_info_response",
        "error": {"code": 404, "err_code": 10059, "description": "stream not found"},
        "total": 0,
        "offset": 0,
        "limit": 0,
    }


def test_text_that_looks_like_an_embedded_field_stays_text() -> None:
    refusal = ApiError(Err.STREAM_CONFIG_INVALID, err='"@":{"config":{}}').body
    answer = StreamCreateResponse(error=refusal, info=StreamInfo(domain='"@":{}'))
    assert decode_strict(encode(answer), StreamCreateResponse) == answer


def test_structs_of_one_kind_do_not_share_what_can_change() -> None:
    one, other = StreamConfig(), StreamConfig()
    one.metadata["a"] = "b"
    one.consumer_limits.max_ack_pending = 1
    assert (other.metadata, other.consumer_limits) == ({}, StreamConsumerLimits())


def test_only_times_are_written_as_times() -> None:
    with pytest.raises(TypeError, match="object is no part of the API"):
        encode(StreamConfig(name=object()))  # type: ignore[arg-type]


def test_field_that_comes_twice_adds_to_what_was_there() -> None:
    text = b'{"metadata":{"a":"1"},"placement":{"cluster":"c"},"max_msgs":1,"subjects":["x","y"]}'
    more = b' {"metadata":{"b":"2"},"placement":{"tags":["t"]},"MAX_MSGS":2,"subjects":["z"]}'
    config = decode_strict(text + more, StreamConfigRequest).config
    assert config.metadata == {"a": "1", "b": "2"}
    assert config.placement == Placement(cluster="c", tags=["t"])
    assert (config.max_msgs, config.subjects) == (2, ["z"])


def test_null_takes_back_what_may_be_absent_and_leaves_the_rest() -> None:
    text = b'{"mirror":{"name":"a"},"subjects":["x"],"metadata":{"a":"b"},"name":"n","max_msgs":3}'
    nothing = b'{"mirror":null,"subjects":null,"metadata":null,"name":null,"max_msgs":null,"sealed":null}'
    config = decode_strict(text + nothing, StreamConfigRequest).config
    assert config == StreamConfig(name="n", max_msgs=3)


def test_list_may_hold_null_for_the_zero_of_its_kind() -> None:
    config = decode_strict(b'{"subjects":[null,"a"],"sources":[null]}', StreamConfigRequest).config
    assert (config.subjects, config.sources) == (["", "a"], [StreamSource()])


@pytest.mark.parametrize(
    ("text", "read"),
    [
        (rb'"\ud800\u0041 \uD83D\uDE00"', "\ufffdA \U0001f600"),
        (b'"a\xffb"', "a\ufffdb"),
        (rb'"\"\\\/\b\f\n\r\t\u0000"', '"\\/\b\f\n\r\t\0'),
        ('"\u2028é"'.encode(), "\u2028é"),
    ],
)
def test_strings_are_read_as_go_reads_them(text: bytes, read: str) -> None:
    assert decode_strict(b'{"description":' + text + b"}", StreamConfigRequest).config.description == read


def test_bytes_that_are_no_text_are_told_as_such() -> None:
    with pytest.raises(JsonError) as refused:
        decode_strict(b" \xff", StreamConfigRequest)
    assert str(refused.value) == r"invalid character '\xff' looking for beginning of value at offset 2"


@pytest.mark.parametrize(
    ("body", "complaint"),
    [
        (b"{", "unexpected end of JSON input"),
        (b'{"batch":1}x', "invalid character 'x' after top-level value"),
        (b'{"batch":"x"}', "json: cannot unmarshal string into Go struct field .batch of type int"),
        (b'{"BATCH":1.5}', "json: cannot unmarshal number 1.5 into Go struct field .BATCH of type int"),
        (
            b'{"expires":"1"}',
            "json: cannot unmarshal string into Go struct field .expires of type time.Duration",
        ),
        (b'{"id":1}', "json: cannot unmarshal number into Go struct field .id of type string"),
    ],
)
def test_bad_pull_request_is_refused_as_its_status_says(body: bytes, complaint: str) -> None:
    with pytest.raises(JsonError) as refused:
        decode_lenient(body, NextRequest)
    assert str(refused.value) == complaint


def test_lenient_reading_ignores_what_it_does_not_know() -> None:
    body = b'{"batch":2,"new_thing":{"deep":[1]},"No_Wait":true}'
    assert decode_lenient(body, NextRequest) == NextRequest(batch=2, no_wait=True)


def test_clients_read_answers_of_newer_servers() -> None:
    body = b'{"type":"t","error":{"code":400,"err_code":19999,"description":"d","hint":"h"},"more":1}'
    answer = decode_lenient(body, Response)
    assert answer.error is not None
    assert answer.error.err_code == 19999


def test_bad_base64_is_refused() -> None:
    with pytest.raises(JsonError, match="illegal base64"):
        decode_lenient(b'{"message":{"data":"*"}}', MsgGetResponse)


def test_enormous_number_is_refused_without_being_converted() -> None:
    with pytest.raises(JsonError, match="cannot unmarshal number 111"):
        decode_strict(b'{"max_msgs":' + b"1" * 10_000 + b"}", StreamConfigRequest)


def test_deep_nesting_is_refused() -> None:
    with pytest.raises(JsonError, match="exceeded max depth"):
        decode_strict(b'{"metadata":' + b"[" * 100_000, StreamConfigRequest)
