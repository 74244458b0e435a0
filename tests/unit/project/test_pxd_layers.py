"""The import linter cannot see a ``cimport``; these tests hold .pxd files to the same layers."""

import re
import tomllib
from pathlib import Path

import pytest

from tests.kits.paths import ROOT

SOURCE = ROOT / "src"
PXD_FILES = sorted(SOURCE.rglob("*.pxd"))
_CIMPORT = re.compile(
    r"^\s*(?:from\s+(millstream[\w.]*)\s+cimport\b|cimport\s+(millstream[\w.]*))", re.MULTILINE
)


def layer_of_packages() -> dict[str, int]:
    """The number of each package's layer, 0 at the top."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    (layers,) = [each["layers"] for each in contracts if each.get("containers") == ["millstream"]]
    return {name.strip(" ()"): index for index, names in enumerate(layers) for name in names.split("|")}


def cimported_packages(text: str) -> list[str]:
    return [(first or second).split(".")[1] for first, second in _CIMPORT.findall(text)]


def may_see(package: str, other: str) -> bool:
    layers = layer_of_packages()
    return package == other or layers[package] < layers[other]


def test_cimports_are_found_in_both_spellings() -> None:
    text = (
        "cimport cython\nfrom millstream.protocol.parser cimport Frame\n cimport millstream.base.ids as b\n"
    )
    assert cimported_packages(text) == ["protocol", "base"]


def test_the_rule_knows_up_down_and_sideways() -> None:
    assert may_see("broker", "protocol")
    assert may_see("protocol", "protocol")
    assert not may_see("protocol", "broker")
    assert not may_see("protocol", "subjects")  # the same layer


def test_there_are_pxd_files_to_look_at() -> None:
    assert {"match.pxd", "parser.pxd", "connection.pxd"} <= {path.name for path in PXD_FILES}


@pytest.mark.parametrize("path", PXD_FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_cimports_point_down(path: Path) -> None:
    package = path.relative_to(SOURCE / "millstream").parts[0]
    wrong = [other for other in cimported_packages(path.read_text()) if not may_see(package, other)]
    assert wrong == []


@pytest.mark.parametrize("path", PXD_FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_what_is_cimported_is_imported_too_or_only_a_type(path: Path) -> None:
    """The interpreted build and the import linter see the same dependencies."""
    source = path.with_suffix(".py").read_text()
    for first, second in _CIMPORT.findall(path.read_text()):
        assert (first or second) in source
