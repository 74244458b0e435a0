"""Tables of the documentation are made of the declaration of the options; GOLDEN_UPDATE=1 writes them."""

import os
import re
from collections.abc import Callable, Iterable

import pytest

from millstream.link.options import FIELDS
from millstream.link.sections import section_keys
from millstream.spark.option_table import OPTIONS, Use
from tests.kits.docs.generated import code, entry
from tests.kits.paths import DOCS

USES = {
    Use.ALL: "all",
    Use.READ: "read, stream",
    Use.BATCH: "read",
    Use.STREAM: "stream",
    Use.WRITE: "write",
}


def table(heads: str, rows: Iterable[Iterable[str]]) -> list[str]:
    """Return an entry for each row: its first cell, and the others after the heads of their columns."""
    _, *others = heads.split(" | ")
    lines = []
    for name, *cells in rows:
        told = "; ".join(f"{head} {cell}".strip() for head, cell in zip(others, cells, strict=True) if cell)
        lines.append(entry(f"{name}: {told}" if told else name))
    return lines


def connection_options() -> list[str]:
    rows = (
        (
            each.names.help,
            code(*each.names.flags),
            code(each.names.variable),
            code(*_keys(each.names.key, secret=each.names.secret)),
            code(each.names.spark),
            code(each.names.context),
            each.default_text,
        )
        for each in FIELDS
    )
    return table("option | flag | variable | key | Spark | context | default", rows)


def _keys(key: str, *, secret: bool) -> tuple[str, ...]:
    return (key, f"{key}_file", f"{key}_env") if key and secret else (key,)


def old_keys() -> list[str]:
    rows = ((code(old), code(each.names.key)) for each in FIELDS for old in each.names.also)
    return table("key | means", rows)


def spark_options() -> list[str]:
    rows = ((code(each.name), USES[each.use], each.default or "", each.meaning) for each in OPTIONS)
    return table("option | for | default | ", rows)


def pipeline_keys() -> list[str]:
    rows = ((code(key), meaning) for key, meaning in section_keys(secrets=False, old_keys=False))
    return table("key | ", rows)


TABLES: list[tuple[str, str, Callable[[], list[str]]]] = [
    ("connecting.md", "connection options", connection_options),
    ("connecting.md", "old keys", old_keys),
    ("spark.md", "spark options", spark_options),
    ("pipelines.md", "pipeline keys", pipeline_keys),
]


@pytest.mark.parametrize(("page", "name", "made"), TABLES, ids=[name for _, name, _ in TABLES])
def test_a_table_is_made_of_the_declaration(page: str, name: str, made: Callable[[], list[str]]) -> None:
    path = DOCS / page
    text = path.read_text()
    found = re.search(rf"<!-- table: {name} -->\n(.*?)<!-- end of table -->", text, re.DOTALL)
    assert found, f"{path} has no marks of the table {name!r}"
    wanted = "\n".join(["", *made(), "", ""])
    if os.environ.get("GOLDEN_UPDATE") == "1":
        path.write_text(text[: found.start(1)] + wanted + text[found.end(1) :])
    else:
        assert found[1] == wanted
