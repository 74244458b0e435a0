"""Versions of dependencies with known defects are not taken, whatever else is installed."""

import tomllib
from collections.abc import Iterator

import pytest
from packaging.requirements import Requirement

from tests.kits.paths import ROOT

# The last versions that have each defect, or a version that breaks what we use.
_DEFECTS = [
    ("aiohttp", "3.13.2", "CVE-2025-69223: a compressed body fills the memory"),
    ("cryptography", "44.0.0", "CVE-2024-12797: OpenSSL does not tell a failed raw public key handshake"),
    ("cryptography", "46.0.4", "CVE-2026-26007: points outside of the subgroup of binary curves"),
    ("cryptography", "46.0.5", "CVE-2026-34073: name constraints"),
    ("cryptography", "46.0.6", "CVE-2026-39892: buffers that are not contiguous"),
    ("cryptography", "49.0.0", "CVE-2026-69247"),
    ("h2", "4.2.0", "CVE-2025-57804: header injection, request splitting"),
    ("pyarrow", "14.0.0", "CVE-2023-47248: IPC and Parquet files run code"),
    ("pyarrow", "23.0.0", "CVE-2026-25087: use after free when reading IPC files"),
    ("pynacl", "1.6.1", "CVE-2025-69277: libsodium takes points outside of the main subgroup"),
    ("pyspark", "3.5.1", "CVE-2025-55039: encryption between nodes without authentication"),
    ("pyyaml", "5.3.1", "CVE-2020-14343: files run code"),
    ("httptools", "1.0.0", "not tried"),
    ("hyperframe", "7.0.0", "not tried"),
    ("wsproto", "2.0.0", "not tried"),
    ("nats-py", "3.0.0", "not tried"),
    ("pynacl", "2.0.0", "not tried"),
    ("h2", "5.0.0", "not tried"),
]


def _requirements() -> Iterator[Requirement]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    for text in project["dependencies"]:
        yield Requirement(text)
    for name, extra in project["optional-dependencies"].items():
        if name != "all":  # the other extras
            yield from map(Requirement, extra)


@pytest.mark.parametrize(("name", "version", "defect"), _DEFECTS)
def test_versions_with_known_defects_are_left_out(name: str, version: str, defect: str) -> None:
    found = [requirement for requirement in _requirements() if requirement.name.lower() == name]
    assert found, f"{name} is no dependency any more: take it off the list"
    for requirement in found:
        assert not requirement.specifier.contains(version, prereleases=True), f"{requirement}: {defect}"


def test_every_dependency_has_a_lower_bound() -> None:
    for requirement in _requirements():
        operators = {part.operator for part in requirement.specifier}
        assert operators & {">=", "==", "~="}, f"{requirement} takes any old version"


def test_nothing_asks_for_the_asyncio_of_pypi() -> None:
    """httpmq does, so it is installed without what it asks for."""
    names = {requirement.name.lower() for requirement in _requirements()}
    assert not names & {"asyncio", "httpmq"}
    assert '--no-deps "httpmq==0.1.0"' in (ROOT / "Makefile").read_text()
