"""Templates of scoped users: fields, tags with several values, and what cannot be filled."""

import pytest

from millstream.claims.decode import read_account, read_user
from millstream.claims.templates import filled
from millstream.claims.token import ClaimsError
from millstream.claims.types import SubjectClaims, UserLimits
from tests.kits.operator import Key, Operator, token

ACCOUNT = Operator("unit").account("A")
KEY = Key("U", "templates")


def rules(allow: list[str], tags: list[str], deny: list[str] | None = None) -> SubjectClaims:
    signer = Key("A", "templates")
    text = token(signer, "user", KEY.public, {"issuer_account": ACCOUNT.public, "tags": tags}, name="ann")
    template = UserLimits(pub=SubjectClaims(allow=tuple(allow), deny=tuple(deny or ())))
    return filled(template, read_user(text), read_account(Operator("unit").account("A").token)).pub


def test_fields() -> None:
    allow = ["{{name()}}.x", "{{ Subject() }}", "{{account-name()}}", "{{account-subject()}}", "plain.>"]
    assert rules(allow, []).allow == ("ann.x", KEY.public, "A", ACCOUNT.public, "plain.>")


def test_tags_make_one_subject_for_each_value() -> None:
    tags = ["a:1", "a:2", "b:x"]
    assert rules(["{{tag(a)}}.{{tag(b)}}"], tags).allow == ("1.x", "2.x")


def test_the_same_tag_has_the_same_value() -> None:
    assert rules(["{{tag(a)}}.{{tag(a)}}"], ["a:1", "a:2"]).allow == ("1.1", "2.2")


def test_values_cannot_add_fields_or_widen() -> None:
    assert rules(["{{tag(a)}}"], ["a:{{name()}}"]).allow == ("{{name()}}",)
    assert rules(["x.{{tag(a)}}.y"], ["a:a b", "a:"]).deny == (">",)


def test_nothing_left_denies_everything() -> None:
    left = rules(["x.{{tag(no)}}"], [])
    assert (left.allow, left.deny) == ((), (">",))


def test_what_is_denied_has_to_be_filled() -> None:
    with pytest.raises(ClaimsError, match="is not defined"):
        rules([], [], deny=["x.{{tag(no)}}"])
    with pytest.raises(ClaimsError, match="operation"):
        rules(["{{other()}}"], [])


def test_subjects_are_limited() -> None:
    tags = [f"{name}:{number}" for name in "ab" for number in range(65)]
    with pytest.raises(ClaimsError, match="exceeds limit"):
        rules(["{{tag(a)}}.{{tag(b)}}"], tags)
