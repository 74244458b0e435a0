"""docs/compat.md names the tests that prove it."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_every_conformance_test_is_on_the_page_and_every_one_on_the_page_exists() -> None:
    page = (ROOT / "docs/compat.md").read_text()
    table = page.partition("## Where it is tested")[2]
    named = set(re.findall(r"`(test_\w+\.py)`", table))
    assert named == {path.name for path in (ROOT / "tests/compat").glob("test_*.py")}
