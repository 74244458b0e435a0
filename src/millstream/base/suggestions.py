"""The known word that a mistyped one was probably meant to be."""

from collections.abc import Iterable
from typing import Final

_LEAST: Final = 0.6  # of 1, for words that are equal
_LONGEST: Final = 100  # characters; what strangers send may be longer, and comparing takes the square of it


def nearest(word: str, known: Iterable[str]) -> str:
    """Return the known word that is most like `word`, or an empty text if none is like it."""
    if len(word) > _LONGEST:
        return ""
    best = max(known, key=lambda each: _likeness(word, each), default="")
    return best if _likeness(word, best) >= (_LEAST, False) else ""


def _likeness(word: str, other: str) -> tuple[float, bool]:
    """Compare by what they have in common, then by the letter that people seldom miss: the first."""
    from difflib import SequenceMatcher  # here: few words are mistyped

    same_letters = sorted(word) == sorted(other)  # two of them changed places
    ratio = SequenceMatcher(None, other, word, autojunk=False).ratio()
    return max(ratio, 0.8 if same_letters else 0.0), word[:1] == other[:1]


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return the end of an error message that suggests a known word; empty if none is like `word`."""
    found = nearest(word, known)
    return f'; did you mean "{found}"?' if found else ""
