"""Pages are at most 110 columns wide; commands, programs and their output may be wider."""

import re

import pytest

from tests.kits.docs.blocks import pages
from tests.kits.docs.generated import WIDTH
from tests.kits.paths import ROOT


@pytest.mark.parametrize("page", pages())
def test_no_line_is_too_wide(page: str) -> None:
    text = re.sub(r"^ *(`{3,}).*?^ *\1$", "", (ROOT / page).read_text(), flags=re.MULTILINE | re.DOTALL)
    assert [line for line in text.splitlines() if len(line) > WIDTH] == []


@pytest.mark.parametrize("title", ["Start here", "Tutorials", "How to", "Reference", "Explanation"])
def test_the_index_has_every_kind_of_page(title: str) -> None:
    assert f"\n## {title}\n" in (ROOT / "docs/README.md").read_text()
