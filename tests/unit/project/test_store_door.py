"""Nobody outside the store knows segments and ordinals: no code, no .pxd file, no test, no benchmark."""

import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

import millstream.store

ROOT = Path(__file__).parents[3]
STORE = ROOT / "src/millstream/store"
MODULES = {path.stem for path in STORE.glob("*.py")} - {"__init__"}
PUBLIC = set(re.findall(r"^    ``(\w+)`` ", millstream.store.__doc__ or "", re.MULTILINE))
# The parts of a log, which only modules of the store use.
PARTS = {"chain", "index", "next_commit", "reader", "writer", "commits", "removal", "repair", "upkeep"}
_MAY_USE_A_PART = re.compile(rf"log\s*\.\s*({'|'.join(PARTS)})\b")  # few files do, and need to be parsed
_CIMPORT = re.compile(r"^\s*(?:from|cimport)\s+millstream\.store\.(\w+)", re.MULTILINE)
_OWN_TESTS = (
    "tests/unit/store/",
    "tests/faults/store/",
    "tests/golden/store/",
    "tests/kits/store/",
    "tests/model/store/",
    "tests/fuzz/targets/",
    "tests/sim/machine/",  # sets sizes of the store
    "tests/sim/mutations/",  # break the store from inside
    "tests/unit/project/test_store_door.py",
)


def outside() -> list[Path]:
    """All files that have to stay outside."""
    files = [
        path
        for folder in ("src", "tests", "benchmarks", "examples")
        for path in (ROOT / folder).rglob("*.p*")
    ]
    return sorted(
        path
        for path in files
        if path.suffix in (".py", ".pxd")
        and STORE not in path.parents
        and not str(path.relative_to(ROOT)).startswith(_OWN_TESTS)
    )


def imported(path: Path) -> Iterator[str]:
    """The modules of the store that a file imports."""
    text = path.read_text()
    if path.suffix == ".pxd":
        yield from _CIMPORT.findall(text)
        return
    if "millstream.store" not in text:
        return
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom) and node.module == "millstream.store":
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("millstream.store."):
            yield (node.module or "").split(".")[2]
        elif isinstance(node, ast.Import):
            yield from (
                alias.name.split(".")[2] for alias in node.names if alias.name.startswith("millstream.store.")
            )


def parts_used(path: Path) -> Iterator[str]:
    """Uses of the parts of a log: ``log.chain``, ``stream.log.index`` and the like."""
    text = path.read_text()
    if path.suffix == ".pxd" or not _MAY_USE_A_PART.search(text):
        return
    for node in ast.walk(ast.parse(text)):
        if not isinstance(node, ast.Attribute) or node.attr not in PARTS:
            continue
        owner = node.value
        name = (
            owner.attr
            if isinstance(owner, ast.Attribute)
            else owner.id
            if isinstance(owner, ast.Name)
            else ""
        )
        if name.lstrip("_") == "log":
            yield f"{node.lineno}: {name}.{node.attr}"


def test_every_module_is_either_public_or_protected() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    (contract,) = [each for each in contracts if each["type"] == "protected"]
    protected = {name.removeprefix("millstream.store.") for name in contract["protected_modules"]}
    assert protected | PUBLIC == MODULES
    assert not protected & PUBLIC


def test_both_rules_find_what_they_look_for(tmp_path: Path) -> None:
    code = tmp_path / "code.py"
    code.write_text("from millstream.store import segment\nfrom millstream.store.tables import Tables\n")
    declarations = tmp_path / "code.pxd"
    declarations.write_text("from millstream.store.segment cimport Segment\n")
    assert list(imported(code)) == ["segment", "tables"]
    assert list(imported(declarations)) == ["segment"]
    code.write_text("stream.log.chain.segments\nself._log.index\nlog.append\nself.index\n")
    assert sorted(parts_used(code)) == ["1: log.chain", "2: _log.index"]


@pytest.mark.parametrize("rule", ["imports", "parts"])
def test_nobody_outside_looks_into_a_log(rule: str) -> None:
    wrong = []
    for path in outside():
        if rule == "imports":
            wrong += [f"{path.relative_to(ROOT)}: {name}" for name in imported(path) if name not in PUBLIC]
        else:
            wrong += [f"{path.relative_to(ROOT)}:{use}" for use in parts_used(path)]
    assert wrong == []
