"""Documents of a server in the same event loop, where its state can be arranged."""

import asyncio
import json
import ssl
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from millstream.base.slices import MOST_ITEMS, Pieces, finish
from millstream.broker.options import ConnectionType
from millstream.broker.session import ConnectOptions
from millstream.broker.tls_peer import suite_name
from millstream.server.monitor import internals
from millstream.server.monitor.connection_info import Moment, describe
from millstream.server.monitor.connz import ConnectionState, ConnzOptions, connz
from millstream.server.monitor.healthz import HealthzOptions, healthz
from millstream.server.monitor.http import MonitorRequest, MonitorResponse
from millstream.server.monitor.json_page import render
from millstream.server.monitor.jsz import JszOptions, jsz
from millstream.server.monitor.process import ProcessorLoad
from millstream.server.monitor.queries import BadQuery
from millstream.server.monitor.routes import MonitorRoutes
from millstream.server.monitor.subsz import SubszOptions, subsz
from millstream.server.monitor.varz import varz
from millstream.server.reload import reload_configuration
from millstream.server.server import Server
from tests.kits.certs import CertificateAuthority, IssuedCertificate


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    async with Server() as running:
        yield running
        running.broker.connections.clear()  # those without a transport cannot be closed


def crowd(server: Server, count: int) -> None:
    """Connections without a transport, as many as wanted."""
    for _ in range(count):
        connection = server.broker.new_connection()
        server.broker.connections[connection.cid] = connection


def text_of(document: Pieces[Any]) -> bytes:
    return b"".join(finish(render(finish(document), pretty=True)))


async def body_of(routes: MonitorRoutes, path: str, query: str = "") -> tuple[MonitorResponse, bytes]:
    response = await routes.handle(MonitorRequest("GET", path, query))
    return response, b"".join(response.body)


async def test_a_document_in_slices_is_the_same_document(server: Server) -> None:
    crowd(server, 300)
    for connection in server.broker.connections.values():
        connection.session.connect = ConnectOptions(name='"connections": []')
    routes = MonitorRoutes(server, "/", Counter())
    _, body = await body_of(routes, "/connz", "limit=299&offset=1")
    whole = json.loads(text_of(connz(server, ConnzOptions(limit=299, offset=1))))
    sliced = json.loads(body)
    assert len(sliced["connections"]) == 299
    for each in (whole, sliced):
        each.pop("now")
        for connection in each["connections"]:
            del connection["idle"], connection["uptime"]
    assert sliced == whole
    assert body == msgspec.json.format(body, indent=2)


async def test_a_long_document_gives_others_their_turn(server: Server) -> None:
    crowd(server, 4000)
    turns = 0
    done = False

    async def neighbour() -> None:
        nonlocal turns
        while not done:
            turns += 1
            await asyncio.sleep(0)

    task = asyncio.create_task(neighbour())
    await asyncio.sleep(0)
    before = turns
    await body_of(MonitorRoutes(server, "/", Counter()), "/connz", "limit=4000")
    done = True
    await task
    assert turns - before >= 4
    assert 0 < server.broker.turns.watchdog.most_items["http /connz"] <= 2 * MOST_ITEMS


async def test_connections_may_come_and_go_while_a_long_document_is_made(server: Server) -> None:
    crowd(server, 600)
    making = asyncio.create_task(body_of(MonitorRoutes(server, "/", Counter()), "/connz", "limit=600"))
    await asyncio.sleep(0)
    server.broker.connections.clear()
    _, body = await making
    assert json.loads(body)["num_connections"] == len(json.loads(body)["connections"]) == 600


async def test_a_page_describes_only_what_is_on_it(server: Server) -> None:
    crowd(server, 50)
    document = json.loads(text_of(connz(server, ConnzOptions(sort="uptime", offset=40, limit=20))))
    assert len(document["connections"]) == 10
    assert document["total"] == 50


async def test_many_who_ask_at_once_all_get_their_documents(server: Server) -> None:
    crowd(server, 1500)
    routes = MonitorRoutes(server, "/", Counter())
    asked = [body_of(routes, "/connz", "limit=1500") for _ in range(20)]
    answers = await asyncio.gather(*asked, body_of(routes, "/healthz"))
    for response, body in answers[:-1]:
        assert response.status == 200
        assert json.loads(body)["num_connections"] == 1500


