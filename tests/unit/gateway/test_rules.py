"""Names, subjects and filters that httpmq takes."""

import pytest

from millstream.gateway.v1.rules import Invalid, Rules, check_filter

STRICT, RELAXED = Rules(relaxed=False), Rules(relaxed=True)
UUID = "0f8fad5b-d9cb-469f-a165-70867728950e"


@pytest.mark.parametrize("name", ["a", "A1", "testStream00", UUID, "x" * 500])
def test_names(name: str) -> None:
    assert STRICT.is_name(name)


@pytest.mark.parametrize(
    "name", ["", "a_b", "a-b", UUID.upper(), "a.b", "a b", "ä", "a\n", "*", ">", "a/b", "٣"]
)
def test_no_names(name: str) -> None:
    assert not STRICT.is_name(name)


@pytest.mark.parametrize("name", ["a_b", "a-b", UUID.upper(), "ä"])
def test_relaxed_names(name: str) -> None:
    assert RELAXED.is_name(name)


@pytest.mark.parametrize("name", ["", "a.b", "a b", "a\n", "*", ">", "a/b", "a\\b", "a\x00", "a\x7f"])
def test_no_relaxed_names(name: str) -> None:
    assert not RELAXED.is_name(name)


@pytest.mark.parametrize("subject", ["a", "a.b", "a.*", "a-b", "größe", "*", "a..b"])
def test_subjects(subject: str) -> None:
    assert STRICT.is_subject(subject)


@pytest.mark.parametrize("sign", list(" \t\r\n>`~!@#$%^&()_+=[]{}\\|;:'\",<>/?\0"))
def test_signs_that_no_subject_has(sign: str) -> None:
    assert not STRICT.is_subject(f"a{sign}b")


@pytest.mark.parametrize("subject", ["a..b", ".a", "a.", "", "$JS.API.INFO", "a b"])
def test_what_can_not_be_published_to(subject: str) -> None:
    assert not STRICT.is_publishable(subject)
    assert not RELAXED.is_publishable(subject)


def test_relaxed_subjects_may_be_those_of_others_but_not_of_the_server() -> None:
    assert RELAXED.is_publishable("$KV.bucket.key_1")
    assert not RELAXED.is_publishable("$SYS.REQ.SERVER.PING")


@pytest.mark.parametrize("wanted", ["t.a", "t.*", "t.>", ">", "*.a", "u.x.y", "u.*.y"])
def test_filters_that_fit(wanted: str) -> None:
    check_filter(wanted, ["t.a", "t.b", "u.>"])


@pytest.mark.parametrize("wanted", ["t.c", "v.>", "t.a.b", "*", "t..a", "", "t.a ", "t.\n"])
def test_filters_that_do_not_fit(wanted: str) -> None:
    with pytest.raises(Invalid):
        check_filter(wanted, ["t.a", "t.b", "u.>"])
