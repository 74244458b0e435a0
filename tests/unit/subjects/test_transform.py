"""Vectors were made with the reference's own transform; nothing but the results is kept here."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.subjects.functions import Fault, TransformError
from millstream.subjects.transform import (
    SubjectTransform,
    check_mapping,
    destination_to_pattern,
    pattern_to_destination,
)


@pytest.mark.parametrize(
    ("source", "destination", "subject", "expected"),
    [
        ("foo", "bar", "foo", "bar"),
        ("foo", "bar.baz", "foo", "bar.baz"),
        ("*", "bar.$1", "a", "bar.a"),
        ("foo.*", "bar.$1", "foo.a", "bar.a"),
        ("foo.*.*", "bar.$2.$1", "foo.a.b", "bar.b.a"),
        ("foo.*.*", "bar.$2", "foo.a.b", "bar.b"),
        ("foo.*.*", "$1.$1.$1", "foo.a.b", "a.a.a"),
        ("foo.*.*", "bar.{{wildcard(2)}}.{{ Wildcard( 1 ) }}", "foo.a.b", "bar.b.a"),
        ("foo.>", "bar.>", "foo.a.b.c", "bar.a.b.c"),
        ("foo.>", ">", "foo.a.b", "a.b"),
        (">", "bar.>", "foo.a", "bar.foo.a"),
        (">", ">", "foo.a", "foo.a"),
        ("", "bar.>", "foo.a", "bar.foo.a"),
        ("foo.*.>", "bar.$1.baz.>", "foo.a.b.c", "bar.a.baz.b.c"),
        ("*.>", "$1.x.>", "a.b", "a.x.b"),
        ("foo.*", "bar.$0", "foo.a", "bar.foo"),
        ("foo.*", "bar.$x.$", "foo.a", "bar.$x.$"),
        ("foo.*", "bar.{{}}.{.}", "foo.a", "bar.{{}}.{.}"),
        ("*", "{{splitfromleft(1,3)}}", "12345", "123.45"),
        ("*", "{{SplitFromLeft(1,5)}}", "12345", "12345"),
        ("*", "{{splitfromleft(1,0)}}", "12345", "12345"),
        ("*", "{{splitFromRight(1, 3)}}", "12345", "12.345"),
        ("*", "{{splitfromright(1,9)}}", "12345", "12345"),
        ("*", "{{slicefromleft(1,3)}}", "1234567890", "123.456.789.0"),
        ("*", "{{sliceFromLeft(1,5)}}", "1234567890", "12345.67890"),
        ("*", "{{slicefromleft(1,10)}}", "1234567890", "1234567890"),
        ("*", "{{slicefromright(1,3)}}", "1234567890", "1.234.567.890"),
        ("*", "{{SliceFromRight(1,5)}}", "1234567890", "12345.67890"),
        ("*", "{{slicefromright(1,-1)}}", "1234567890", "1234567890"),
        ("*", "{{left(1,2)}}", "1234", "12"),
        ("*", "{{Left(1,4)}}", "1234", "1234"),
        ("*", "{{left(1,-1)}}", "1234", "1234"),
        ("*", "{{right(1,2)}}", "1234", "34"),
        ("*", "{{Right(1,9)}}", "1234", "1234"),
        ("*", "{{split(1,-)}}", "abc-def--ghi-", "abc.def.ghi"),
        ("*", "{{split(1,-)}}", "-abc-def", "abc.def"),
        ("*", "{{split(1,-)}}", "--abc", ".abc"),
        ("*", "{{Split(1,--)}}", "a--b-c", "a.b-c"),
        ("*", "{{split(1,)}}", "aé1", "a.é.1"),
        ("*.*", "$2.{{split(1,-)}}.end", "a-b.c", "c.a.b.end"),
        ("*", "{{partition(10,1)}}", "foo", "3"),
        ("*", "bar.{{Partition(10)}}", "foo", "bar.3"),
        ("*.*", "{{partition(10,1,2)}}", "foo.bar", "0"),
        ("*.*", "{{partition(10,2,1)}}", "foo.bar", "2"),
        ("*.*", "{{partition(10)}}", "foo.bar", "6"),
        ("foo.bar", "x.{{partition(10,1)}}", "foo.bar", "x.6"),
        ("*", "{{partition(0,1)}}", "foo", "0"),
        ("*", "{{partition(-1,1)}}", "foo", "2851307223"),
    ],
)
def test_a_subject_is_rewritten(source: str, destination: str, subject: str, expected: str) -> None:
    assert SubjectTransform(source, destination).apply(subject.encode()) == expected.encode()


@pytest.mark.parametrize(
    ("source", "destination", "subject"),
    [
        ("foo", "bar", "baz"),
        ("foo.*", "bar.$1", "foo"),
        ("foo.*", "bar.$1", "foo.a.b"),
        ("foo.>", "bar.>", "foo"),
        ("foo.*", "bar.$1", "foo."),
        ("foo.>", "bar.>", "foo..a"),
        ("foo.*", "bar.$1", "foo.*"),
        ("foo.>", "bar.>", "foo.>"),
        (">", "bar.>", ""),
    ],
)
def test_a_subject_outside_the_source_is_left_alone(source: str, destination: str, subject: str) -> None:
    assert SubjectTransform(source, destination).apply(subject.encode()) is None


@pytest.mark.parametrize(
    ("source", "destination", "text"),
    [
        ("foo..*", "bar.$1", "invalid subject"),
        ("foo.>.bar", "bar", "invalid subject"),
        ("foo.*", "bar.*", "invalid subject"),
        ("foo.*", "bar..$1", "invalid subject"),
        ("foo.*", "", "invalid subject"),
        ("foo.>", "bar", "invalid subject"),
        ("foo", "bar.>", "invalid subject"),
        ("foo.*", "$2", "invalid mapping destination: wildcard index out of range in $2: [2]"),
        ("foo", "$1", "invalid mapping destination: wildcard index out of range in $1"),
        ("foo.>", "$1.>", "invalid mapping destination: wildcard index out of range in $1: [1]"),
        (
            "foo.*",
            "{{partition(10,1,2)}}",
            "invalid mapping destination: wildcard index out of range in {{partition(10,1,2)}}: [2]",
        ),
        ("foo.*", "{{nope(1)}}", "invalid mapping destination: unknown function in {{nope(1)}}"),
        ("foo.*", "{{WILDCARD(1)}}", "invalid mapping destination: unknown function in {{WILDCARD(1)}}"),
        ("foo.*", "{{wildcard}}", "invalid mapping destination: unknown function in {{wildcard}}"),
        (
            "foo.*",
            "{{wildcard()}}",
            "invalid mapping destination: not enough arguments passed to the function in {{wildcard()}}",
        ),
        (
            "foo.*",
            "{{wildcard(1,2)}}",
            "invalid mapping destination: too many arguments passed to the function in {{wildcard(1,2)}}",
        ),
        (
            "foo.*",
            "{{left(1)}}",
            "invalid mapping destination: not enough arguments passed to the function in {{left(1)}}",
        ),
        (
            "foo.*",
            "{{split(1,-,-)}}",
            "invalid mapping destination: too many arguments passed to the function in {{split(1,-,-)}}",
        ),
        (
            "foo.*",
            "{{split(1, -)}} {{",
            "invalid subject",  # not a call, as it does not end in braces: a token with a blank
        ),
        (
            "foo.*",
            "{{split(1,a b)}}",
            "invalid mapping destination: "
            "function argument is invalid or in the wrong format in {{split(1,a b)}}",
        ),
        (
            "foo.*",
            "{{wildcard(one)}}",
            "invalid mapping destination: "
            "function argument is invalid or in the wrong format in {{wildcard(one)}}",
        ),
        (
            "foo.*",
            "{{wildcard(1_0)}}",
            "invalid mapping destination: "
            "function argument is invalid or in the wrong format in {{wildcard(1_0)}}",
        ),
        (
            "foo.*",
            "{{partition(2147483648,1)}}",
            "invalid mapping destination: "
            "function argument is invalid or in the wrong format in {{partition(2147483648,1)}}",
        ),
        (
            "foo.*",
            "{{left(1,2147483648)}}",
            "invalid mapping destination: "
            "function argument is invalid or in the wrong format in {{left(1,2147483648)}}",
        ),
        (
            "foo.*",
            "{{random(1,2)}}",
            "invalid mapping destination: not enough arguments passed to the function in {{random(1,2)}}",
        ),
    ],
)
def test_a_bad_transform_is_refused_with_the_known_text(
    source: str, destination: str, text: str | None
) -> None:
    if text is None:
        SubjectTransform(source, destination)
        return
    with pytest.raises(TransformError) as caught:
        SubjectTransform(source, destination)
    assert str(caught.value) == text


@pytest.mark.parametrize(
    ("source", "destination", "fault"),
    [
        ("foo.*.*", "bar.$1", Fault.NOT_ALL_USED),
        ("foo.*", "bar.{{partition(2,1)}}", Fault.NOT_FOR_IMPORTS),
        ("foo.*", "bar.$1.{{random(2)}}", Fault.NOT_FOR_IMPORTS),
    ],
)
def test_an_import_refuses_what_cannot_be_reversed(source: str, destination: str, fault: Fault) -> None:
    SubjectTransform(source, destination)
    with pytest.raises(TransformError) as caught:
        SubjectTransform(source, destination, strict=True)
    assert caught.value.fault is fault


def test_random_numbers_come_from_the_given_generator_and_stay_below_the_ceiling() -> None:
    transform = SubjectTransform("*", "x.{{random(3)}}", generator=random.Random(1))
    again = SubjectTransform("*", "x.{{random(3)}}", generator=random.Random(1))
    drawn = [transform.apply(b"a") for _ in range(200)]
    assert drawn == [again.apply(b"a") for _ in range(200)]
    assert set(drawn) == {b"x.0", b"x.1", b"x.2"}


def test_random_below_nothing_is_zero() -> None:
    assert SubjectTransform("foo", "x.{{random(0)}}").apply(b"foo") == b"x.0"


@pytest.mark.parametrize(
    ("source", "destination", "text"),
    [
        ("m.*", "x.a..b", "invalid mapping destination: invalid transform"),
        ("m.*", "x.>.b", "invalid mapping destination: invalid transform in b"),
        ("m.*", "x.a b", "invalid mapping destination: invalid transform"),
        ("m.*", "x.{{foo(1)}}", "invalid mapping destination: unknown function in {{foo(1)}}"),
        ("m.*", "x.*", "invalid subject"),
        ("m.*", "$2", "invalid mapping destination: wildcard index out of range in $2: [2]"),
    ],
)
def test_a_mapping_is_checked_token_by_token(source: str, destination: str, text: str) -> None:
    with pytest.raises(TransformError) as caught:
        check_mapping(source, destination)
    assert str(caught.value) == text


@pytest.mark.parametrize("destination", ["x.{{ left( 1, 2 ) }}", "x.{{right(1,2)}}", "x.$1", "x"])
def test_a_good_mapping_passes(destination: str) -> None:
    check_mapping("m.*", destination)


def test_patterns_and_destinations_translate_into_each_other() -> None:
    assert pattern_to_destination("foo.*.bar.*.>") == "foo.$1.bar.$2.>"
    assert destination_to_pattern("foo.$2.bar.{{ wildcard(1) }}.>") == "foo.*.bar.*.>"
    assert destination_to_pattern("foo.$x.{{partition(2,1)}}") == "foo.$x.{{partition(2,1)}}"


@pytest.mark.parametrize(
    ("source", "destination"),
    [
        ("a.*", "b.{{partition(3,1)}}"),
        ("a.*.*", "b.$1"),
        ("a.*", "b.$1.$1"),
        ("a", "b.{{random(2)}}"),
        ("a.*", "b.$1.$0"),
    ],
)
def test_what_loses_or_repeats_has_no_inverse(source: str, destination: str) -> None:
    assert SubjectTransform(source, destination).inverse() is None


words = st.text(alphabet="abcé-", min_size=1, max_size=6)


@st.composite
def reversible(draw: st.DrawFn) -> tuple[str, str, str]:
    """A source, a destination that uses every star once, and a subject of the source."""
    source = draw(st.lists(st.one_of(st.just("*"), words), min_size=1, max_size=6))
    stars = [index for index, token in enumerate(source) if token == "*"]
    order = draw(st.permutations(range(1, len(stars) + 1)))
    spelled = [draw(st.sampled_from([f"${n}", f"{{{{wildcard({n})}}}}"])) for n in order]
    destination = list(spelled)
    for word in draw(st.lists(words, min_size=0 if spelled else 1, max_size=3)):
        destination.insert(draw(st.integers(0, len(destination))), word)
    subject = [draw(words) if token == "*" else token for token in source]
    if draw(st.booleans()):
        source.append(">")
        destination.append(">")
        subject.extend(draw(st.lists(words, min_size=1, max_size=3)))
    return ".".join(source), ".".join(destination), ".".join(subject)


@given(reversible())
def test_the_inverse_leads_back(case: tuple[str, str, str]) -> None:
    source, destination, subject = case
    transform = SubjectTransform(source, destination, strict=True)
    moved = transform.apply(subject.encode())
    inverse = transform.inverse()
    assert moved is not None
    assert inverse is not None
    assert inverse.apply(moved) == subject.encode()


def naive(source: str, destination: str, subject: str) -> str | None:
    """Wildcards and `>` only, written out with dictionaries."""
    taken: dict[str, str] = {}
    rest = subject.split(".")
    for token in source.split("."):
        if token == ">":
            if not rest:
                return None
            taken[">"] = ".".join(rest)
            rest = []
        elif not rest:
            return None
        else:
            head = rest.pop(0)
            if token == "*":
                taken[f"${len(taken) + 1}"] = head
            elif token != head:
                return None
    if rest:
        return None
    return ".".join(taken.get(token, token) for token in destination.split("."))


@st.composite
def plain_cases(draw: st.DrawFn) -> tuple[str, str, str]:
    token = st.sampled_from(["a", "b", "*"])
    source = draw(st.lists(token, min_size=1, max_size=4))
    stars = source.count("*")
    places = [f"${n}" for n in range(1, stars + 1)]
    destination = draw(st.lists(st.sampled_from(["x", "y", *places]), min_size=1, max_size=4))
    if draw(st.booleans()):
        source.append(">")
        destination.append(">")
    subject = draw(st.lists(st.sampled_from(["a", "b", "c"]), min_size=1, max_size=6))
    return ".".join(source), ".".join(destination), ".".join(subject)


@given(plain_cases())
def test_wildcards_agree_with_a_naive_model(case: tuple[str, str, str]) -> None:
    source, destination, subject = case
    expected = naive(source, destination, subject)
    result = SubjectTransform(source, destination).apply(subject.encode())
    assert result == (None if expected is None else expected.encode())


@given(words, st.integers(-3, 9))
def test_cutting_never_loses_a_byte(word: str, size: int) -> None:
    for name in ("splitfromleft", "splitfromright", "slicefromleft", "slicefromright"):
        result = SubjectTransform("*", f"{{{{{name}(1,{size})}}}}").apply(word.encode())
        assert result is not None
        assert result.replace(b".", b"") == word.encode()


@given(words, st.integers(1, 2**31 - 1))
def test_a_partition_is_stable_and_within_its_count(word: str, count: int) -> None:
    transform = SubjectTransform("*", f"{{{{partition({count},1)}}}}")
    result = transform.apply(word.encode())
    assert result is not None
    assert 0 <= int(result) < count
    assert transform.apply(word.encode()) == result
