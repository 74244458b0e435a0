"""The runner of servers itself: ports, readiness, restarts, and errors that help."""

import signal
from pathlib import Path

import pytest

from tests.kits.conformance.clients import Dial, ServerFactory, eventually, http_get
from tests.kits.reference import ServerKind, ServerProcess, ServerProcessError, find_nats_server


@pytest.mark.oracle
def test_the_wheel_brings_a_binary() -> None:
    assert find_nats_server().is_file()


def test_two_servers_never_share_a_port(own_server: ServerFactory) -> None:
    first, second = own_server(monitor=True), own_server(monitor=True)
    assert len({first.port, second.port, first.monitor_port, second.monitor_port}) == 4
    assert first.client_url == f"nats://127.0.0.1:{first.port}"


def test_monitor_answers_when_start_returns(own_server: ServerFactory) -> None:
    assert http_get(own_server(monitor=True).monitor_url + "/healthz")[0] == 200


def test_ports_are_kept_over_a_crash(own_server: ServerFactory, join: Dial) -> None:
    server = own_server(monitor=True)
    before = (server.port, server.monitor_port, server.pid)
    server.kill()
    assert not server.running
    assert server.client_url == f"nats://127.0.0.1:{before[0]}"
    server.restart()
    assert (server.port, server.monitor_port) == before[:2]
    assert server.pid != before[2]
    join(server)


def test_mistake_in_the_configuration_is_shown(server_kind: ServerKind) -> None:
    server = ServerProcess(server_kind, config="max_payload: 10\nwombat: 1")
    folder = server.folder
    with pytest.raises(ServerProcessError, match='unknown field "wombat"'):
        server.start()
    assert not server.running
    server.close()
    assert not folder.exists()


def test_unknown_flag_is_shown(server_kind: ServerKind) -> None:
    with pytest.raises(ServerProcessError, match="wombat"):
        ServerProcess(server_kind, "--wombat").start()


def test_port_in_use_is_shown(own_server: ServerFactory, server_kind: ServerKind) -> None:
    first = own_server()
    with pytest.raises(ServerProcessError, match=r"(?i)address already in use"):
        ServerProcess(server_kind, port=first.port).start()


def test_missing_log_line_is_shown(own_server: ServerFactory) -> None:
    server = own_server()
    with pytest.raises(ServerProcessError, match=r"without the log line 'never said'.*its log"):
        server.wait_for_log("never said", timeout_s=0.01)


def test_waiting_ends_with_the_server(own_server: ServerFactory) -> None:
    server = own_server()
    server.signal(signal.SIGTERM)
    with pytest.raises(ServerProcessError, match="the server ended before the log line"):
        server.wait_for_log("never said")
    assert server.wait() == 0


def test_a_server_runs_once(own_server: ServerFactory) -> None:
    server = own_server()
    with pytest.raises(ServerProcessError, match="runs already"):
        server.start()


def test_stopped_server_says_so(own_server: ServerFactory) -> None:
    server = own_server()
    assert server.stop() == 0
    with pytest.raises(ServerProcessError, match="not running"):
        server.signal(signal.SIGTERM)


def test_pid_file_and_ports_file(own_server: ServerFactory, tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    server = own_server("-P", str(pid_file), "--ports_file_dir", str(tmp_path))
    assert pid_file.read_text().strip() == str(server.pid)
    eventually(lambda: list(tmp_path.glob("*.ports")))  # nats-server writes it when it finds the time
    (ports_file,) = tmp_path.glob("*.ports")
    eventually(ports_file.read_text)
    assert f"nats://127.0.0.1:{server.port}" in ports_file.read_text()
    server.stop()
    assert not ports_file.exists()


def test_a_ports_file_that_can_not_be_written_is_no_reason_to_end(
    own_server: ServerFactory, join: Dial, tmp_path: Path
) -> None:
    server = own_server("--ports_file_dir", str(tmp_path / "nowhere"))
    eventually(lambda: "Error writing ports file" in server.log)
    assert join(server).round_trip() == b""
    assert server.stop() == 0


def test_a_log_file_that_can_not_be_opened_is_told(own_server: ServerFactory, tmp_path: Path) -> None:
    with pytest.raises(ServerProcessError, match=r"(?s)did not start.*nowhere.log: [Nn]o such file"):
        own_server("-l", str(tmp_path / "none" / "nowhere.log"))


def test_a_pid_file_that_can_not_be_written_is(own_server: ServerFactory, tmp_path: Path) -> None:
    with pytest.raises(ServerProcessError, match="Could not write pidfile"):
        own_server("-P", str(tmp_path / "nowhere" / "pid"))
