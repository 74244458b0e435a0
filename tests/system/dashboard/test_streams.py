"""Streams and messages in the dashboard, by clicks in a real browser."""

import json
import re

from playwright.async_api import expect

from tests.kits.dashboard import Screen, Site


async def test_a_stream_is_created_published_to_and_browsed(screen: Screen, site: Site) -> None:
    await screen.open("streams")
    await screen.click("New stream")
    await screen.type("Name", site.stream, within=screen.dialog)
    await screen.type("Subjects", f"{site.subject}.>", within=screen.dialog)
    await screen.dialog.get_by_label("Retention").select_option("workqueue")
    await screen.confirm("Create")
    await expect(screen.main.locator("h1")).to_have_text(site.stream)
    await screen.stat("Messages", "0")

    await screen.open("publish")
    await screen.type("Subject", f"{site.subject}.new")
    await screen.type("Body", '{"order": 12345678901234567890}')
    await screen.click("+ Add a header")
    await screen.type("Header name", "Trace")
    await screen.type("Header value", "t-1")
    await screen.click("Publish")
    await screen.shows(f"{site.stream} #1")
    await screen.type("Subject", f"{site.subject[:-1]}.nobody")
    screen.expect_errors("404")
    await screen.click("Publish")
    await screen.shows("Nobody takes it")

    # A work queue is browsed without taking anything from it.
    await screen.open("streams", site.stream)
    await screen.stat("Messages", "1")
    await screen.click("Messages")
    await screen.click("1")
    await expect(screen.dialog).to_contain_text("12345678901234567890")
    await expect(screen.dialog).to_contain_text("Trace")
    await screen.dialog.get_by_role("button", name="Close").click()
    assert await site.messages() == 1
    assert (await site.call("GET", f"/v2/streams/{site.stream}"))["state"]["consumer_count"] == 0


async def test_messages_are_found_by_place_subject_and_text(screen: Screen, site: Site) -> None:
    await site.add_stream()
    for number in range(120):
        await site.publish(f"body {number}", token="even" if number % 2 == 0 else "odd")
    await screen.open("streams", site.stream, "messages")
    rows = screen.main.locator("tbody tr")
    await expect(rows).to_have_count(50)
    await expect(rows.first).to_contain_text("body 119")
    await screen.click("Older")
    await expect(rows.first).to_contain_text("body 20")
    assert "seq=21" in screen.page.url
    await screen.main.get_by_label("From").select_option("seq")
    await screen.type("Sequence", "7")
    await screen.click("Show")
    await expect(rows.first).to_contain_text("body 6")
    await screen.main.get_by_label("From").select_option("first")
    await screen.type("Subject", f"{site.subject}.odd")
    await screen.click("Show")
    await expect(rows.first).to_contain_text("body 1")
    await expect(rows.nth(1)).to_contain_text("body 3")
    await screen.type("Subject", "")
    await screen.type("Search", "body 77")
    await screen.click("Show")
    await expect(rows).to_have_count(1)
    await expect(rows.first).to_contain_text("body 77")
    # The address leads there again.
    await screen.page.reload()
    await expect(rows).to_have_count(1)
    await screen.main.get_by_label("From").select_option("time")
    await screen.type("Search", "")
    await screen.type("Time", "2001-01-01T00:00:00")
    await screen.click("Show")
    await expect(rows.first).to_contain_text("body 0")


async def test_a_message_is_published_again_deleted_and_erased(screen: Screen, site: Site) -> None:
    await site.add_stream()
    await site.publish("first", "second", headers={"Millstream-Header-Colour": "red"})
    await screen.open("streams", site.stream, "messages", open="1")
    await screen.click("Publish again", within=screen.dialog)
    await expect(screen.main.get_by_label("Body", exact=True)).to_have_value("first")
    await screen.type("Body", "first, edited")
    await screen.click("Publish")
    await screen.shows(f"{site.stream} #3")
    message = await site.call("GET", f"/v2/streams/{site.stream}/messages/3")
    assert (message["data"], message["headers"]) == ("first, edited", {"Colour": "red"})
    for seq, action in ((1, "Delete"), (2, "Erase")):
        await screen.open("streams", site.stream, "messages", open=str(seq))
        await screen.click(action, within=screen.dialog)
        await screen.confirm(f"{action} it")
        await expect(screen.main.locator("tbody tr")).to_have_count(2 - (seq - 1))
    assert await site.messages() == 1


