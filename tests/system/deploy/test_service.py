"""The server under a service manager: its notes, and the unit file."""

import configparser
import os
import shutil
import signal
import socket
import subprocess
from pathlib import Path

import pytest

from tests.kits.paths import ROOT
from tests.kits.patience import PATIENCE_S
from tests.kits.reference import ServerKind, ServerProcess

UNIT = ROOT / "deploy/systemd/millstream.service"


def test_a_server_tells_its_manager_when_it_serves_reloads_and_stops(tmp_path: Path) -> None:
    address = str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(address)
        manager.settimeout(PATIENCE_S)
        environment = {"NOTIFY_SOCKET": address, "WATCHDOG_USEC": "100000"}
        server = ServerProcess(
            ServerKind.MILLSTREAM, jetstream=True, config="max_payload: 1MB", environment=environment
        )
        with server:
            notes = manager.recv(4096).decode().splitlines()
            assert notes == ["READY=1", f"STATUS=listens for clients at {server.client_url}"]
            assert manager.recv(4096) == b"WATCHDOG=1"
            assert manager.recv(4096) == b"WATCHDOG=1"
            server.signal(signal.SIGHUP)
            assert _next_but_life(manager).startswith("RELOADING=1\nMONOTONIC_USEC=")
            assert _next_but_life(manager) == "READY=1"
            assert server.stop() == 0
            assert _next_but_life(manager) == "STOPPING=1"


def _next_but_life(manager: socket.socket) -> str:
    while (note := manager.recv(4096)) == b"WATCHDOG=1":
        pass
    return note.decode()


def test_the_unit_starts_the_command_that_is_installed() -> None:
    unit = configparser.RawConfigParser(strict=False)
    unit.optionxform = str  # type: ignore[assignment]
    unit.read_string(UNIT.read_text())
    service = unit["Service"]
    assert service["Type"] == "notify"
    program, *arguments = service["ExecStart"].split()
    assert program.endswith("/bin/millstream")
    assert arguments[0] == "serve"


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed")
def test_systemd_accepts_the_unit(tmp_path: Path) -> None:
    copy = tmp_path / UNIT.name
    copy.write_text(UNIT.read_text().replace("/opt/millstream/bin/millstream", "/bin/true"))
    done = subprocess.run(
        ["systemd-analyze", "verify", str(copy)],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
        env=os.environ | {"SYSTEMD_LOG_LEVEL": "warning"},
    )
    assert (done.returncode, done.stdout + done.stderr) == (0, "")
