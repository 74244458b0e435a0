"""Suggestions for misspelt words."""

import pytest

from millstream.base.suggestions import did_you_mean, nearest

WORDS = ["port", "root", "host", "max_payload", "max_pending", "store_dir"]


@pytest.mark.parametrize(
    ("word", "meant"),
    [("prot", "port"), ("max_payoad", "max_payload"), ("stor_dir", "store_dir"), ("xyz", ""), ("", "")],
)
def test_the_nearest_word_is_suggested(word: str, meant: str) -> None:
    assert nearest(word, WORDS) == meant


def test_the_suggestion_ends_a_sentence() -> None:
    assert did_you_mean("prot", WORDS) == '; did you mean "port"?'
    assert did_you_mean("xyz", WORDS) == ""
    assert did_you_mean("xyz", []) == ""
