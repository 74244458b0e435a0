"""JetStream in monitoring and the system account: `/jsz`, `/varz`, `/accountz`, STATSZ, JSZ."""

import json
from typing import Any

import pytest

from tests.kits.conformance.clients import ServerFactory, monitor, publish
from tests.kits.conformance.streams import OpenSession, Session
from tests.kits.reference import ServerKind, ServerProcess

CONFIG = """
server_name: probe
system_account: SYS
jetstream: {max_mem: 1GB, max_file: 4GB%s}
accounts: {
  SYS: {users: [{user: sys, password: p}]}
  A: {jetstream: {max_mem: 1MB, max_store: 2MB}, users: [{user: a0, password: p}]}
  B: {jetstream: enabled, users: [{user: b, password: p}]}
  WITHOUT: {users: [{user: without, password: p}]}
}
"""
# Differs on purpose: we sync before we acknowledge unless told otherwise.  Ours to choose: the folder.
OWN = ("sync_always", "sync_interval", "store_dir")


@pytest.fixture
def server(shared_server: ServerFactory) -> ServerProcess:
    return shared_server(config=CONFIG % "", jetstream=True, monitor=True)


@pytest.fixture
def streams(server: ServerProcess, open_session: OpenSession) -> Session:
    """The server with two streams in one account and none in the other."""
    js = open_session(server)
    js.create("F", subjects=["f"], max_bytes=1000)
    js.create("M", subjects=["m.*"], storage="memory", description="in memory")
    if js.do("STREAM.INFO.F")["state"]["last_seq"] == 0:  # the first test on this server
        for subject in ("f", "f", "m.1", "m.2"):
            js.publish(subject, "x")
    return js


def told(document: Any) -> Any:
    """The document without what no two servers have in common, and without counters of requests."""
    if isinstance(document, list):
        return sorted(map(told, document), key=lambda each: each["name"])  # nats-server has them in no order
    if not isinstance(document, dict):
        return document
    return {
        key: "<number>"
        if key in ("total", "errors")
        else value
        if key == "config" and "subjects" in value
        else told(value)
        for key, value in document.items()
        if key not in OWN and key != "inflight"
    }


@pytest.mark.parametrize(
    "query",
    [
        "",
        "?accounts=1",
        "?accounts=true&streams=true",
        "?streams=1",
        "?streams=1&config=1",
        "?acc=A",
        "?acc=A&streams=1&config=1",
        "?acc=B&streams=1",
        "?acc=WITHOUT",
        "?acc=NOBODY",
        "?accounts=1&limit=1",
        "?accounts=1&limit=1&offset=1",
        "?accounts=1&offset=5",
        "?accounts=1&limit=-1",
        "?config=1",
        "?raft=1",
        "?raft=1&streams=1",
        "?leader-only=1",
        "?stream-leader-only=1&streams=1",
        "?acc=SYS&streams=1",
    ],
)
def test_jsz(streams: Session, server: ServerProcess, query: str) -> None:
    streams.note_masked(told(monitor(server, f"/jsz{query}")), asked=f"/jsz{query}")


def test_varz(streams: Session, server: ServerProcess) -> None:
    streams.note_masked(told(monitor(server, "/varz")["jetstream"]), asked="/varz")


@pytest.mark.parametrize("account", ["A", "B", "WITHOUT", "SYS"])
def test_accountz(streams: Session, server: ServerProcess, account: str) -> None:
    found = monitor(server, f"/accountz?acc={account}")["account_detail"]
    streams.note(found["jetstream_enabled"], asked=f"/accountz?acc={account}")


@pytest.mark.parametrize("query", ["", "?js-enabled-only=1", "?js-server-only=1", "?account=A&stream=F"])
def test_healthz(streams: Session, server: ServerProcess, query: str) -> None:
    streams.note(monitor(server, f"/healthz{query}"), asked=f"/healthz{query}")


def ask_server(server: ServerProcess, open_session: OpenSession, what: str, body: bytes) -> Any:
    system = open_session(server, "sys")
    subject = f"$SYS.REQ.SERVER.{system.client.info['server_id']}.{what}"
    system.client.send(publish(subject, body, "answer.system"))
    frame = system.client.read_frame()
    return json.loads(frame.partition(b"\r\n")[2])


def test_statsz(streams: Session, server: ServerProcess, open_session: OpenSession) -> None:
    found = ask_server(server, open_session, "STATSZ", b"")["statsz"]
    streams.note_masked(told(found["jetstream"]), asked="STATSZ")


@pytest.mark.parametrize(
    "body", [b"", b'{"accounts":true,"streams":true}', b'{"account":"A","streams":true,"config":true}']
)
def test_jsz_of_the_system_account(
    streams: Session, server: ServerProcess, open_session: OpenSession, body: bytes
) -> None:
    found = ask_server(server, open_session, "JSZ", body)
    streams.note_masked(told(found["data"]), asked=f"JSZ {body.decode()}")


@pytest.mark.parametrize("account", ["A", "B", "WITHOUT"])
def test_jsz_of_an_account(
    streams: Session, server: ServerProcess, open_session: OpenSession, account: str
) -> None:
    system = open_session(server, "sys")
    system.client.send(publish(f"$SYS.REQ.ACCOUNT.{account}.JSZ", b'{"streams":true}', "answer.system"))
    found = json.loads(system.client.read_frame().partition(b"\r\n")[2])
    streams.note_masked(told({key: found.get(key) for key in ("data", "error")}), asked="JSZ")


def test_settings_are_shown(
    open_session: OpenSession, shared_server: ServerFactory, server_kind: ServerKind
) -> None:
    more = (
        ", domain: hub, strict: false, unique_tag: 'az:1', limits: {max_ack_pending: 5, max_request_batch: 6,"
        " duplicate_window: 7s, max_ha_assets: 8}"
    )
    server = shared_server(config=CONFIG % more, jetstream=True, monitor=True)
    js = open_session(server)
    js.note_masked(told(monitor(server, "/varz")["jetstream"]), asked="/varz")
    js.note_masked(told(monitor(server, "/jsz")), asked="/jsz")
