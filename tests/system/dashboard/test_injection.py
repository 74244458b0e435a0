"""Names, headers, bodies and keys that would be markup, scripts or escapes elsewhere are shown as text."""

import json
from urllib.parse import quote

from playwright.async_api import expect

from tests.kits.dashboard import Screen, Site

MARKUP = "<img src=x onerror=window.hit=1><script>window.hit=1</script>\"'&amp;"
SUBJECT = "<img/src=x/onerror=window.hit=1>"
ESCAPES = "\x1b]0;title\x07\x1b[2Jred\r\nSet-Cookie: a=b\u202e\u2028"


async def _is_harmless(screen: Screen) -> None:
    assert await screen.page.evaluate("window.hit === undefined")
    made = "main script, main img, main iframe, dialog script, dialog img"
    assert await screen.page.locator(made).count() == 0


async def test_subjects_headers_and_bodies_are_text(screen: Screen, site: Site) -> None:
    await site.add_stream(description=MARKUP, metadata={MARKUP: MARKUP})
    envelope = "application/vnd.millstream.message+json"
    headers = {"X-Markup": MARKUP, "X-Href": "javascript:window.hit=1"}
    for body in (MARKUP, ESCAPES, json.dumps({MARKUP: MARKUP}), f"javascript:{MARKUP}"):
        await site.call(
            "POST",
            f"/v2/subjects/{site.subject}.{SUBJECT.replace('/', '%2F')}",
            content=json.dumps({"data": body, "headers": headers}),
            headers={"Content-Type": envelope},
        )
    await site.add_consumer("c", description=MARKUP)
    await screen.open("streams", site.stream)
    await screen.shows(MARKUP)
    for part in ("messages", "subjects", "config", "consumers"):
        await screen.open("streams", site.stream, part)
        await _is_harmless(screen)
    await screen.open("streams", site.stream, "subjects")
    await screen.shows(SUBJECT.partition(".")[0])
    for seq in ("1", "2", "3", "4"):
        await screen.open("streams", site.stream, "messages", open=seq)
        await expect(screen.dialog).to_contain_text(SUBJECT)
        await expect(screen.dialog).to_contain_text(MARKUP)
        for form in ("json", "text", "hex", "base64"):
            await screen.dialog.get_by_label("Show the body as").select_option(form)
        await _is_harmless(screen)
        await screen.dialog.get_by_role("button", name="Close").click()
    await screen.open("streams", site.stream, "consumers", "c")
    await screen.shows(MARKUP)
    await _is_harmless(screen)


async def test_what_arrives_live_is_text(screen: Screen, site: Site) -> None:
    await site.add_stream()
    await screen.open("streams", site.stream, "tail")
    lines = screen.main.locator(".tail li")
    for _ in range(50):
        await site.publish(MARKUP, ESCAPES)
        try:
            await expect(lines.filter(has_text="onerror").first).to_be_visible(timeout=1000)
            break
        except AssertionError:
            continue
    await _is_harmless(screen)


async def test_addresses_from_strangers_are_text(screen: Screen, site: Site) -> None:
    """A link that somebody sends leads to a view, and to nothing else."""
    screen.expect_errors("400", "404", "422")
    for address in (
        f"#/streams/{MARKUP}",
        "#/streams/..%2f..%2fv2%2faccount",
        "#javascript:window.hit=1",
        f"#/kv/x?key={MARKUP}",
        "#/streams/%",
        f"#/streams?search={MARKUP}&sort={MARKUP}&offset=-1",
    ):
        await screen.page.goto(f"{site.origin}/ui/{address}")
        await expect(screen.main).not_to_be_empty()
        await _is_harmless(screen)


async def test_keys_and_object_names_are_text(screen: Screen, site: Site) -> None:
    await site.call("POST", "/v2/kv", json={"bucket": site.bucket, "history": 3})
    await site.call("PUT", f"/v2/kv/{site.bucket}/a.b", content=MARKUP)
    await screen.open("kv", site.bucket, key="a.b")
    await screen.shows(MARKUP)
    await _is_harmless(screen)
    await site.call("POST", "/v2/objects", json={"bucket": site.bucket, "description": MARKUP})
    name = f"{MARKUP}\n{ESCAPES}"
    await site.call("PUT", f"/v2/objects/{site.bucket}/{quote(name, safe='')}", content=b"x")
    await screen.open("objects", site.bucket)
    await screen.shows("onerror=window.hit=1")
    await _is_harmless(screen)
