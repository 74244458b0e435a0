"""What `millstream serve` does not wait for: scripts and test suites start servers by the hundred."""

import os
import subprocess
import sys

import pytest

from millstream.testing.patience import PATIENCE_S

# Each takes a sizeable part of the whole start, and a server without its feature never needs it.
NOT_NEEDED_TO_SERVE = ("typer", "rich", "pydantic", "prometheus_client", "cryptography.x509")

LOADED_MODULES = """
import sys
import millstream.cli.main
try:
    millstream.cli.main.main(["serve", "--version"])
except SystemExit as ended:
    assert ended.code == 0, ended.code
import millstream.server.app
print(*sys.modules, sep="\\n")
"""


@pytest.fixture(scope="module")
def loaded_modules() -> set[str]:
    ended = subprocess.run(
        [sys.executable, "-c", LOADED_MODULES],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        env=os.environ,
    )
    assert ended.returncode == 0, ended.stderr
    return set(ended.stdout.splitlines())


@pytest.mark.parametrize("name", NOT_NEEDED_TO_SERVE)
def test_a_server_starts_without(name: str, loaded_modules: set[str]) -> None:
    assert "millstream.broker.broker" in loaded_modules
    assert name not in loaded_modules


def test_the_garbage_collector_runs_again_once_the_server_does() -> None:
    """`main` switches it off while modules are imported."""
    code = (
        "import gc, sys\n"
        "import millstream.server.app as app\n"
        "async def report(*_):\n"
        "    print(gc.isenabled())\n"
        "    return 0\n"
        "app._serve = report\n"
        "from millstream.cli.main import main\n"
        "main(['serve', '-p', '-1'])\n"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=PATIENCE_S)
    assert (ended.returncode, ended.stdout) == (0, "True\n"), ended.stderr
