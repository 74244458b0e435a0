"""The image's scripts, run without an image: they start the server as charts for nats-server do."""

import os
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from tests.kits.paths import ROOT
from tests.kits.patience import PATIENCE_S
from tests.kits.ports import free_ports
from tests.kits.server.monitor import eventually

CONTAINER = ROOT / "deploy/container"
# What the official chart writes for one server with JetStream and monitoring.
CHART_CONFIG = """
{{
  "http_port": {monitor},
  "jetstream": {{"max_file_store": 10Gi, "max_memory_store": 0, "store_dir": "{folder}/data"}},
  "lame_duck_duration": "30s",
  "lame_duck_grace_period": "10s",
  "pid_file": "{folder}/nats.pid",
  "port": {port},
  "server_name": $SERVER_NAME
}}
"""


@pytest.fixture
def path(tmp_path: Path) -> str:
    """Return a PATH on which the scripts of the image and `millstream` are found."""
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("entrypoint", "nats-server"):
        (programs / name).symlink_to(CONTAINER / name)
    millstream = programs / "millstream"
    millstream.write_text(f'#!/bin/sh\nexec {sys.executable} -m millstream "$@"\n')
    millstream.chmod(0o755)
    return f"{programs}:{os.environ['PATH']}"


def test_the_image_runs_under_the_official_chart(tmp_path: Path, path: str) -> None:
    port, monitor = free_ports(2)
    config = tmp_path / "nats.conf"
    config.write_text(CHART_CONFIG.format(folder=tmp_path, port=port, monitor=monitor))
    environment = os.environ | {"PATH": path, "SERVER_NAME": "millstream-0"}
    log = (tmp_path / "log").open("wb")
    with (
        log,
        subprocess.Popen(
            ["entrypoint", "--config", str(config)], env=environment, stdout=log, stderr=log
        ) as server,
    ):
        try:
            for probe in ("", "?js-server-only=true", "?js-enabled-only=true"):
                assert eventually(lambda probe=probe: _healthy(monitor, probe), PATIENCE_S)
            subprocess.run(
                ["nats-server", f"-sl=ldm={tmp_path}/nats.pid"],
                env=environment,
                timeout=PATIENCE_S,
                check=True,
            )
            assert eventually(
                lambda: b"Entering lame duck mode" in (tmp_path / "log").read_bytes(), PATIENCE_S
            )
        finally:
            server.kill()


def _healthy(port: int, probe: str) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz{probe}", timeout=PATIENCE_S) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


@pytest.mark.parametrize(
    ("arguments", "beginning"),
    [
        (["--version"], "nats-server: v"),
        (["version"], "millstream "),
        (["millstream", "version"], "millstream "),
        (["nats-server", "--version"], "nats-server: v"),
        (["/bin/echo", "hello"], "hello"),
    ],
)
def test_flags_are_the_servers_and_words_are_commands(
    path: str, arguments: list[str], beginning: str
) -> None:
    done = subprocess.run(
        ["entrypoint", *arguments],
        env=os.environ | {"PATH": path},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=True,
    )
    assert done.stdout.startswith(beginning)
