"""axe finds nothing to complain about: every view, in both themes, and on a narrow screen."""

from typing import Any

import pytest
from axe_playwright_python.async_playwright import Axe
from playwright.async_api import Browser, expect

from tests.kits.dashboard import Screen, Site, screen_of

LOOKS: list[Any] = [
    pytest.param("light", 1280, id="light"),
    pytest.param("dark", 1280, id="dark"),
    pytest.param("dark", 400, id="narrow"),
]


async def prepare(site: Site) -> list[tuple[str, ...]]:
    """Make something to look at, and return the views."""
    await site.add_stream(max_bytes=100_000, retention="workqueue")
    for number in range(3):
        headers = {"Millstream-Header-Colour": "red"}
        await site.publish(f'{{"order": {number}}}', token=f"t{number}", headers=headers)
    consumer = await site.add_consumer("billing", max_ack_pending=1)
    await site.call("POST", f"{consumer}/fetch", json={"batch": 1})
    await site.call("POST", "/v2/kv", json={"bucket": site.bucket, "history": 2})
    await site.call("PUT", f"/v2/kv/{site.bucket}/shop.colour", content="green")
    await site.call("POST", "/v2/objects", json={"bucket": site.bucket})
    await site.call("PUT", f"/v2/objects/{site.bucket}/lamp.txt", content=b"a lamp")
    stream = ("streams", site.stream)
    parts = ("messages", "tail", "subjects", "config", "consumers")
    return [
        (),
        ("streams",),
        stream,
        *((*stream, part) for part in parts),
        (*stream, "consumers", "billing"),
        ("letters",),
        ("kv",),
        ("kv", site.bucket),
        ("objects",),
        ("objects", site.bucket),
        ("publish",),
        ("sql",),
        ("connections",),
        ("pipelines",),
        ("login",),
    ]


@pytest.mark.parametrize(("theme", "width"), LOOKS)
async def test_no_view_has_a_violation(browser: Browser, site: Site, theme: Any, width: int) -> None:
    views = await prepare(site)
    context = await browser.new_context(
        viewport={"width": width, "height": 900}, color_scheme=theme, reduced_motion="reduce"
    )
    screen = await screen_of(context, site)
    found: list[str] = []
    for view in views:
        await screen.open(*view)
        await expect(screen.page.locator("[aria-busy]")).to_have_count(0)
        found += await _violations(screen, "/".join(view))
        overflow = await screen.page.evaluate("document.documentElement.scrollWidth - innerWidth")
        assert overflow <= 0, view
    await screen.open("streams", site.stream, "messages", open="1")
    await expect(screen.dialog).to_be_visible()
    found += await _violations(screen, "a message")
    await screen.dialog.get_by_role("button", name="Close").click()
    await screen.open("streams", site.stream)
    await screen.click("Delete")
    found += await _violations(screen, "a confirmation")
    await screen.page.close()
    await context.close()
    assert found == []
    screen.check()


async def _violations(screen: Screen, view: str) -> list[str]:
    results = await Axe().run(screen.page)
    return [
        f"{view}: {each['id']}: {each['help']}: {[node['html'][:200] for node in each['nodes']]}"
        for each in results.response["violations"]
    ]
