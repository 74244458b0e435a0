"""Connections, pipelines, and a page that is left, hidden and found again."""

import json
import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import nats
import pytest
from playwright.async_api import BrowserContext, expect

from millstream.base.ids import nuid
from millstream.spark.pipeline.progress import JobProgress, State
from tests.kits.dashboard import Screen, Site, screen_of
from tests.kits.gateway.v2 import eventually
from tests.kits.link import Operator
from tests.kits.reference import ServerKind, ServerProcess
from tests.system.dashboard.test_life import USERS

_SHOW = """isHidden => {
    Object.defineProperty(document, "hidden", { configurable: true, get: () => isHidden });
    document.dispatchEvent(new Event("visibilitychange"));
}"""


@asynccontextmanager
async def _client(url: str, **options: Any) -> AsyncIterator[Any]:
    client = await nats.connect(url, allow_reconnect=False, **options)
    try:
        yield client
    finally:
        await client.close()


async def test_a_connection_is_found_and_disconnected(
    context: BrowserContext, start_site: Any, shared_server: Callable[..., ServerProcess]
) -> None:
    server = shared_server(config=USERS)
    site: Site = await start_site(server.client_url, nats={"user": "system", "password": "secret"})
    screen = await screen_of(context, site)
    name = f"worker {nuid()}"
    async with _client(server.client_url, user="admin", password="secret", name=name) as client:
        await client.subscribe("work.here")
        await client.flush()
        await screen.open("connections")
        await screen.main.get_by_label("Search connections").fill(name)
        await expect(screen.main.locator("tbody tr")).to_have_count(1)
        await screen.click(name)
        await expect(screen.dialog).to_contain_text("work.here")
        await screen.click("Disconnect", within=screen.dialog)
        await screen.confirm("Disconnect it")

        async def is_closed() -> bool:
            return bool(client.is_closed)

        await eventually(is_closed)
        await screen.shows(re.compile("No connections match"))
    await screen.page.close()
    screen.check()


async def test_a_user_of_an_account_may_not_disconnect_others(screen: Screen, site: Site) -> None:
    await screen.open("connections")
    await screen.main.locator("tbody button").first.click()
    await expect(screen.dialog.get_by_role("button", name="Disconnect…")).to_be_disabled()
    await expect(screen.dialog).to_contain_text("Only users of the system account may disconnect clients.")


async def test_jobs_of_pipelines_appear_with_their_reports(screen: Screen, site: Site) -> None:
    job = f"archive-{nuid()}"
    progress = JobProgress(job, "archive", State.RUNNING, rows=1234, rate=56.0, lag={"S": 7})
    report = json.dumps(progress.as_json()).encode()
    await screen.open("pipelines")
    await screen.shows("millstream.pipeline.>")

    async def is_shown() -> bool:
        site.server.core.links.own.publish("millstream.pipeline.test", report)
        return await screen.main.locator("tbody tr", has_text=job).count() == 1

    await eventually(is_shown)
    row = screen.main.locator("tbody tr", has_text=job)
    for text in ("archive", "running", "1,234", "56/s", "S: 7 messages"):
        await expect(row).to_contain_text(text)


async def test_the_back_button_leads_back(screen: Screen, site: Site) -> None:
    await site.add_stream()
    await site.publish("a")
    await screen.open("streams", search=site.stream)
    await screen.click(site.stream)
    await expect(screen.main.locator("h1")).to_have_text(site.stream)
    await screen.click("Messages")
    await expect(screen.main.locator("tbody tr")).to_have_count(1)
    await screen.page.go_back()
    await screen.stat("Messages", "1")
    await screen.page.go_back()
    await expect(screen.main.locator("h1")).to_have_text("Streams")
    await expect(screen.main.get_by_label("Search streams")).to_have_value(site.stream)
    await screen.page.go_forward()
    await expect(screen.main.locator("h1")).to_have_text(site.stream)


async def test_a_hidden_page_closes_its_connections(screen: Screen, site: Site) -> None:
    await site.add_stream()
    await screen.open("streams", site.stream)
    await screen.stat("Messages", "0")

    async def has_streams(count: int) -> bool:
        text = (await site.http.get("/metrics")).text
        return f'millstream_gateway_streams{{api="v2"}} {count}.0' in text

    await eventually(lambda: has_streams(1))
    await screen.page.evaluate(_SHOW, True)
    await eventually(lambda: has_streams(0))
    await site.publish("a", "b")
    await screen.page.evaluate(_SHOW, False)
    await screen.stat("Messages", "2")


@pytest.mark.oracle
async def test_a_credentials_file_logs_in(context: BrowserContext, start_site: Any) -> None:
    """Only nats-server has operators."""
    operator = Operator()
    with ServerProcess(ServerKind.NATS_SERVER, config=operator.config) as server:
        site: Site = await start_site(server.client_url, auth_required=True)
        screen = await screen_of(context, site)
        await screen.open("publish")
        await screen.main.get_by_label("With").select_option("creds")
        file = {"name": "user.creds", "mimeType": "text/plain", "buffer": operator.credentials.encode()}
        await screen.main.get_by_label("File").set_input_files(file)  # type: ignore[arg-type]
        await screen.click("Log in")
        await expect(screen.main.locator("h1")).to_have_text("Publish and request")
        await screen.page.close()
