"""Login, permissions, a read-only gateway, and what the page shows when the server goes and comes back."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
from playwright.async_api import Browser, BrowserContext, expect

from millstream.gateway.server import GatewayServer
from millstream.gateway.settings import Limits, Listener, Nats, Settings
from tests.kits.dashboard import Screen, Site, screen_of
from tests.kits.reference import ServerProcess

USERS = """
    jetstream: enabled
    accounts {
        APP: { jetstream: enabled, users: [
            {user: admin, password: secret}
            {user: reader, password: secret, permissions: {
                publish: ["$JS.API.INFO", "$JS.API.STREAM.LIST", "$JS.API.STREAM.INFO.*"]
            }}
            {nkey: UDXU4RCSJNZOIQHZNWXHXORDPRTGNJAHAHFRGZNEEJCPQTT2M7NLCNF4}
        ]}
        SYS: {users: [{user: system, password: secret}]}
    }
    system_account: SYS
"""
SEED = "SUACSSL3UAHUDXKFSNVUZRF5UHPMWZ6BFDTJ7M6USDXIEDNPPQYYYCU3VY"


async def _log_in(screen: Screen, user: str, password: str = "secret") -> None:
    await screen.type("User", user)
    await screen.type("Password", password)
    await screen.click("Log in")


async def test_nats_decides_who_may_see_and_change_what(
    context: BrowserContext, start_site: Any, shared_server: Callable[..., ServerProcess], tmp_path: Path
) -> None:
    server = shared_server(config=USERS)
    admin = {"user": "admin", "password": "secret"}
    site: Site = await start_site(server.client_url, nats=admin, auth_required=True)
    site.http.auth = ("admin", "secret")
    await site.add_stream()
    await site.publish("a")
    screen = await screen_of(context, site)
    screen.expect_errors("401", "403", "404", "503")
    await screen.open("streams", site.stream)
    await expect(screen.main.locator("h1")).to_have_text("Log in")
    await _log_in(screen, "admin", "wrong")
    await screen.shows("NATS does not accept these credentials.")
    await _log_in(screen, "reader")
    # It goes on where the address leads.
    await expect(screen.main.locator("h1")).to_have_text(site.stream)
    await screen.stat("Messages", "1")
    await screen.open("streams", site.stream, "messages")
    await expect(screen.main.locator("[data-forbidden]")).to_be_visible()
    await screen.shows("may not see messages of this stream")
    await screen.open("streams", site.stream)
    await screen.click("Delete")
    await screen.dialog.get_by_label("To confirm, type its name").fill(site.stream)
    await screen.dialog.get_by_role("button", name="Delete the stream").click()
    await expect(screen.dialog.locator(".complaint")).to_be_visible()
    await screen.dialog.get_by_role("button", name="Cancel").click()
    # A reload forgets who it was, unless the user wants it kept.
    await screen.page.reload()
    await expect(screen.main.locator("h1")).to_have_text("Log in")
    await screen.main.get_by_label("With").select_option("nkey")
    await screen.type("Seed", SEED)
    await screen.main.get_by_label("Keep them until this tab is closed").check()
    await screen.click("Log in")
    await expect(screen.main.locator("h1")).to_have_text(site.stream)
    await screen.page.reload()
    await expect(screen.main.locator("h1")).to_have_text(site.stream)
    await screen.page.get_by_role("button", name="Use other credentials").click()
    await _log_in(screen, "system")
    await expect(screen.main.locator("h1")).to_have_text("Overview")
    await expect(screen.page.locator("header .tag", has_text="system")).to_be_visible()
    await screen.open("connections")
    await expect(screen.main.locator("tbody tr").first).to_be_visible()
    await screen.page.close()
    screen.check()


async def test_a_read_only_gateway_says_why_nothing_can_be_changed(
    context: BrowserContext, start_site: Any, site: Site, shared_server: Callable[..., ServerProcess]
) -> None:
    await site.add_stream()
    locked: Site = await start_site(shared_server(jetstream=True).client_url, read_only=True)
    screen = await screen_of(context, locked)
    await screen.open("streams", site.stream)
    await expect(screen.page.locator("header .tag", has_text="read-only")).to_be_visible()
    await screen.shows("This gateway is read-only")
    button = screen.main.get_by_role("button", name="Delete…")
    await expect(button).to_have_attribute("aria-disabled", "true")
    await button.click(force=True)
    await expect(screen.page.locator("dialog")).to_have_count(0)
    await screen.page.close()
    screen.check()


async def test_a_lost_server_is_told_and_regained(
    context: BrowserContext, start_site: Any, own_server: Callable[..., ServerProcess]
) -> None:
    server = own_server(jetstream=True)
    site: Site = await start_site(server.client_url)
    await site.add_stream()
    await site.publish("a", "b")
    screen = await screen_of(context, site)
    screen.expect_errors("404", "502", "503", "504")
    await screen.open("streams", site.stream)
    await screen.stat("Messages", "2")
    server.kill()
    banner = screen.page.locator(".banner")
    await expect(banner).to_be_visible()
    await expect(banner).to_contain_text("Not connected since")
    await expect(screen.main).to_have_class(re.compile("stale"))
    await screen.stat("Messages", "2")  # as it was, and greyed
    server.start()
    await expect(banner).to_be_hidden()
    await expect(screen.main).not_to_have_class(re.compile("stale"))
    await site.publish("c")
    await screen.stat("Messages", "3")
    await screen.page.close()
    screen.check()


async def test_a_lost_gateway_is_told_and_regained(
    context: BrowserContext, shared_server: Callable[..., ServerProcess]
) -> None:
    nats = Nats.at(shared_server(jetstream=True).client_url)
    port = 0
    screen: Screen | None = None
    for _ in range(2):
        settings = Settings(
            nats=nats,
            listeners=(Listener(host="127.0.0.1", port=port),),
            limits=Limits(stop_timeout_s=0.1),
        )
        async with GatewayServer(settings) as server:
            port = server.addresses[0][1]
            if screen is None:
                async with httpx.AsyncClient() as http:
                    screen = await screen_of(context, Site(server, http))
                    screen.expect_errors("ERR_", "503")
                    await screen.open()
                    await screen.shows("Messages stored")
            await expect(screen.page.locator(".banner")).to_be_hidden()
        await expect(screen.page.locator(".banner")).to_contain_text("Not connected since")
    assert screen is not None
    await screen.page.close()
    screen.check()


async def test_the_first_view_is_small_and_comes_from_here(browser: Browser, site: Site) -> None:
    context = await browser.new_context()
    screen = await screen_of(context, site)
    session = await context.new_cdp_session(screen.page)
    await session.send("Network.enable")
    sizes: list[int] = []
    session.on("Network.loadingFinished", lambda event: sizes.append(int(event["encodedDataLength"])))
    await screen.open()
    await screen.shows("Messages stored")
    bodies = await screen.page.evaluate(
        "performance.getEntriesByType('resource').reduce((sum, each) => sum + each.decodedBodySize, 0)"
    )
    assert 10_000 < bodies < 200_000  # even without compression
    assert sum(sizes) < 100_000
    await screen.page.close()
    screen.check()
    await context.close()


async def test_everything_a_view_started_ends_with_it(screen: Screen, site: Site) -> None:
    await site.add_stream()
    consumer = await site.add_consumer("c")
    assert consumer
    for _ in range(3):
        stream = ("streams", site.stream)
        for view in (stream, (*stream, "tail"), (*stream, "consumers", "c"), ()):
            await screen.open(*view)
    await screen.open("publish")
    before = len(screen.requests)
    await screen.page.wait_for_timeout(5500)  # longer than every refresh: what is left would call now
    assert screen.requests[before:] == []
    metrics = (await site.http.get("/metrics")).text
    assert re.search(r'^millstream_gateway_streams\{api="v2"\} 0', metrics, re.MULTILINE), metrics


async def test_the_page_is_used_by_keyboard_and_heard_by_screen_readers(screen: Screen, site: Site) -> None:
    await site.add_stream()
    await screen.open("streams")
    page = screen.page
    for landmark in ("banner", "navigation", "main"):
        await expect(page.get_by_role(landmark).first).to_be_attached()  # type: ignore[arg-type]
    await page.evaluate("document.activeElement.blur()")
    await page.keyboard.press("Tab")
    await expect(page.locator(".skip")).to_be_focused()
    await page.keyboard.press("Enter")
    await expect(screen.main).to_be_focused()
    await expect(page.get_by_role("link", name="Streams")).to_have_attribute("aria-current", "page")
    # A view that was reached by a link begins at its heading, and its title says what it is.
    link = screen.main.get_by_role("link", name=site.stream)
    await link.focus()
    await page.keyboard.press("Enter")
    await expect(screen.main.locator("h1")).to_be_focused()
    await expect(page).to_have_title(f"{site.stream} · Millstream")
    await screen.main.get_by_role("button", name="Delete…").focus()
    await page.keyboard.press("Enter")
    await expect(screen.dialog).to_be_visible()
    await page.keyboard.press("Escape")
    await expect(page.locator("dialog")).to_have_count(0)
    await expect(screen.main.get_by_role("button", name="Delete…")).to_be_focused()


async def test_the_theme_is_switched_and_kept(screen: Screen) -> None:
    await screen.open()
    root = screen.page.locator("html")
    await expect(root).to_have_attribute("data-theme", "light")
    await screen.page.get_by_role("button", name="Use the dark theme").click()
    await expect(root).to_have_attribute("data-theme", "dark")
    await screen.page.reload()
    await expect(root).to_have_attribute("data-theme", "dark")
    await screen.page.get_by_role("button", name="Use the light theme").click()
    await expect(root).to_have_attribute("data-theme", "light")
