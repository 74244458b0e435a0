"""The newest JavaScript client, against either server: push, pull, ordered, key-value and object stores.

The scenarios are `javascript/*.test.mjs`, run by node's own test runner.  Its packages are installed once,
in the versions of `javascript/package-lock.json`, into the user's cache, so nothing is added to the
checkout.  Without node, npm or a network on the first run these tests are skipped.
"""

import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from tests.kits.reference import ServerProcess

SCENARIOS: Final = Path(__file__).parent / "javascript"
_PACKAGE_FILES: Final = ("package.json", "package-lock.json")
_OLDEST_NODE: Final = 20  # the first whose test runner has hooks for a whole file
_ERROR_CODE: Final = re.compile(r"^npm (?:error|ERR!) code (\S+)", re.MULTILINE)
_OFFLINE: Final = {
    *("ENOTFOUND", "EAI_AGAIN", "ECONNREFUSED", "ECONNRESET", "ETIMEDOUT", "ENETUNREACH", "EHOSTUNREACH"),
    *("ERR_SOCKET_TIMEOUT", "ENOTCACHED"),
}

# One worker installs the packages, the others need not wait for it.
pytestmark = pytest.mark.xdist_group("javascript")


@pytest.fixture(scope="session")
def node() -> str:
    program = shutil.which("node")
    if program is None:
        pytest.skip("node is not installed")
    answer = subprocess.run([program, "--version"], capture_output=True, text=True, check=True)
    major = int(answer.stdout.strip().removeprefix("v").partition(".")[0])
    if major < _OLDEST_NODE:
        pytest.skip(f"node {_OLDEST_NODE} or newer is needed, {answer.stdout.strip()} is here")
    return program


@pytest.fixture(scope="session")
def node_modules(node: str) -> Path:
    """The folder with the client's packages, installed if this version of them is not there yet."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "millstream-tests"
    digest = hashlib.sha256(b"".join((SCENARIOS / name).read_bytes() for name in _PACKAGE_FILES))
    folder = cache / f"javascript-{digest.hexdigest()[:16]}"
    if not folder.is_dir():
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache) as scratch:
            installing = Path(scratch) / "javascript"
            installing.mkdir()
            _install(installing)
            try:
                # All or nothing: an installation that was interrupted must not look like a whole one.
                installing.rename(folder)
            except OSError:
                assert folder.is_dir()  # another run was faster
    return folder / "node_modules"


def _install(folder: Path) -> None:
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("npm is not installed")
    for name in _PACKAGE_FILES:
        shutil.copy(SCENARIOS / name, folder)
    options = (
        "--ignore-scripts",
        "--no-audit",
        "--no-fund",
        "--fetch-retries=1",
        "--fetch-retry-mintimeout=1000",
        "--fetch-timeout=20000",
    )
    answer = subprocess.run([npm, "ci", *options], cwd=folder, capture_output=True, text=True, timeout=100)
    code = _ERROR_CODE.search(answer.stderr)
    if code is not None and code[1] in _OFFLINE:
        pytest.skip(f"npm cannot reach its registry ({code[1]})")
    assert answer.returncode == 0, answer.stderr


@pytest.mark.parametrize("topic", ["push", "pull", "ordered", "kv", "objects"])
def test_javascript_client(
    topic: str,
    node: str,
    node_modules: Path,
    shared_server: Callable[..., ServerProcess],
    tmp_path: Path,
) -> None:
    # Modules are looked up beside the file that imports them.
    for name in ("package.json", "kit.mjs", f"{topic}.test.mjs"):
        shutil.copy(SCENARIOS / name, tmp_path)
    (tmp_path / "node_modules").symlink_to(node_modules)
    answer = subprocess.run(
        [node, "--test", "--test-reporter=spec", f"{topic}.test.mjs"],
        cwd=tmp_path,
        env={**os.environ, "NATS_URL": shared_server(jetstream=True).client_url},
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert answer.returncode == 0, answer.stdout + answer.stderr


def test_every_scenario_is_run() -> None:
    topics = {path.name.removesuffix(".test.mjs") for path in SCENARIOS.glob("*.test.mjs")}
    parameters = next(mark for mark in test_javascript_client.pytestmark if mark.name == "parametrize")  # type: ignore[attr-defined]
    assert topics == set(parameters.args[1])
