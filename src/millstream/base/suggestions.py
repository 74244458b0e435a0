"""Suggest the known word that a mistyped one was probably meant to be."""

from collections.abc import Iterable
from typing import Final

_LEAST: Final = 0.6  # the ratio of equal words is 1
_LONGEST: Final = 100  # characters; clients may send more, and comparing takes quadratic time


def nearest(word: str, known: Iterable[str]) -> str:
    """Return the known word most similar to `word`, or an empty string if none is similar."""
    if len(word) > _LONGEST:
        return ""
    best = max(known, key=lambda each: _likeness(word, each), default="")
    return best if _likeness(word, best) >= (_LEAST, False) else ""


def _likeness(word: str, other: str) -> tuple[float, bool]:
    """Return the similarity of two words, and whether their first letters (seldom mistyped) agree."""
    from difflib import SequenceMatcher  # imported here because few words are mistyped

    same_letters = sorted(word) == sorted(other)  # letters changed places
    ratio = SequenceMatcher(None, other, word, autojunk=False).ratio()
    return max(ratio, 0.8 if same_letters else 0.0), word[:1] == other[:1]


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return the end of an error message that suggests a known word; empty if none is similar."""
    found = nearest(word, known)
    return f'; did you mean "{found}"?' if found else ""
