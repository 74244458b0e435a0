"""Stores of every release, stopped or killed, have everything that the release said of them."""

import re
from pathlib import Path

import pytest

from tests.kits.lives import Life, differences, told_by
from tests.kits.paths import GOLDEN, ROOT
from tests.kits.recorded_stores import unpack
from tests.kits.reference import ServerKind

STORES = sorted((GOLDEN / "released_stores").glob("*.tar.xz"))


@pytest.mark.parametrize("archive", STORES, ids=lambda path: path.name.removesuffix(".tar.xz"))
def test_a_store_of_a_release_is_opened(archive: Path, tmp_path: Path) -> None:
    store, wanted = unpack(archive, tmp_path)
    life = Life(0, (2, 15))
    life.cipher = ""
    assert differences(told_by(life, ServerKind.MILLSTREAM, store), wanted) == []


def test_every_release_is_recorded() -> None:
    released = re.findall(r"^## (\d+\.\d+\.\d+)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    recorded = {path.name.removesuffix(".tar.xz") for path in STORES}
    assert released
    assert {f"{version}-{how}" for version in released for how in ("stopped", "killed")} <= recorded
