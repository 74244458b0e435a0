"""`millstream dev`, as it is typed."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from urllib.request import urlopen

from millstream.cli.commands.dev import MARK
from millstream.cli.endings import FAILED, WRONG_USAGE
from tests.kits.cli import Cli
from tests.kits.patience import PATIENCE_S
from tests.kits.ports import free_ports


def flags(ports: list[int]) -> list[str]:
    names = ("--port", "--gateway-port", "--monitor-port", "--arrow-port")
    return [word for name, port in zip(names, ports, strict=True) for word in (name, str(port))]


def test_everything_answers_and_what_is_stored_stays(tmp_path: Path) -> None:
    ports = free_ports(4)
    command = [sys.executable, "-m", "millstream", "dev", "--json", *flags(ports)]
    environment = {**os.environ, "XDG_DATA_HOME": str(tmp_path)}
    cli = Cli(f"nats://127.0.0.1:{ports[0]}")
    for start in range(2):
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
        )
        try:
            assert process.stdout is not None
            addresses = json.loads(process.stdout.readline())
            assert addresses["data"] == str(tmp_path / "millstream" / "dev")
            with urlopen(addresses["http"], timeout=PATIENCE_S) as answer:
                assert answer.status == 200
            with urlopen(f"{addresses['monitoring']}/healthz", timeout=PATIENCE_S) as answer:
                assert answer.status == 200
            if not start:
                cli("stream", "add", "KEPT")
                cli("pub", "KEPT", "x", "-J")
            assert cli("stream", "info", "KEPT", "--json").json["state"]["messages"] == 1
            process.send_signal(signal.SIGTERM)  # a test that runs in the background ignores SIGINT
            process.communicate(timeout=PATIENCE_S)
        finally:
            process.kill()
        assert process.returncode == 0


def test_a_folder_of_others_and_ports_in_use_are_refused(tmp_path: Path) -> None:
    cli = Cli()
    ports = free_ports(4)
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    (theirs / "thesis.txt").write_text("mine")
    assert "--data" in cli("dev", "--data", theirs, *flags(ports), code=WRONG_USAGE).err
    assert [each.name for each in theirs.iterdir()] == ["thesis.txt"]
    (theirs / "thesis.txt").rename(tmp_path / "file")
    assert "--data" in cli("dev", "--data", tmp_path / "file", *flags(ports), code=WRONG_USAGE).err
    with contextlib.closing(socket.socket()) as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        ports[1] = taken.getsockname()[1]
        told = cli("dev", "--data", theirs, *flags(ports), code=FAILED).err
    assert f"port {ports[1]} is in use" in told
    assert "--gateway-port" in told
    assert not (theirs / MARK).exists()
    cli("dev", "--port", 5, "--arrow-port", 5, code=WRONG_USAGE)
