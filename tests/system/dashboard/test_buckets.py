"""Keys and objects in the dashboard."""

import asyncio
from pathlib import Path

from playwright.async_api import expect

from tests.kits.dashboard import Screen, Site


async def test_a_key_is_edited_against_a_concurrent_edit(screen: Screen, site: Site) -> None:
    await screen.open("kv")
    await screen.click("New bucket")
    await screen.type("Name", site.bucket, within=screen.dialog)
    await screen.confirm("Create")
    await expect(screen.main.locator("h1")).to_have_text(site.bucket)
    await screen.click("New key")
    await screen.type("Key", "shop.colour", within=screen.dialog)
    await screen.type("Value", "green", within=screen.dialog)
    await screen.confirm("Save")
    await expect(screen.main.locator("pre.payload")).to_have_text("green")
    await expect(screen.main.locator(".tree")).to_contain_text("colour")

    await screen.click("Edit")
    await screen.type("Value", "blue", within=screen.dialog)
    path = f"/v2/kv/{site.bucket}/shop.colour"
    await site.call("PUT", path, content="red")  # somebody else is faster
    screen.expect_errors("409", "412")
    await screen.dialog.get_by_role("button", name="Save").click()
    await expect(screen.dialog.locator(".complaint")).to_contain_text("Somebody else changed this key")
    await expect(screen.dialog.locator("[data-conflict]")).to_contain_text("red")
    assert (await site.http.get(path, headers={"Accept": "application/octet-stream"})).text == "red"
    await screen.confirm("Save")  # having seen both
    await expect(screen.main.locator("pre.payload").first).to_have_text("blue")
    rows = screen.main.locator("tbody tr")
    await expect(rows).to_have_count(3)
    await site.call("PUT", path, content="white")  # the page watches the key
    await expect(screen.main.locator("pre.payload").first).to_have_text("white")
    await screen.click("Delete")
    await screen.confirm("Delete it")
    await screen.shows("The key has no value.")
    assert (await site.http.get(path)).status_code == 404


async def test_keys_are_a_tree_and_a_list(screen: Screen, site: Site) -> None:
    await site.call("POST", "/v2/kv", json={"bucket": site.bucket})
    for key in ("a.b.c", "a.b.d", "a.e", "f/g=h"):
        await site.call("PUT", f"/v2/kv/{site.bucket}/{key.replace('/', '%2F')}", content=f"value of {key}")
    await screen.open("kv", site.bucket)
    tree = screen.main.locator(".tree")
    await tree.get_by_role("button", name="Open a").click()
    await tree.get_by_role("button", name="Open b").click()
    await tree.get_by_role("button", name="c", exact=True).click()
    await expect(screen.main.locator("pre.payload")).to_have_text("value of a.b.c")
    await tree.get_by_role("button", name="f/g=h", exact=True).click()
    await expect(screen.main.locator("pre.payload")).to_have_text("value of f/g=h")
    await screen.main.get_by_label("Show keys").select_option("list")
    await expect(tree.locator("li")).to_have_count(4)
    await screen.type("Keys that begin with", "a.b.")
    await expect(tree.locator("li")).to_have_count(2)
    await screen.click("Delete bucket")
    await screen.confirm("Delete the bucket", typed=site.bucket)
    await expect(screen.main.locator("h1")).to_have_text("Key-value")


async def test_objects_are_uploaded_and_downloaded(screen: Screen, site: Site, tmp_path: Path) -> None:
    body = bytes(range(256)) * 2000
    file = tmp_path / "lamp & <b>.bin"
    file.write_bytes(body)
    await screen.open("objects")
    await screen.click("New store")
    await screen.type("Name", site.bucket, within=screen.dialog)
    await screen.confirm("Create")
    await screen.shows("The store is empty.")
    await screen.main.get_by_label("Files").set_input_files(file)
    await screen.click("Upload")
    row = screen.main.locator("tbody tr")
    await expect(row).to_contain_text(file.name)
    await expect(row).to_contain_text("500 KiB")
    async with screen.page.expect_download() as download:
        await row.get_by_role("button", name=f"Download {file.name}").click()
    received = await (await download.value).path()
    assert await asyncio.to_thread(received.read_bytes) == body
    await row.get_by_role("button", name=f"Delete {file.name}").click()
    await screen.confirm("Delete it")
    await screen.shows("The store is empty.")
