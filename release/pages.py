"""A hook for MkDocs: the pages of the site lie in several folders of the repository.

MkDocs wants all pages below one folder.  This hook makes one with links to them, so relative links between
pages are the same in the repository and on the site.  It also keeps the site from fetching anything: the
script with which the theme searches in files comes from here, and a page with another one is an error.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

from mkdocs.exceptions import PluginError

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig

ROOT: Final = Path(__file__).parent.parent
PAGES: Final = ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "RELEASING.md", "docs")
FOLDERS_OF_CODE: Final = {
    "benchmarks": ("*.md",),
    "examples": ("*.md", "*.py", "*.toml"),
}  # what pages show or link
FETCHED: Final = re.compile(
    r"<(?:script|img|iframe|link rel=.?stylesheet.?)[^>]* (?:src|href)=.?https?://[^ >]*"
)
THEIR_WORKER: Final = "https://unpkg.com/iframe-worker/shim"
OUR_WORKER: Final = Path(__file__).with_name("file_worker.js")
_folder: list[Path] = []


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Collect the pages, and tell MkDocs where they are."""
    folder = Path(tempfile.mkdtemp(prefix="millstream-site-"))
    _folder.append(folder)
    for name in PAGES:
        (folder / name).symlink_to(ROOT / name)
    for name, patterns in FOLDERS_OF_CODE.items():
        for file in (file for pattern in patterns for file in (ROOT / name).rglob(pattern)):
            target = folder / file.relative_to(ROOT)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.symlink_to(file)
    config.docs_dir = str(folder)
    return config


def on_post_build(config: MkDocsConfig) -> None:
    """Remove the folder of links, and give every page our script; raise if one fetches something."""
    while _folder:
        shutil.rmtree(_folder.pop())
    worker = Path(shutil.copy(OUR_WORKER, Path(config.site_dir, "assets", "javascripts")))
    for page in Path(config.site_dir).rglob("*.html"):
        text = page.read_text().replace(THEIR_WORKER, os.path.relpath(worker, page.parent))
        if found := FETCHED.search(text):
            raise PluginError(f"{page.relative_to(config.site_dir)} fetches something: {found[0]}")
        page.write_text(text)
