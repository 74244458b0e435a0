"""Facts about all pages: links lead somewhere, every page is listed, passwords are what a page says."""

import re
from pathlib import Path

import bcrypt
import pytest

from tests.kits.docs.blocks import pages
from tests.kits.paths import ROOT

_LINK = re.compile(r"\]\((?P<target>[^)\s#:]*)(?:#(?P<anchor>[^)\s]+))?\)")


def headings(path: Path) -> set[str]:
    """Return the anchors that a page has when it is rendered."""
    lines = re.sub(r"^ *```.*?^ *```", "", path.read_text(), flags=re.MULTILINE | re.DOTALL).splitlines()
    titles = (line.lstrip("#").strip().lower() for line in lines if line.startswith("#"))
    return {re.sub(r"[^\w\- ]", "", title).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", pages())
def test_links_lead_somewhere(page: str) -> None:
    path = ROOT / page
    for found in _LINK.finditer(path.read_text()):
        target = path.parent / found["target"] if found["target"] else path
        assert target.exists(), found[0]
        if found["anchor"]:
            assert found["anchor"] in headings(target), found[0]


def test_the_index_lists_every_page() -> None:
    text = (ROOT / "docs/README.md").read_text()
    listed = {(ROOT / "docs" / found["target"]).resolve() for found in _LINK.finditer(text)}
    assert {(ROOT / page).resolve() for page in pages()} - listed == {(ROOT / "docs/README.md").resolve()}


@pytest.mark.parametrize("page", ["SECURITY.md", "docs/README.md", "docs/hardening.md", "docs/serve.md"])
def test_the_readme_links_what_nobody_may_miss(page: str) -> None:
    assert f"({page})" in (ROOT / "README.md").read_text()


@pytest.mark.parametrize("page", ["docs/hardening.md", "docs/serve.md"])
def test_hashes_are_those_of_the_password_that_the_pages_use(page: str) -> None:
    (found,) = set(re.findall(r'"(\$2b\$[^"]+)"', (ROOT / page).read_text()))
    assert bcrypt.checkpw(b"secret", found.encode())