async def test_a_short_document_does_not_wait_for_long_ones(server: Server) -> None:
    crowd(server, 1500)
    routes = MonitorRoutes(server, "/", Counter())
    long = [asyncio.create_task(body_of(routes, "/connz", "limit=1500")) for _ in range(8)]
    await asyncio.sleep(0)
    assert json.loads((await body_of(routes, "/healthz"))[1]) == {"status": "ok"}
    assert not all(task.done() for task in long)
    await asyncio.gather(*long)


async def test_work_for_a_client_that_has_gone_or_is_cut_off_ends(server: Server) -> None:
    crowd(server, 1500)
    routes = MonitorRoutes(server, "/", Counter())
    gone = asyncio.create_task(routes.handle(MonitorRequest("GET", "/connz", "limit=1500", lambda: False)))
    cut_off = asyncio.create_task(routes.handle(MonitorRequest("GET", "/connz", "limit=1500")))
    await asyncio.sleep(0)
    cut_off.cancel()
    assert (await gone).status == 503
    with pytest.raises(asyncio.CancelledError):
        await cut_off
    assert len(routes._long) == 0


@pytest.mark.parametrize("count", [127, 128, 129, 256])
async def test_slices_join_at_every_border(server: Server, count: int) -> None:
    crowd(server, count)
    _, body = await body_of(MonitorRoutes(server, "/", Counter()), "/connz", f"limit={count}")
    assert len(json.loads(body)["connections"]) == count


@pytest.mark.parametrize(
    ("connect", "user"),
    [
        (ConnectOptions(user="me", password="x"), "me"),
        (ConnectOptions(nkey="UABC"), "UABC"),
        (ConnectOptions(auth_token="secret"), "[REDACTED]"),
        (ConnectOptions(), ""),
    ],
)
async def test_a_token_is_never_shown(server: Server, connect: ConnectOptions, user: str) -> None:
    crowd(server, 1)
    (connection,) = server.broker.connections.values()
    connection.session.connect = connect
    (shown,) = json.loads(text_of(connz(server, ConnzOptions(username=True))))["connections"]
    assert shown.get("authorized_user", "") == user
    if user:
        assert finish(connz(server, ConnzOptions(user=user))).num_connections == 1
    assert finish(connz(server, ConnzOptions(user="someone else"))).num_connections == 0


async def test_a_handshake_that_came_first_is_told(server: Server) -> None:
    crowd(server, 1)
    (connection,) = server.broker.connections.values()
    session = connection.session
    session.tls_version, session.tls_cipher = "1.2", "ECDHE-RSA-AES128-GCM-SHA256"

    def shown() -> dict[str, object]:
        moment = Moment(wall_ns=session.started_ns, monotonic=session.started)
        info = describe(connection, moment, identity=True, subscriptions=False, details=False)
        built: dict[str, object] = msgspec.to_builtins(info)
        return built

    assert shown()["tls_first"] is True
    assert shown()["tls_cipher_suite"] == "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"
    session.greeted = True
    assert "tls_first" not in shown()
    session.kind, session.greeted = ConnectionType.WEBSOCKET, False
    assert "tls_first" not in shown()
    assert shown()["type"] == "websocket"


@pytest.mark.parametrize(
    ("openssl", "standard"),
    [
        ("TLS_AES_256_GCM_SHA384", "TLS_AES_256_GCM_SHA384"),
        ("ECDHE-ECDSA-AES256-GCM-SHA384", "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384"),
        ("ECDHE-RSA-CHACHA20-POLY1305", "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256"),
        ("ECDHE-RSA-AES128-SHA", "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA"),
        ("ECDHE-RSA-AES128-SHA256", "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256"),
        ("AES128-GCM-SHA256", "TLS_RSA_WITH_AES_128_GCM_SHA256"),
        ("", ""),
    ],
)
def test_cipher_suites_have_their_standard_names(openssl: str, standard: str) -> None:
    assert suite_name(openssl) == standard


def test_options_are_decoded_from_the_body_of_a_request() -> None:
    body = b'{"sort":"rtt","auth":true,"subscriptions_detail":true,"cid":7,"state":2,"acc":"A","extra":1}'
    assert msgspec.json.decode(body, type=ConnzOptions) == ConnzOptions(
        sort="rtt",
        username=True,
        subscriptions_detail=True,
        cid=7,
        state=ConnectionState.ALL,
        account="A",
    )
    assert msgspec.json.decode(b'{"js-enabled-only":true}', type=HealthzOptions).js_enabled_only
    assert msgspec.json.decode(b'{"direct_consumer":true}', type=JszOptions).direct_consumer


