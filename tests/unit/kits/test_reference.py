"""Other versions of Millstream as child processes, and how the benchmarks name them."""

import shutil
from pathlib import Path

import pytest

from benchmarks.servers import identity, named
from tests.kits.paths import ROOT
from tests.kits.reference import Checkout, ServerKind, ServerProcess

_VERSION = "0.0.0-of-a-checkout"


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Return a copy of our modules, as another version."""
    shutil.copytree(ROOT / "src", tmp_path / "src", ignore=shutil.ignore_patterns("static", "*.bundle"))
    module = tmp_path / "src" / "millstream" / "__init__.py"
    module.write_text(module.read_text() + f'\n__version__ = "{_VERSION}"\n')
    return tmp_path


def test_a_checkout_runs_its_own_modules(checkout: Path) -> None:
    assert _VERSION in identity(Checkout(checkout))
    with ServerProcess(Checkout(checkout)) as server:
        assert _VERSION in server.log
    assert _VERSION not in identity(ServerKind.MILLSTREAM)


def test_servers_are_named_by_kind_or_folder(checkout: Path) -> None:
    (checkout / "src" / "millstream" / "protocol" / "parser.so").touch()
    assert named("nats-server") is ServerKind.NATS_SERVER
    assert named(str(checkout)) == Checkout(checkout)


def test_a_folder_without_a_compiled_millstream_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="not a checkout of Millstream"):
        named(str(tmp_path))
    (tmp_path / "src" / "millstream").mkdir(parents=True)
    with pytest.raises(ValueError, match="run `make build` there"):
        named(str(tmp_path))
