"""Parts of pages that are made of declarations in the code.

A part lies between two comments, which the page does not show::

    <!-- made of the code: NAME -->
    <!-- end -->

With GOLDEN_UPDATE=1 a comparison writes the part instead.
"""

import os
import re
import textwrap
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

WIDTH: Final = 110


def code(*names: str) -> str:
    """Return names as code, joined by commas."""
    return ", ".join(f"`{name}`" for name in names if name)


def item(names: Sequence[str], text: str) -> str:
    """Return one entry of a list, wrapped."""
    return entry(f"{code(*names)}: {text}" if text else code(*names))


def entry(text: str) -> str:
    """Return a text as one entry of a list, wrapped."""
    return textwrap.fill(
        text,
        WIDTH,
        initial_indent="* ",
        subsequent_indent="  ",
        break_long_words=False,
        break_on_hyphens=False,
    )


def compare(page: Path, name: str, lines: Iterable[str]) -> None:
    """Fail if a part of a page is not what it is made of."""
    text = page.read_text()
    found = re.search(rf"<!-- made of the code: {re.escape(name)} -->\n(.*?)<!-- end -->", text, re.DOTALL)
    assert found, f"{page} has no part {name!r}"
    wanted = "\n".join(["", *lines, "", ""])
    if os.environ.get("GOLDEN_UPDATE") == "1":
        page.write_text(text[: found.start(1)] + wanted + text[found.end(1) :])
    else:
        assert found[1] == wanted, "GOLDEN_UPDATE=1 writes it"
