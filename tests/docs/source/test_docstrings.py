"""Docstrings begin with the verb or the noun that they document, and not as fragments."""

import re

import pytest

from tests.kits.docs.prose import code_files, docstrings

# Words that begin a part of a sentence: what it is a part of would be left to the reader.
_FRAGMENT = re.compile(
    r"\s*(As|Also|At once|Back when|Does|Has|How|However|In front|Its|Of|Or|Ours|Over|See|So|That|The same|"
    r"They|Those|Through|To|Too|Until|What|Whatever|When|Where|Whether|Which|Who|Whoever|Whose|Why|With|"
    r"Without)\b(?!-)"
)


def test_no_docstring_begins_as_a_fragment() -> None:
    found = [
        f"{each.place}: {each.text.strip().splitlines()[0]}"
        for path in code_files()
        for each in docstrings(path)
        if _FRAGMENT.match(each.text)
    ]
    assert not found


@pytest.mark.parametrize(
    "text", ["Of a stream.", "Whether it is open.", "As `add`.", "The same again.", "What is stored."]
)
def test_fragments_are_recognized(text: str) -> None:
    assert _FRAGMENT.match(text)


@pytest.mark.parametrize(
    "text", ["Return the stream.", "The streams of an account.", "Offset of a record.", "Server-Sent Events."]
)
def test_sentences_are_not_taken_for_fragments(text: str) -> None:
    assert not _FRAGMENT.match(text)
