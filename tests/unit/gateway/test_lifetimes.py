"""Start and end of a gateway: it forgets what is over, and waits for nothing without end."""

import asyncio
import gc
import socket
import weakref
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest

from millstream.base.reasons import CannotListen
from millstream.gateway.bounds import BodyBudget
from millstream.gateway.errors import BodyTimeout
from millstream.gateway.exchange import Exchange
from millstream.gateway.link import CallerLink
from millstream.gateway.links import Links
from millstream.gateway.metrics import Metrics
from millstream.gateway.server import GatewayNotStarted, GatewayServer
from millstream.gateway.settings import Listener, Nats, Settings, Tls
from millstream.gateway.v1.subscribe import board_of
from millstream.gateway.v2.calls import Flow
from millstream.gateway.v2.live import begun
from millstream.link.errors import BadLinkOptions
from millstream.link.options import LinkTlsOptions


async def test_a_link_that_nobody_uses_is_gone_with_its_board() -> None:
    link = CallerLink(Nats())
    assert board_of(link) is board_of(link)
    await link.close()
    gone = weakref.ref(link)
    del link
    gc.collect()
    assert gone() is None


def test_methods_that_callers_make_up_share_one_label() -> None:
    metrics = Metrics()
    for number in range(3):
        metrics.count(f"MADE{number}", "(none)", 405, None)
    told = metrics.text().decode()
    assert 'method="OTHER",route="(none)",status="405"} 3.0' in told
    assert "MADE" not in told


async def test_a_body_over_http2_that_does_not_begin_is_not_waited_for() -> None:
    async def receive() -> dict[str, Any]:
        await asyncio.Event().wait()
        return {}

    async def send(_: dict[str, Any]) -> None:
        pass

    scope = {"type": "http", "http_version": "2", "method": "POST", "headers": []}
    exchange = Exchange(scope, receive, send, max_body=0, body_timeout_s=0.01, budget=BodyBudget(0))
    with pytest.raises(BodyTimeout):
        await exchange.body()


def test_files_that_the_gateway_can_not_use_are_told_at_the_start(tmp_path: Path) -> None:
    missing = str(tmp_path / "missing")
    for options in (
        {"creds_file": missing},
        {"nkey_file": missing},
        {"tls": LinkTlsOptions(ca_file=missing)},
    ):
        with pytest.raises(BadLinkOptions, match="missing"):
            Links(Nats.at("nats://127.0.0.1:1", **options))


async def test_files_of_tls_that_can_not_be_used_are_told_at_the_start(tmp_path: Path) -> None:
    (tmp_path / "no").write_text("nothing")
    for tls in (Tls(authorities=tmp_path / "no"), Tls(tmp_path / "no"), Tls(tmp_path / "missing")):
        with pytest.raises(GatewayNotStarted, match="tls"):
            GatewayServer(Settings(tls=tls))


async def test_the_address_that_can_not_be_listened_on_is_the_one_that_is_told() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        listeners = tuple(Listener(host="127.0.0.1", port=each) for each in (port, 0))
        with pytest.raises(CannotListen, match=f"127.0.0.1:{port}: Address already in use; "):
            await GatewayServer(Settings(listeners=listeners)).start()


def test_settings_do_not_show_who_the_gateway_is() -> None:
    nats = Nats.at("nats://a:secret@h:1", user="u", password="secret")
    assert repr(Settings(nats=nats)).count("<Nats nats://h:1>") == 1
    assert "secret" not in repr(Settings(nats=nats))


async def test_what_a_live_answer_holds_is_given_back_by_one_who_left_before_it_began() -> None:
    given_back = asyncio.Event()

    async def pieces() -> AsyncGenerator[bytes, None]:
        try:
            yield b""
            yield b"never"
        finally:
            given_back.set()

    async def receive() -> dict[str, Any]:
        return {"type": "http.disconnect"}

    async def send(_: dict[str, Any]) -> None:
        await asyncio.Event().wait()

    scope = {"type": "http", "http_version": "1.1", "method": "GET", "headers": []}
    exchange = Exchange(scope, receive, send, max_body=0, body_timeout_s=0, budget=BodyBudget(0))
    await Flow("text/plain", await begun(pieces())).respond(exchange)
    assert given_back.is_set()
