"""Modules that are imported from one file: what comes from it, and when Python looks elsewhere."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from millstream.base import bundle, patterns

_WRITING = """
import sys
sys.path.insert(0, sys.argv[1])
import outer.inner, _json
from millstream.base import bundle
bundle.write(sys.argv[2])
"""
_CHILD = """
import sys
sys.path.insert(0, sys.argv[1])
from millstream.base import bundle
found = bundle.use(sys.argv[2])
import outer.inner as inner
import outer
print(found is not None, type(inner.__loader__).__name__, inner.ANSWER, inner.DIGITS.match("42") is not None)
print(inner.__file__, inner.__cached__, outer.__path__, inner.__spec__.parent)
import linecache
print(linecache.getline(inner.__file__, 2).strip())
"""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A package of two modules, and a bundle of all that its process imported."""
    package = tmp_path / "outer"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "inner.py").write_text('import re\nANSWER = 1\nDIGITS = re.compile(r"(?P<all>[0-9]+)")\n')
    subprocess.run([sys.executable, "-c", _WRITING, tmp_path, tmp_path / "b"], check=True)
    return tmp_path


def imported(place: Path) -> list[str]:
    """Return what a process sees that imports the package by the bundle."""
    run = subprocess.run(
        [sys.executable, "-c", _CHILD, place, place / "b"], check=True, capture_output=True, text=True
    )
    return run.stdout.splitlines()


def test_a_module_comes_from_the_bundle_and_looks_like_one_from_its_file(place: Path) -> None:
    inner = place / "outer" / "inner.py"
    first, second, third = imported(place)
    assert first == "True _Loader 1 True"
    cached = inner.parent / "__pycache__" / f"inner.{sys.implementation.cache_tag}.pyc"
    assert second == f"{inner} {cached} ['{inner.parent}'] outer"
    assert third == "ANSWER = 1"


def test_a_source_that_changed_is_imported_anew(place: Path) -> None:
    inner = place / "outer" / "inner.py"
    inner.write_text(inner.read_text().replace("ANSWER = 1", "ANSWER = 23"))
    assert imported(place)[0] == "True SourceFileLoader 23 True"


def test_a_source_that_was_only_touched_is_imported_anew(place: Path) -> None:
    os.utime(place / "outer" / "inner.py", (1, 1))
    assert imported(place)[0] == "True SourceFileLoader 1 True"


@pytest.mark.parametrize("content", [b"", b"\x04", b"\xff" * 64, b"\x08" + bytes(40)])
def test_a_file_that_is_no_bundle_is_left_alone(place: Path, content: bytes) -> None:
    (place / "b").write_bytes(content)
    assert imported(place)[0] == "False SourceFileLoader 1 True"


def test_without_a_bundle_everything_is_imported_as_ever(place: Path) -> None:
    (place / "b").unlink()
    assert imported(place)[0] == "False SourceFileLoader 1 True"


def test_a_bundle_that_is_cut_gives_what_it_has(place: Path) -> None:
    whole = (place / "b").read_bytes()
    (place / "b").write_bytes(whole[: 8 + int.from_bytes(whole[:8], "little")])
    assert imported(place)[0] == "True _Loader 1 True"  # its loader found the code in the file


def test_the_bundle_of_another_python_is_left_alone(place: Path) -> None:
    whole = (place / "b").read_bytes()
    version = sys.version.encode()
    assert version in whole
    (place / "b").write_bytes(whole.replace(version, version[:-1] + b"?"))
    assert imported(place)[0] == "False SourceFileLoader 1 True"


def test_a_copied_bundle_does_not_import_what_it_was_copied_from(place: Path) -> None:
    copy = place / "copy"
    shutil.copytree(place / "outer", copy / "outer")
    shutil.copy2(place / "b", copy / "b")
    first, second, _ = imported(copy)
    assert first == "False SourceFileLoader 1 True"
    assert second.startswith(str(copy))


def test_nothing_is_left_beside_a_bundle(place: Path) -> None:
    assert sorted(each.name for each in place.iterdir()) == ["b", "outer"]


def test_compiled_modules_are_found_by_the_bundle(place: Path) -> None:
    found = bundle.use(str(place / "b"))
    assert found is not None
    try:
        spec = found.find_spec("_json")
        assert spec is None or (spec.origin or "").endswith(".so")  # some builds of Python have it inside
        assert found.find_spec("no.such.module") is None
    finally:
        found.close()
    assert found not in sys.meta_path


def test_expressions_made_of_their_code_are_those_that_were_compiled() -> None:
    written = [(r"(?P<a>x+)|(?P<b>[^a-c]y)", re.IGNORECASE), (rb"\d{2,4}\b", 0), ("(é)+?$", re.MULTILINE)]
    originals = [re.compile(*each) for each in written]
    known = [each for each in patterns.compiled() if (each[0], each[1]) in [(p, int(f)) for p, f in written]]
    assert len(known) == len(written)
    re.purge()
    patterns.keep(known)
    for each, original in zip(written, originals, strict=True):
        again = re.compile(*each)
        assert again is not original
        assert again == original
        assert (again.groups, again.groupindex, again.flags) == (
            original.groups,
            original.groupindex,
            original.flags,
        )


def test_code_that_re_refuses_is_compiled_as_ever() -> None:
    patterns.keep([("abc", 0, 0, [999, 999], 0, {})])
    assert re.compile("abc").match("abc")
