"""Docstrings begin with the verb or the noun that they document, and not as fragments.

`fragments.toml` has the number of fragments that each package is still allowed.  It may only go down: with
GOLDEN_UPDATE=1 this test lowers it to what it finds.
"""

import os
import re
import tomllib
from collections import defaultdict

import pytest

from tests.kits.docs.prose import code_files, docstrings
from tests.kits.paths import SOURCE, TESTS

ALLOWED = TESTS / "docs" / "source" / "fragments.toml"
_FRAGMENT = re.compile(
    r"\s*(Of|What|Whether|The same|As|See|How|That|Who|Whose|Which|Where|Why|Those)\b(?! (is|are) |-)"
)


def package(place: str) -> str:
    """Return the package of `src` that a file belongs to, or else its top folder."""
    parts = place.removeprefix("src/millstream/").split("/")
    return parts[0] if place.startswith("src/millstream/") and len(parts) > 1 else place.split("/")[0]


def fragments() -> dict[str, list[str]]:
    found: dict[str, list[str]] = defaultdict(list)
    for path in code_files():
        for each in docstrings(path):
            if _FRAGMENT.match(each.text):
                line = each.text.strip().splitlines()[0]
                found[package(each.place)].append(f"{each.place}: {line}")
    return found


def test_no_package_has_more_fragments_than_it_had() -> None:
    allowed: dict[str, int] = tomllib.loads(ALLOWED.read_text())["fragments"]
    found = fragments()
    if os.environ.get("GOLDEN_UPDATE") == "1":
        kept = {name: min(count, len(found[name])) for name, count in allowed.items() if found[name]}
        lines = [f"{name} = {count}" for name, count in sorted(kept.items())]
        ALLOWED.write_text(
            "\n".join(["# Lowered by GOLDEN_UPDATE=1; never raised.", "[fragments]", *lines, ""])
        )
    more = {name: found[name] for name in found if len(found[name]) > allowed.get(name, 0)}
    assert not more


@pytest.mark.parametrize("text", ["Of a stream.", "Whether it is open.", "As `add`.", "The same again."])
def test_fragments_are_recognized(text: str) -> None:
    assert _FRAGMENT.match(text)


@pytest.mark.parametrize("text", ["Return the stream.", "The streams of an account.", "Offset of a record."])
def test_sentences_are_not_taken_for_fragments(text: str) -> None:
    assert not _FRAGMENT.match(text)


def test_the_list_names_packages_that_exist() -> None:
    allowed = tomllib.loads(ALLOWED.read_text())["fragments"]
    folders = {path.name for path in SOURCE.iterdir()} | {
        "tests",
        "benchmarks",
        "examples",
    }
    assert not set(allowed) - folders
