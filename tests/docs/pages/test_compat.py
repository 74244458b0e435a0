"""docs/compat.md names the tests that prove it."""

import re

from tests.kits.paths import ROOT

PAGE = (ROOT / "docs/compat.md").read_text().partition("## Where it is tested")[2]
NAMED = {name.rpartition("/")[2] for name in re.findall(r"`((?:[\w-]+/)*test_\w+\.py)`", PAGE)}


def test_every_conformance_test_is_on_the_page() -> None:
    assert {path.name for path in (ROOT / "tests/compat").rglob("test_*.py")} - NAMED == set()


def test_every_test_on_the_page_exists() -> None:
    assert NAMED - {path.name for path in (ROOT / "tests").rglob("test_*.py")} == set()
