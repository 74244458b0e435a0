"""The test-suite of httpmq's Python client itself, as it is published, against the gateway.

It is not ours to keep, so it is fetched when it is needed: `HTTPMQ_CLIENT_SOURCES` names a folder with the
sources of the client, else the registry's source distribution is looked at, else the client's repository.
"""

import asyncio
import os
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from millstream.gateway.settings import Group
from tests.kits.gateway.v1 import MakeGateway, settings_for
from tests.kits.patience import PATIENCE_S
from tests.kits.reference import ServerProcess

REPOSITORY = "https://github.com/alwitt/httpmq-python"
PASSED = 11


def _quiet(*command: str) -> bool:
    try:
        return subprocess.run(command, capture_output=True, timeout=PATIENCE_S, check=False).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


@pytest.fixture(scope="session")
def suite(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with `test/` of the client."""
    given = os.environ.get("HTTPMQ_CLIENT_SOURCES")
    if given:
        return Path(given)
    folder = tmp_path_factory.mktemp("httpmq")
    pip = (
        sys.executable,
        "-m",
        "pip",
        "download",
        "--no-deps",
        "--no-binary",
        ":all:",
        "--no-build-isolation",
    )
    _quiet(*pip, "httpmq==0.1.0", "-d", str(folder))
    for archive in folder.glob("httpmq-*.tar.gz"):
        with tarfile.open(archive) as content:
            content.extractall(folder, filter="data")
    for found in folder.glob("httpmq-*/test"):
        return found.parent
    if _quiet("git", "clone", "--depth", "1", REPOSITORY, str(folder / "clone")):
        return folder / "clone"
    pytest.skip("the registry's source distribution has no tests, and the repository is out of reach")


async def test_the_clients_own_tests_pass(
    suite: Path, js_server: ServerProcess, start_gateway: MakeGateway, tmp_path: Path
) -> None:
    management = await start_gateway(
        settings_for(js_server.client_url, groups=frozenset([Group.MANAGEMENT])), wait=False
    )
    dataplane = await start_gateway(settings_for(js_server.client_url, groups=frozenset([Group.DATAPLANE])))
    (tmp_path / "test").symlink_to(suite / "test")
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:millstream",
        "-W",
        "ignore",
        "test",
        cwd=tmp_path,
        env={
            **{name: value for name, value in os.environ.items() if not name.startswith("PYTEST")},
            "HTTPMQ_MGMT_API_URL": management.url,
            "HTTPMQ_DATA_API_URL": dataplane.url,
        },
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    told = (await process.communicate())[0].decode()
    assert f"{PASSED} passed" in told, told