async def test_a_test_subject_must_be_literal(server: Server) -> None:
    with pytest.raises(BadQuery, match=r"^invalid test subject, must be valid publish subject: a\.\*$"):
        finish(subsz(server, SubszOptions(test="a.*")))


async def test_jetstream_is_disabled(server: Server) -> None:
    assert msgspec.to_builtins(finish(jsz(server)))["disabled"] is True
    with pytest.raises(BadQuery, match="filtered response: not leader"):
        finish(jsz(server, JszOptions(leader_only=True)))


async def test_a_lame_duck_is_not_healthy(server: Server) -> None:
    assert finish(healthz(server)).status_code == 200
    server.broker.lame_duck = True
    health = finish(healthz(server))
    assert (health.status, health.status_code) == ("error", 500)
    detailed = finish(healthz(server, HealthzOptions(details=True)))
    assert [error.type for error in detailed.errors] == ["CONNECTION"]
    server.broker.lame_duck = False


async def test_varz_works_without_a_monitoring_port(server: Server) -> None:
    document = finish(varz(server))
    assert (document.http_host, document.http_port, document.http_req_stats) == ("", 0, {})


async def test_stacks_are_text_with_every_task(server: Server) -> None:
    task = asyncio.create_task(asyncio.sleep(60), name="sleepy")
    await asyncio.sleep(0)
    assert b"task sleepy [waiting]:" in internals.stacks()
    task.cancel()


def test_the_processor_load_is_not_measured_over_moments(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = {"monotonic": 100.0, "process_time": 10.0}
    monkeypatch.setattr("time.monotonic", lambda: clock["monotonic"])
    monkeypatch.setattr("time.process_time", lambda: clock["process_time"])
    load = ProcessorLoad()
    clock.update(monotonic=100.5, process_time=10.5)
    assert load.percent() == 0
    clock.update(monotonic=102.0, process_time=10.5)
    assert load.percent() == 25
    clock.update(monotonic=102.1, process_time=10.6)
    assert load.percent() == 25


@pytest.mark.parametrize(
    ("arguments", "shown"),
    [
        (
            ["x", "--user", "u", "--pass", "p", "-p", "1"],
            ["x", "--user", "[REDACTED]", "--pass", "[REDACTED]", "-p", "1"],
        ),
        (["x", "--auth=t", "-pass=p"], ["x", "--auth=[REDACTED]", "-pass=[REDACTED]"]),
        (["x", "--pass", "--pass", "y"], ["x", "--pass", "[REDACTED]", "y"]),
        (["x", "-c", "file"], ["x", "-c", "file"]),
    ],
)
def test_secrets_of_the_command_line_are_hidden(arguments: list[str], shown: list[str]) -> None:
    assert internals.redacted(arguments) == shown


async def test_a_renewed_certificate_is_used_after_a_reload(tmp_path: Path) -> None:
    authority = CertificateAuthority(tmp_path)
    first, second = authority.issue_for_loopback("first"), authority.issue_for_loopback("second")
    cert_file, key_file = tmp_path / "server.pem", tmp_path / "server.key"

    def install(certificate: IssuedCertificate) -> None:
        cert_file.write_bytes(certificate.cert_file.read_bytes())
        key_file.write_bytes(certificate.key_file.read_bytes())

    install(first)
    config = tmp_path / "server.conf"
    config.write_text(
        f'host: 127.0.0.1, port: -1, https: "127.0.0.1:-1", '
        f'tls: {{ cert_file: "{cert_file}", key_file: "{key_file}" }}'
    )
    async with Server(config=str(config)) as running:
        assert running.monitor is not None
        port = running.monitor.port
        before = await _common_name(port, authority.client_context())
        install(second)
        reload_configuration(running)
        after = await _common_name(port, authority.client_context())
    assert (before, after) == ("first", "second")


async def _common_name(port: int, context: ssl.SSLContext) -> str:
    """Return the common name in the certificate of the server at this port."""
    _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
    certificate = writer.get_extra_info("peercert")
    writer.close()
    await writer.wait_closed()
    return str(dict(pair for relative in certificate["subject"] for pair in relative)["commonName"])
