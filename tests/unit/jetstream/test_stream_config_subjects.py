"""Subjects of streams that overlap: found as if every two were compared, but without doing that."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.jetstream.config.subjects import check_overlap, complete_subjects, patterns_collide
from millstream.jsapi.errors import ApiError, Err
from millstream.jsapi.stream_types import StreamConfig
from millstream.subjects.tokens import valid_subject

MANY = 10_000  # two by two that would be minutes

_tokens = st.sampled_from(["a", "b", "*", ">", "", "a b", "x*"])
_subjects = st.lists(_tokens, min_size=1, max_size=3).map(".".join)


def refusal(config: StreamConfig) -> str:
    try:
        complete_subjects(config)
    except ApiError as error:
        return error.body.description
    return ""


@given(st.lists(_subjects, min_size=1, max_size=5))
def test_the_first_thing_that_is_wrong_is_told(subjects: list[str]) -> None:
    expected = ""
    for index, subject in enumerate(subjects):
        if not valid_subject(subject.encode()):
            expected = "invalid subject"
            break
        other = next((other for other in subjects[index + 1 :] if patterns_collide(other, subject)), None)
        if other is not None:
            expected = f'subject "{subject}" overlaps with "{other}"'
            break
    found = refusal(StreamConfig(name="S", subjects=subjects, no_ack=True, num_replicas=1))
    assert found == expected


@given(st.lists(_subjects.filter(lambda subject: valid_subject(subject.encode())), min_size=2, max_size=5))
def test_two_streams_overlap_if_two_of_their_subjects_do(subjects: list[str]) -> None:
    own, taken = StreamConfig(name="A", subjects=subjects[:2]), StreamConfig(name="B", subjects=subjects[2:])
    overlap = any(patterns_collide(one, other) for one in own.subjects for other in taken.subjects)
    if overlap:
        with pytest.raises(ApiError) as raised:
            check_overlap(own, {"B": taken})
        assert raised.value.body.err_code == Err.STREAM_SUBJECT_OVERLAP.value[1]
    else:
        check_overlap(own, {"B": taken})
    check_overlap(own, {"A": taken})


@pytest.mark.compiled
def test_thousands_of_subjects_are_checked_without_comparing_every_two() -> None:
    literal = [f"orders.{number}" for number in range(MANY)]
    patterns = [f"events.{number}.*.>" for number in range(MANY)]
    config = StreamConfig(name="S", subjects=literal + patterns)
    assert refusal(config) == ""
    other = StreamConfig(name="T", subjects=[f"events.*.{number}" for number in range(10)] + literal[:-1])
    check_overlap(StreamConfig(name="U", subjects=["others.>"]), {"S": config, "T": other})
    with pytest.raises(ApiError):
        check_overlap(config, {"T": other})
    config.subjects.append("events.9999.x.y")
    assert refusal(config) == 'subject "events.9999.*.>" overlaps with "events.9999.x.y"'
