"""Offsets: their text is stable, comes back as it was, and what is not ours is told from it."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millstream.spark.errors import CheckpointError
from millstream.spark.offsets import Offset, Position, parse, parse_text

sequences = st.integers(min_value=1, max_value=2**62)


@st.composite
def positions(draw: st.DrawFn) -> Position:
    start = draw(sequences)
    count = draw(st.integers(min_value=0, max_value=10**12))
    parts = 0 if count == 0 else draw(st.integers(min_value=1, max_value=1000))
    return Position(draw(st.text(max_size=30)), start, start + count, parts)


offsets = st.builds(
    Offset,
    st.dictionaries(st.text(min_size=1, max_size=12), positions(), max_size=5),
    st.none() | st.text(max_size=22),
)


@settings(deadline=None)
@given(offsets)
def test_an_offset_survives_the_checkpoint(offset: Offset) -> None:
    assert parse_text(offset.to_text()) == offset
    assert parse(json.loads(json.dumps(offset.to_dict()))) == offset


@settings(deadline=None)
@given(offsets)
def test_the_text_is_the_same_however_the_offset_was_made(offset: Offset) -> None:
    turned = Offset(dict(reversed(offset.streams.items())), offset.query)
    assert json.dumps(turned.to_dict()) == json.dumps(offset.to_dict()) == offset.to_text()


def test_the_text_is_the_documented_one() -> None:
    offset = Offset({"ORDERS": Position("2026", 101, 201, 4)})
    assert offset.to_text() == (
        '{"streams": {"ORDERS": {"from": 101, "id": "2026", "next": 201, "parts": 4}}, "v": 1}'
    )


GOOD: dict[str, Any] = {"from": 1, "id": "x", "next": 5, "parts": 2}


@pytest.mark.parametrize(
    ("document", "why"),
    [
        ([], "not an object"),
        ({}, "its version is None"),
        ({"v": 2, "streams": {}}, "its version is 2"),
        ({"v": 1}, "no streams"),
        ({"v": 1, "streams": {}, "query": 3}, "query is not text"),
        ({"v": 1, "streams": {"S": 5}}, "stream S is not an object"),
        ({"v": 1, "streams": {"S": GOOD | {"next": "5"}}}, "next of stream S is not a number"),
        ({"v": 1, "streams": {"S": GOOD | {"parts": True}}}, "parts of stream S is not a number"),
        ({"v": 1, "streams": {"S": {**GOOD, "id": None}}}, "stream S has no id"),
        ({"v": 1, "streams": {"S": GOOD | {"from": 0}}}, "makes no sense"),
        ({"v": 1, "streams": {"S": GOOD | {"next": 0}}}, "makes no sense"),
        ({"v": 1, "streams": {"S": GOOD | {"parts": 0}}}, "makes no sense"),
        ({"topic": {"0": 100}}, "its version is None"),  # Kafka's
    ],
)
def test_what_another_source_wrote_or_a_disk_damaged_is_refused(document: Any, why: str) -> None:
    with pytest.raises(CheckpointError, match=f"the jetstream source did not write.*{why}"):
        parse(document)


def test_text_that_is_no_json_is_refused_and_shown() -> None:
    with pytest.raises(CheckpointError, match=r'not JSON.*\{"v": 1, "str'):
        parse_text('{"v": 1, "str')


def test_only_an_offset_that_no_batch_ends_at_is_initial() -> None:
    assert Offset({"S": Position("x", 7, 7, 0)}).is_initial
    assert not Offset({"S": Position("x", 7, 9, 1), "T": Position("x", 7, 7, 0)}).is_initial
