"""CONTRIBUTING.md explains every folder of tests."""

import re

from tests.kits.docs.prose import project_files
from tests.kits.paths import ROOT, SOURCE

EXPLAINED = {
    name
    for row in re.findall(r"^\| (`.*?) \|", (ROOT / "CONTRIBUTING.md").read_text(), re.MULTILINE)
    for name in re.findall(r"`([\w/]+)`", row)
}
FOLDERS = {tuple(each.split("/")[1:-1]) for each in project_files() if each.startswith("tests/")}


def test_every_kind_is_in_the_table() -> None:
    assert not {folder[0] for folder in FOLDERS if folder} - EXPLAINED


def test_every_subject_is_a_package_or_in_the_table() -> None:
    packages = {path.name for path in SOURCE.rglob("*") if path.is_dir()}
    subjects = {folder[:2] for folder in FOLDERS if len(folder) > 1 and folder[0] not in ("fuzz", "kits")}
    unknown = {"/".join(each) for each in subjects if each[1] not in packages}
    assert not unknown - EXPLAINED
