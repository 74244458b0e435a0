"""The reader of plain JSON gives the same values as the complete reader."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.jsapi import codec
from millstream.jsapi.codec import JsonError, decode_lenient, decode_strict
from millstream.jsapi.consumer_types import ConsumerConfig
from millstream.jsapi.enums import AckPolicy
from millstream.jsapi.plain_json import read_plain
from millstream.jsapi.requests import CreateConsumerRequest, MsgDeleteRequest, MsgGetRequest
from millstream.jsapi.stream_types import StreamConfig

KINDS = [MsgGetRequest, MsgDeleteRequest, StreamConfig, CreateConsumerRequest]
NAMES = [
    "seq",
    "last_by_subj",
    "start_time",
    "no_hdr",
    "batch",
    "name",
    "max_msgs",
    "num_replicas",
    "subjects",
    "storage",
    "config",
    "ack_policy",
    "filter_subjects",
    "consumer_limits",
    "max_ack_pending",
    "Seq",
    "x",
]
SIMPLE = st.one_of(
    st.integers(-3, 2**65),
    st.booleans(),
    st.none(),
    st.floats(allow_nan=False),
    st.text(max_size=5),
    st.sampled_from(["file", "memory", "explicit", "none", "File", ""]),
    st.sampled_from(
        ["orders.*", "2026-11-17T15:44:01.1Z", "2026-11-17T15:44:01+01:00", "2026-13-01T00:00:00Z"]
    ),
)
# Lists, and objects in objects.
VALUES = st.recursive(
    SIMPLE,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.sampled_from(NAMES), inner, max_size=3)
    ),
    max_leaves=6,
)


@pytest.mark.parametrize(
    ("text", "fields"),
    [
        (b'{"seq":5}', {"seq": 5}),
        (b'{ "seq" : 0 , "no_hdr" : true }\n', {"seq": 0, "no_hdr": True}),
        (b'{"last_by_subj":"a.b"}', {"last_by_subj": "a.b"}),
        (b'{"seq":123456789012345678}', {"seq": 123456789012345678}),
    ],
)
def test_plain_objects_are_read(text: bytes, fields: dict[str, Any]) -> None:
    assert read_plain(text, MsgGetRequest) == fields


def test_words_lists_and_objects_in_objects_are_read() -> None:
    text = b'{"stream_name":"S", "config":{"ack_policy":"explicit","filter_subjects":[ "a" , "b.*"]} }'
    config = ConsumerConfig(ack_policy=AckPolicy.EXPLICIT, filter_subjects=["a", "b.*"])
    assert read_plain(text, CreateConsumerRequest) == {"stream_name": "S", "config": config}


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"{}",
        b"[]",
        b'{"seq":5',
        b'{"seq":5}x',
        b'{"seq":05}',
        b'{"seq":-5}',
        b'{"seq":5.0}',
        b'{"seq":"5"}',
        b'{"seq":1234567890123456789}',
        b'{"SEQ":5}',
        b'{"seq":5,"seq":6}',
        b'{"seq":null}',
        b'{"other":5}',
        b'{"multi_last":[]}',
        b'{"multi_last":["a",1]}',
        b'{"last_by_subj":"a\\u0041"}',
        '{"last_by_subj":"ä"}'.encode(),
        b'{"last_by_subj":"a\tb"}',
        b'{"start_time":"yesterday"}',
        b'{"seq":5,}',
        b'{"seq":5}' + b" " * 600,
    ],
)
def test_everything_else_is_left_to_others(text: bytes) -> None:
    assert read_plain(text, MsgGetRequest) is None


@given(
    st.dictionaries(st.sampled_from(NAMES), VALUES, max_size=4),
    st.sampled_from(KINDS),
    st.sampled_from([(", ", ": "), (",", ":")]),
)
def test_both_readers_understand_the_same(value: Any, kind: Any, separators: Any) -> None:
    text = json.dumps(value, separators=separators).encode()
    for decode in (decode_strict, decode_lenient):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(codec, "read_plain", lambda text, kind: None)
            expected = outcome(decode, text, kind)
        assert outcome(decode, text, kind) == expected


def outcome(decode: Any, text: bytes, kind: Any) -> object:
    try:
        return decode(text, kind)
    except JsonError as error:
        return str(error)
