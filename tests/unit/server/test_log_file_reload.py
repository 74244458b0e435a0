"""A reload that names a log file nobody can write: all else is in force, and logging goes on as before."""

from pathlib import Path

from tests.kits.reference import ServerKind, ServerProcess
from tests.kits.wire import WireClient


def test_a_log_file_that_can_not_be_opened_does_not_stop_a_reload(tmp_path: Path) -> None:
    with ServerProcess(ServerKind.MILLSTREAM, config="max_payload: 1000") as server:
        assert server.reload(f"max_payload: 2000\nlog_file: '{tmp_path}/none/x.log'")
        server.wait_for_log("x.log: No such file or directory; check the path: logging goes on as before")
        with WireClient.connect(server.port) as client:
            client.handshake()
            assert client.info["max_payload"] == 2000
        assert server.reload(f"max_payload: 3000\nlog_file: '{tmp_path}/none/y.log'")
