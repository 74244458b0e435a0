"""The dashboard in front of three nats-servers: the whole story, while a server dies and comes back."""

import re
from typing import Any

import pytest
from playwright.async_api import BrowserContext, expect

from tests.kits.cluster import Cluster
from tests.kits.dashboard import Screen, Site, screen_of
from tests.kits.gateway.v2 import eventually

pytestmark = pytest.mark.oracle


async def test_the_story_on_a_cluster(context: BrowserContext, start_site: Any) -> None:
    with Cluster() as cluster:
        site: Site = await start_site(*cluster.urls, nats={"request_timeout_s": 10.0})
        screen = await screen_of(context, site)
        await _ready(site)
        await screen.open("streams")
        await screen.click("New stream")
        await screen.type("Name", site.stream, within=screen.dialog)
        await screen.type("Subjects", f"{site.subject}.>", within=screen.dialog)
        await screen.type("Replicas", "3", within=screen.dialog)
        await screen.dialog.get_by_label("Retention").select_option("workqueue")
        await screen.confirm("Create")
        await expect(screen.main.locator("h1")).to_have_text(site.stream)
        replicas = screen.main.get_by_role("region", name="Table: Replicas")
        await expect(replicas.locator("tbody tr")).to_have_count(3)
        await site.publish("a", "b", "c")
        await screen.stat("Messages", "3")
        await _stuck_and_mended(screen, site)
        await _lost_and_regained(screen, site, cluster)
        await screen.page.close()
        assert [each for each in screen.errors if not re.search("50[0-9]|40[0-9]", each)] == []


async def _ready(site: Site) -> None:
    """Wait until the cluster has its leaders and all its servers, and takes streams of three replicas."""
    config = {"name": f"R{site.stream}", "subjects": [f"ready.{site.subject}"], "num_replicas": 3}

    async def takes_streams() -> bool:
        return (await site.http.post("/v2/streams", json=config)).status_code == 201

    await eventually(takes_streams)


async def _stuck_and_mended(screen: Screen, site: Site) -> None:
    consumer = await site.add_consumer("billing", max_ack_pending=1, ack_wait=3600 * 10**9)
    assert len((await site.call("POST", f"{consumer}/fetch", json={"batch": 1}))["messages"]) == 1
    await screen.open("streams", site.stream, "consumers", "billing")
    why = screen.main.locator(".why")
    await expect(why.locator("[data-kind=max_ack_pending]")).to_be_visible()
    await screen.click("Edit")
    editor = screen.main.locator("textarea")
    await editor.fill((await editor.input_value()).replace('"max_ack_pending": 1', '"max_ack_pending": 50'))
    await screen.click("Review changes")
    await screen.confirm("Apply")
    await expect(why.locator("[data-kind=max_ack_pending]")).to_have_count(0)
    await screen.open("streams", site.stream, "messages")
    await expect(screen.main.locator("tbody tr")).to_have_count(3)


async def _lost_and_regained(screen: Screen, site: Site, cluster: Cluster) -> None:
    await screen.open("streams", site.stream)
    await screen.stat("Messages", "3")
    for server in cluster.servers:
        server.kill()
    await expect(screen.page.locator(".banner")).to_contain_text("Not connected since")
    cluster.start_the_dead()
    await expect(screen.page.locator(".banner")).to_be_hidden()
    await screen.stat("Messages", "3")