async def test_a_configuration_is_compared_checked_and_applied(screen: Screen, site: Site) -> None:
    await site.add_stream(max_msgs=10)
    await screen.open("streams", site.stream, "config")
    await screen.click("Edit")
    editor = screen.main.locator("textarea")
    config = json.loads(await editor.input_value())
    await editor.fill("{")
    await screen.click("Review changes")
    await screen.shows("This is not JSON")
    await editor.fill(json.dumps(config | {"max_msgs": 20, "storage": "memory"}))
    await screen.click("Review changes")
    await expect(screen.dialog.locator(".diff tbody tr")).to_have_count(2)
    screen.expect_errors("400", "409", "422", "500")
    await screen.dialog.get_by_role("button", name="Apply").click()
    await expect(screen.dialog.locator(".complaint")).to_contain_text("storage")  # the server's own words
    await screen.dialog.get_by_role("button", name="Cancel").click()
    await editor.fill(json.dumps(config | {"max_msgs": 20}))
    await screen.click("Review changes")
    await screen.confirm("Apply")
    await expect(screen.main.locator("pre")).to_contain_text('"max_msgs": 20')
    now = await site.call("GET", f"/v2/streams/{site.stream}/config")
    assert (now["max_msgs"], now["storage"]) == (20, "file")


async def test_a_stream_is_purged_sealed_and_deleted_with_its_name_typed(screen: Screen, site: Site) -> None:
    await site.add_stream()
    await site.publish("a", "b", token="keep")
    await site.publish("c", token="go")
    await screen.open("streams", site.stream)
    await screen.stat("Messages", "3")
    await screen.click("Purge")
    await screen.type("Subject", f"{site.subject}.go", within=screen.dialog)
    await expect(screen.dialog.get_by_role("button", name="Purge")).to_be_disabled()
    await screen.dialog.get_by_label("These messages are gone for good").check()
    await screen.confirm("Purge")
    await screen.stat("Messages", "2")
    await screen.click("Seal")
    await screen.confirm("Seal it for good", typed=site.stream)
    await expect(screen.main.locator(".heading .tag", has_text="sealed")).to_be_visible()
    await screen.click("Delete")
    await screen.confirm("Delete the stream", typed=site.stream)
    await expect(screen.main.locator("h1")).to_have_text("Streams")
    assert (await site.http.get(f"/v2/streams/{site.stream}")).status_code == 404


async def test_subjects_are_a_tree_with_counts(screen: Screen, site: Site) -> None:
    await site.add_stream()
    for token in ("eu.new", "eu.new", "eu.paid", "us.new"):
        await site.publish("x", token=token)
    await screen.open("streams", site.stream, "subjects")
    tree = screen.main.locator(".tree")
    await expect(tree.locator(".leaf", has_text=re.compile("^eu"))).to_contain_text("3")
    await tree.get_by_role("button", name="Open eu").click()
    await expect(tree.locator(".leaf", has_text=re.compile("^new"))).to_contain_text("2")
    await tree.get_by_label(f"Messages of {site.subject}.eu.new").click()
    await expect(screen.main.locator("tbody tr")).to_have_count(2)


async def test_the_live_tail_shows_filters_and_pauses(screen: Screen, site: Site) -> None:
    for retention in ("limits", "workqueue"):
        await site.add_stream(retention=retention)
        await screen.open("streams", site.stream, "tail")
        lines = screen.main.locator(".tail li")
        await _arrives(screen, site, "one")
        await screen.click("Pause")
        await site.publish("two")
        await screen.shows(re.compile("[1-9][0-9]* messages? waiting"))  # perhaps a late `one`, too
        await expect(lines.filter(has_text="two")).to_have_count(0)
        await screen.click("Resume")
        await expect(lines.filter(has_text="two")).to_have_count(1)
        await screen.type("Only with", "needle")
        await site.publish("hay", "a needle in it")
        await expect(lines.filter(has_text="needle")).to_have_count(1)
        await expect(lines.filter(has_text="hay")).to_have_count(0)
        await screen.open("streams")
        await site.call("DELETE", f"/v2/streams/{site.stream}")


async def _arrives(screen: Screen, site: Site, text: str) -> None:
    """Publish until a message is seen: the page may begin to look a moment later."""
    lines = screen.main.locator(".tail li")
    for _ in range(100):
        await site.publish(text)
        try:
            await expect(lines.first).to_contain_text(text, timeout=1000)
        except AssertionError:
            continue
        return
    raise AssertionError("nothing arrives")
