"""docs/compat.md names the tests that prove it."""

import re

from tests.kits.paths import DOCS, TESTS

PAGE = (DOCS / "compat.md").read_text().partition("## Where it is tested")[2]
NAMED = set(re.findall(r"`((?:[\w-]+/)*test_\w+\.py)`", PAGE))
FOLDER = TESTS / "conformance"
TESTED = {str(path.relative_to(FOLDER)) for path in FOLDER.rglob("test_*.py")}


def test_every_conformance_test_is_on_the_page() -> None:
    assert not TESTED - NAMED


def test_every_test_on_the_page_exists() -> None:
    assert not NAMED - TESTED
