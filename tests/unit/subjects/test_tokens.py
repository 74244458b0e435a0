import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.subjects.match import valid_literal_subject, valid_subscription
from millstream.subjects.tokens import (
    is_literal,
    token_count,
    valid_publish_subject,
    valid_subject,
)


@pytest.mark.parametrize(
    "subject",
    [
        b"foo",
        b"foo.bar",
        b"*",
        b">",
        b"foo.*",
        b"*.foo",
        b"foo.>",
        b"*.>",
        b"foo*",
        b"foo>",
        b">a.b",
        b"a.>b.c",
        b"a.b>.c",
        b"$SYS.REQ",
        "füü.bär".encode(),
        b"\xff.\x7f",
        b"**.>>",
        b"a.*b.c",
    ],
)
def test_a_subscription_subject_is_accepted(subject: bytes) -> None:
    assert valid_subject(subject)
    assert valid_subscription(subject)


@pytest.mark.parametrize("byte", sorted({*range(0x20)} - {*b"\t\n\r\f"}))
def test_a_subscription_may_have_control_characters_and_no_configured_subject_may(byte: int) -> None:
    for subject in (b"%c", b"a%cb", b"a.%c", b"%c.b.>"):
        assert valid_subscription(subject % byte)
        assert not valid_subject(subject % byte)
        assert not valid_publish_subject(subject % byte)


@pytest.mark.parametrize(
    "subject",
    [
        b"",
        b".",
        b"foo.",
        b".foo",
        b"foo..bar",
        b">.foo",
        b"foo.>.bar",
        b"foo.>.",
        b">.>",
        b"a.>.>",
        b" ",
        b"foo bar",
        b"foo.\t",
        b"foo.b\nr",
        b"foo\r",
        b"\f",
        b"foo.bar ",
    ],
)
def test_a_malformed_subscription_subject_is_refused(subject: bytes) -> None:
    assert not valid_subject(subject)
    assert not valid_subscription(subject)


@pytest.mark.parametrize(
    ("subject", "valid"),
    [
        (b"foo.bar", True),
        (b"foo*.b>r", True),
        (b"foo bar", True),  # blanks are the parser's affair
        (b"", False),
        (b"foo..bar", False),
        (b"foo.", False),
        (b".foo", False),
        (b"foo.*", False),
        (b"foo.>", False),
        (b"*", False),
        (b">.foo", False),
    ],
)
def test_a_pedantic_publish_takes_only_whole_literal_tokens(subject: bytes, valid: bool) -> None:
    assert valid_literal_subject(subject) is valid


@pytest.mark.parametrize(
    ("subject", "valid"),
    [
        (b"foo.bar", True),
        (b"foo*", True),
        (b"foo.*", False),
        (b">", False),
        (b"foo bar", False),
        (b"a..b", False),
    ],
)
def test_a_publish_subject_is_valid_and_literal(subject: bytes, valid: bool) -> None:
    assert valid_publish_subject(subject) is valid


@pytest.mark.parametrize(
    ("subject", "literal"),
    [
        (b"", True),
        (b"foo", True),
        (b"foo*", True),
        (b"foo.*bar", True),
        (b">>", True),
        (b"*", False),
        (b">", False),
        (b"foo.*", False),
        (b"*.foo", False),
        (b"a.*.b", False),
        (b"a.>", False),
        (b"a..*", False),
    ],
)
def test_a_wildcard_counts_only_when_alone_in_its_token(subject: bytes, literal: bool) -> None:
    assert is_literal(subject) is literal


@pytest.mark.parametrize(
    ("subject", "count"), [(b"", 0), (b"a", 1), (b"a.b", 2), (b"a..b", 3), (b".", 2), (b"a.b.", 3)]
)
def test_tokens_are_counted_by_their_dots(subject: bytes, count: int) -> None:
    assert token_count(subject) == count


def naive_valid(subject: bytes) -> bool:
    if not subject:
        return False
    tokens = subject.split(b".")
    for position, token in enumerate(tokens):
        if not token or any(blank in token for blank in b"\t\n\f\r "):
            return False
        if token == b">" and position != len(tokens) - 1:
            return False
    return True


subjects = st.text(alphabet="ab.*> \n", max_size=12).map(str.encode)


@given(subjects)
def test_validity_agrees_with_the_definition(subject: bytes) -> None:
    assert valid_subject(subject) is naive_valid(subject)


@given(subjects)
def test_a_publish_subject_is_exactly_a_valid_subject_without_wildcards(subject: bytes) -> None:
    assert valid_publish_subject(subject) is (valid_subject(subject) and is_literal(subject))
