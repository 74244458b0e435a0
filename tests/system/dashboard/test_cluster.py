"""The dashboard in front of three nats-servers: every story, and a cluster that dies and comes back."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any

import pytest
import pytest_asyncio
from playwright.async_api import BrowserContext, expect

from tests.kits.cluster import Cluster
from tests.kits.dashboard import Screen, Site, screen_of
from tests.kits.gateway.v2 import eventually
from tests.system.dashboard import (
    test_accessibility,
    test_buckets,
    test_consumers,
    test_injection,
    test_letters,
    test_streams,
)

pytestmark = pytest.mark.oracle

Story = Callable[[Screen, Site], Awaitable[None]]
STORIES: list[Story] = [
    test_streams.test_a_stream_is_created_published_to_and_browsed,
    test_streams.test_messages_are_found_by_place_subject_and_text,
    test_streams.test_a_message_is_published_again_deleted_and_erased,
    test_streams.test_a_configuration_is_compared_checked_and_applied,
    test_streams.test_a_stream_is_purged_sealed_and_deleted_with_its_name_typed,
    test_streams.test_subjects_are_a_tree_with_counts,
    test_streams.test_the_live_tail_shows_filters_and_pauses,
    test_consumers.test_a_stuck_consumer_is_explained_and_mended,
    test_consumers.test_a_consumer_is_paused_resumed_reset_and_deleted,
    test_letters.test_letters_are_read_edited_and_sent_again,
    test_buckets.test_a_key_is_edited_against_a_concurrent_edit,
    test_buckets.test_keys_are_a_tree_and_a_list,
    test_injection.test_keys_and_object_names_are_text,
]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster() as started:
        yield started


@pytest_asyncio.fixture(loop_scope="session")
async def cluster_site(cluster: Cluster, start_site: Any) -> Site:
    site: Site = await start_site(*cluster.urls, nats={"request_timeout_s": 10.0})
    await _ready(site)
    return site


@pytest_asyncio.fixture(loop_scope="session")
async def cluster_screen(context: BrowserContext, cluster_site: Site) -> AsyncIterator[Screen]:
    screen = await screen_of(context, cluster_site)
    yield screen
    await screen.page.close()
    screen.check()


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.__name__)
async def test_each_story_goes_the_same_way(story: Story, cluster_screen: Screen, cluster_site: Site) -> None:
    await story(cluster_screen, cluster_site)


async def test_every_view_opens(cluster_screen: Screen, cluster_site: Site) -> None:
    for view in await test_accessibility.prepare(cluster_site):
        await cluster_screen.open(*view)
        await expect(cluster_screen.page.locator("[aria-busy]")).to_have_count(0)
        await expect(cluster_screen.page.locator("[data-failed]")).to_have_count(0)


async def test_a_cluster_is_lost_and_regained(context: BrowserContext, start_site: Any) -> None:
    with Cluster() as cluster:
        site: Site = await start_site(*cluster.urls, nats={"request_timeout_s": 10.0})
        screen = await screen_of(context, site)
        screen.expect_errors("50[0-9]", "40[0-9]")
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
        screen.check()


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
