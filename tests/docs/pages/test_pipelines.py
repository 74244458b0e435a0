"""The page about pipelines names every key of every table of the file."""

import re

import pytest
from msgspec import Struct

from millstream.spark.jobs.settings import (
    JOB_KINDS,
    CatalogSection,
    Input,
    Job,
    Nats,
    Output,
    Parsed,
    Pipeline,
    Progress,
    SparkSettings,
    StreamingJob,
    key_descriptions,
)
from tests.kits.paths import DOCS

PAGE = DOCS / "pipelines.md"
COMMON = set(key_descriptions(StreamingJob)) | set(key_descriptions(Job))
SECTIONS: list[tuple[str, set[str]]] = [
    ("The file", set(key_descriptions(Pipeline))),
    ("[spark]", set(key_descriptions(SparkSettings))),
    ("[catalog]", set(key_descriptions(CatalogSection))),
    ("[progress]", set(key_descriptions(Progress))),
    ("Keys of all jobs", COMMON),
    ("Inputs", set(key_descriptions(Input))),
    *(
        (f"{name}", set(key_descriptions(kind)) - COMMON - set(key_descriptions(Input)))
        for name, kind in JOB_KINDS.items()
    ),
    (
        "transform",
        set(key_descriptions(Output)) | set(key_descriptions(Parsed)) - set(key_descriptions(Input)),
    ),
]


def section(title: str) -> str:
    found = re.search(rf"^#+ {re.escape(title)}$(.*?)(?=^#|\Z)", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    assert found, f"docs/pipelines.md has no section {title!r}"
    return found[1]


@pytest.mark.parametrize(("title", "keys"), SECTIONS, ids=[title for title, _ in SECTIONS])
def test_every_key_is_on_the_page(title: str, keys: set[str]) -> None:
    text = section(title)
    assert {key for key in keys if f"`{key}`" not in text} == set()


@pytest.mark.parametrize(
    "kind", [Pipeline, Nats, SparkSettings, CatalogSection, Progress, *JOB_KINDS.values()]
)
def test_every_key_says_what_it_means(kind: type[Struct]) -> None:
    assert [key for key, text in key_descriptions(kind).items() if not text] == []
