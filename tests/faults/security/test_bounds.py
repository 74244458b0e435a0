"""A tenant with the right to use JetStream sends what is too much: it is refused, and others are served."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from millstream.archive.entries import MAGIC, EntryBuffer
from millstream.archive.frames import BLOCK_SIZE, START, frame
from tests.kits.reference import ServerKind, ServerProcess
from tests.kits.wire import WireClient

CONFIG = """
jetstream { max_mem: 1GB, max_file: 1GB }
accounts {
    TENANT { users: [{user: tenant, password: p}], jetstream { max_mem: 5MB, max_file: 5MB } }
    OTHERS { users: [{user: other, password: p}], jetstream: enabled }
}
"""
MB = 1024 * 1024


class Tenant:
    """One connection that asks and waits for the answer."""

    def __init__(self, client: WireClient, user: str) -> None:
        self._client = client
        client.handshake(user=user, **{"pass": "p"})
        client.round_trip(b"SUB in 1\r\n")

    def ask(self, subject: str, body: Any = b"", headers: bytes = b"") -> dict[str, Any]:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        if headers:
            head = f"HPUB {subject} in {len(headers)} {len(headers) + len(data)}\r\n".encode()
        else:
            head = f"PUB {subject} in {len(data)}\r\n".encode()
        self._client.send(head + headers + data + b"\r\n")
        text = self._client.read_frame().partition(b"\r\n")[2].strip()
        return json.loads(text) if text else {}

    def lives(self) -> None:
        assert self._client.round_trip() is not None


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with ServerProcess(ServerKind.MILLSTREAM, config=CONFIG, jetstream=True) as server:
        yield server


@contextmanager
def tenant_called(name: str, server: ServerProcess) -> Iterator[Tenant]:
    """One who leaves no stream behind."""
    with WireClient.connect(server.port) as client:
        tenant = Tenant(client, name)
        yield tenant
        for stream in tenant.ask("$JS.API.STREAM.NAMES")["streams"] or ():
            tenant.ask(f"$JS.API.STREAM.DELETE.{stream}")


@pytest.fixture
def tenant(server: ServerProcess) -> Iterator[Tenant]:
    with tenant_called("tenant", server) as tenant:
        yield tenant


@pytest.fixture
def other(server: ServerProcess) -> Iterator[Tenant]:
    with tenant_called("other", server) as tenant:
        yield tenant


def memory(server: ServerProcess) -> int:
    """The most that the process ever had, in bytes."""
    for line in Path(f"/proc/{server.pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    raise AssertionError("no such line")


def processor_s(server: ServerProcess) -> float:
    fields = Path(f"/proc/{server.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def archive(*entries: tuple[bytes, int, bytes]) -> bytes:
    buffer = EntryBuffer()
    buffer.append(MAGIC)
    for name, seq, body in (*entries, (b"", 0, b"")):
        buffer.add(name, 1_700_000_000_000_000_000 if name else 0, seq, body, 0, 0, len(body))
    data = buffer.take()
    return START + b"".join(frame(data[at : at + BLOCK_SIZE]) for at in range(0, len(data), BLOCK_SIZE))


def restore(tenant: Tenant, data: bytes, storage: str) -> dict[str, Any]:
    config = {"name": "BOMB", "subjects": ["bomb.>"], "storage": storage}
    began = tenant.ask("$JS.API.STREAM.RESTORE.BOMB", {"config": config, "state": {}})
    for at in range(0, len(data), MB // 2):
        tenant.ask(began["deliver_subject"], data[at : at + MB // 2])
    return tenant.ask(began["deliver_subject"])


@pytest.mark.parametrize("storage", ["file", "memory"])
def test_a_restore_that_unpacks_to_more_than_the_account_has_is_refused(
    server: ServerProcess, tenant: Tenant, other: Tenant, storage: str
) -> None:
    state = json.dumps({"messages": 200, "bytes": 10, "first_seq": 1, "last_seq": 200, "consumer_count": 0})
    before = memory(server)
    messages = [(b"bomb.x", seq, bytes(MB - 100)) for seq in range(1, 201)]
    answer = restore(tenant, archive((b"state.json", 0, state.encode()), *messages), storage)
    assert answer["error"]["err_code"] == (10047 if storage == "file" else 10028)
    assert memory(server) - before < 100 * MB
    info = tenant.ask("$JS.API.INFO")
    assert (info["storage"], info["memory"], info["streams"]) == (0, 0, 0)
    other.lives()


def test_a_state_of_brackets_is_refused_in_little_memory(server: ServerProcess, tenant: Tenant) -> None:
    before = memory(server)
    body = b'{"x":' + b"[" * 190 + b"1," * (4 * MB) + b"1" + b"]" * 190 + b"}"
    assert restore(tenant, archive((b"state.json", 0, body)), "file")["error"]["err_code"] == 10062
    assert memory(server) - before < 100 * MB


def test_large_requests_take_no_time_of_others(server: ServerProcess, tenant: Tenant) -> None:
    tenant.ask("$JS.API.STREAM.CREATE.S", {"name": "S", "subjects": ["s.>"]})
    before = processor_s(server)
    filters = [f"s.{number}.x" for number in range(60_000)]
    config = {"name": "c", "durable_name": "c", "filter_subjects": filters}
    subjects = [f"t.{number}" for number in range(60_000)]
    requests = [
        ("$JS.API.CONSUMER.CREATE.S.c", {"stream_name": "S", "config": config}),
        ("$JS.API.STREAM.CREATE.T", {"name": "T", "subjects": subjects}),
        ("$JS.API.STREAM.NAMES", b"[" + b"1," * 500_000 + b"1]"),
    ]
    for subject, body in requests:
        assert tenant.ask(subject, body)["error"]["code"] == 400
    assert processor_s(server) - before < 30  # it took minutes


def test_subjects_that_collide_without_a_key_take_the_time_of_others(
    server: ServerProcess, other: Tenant
) -> None:
    other.ask("$JS.API.STREAM.CREATE.H", {"name": "H", "subjects": ["h.>"]})
    candidates = (b"h.%06x" % number for number in range(400_000))
    colliding = [each for each in candidates if _fnv(each) & 0x7FFF < 1024]
    before = processor_s(server)
    other._client.send(b"".join(b"PUB %b 0\r\n\r\n" % each for each in colliding))
    other.lives()
    state = other.ask("$JS.API.STREAM.INFO.H")["state"]
    assert state["num_subjects"] == len(colliding) > 10_000
    assert processor_s(server) - before < 30


def _fnv(text: bytes) -> int:
    value = 14695981039346656037
    for byte in text:
        value = ((value ^ byte) * 1099511628211) & 0xFFFFFFFFFFFFFFFF
    return value ^ (value >> 32)


@pytest.mark.parametrize(
    "name",
    [
        "Nats-TTL",
        "Nats-Expected-Last-Sequence",
        "Nats-Expected-Last-Subject-Sequence",
        "Nats-Batch-Sequence",
        "Nats-Incr",
        "Nats-Schedule",
        "Nats-Required-Api-Level",
    ],
)
def test_a_number_of_5000_digits_is_answered(tenant: Tenant, name: str) -> None:
    config = {"allow_msg_ttl": True, "allow_atomic": True, "allow_msg_schedules": True}
    tenant.ask("$JS.API.STREAM.CREATE.N", {"name": "N", "subjects": ["n.>"], **config})
    batch = "Nats-Batch-Id: b\r\n" if name == "Nats-Batch-Sequence" else ""
    headers = f"NATS/1.0\r\n{batch}{name}: {'9' * 5000}\r\n\r\n".encode()
    assert "stream" in tenant.ask("n.1", b"x", headers)
    tenant.lives()
