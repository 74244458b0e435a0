"""`millstream gateway`: flags, environment, httpmq's YAML file, and how it ends."""

import json
from pathlib import Path
from typing import Any

import httpx
import pytest

from millstream.cli.main import main
from tests.kits.gateway.v1 import PATIENCE_S, GatewayProcess, eventually, write
from tests.kits.reference import ServerKind, ServerProcess


@pytest.fixture
def js_server(_server_pool: Any) -> ServerProcess:
    """One kind: what is tested here does not depend on the broker."""
    server: ServerProcess = _server_pool.get(ServerKind.MILLSTREAM, jetstream=True)
    return server


async def status_of(url: str) -> int:
    async with httpx.AsyncClient(timeout=PATIENCE_S) as client:
        return (await client.get(url)).status_code


@pytest.mark.parametrize(
    ("flag", "admin", "data"), [("--management", 200, 404), ("--dataplane", 404, 200), ("", 200, 200)]
)
async def test_one_group_or_both(js_server: ServerProcess, flag: str, admin: int, data: int) -> None:
    process = GatewayProcess("--server", js_server.client_url, *([flag] if flag else []))
    try:
        await process.started()
        assert await status_of(f"{process.url}/v1/admin/alive") == admin
        assert await status_of(f"{process.url}/v1/data/alive") == data
    finally:
        process.close()


async def test_httpmqs_file_says_where_to_listen_and_who_nats_is(
    js_server: ServerProcess, tmp_path: Path
) -> None:
    config = write(
        tmp_path / "httpmq.yaml",
        f"""
nats:
  server_uri: {js_server.client_url}
  connect_timeout_sec: 5
  reconnect: {{max_attempts: -1, wait_interval_sec: 1}}
management:
  endpoint_config: {{path_prefix: /mq}}
  api_server:
    server_config: {{listen_on: 127.0.0.1, listen_port: 0, write_timeout_sec: 0, idle_timeout_sec: 0}}
    logging_config: {{request_id_header: X-My-Id}}
dataplane:
  api_server:
    server_config: {{listen_on: 127.0.0.1, listen_port: 0}}
""",
    )
    process = GatewayProcess(port=None, environment={"CONFIG_FILE": str(config)})
    try:
        await process.started()

        async def both_listen() -> bool:
            return len(process.ports) == 2

        await eventually(both_listen, "there are not two addresses")
        first, second = (f"http://127.0.0.1:{port}" for port in process.ports)

        async def is_ready() -> bool:
            return await status_of(f"{first}/mq/v1/admin/ready") == 200

        await eventually(is_ready, "it did not find NATS")
        assert await status_of(f"{second}/v1/admin/alive") == 200
        async with httpx.AsyncClient(timeout=PATIENCE_S) as client:
            answer = await client.get(f"{second}/v1/data/alive", headers={"x-my-id": "mine"})
        assert (answer.json()["request_id"], answer.headers["x-my-id"]) == ("mine", "mine")
    finally:
        process.close()


async def test_the_log_can_be_json(js_server: ServerProcess) -> None:
    environment = {"LOG_AS_JSON": "true", "LOG_LEVEL": "info"}
    process = GatewayProcess("--server", js_server.client_url, "--access-log", environment=environment)
    try:
        await process.started()
        assert await status_of(f"{process.url}/v1/admin/alive") == 200

        async def is_there() -> bool:
            return "/v1/admin/alive" in process.log

        await eventually(is_there, "no access log")
        lines = [json.loads(line) for line in process.log.splitlines() if line.startswith("{")]
        entry = next(line for line in lines if line.get("path") == "/v1/admin/alive")
        assert (entry["method"], entry["status"], entry["level"]) == ("GET", 200, "info")
    finally:
        process.close()


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("nats: {no_such_key: 1}", "no_such_key"),
        ("nats: [", "not YAML"),
        ("management: {api_server: {server_config: {listen_port: text}}}", "listen_port"),
    ],
)
def test_a_file_that_is_not_understood_is_an_error(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], text: str, complaint: str
) -> None:
    config = write(tmp_path / "bad.yaml", text)
    with pytest.raises(SystemExit) as ended:
        main(["gateway", "-c", str(config)])
    told = capfd.readouterr().err
    assert ended.value.code == 1
    assert told.startswith(f"millstream: {config}")
    assert told.count("\n") == 1
    assert complaint in told


async def test_a_port_that_is_taken_is_an_error(js_server: ServerProcess) -> None:
    process = GatewayProcess("--server", js_server.client_url, port=js_server.port)
    try:
        assert await process.ended() == 1
        assert f"millstream: cannot listen for HTTP callers on 127.0.0.1:{js_server.port}: " in process.log
        assert "Traceback" not in process.log
    finally:
        process.close()
