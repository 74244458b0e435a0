"""Compiled or interpreted: the choice is made in one place, and a broken one is loud."""

import importlib
import importlib.machinery
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import millstream
from millstream.base.build import COMPILED_MODULES, PURE_SWITCH, X86_MODULES, pure_requested
from tests.kits.paths import ROOT
from tests.kits.patience import PATIENCE_S

SOURCE = ROOT / "src"


def run(code: str, source: Path, *, pure: str | None) -> subprocess.CompletedProcess[str]:
    environment = {key: value for key, value in os.environ.items() if key != PURE_SWITCH}
    environment["PYTHONPATH"] = str(source)
    if pure is not None:
        environment[PURE_SWITCH] = pure
    return subprocess.run(
        [sys.executable, "-c", code],
        env=environment,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )


@pytest.fixture(scope="module")
def uncompiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the source tree as it is before anything was compiled."""
    target = tmp_path_factory.mktemp("uncompiled")
    ignored = shutil.ignore_patterns("*.so", "*.pyd", "__pycache__", "*.egg-info")
    shutil.copytree(SOURCE, target / "src", ignore=ignored)
    return target / "src"


@pytest.mark.parametrize("name", COMPILED_MODULES)
def test_every_compiled_module_has_a_source_and_a_pxd(name: str) -> None:
    path = SOURCE / name.replace(".", "/")
    assert path.with_suffix(".py").is_file()
    assert path.with_suffix(".pxd").is_file()


def test_every_pxd_belongs_to_a_compiled_module() -> None:
    described = {".".join(path.relative_to(SOURCE).with_suffix("").parts) for path in SOURCE.rglob("*.pxd")}
    assert described == {*COMPILED_MODULES, *X86_MODULES}


@pytest.mark.parametrize("name", COMPILED_MODULES)
def test_this_run_uses_the_build_it_was_asked_for(name: str) -> None:
    file = importlib.import_module(name).__file__
    assert file is not None
    if pure_requested():
        assert file.endswith(".py")
    else:
        assert file.endswith(tuple(importlib.machinery.EXTENSION_SUFFIXES))
    assert (millstream.BUILD == "pure") is pure_requested()


@pytest.mark.soak
def test_every_compiled_module_can_be_the_first_one_imported() -> None:
    """Types that know each other are imported when a module is initialised, in the midst of it."""
    code = f"""
import asyncio, importlib, msgspec, os  # what takes longest, once
for name in {COMPILED_MODULES!r}:
    if (child := os.fork()) == 0:
        importlib.import_module(name)
        os._exit(0)
    if os.waitpid(child, 0)[1]: print(name)
"""
    done = run(code, SOURCE, pure="1" if pure_requested() else None)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr


_FILES = f"import importlib\nfor name in {COMPILED_MODULES!r}: print(importlib.import_module(name).__file__)"


def test_the_switch_chooses_the_sources_although_extensions_lie_beside_them() -> None:
    done = run(_FILES, SOURCE, pure="1")
    assert done.returncode == 0, done.stderr
    assert [Path(line).suffix for line in done.stdout.split()] == [".py"] * len(COMPILED_MODULES)


def test_a_build_without_compiled_modules_fails_loudly(uncompiled: Path) -> None:
    done = run("import millstream", uncompiled, pure=None)
    assert done.returncode != 0
    assert "MissingCompiledModules" in done.stderr
    assert PURE_SWITCH in done.stderr
    for name in COMPILED_MODULES:
        assert name in done.stderr


@pytest.mark.parametrize("value", ["0", "", "yes"])
def test_only_the_value_one_asks_for_the_interpreted_build(uncompiled: Path, value: str) -> None:
    done = run("import millstream", uncompiled, pure=value)
    assert "MissingCompiledModules" in done.stderr


def test_one_missing_module_is_enough_to_fail(uncompiled: Path, tmp_path: Path) -> None:
    if pure_requested():
        pytest.skip("there are no extensions to copy in the interpreted build")
    copy = tmp_path / "src"
    shutil.copytree(uncompiled, copy)
    *present, absent = COMPILED_MODULES
    for name in present:
        file = importlib.import_module(name).__file__
        assert file is not None
        shutil.copy(file, copy / Path(*name.split(".")).parent)
    done = run("import millstream", copy, pure=None)
    assert done.returncode != 0
    assert f"({absent})" in done.stderr


def test_the_interpreted_build_needs_no_compiled_modules(uncompiled: Path) -> None:
    done = run(_FILES, uncompiled, pure="1")
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.split()) == len(COMPILED_MODULES)


@pytest.mark.parametrize(
    ("platform", "expected"),
    [("linux-x86_64", True), ("linux-aarch64", False), ("macosx-11.0-universal2", False)],
)
def test_what_needs_one_architecture_is_compiled_for_that_alone(
    uncompiled: Path, platform: str, expected: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(
        "_PYTHON_HOST_PLATFORM", platform
    )  # what Python reads when it is built for another machine
    done = run("from millstream.base.build import COMPILED_MODULES as m; print(*m)", uncompiled, pure="1")
    assert done.returncode == 0, done.stderr
    assert (set(X86_MODULES) <= set(done.stdout.split())) is expected


def test_no_module_has_c_written_by_hand() -> None:
    """A block of it would stand in a string behind ``cdef extern from``."""
    assert [path.name for path in SOURCE.rglob("*.pxd") if '"""' in path.read_text()] == []
