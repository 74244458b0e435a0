"""Answers to publishers that are put together by hand are what nats-server writes."""

import pytest

from millstream.jsapi.codec import encode
from millstream.jsapi.errors import ApiError, Err
from millstream.jsapi.publish_types import (
    PUB_ACK_DUPLICATE_END,
    PUB_ACK_END,
    BatchFlowErr,
    PubAckResponse,
    pub_ack_batch_end,
    pub_ack_counter_end,
    pub_ack_start,
)
from tests.kits.paths import GOLDEN


@pytest.mark.parametrize(
    ("case", "ack"),
    [
        ("plain", pub_ack_start("S") + b"7" + PUB_ACK_END),
        ("duplicate", pub_ack_start("S") + b"7" + PUB_ACK_DUPLICATE_END),
        ("domain", pub_ack_start("S", "hub") + b"1" + PUB_ACK_END),
        ("counter", pub_ack_start("COUNTER") + b"1" + pub_ack_counter_end("5")),
        ("batch", pub_ack_start("BATCH") + b"2" + pub_ack_batch_end("b", 2)),
    ],
)
def test_hand_made_ack_is_what_the_reference_wrote(case: str, ack: bytes) -> None:
    assert ack == (GOLDEN / "jsapi" / f"PubAckResponse.{case}.json").read_bytes().removesuffix(b"\n")


def test_refusal_names_the_stream_and_no_sequence() -> None:
    refusal = ApiError(Err.STREAM_SEALED).body
    assert encode(PubAckResponse(error=refusal, stream="S")) == (
        b'{"error":{"code":400,"err_code":10109,"description":"invalid operation on sealed stream"},'
        b'"stream":"S","seq":0}'
    )


def test_refusal_inside_a_fast_batch_names_the_message() -> None:
    refusal = ApiError(Err.BATCH_PUBLISH_UNKNOWN_BATCH_ID).body
    assert encode(BatchFlowErr(seq=3, error=refusal)) == (
        b'{"type":"err","seq":3,'
        b'"error":{"code":400,"err_code":10208,"description":"batch publish ID unknown"}}'
    )
