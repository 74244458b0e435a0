"""Dead letters in the dashboard: why there is one, and sending it again."""

from playwright.async_api import expect

from tests.kits.dashboard import Screen, Site


async def _add_letter(site: Site, letters: str, body: str) -> None:
    """Store a letter as the pipeline job `dead-letters` does."""
    headers = {
        "Millstream-Orig-Stream": site.stream,
        "Millstream-Orig-Seq": "1",
        "Millstream-Orig-Subject": f"{site.subject}.orders",
        "Millstream-Dlq-Consumer": "billing",
        "Millstream-Dlq-Reason": "max_deliveries",
        "Millstream-Dlq-Deliveries": "5",
    }
    named = {f"Millstream-Header-{name}": value for name, value in headers.items()}
    await site.call("POST", f"/v2/subjects/{letters}.{site.stream}.billing", content=body, headers=named)


async def test_letters_are_read_edited_and_sent_again(screen: Screen, site: Site) -> None:
    await site.add_stream()
    letters = f"dlq{site.stream}"
    await site.call("POST", "/v2/streams", json={"name": f"L{site.stream}", "subjects": [f"{letters}.>"]})
    for body in ("one", "two", "three"):
        await _add_letter(site, letters, body)
    await screen.open("letters")
    await screen.click(f"L{site.stream}")
    rows = screen.main.locator("tbody tr")
    await expect(rows).to_have_count(3)
    await expect(rows.first).to_contain_text(f"{site.subject}.orders")
    await screen.click("#1")
    await expect(screen.dialog).to_contain_text("max_deliveries")
    await expect(screen.dialog).to_contain_text("one")
    await screen.click("Edit and redrive", within=screen.dialog)
    await screen.type("Body", "one, mended", within=screen.dialog)
    await screen.confirm("Redrive")
    await screen.shows("1 letter sent to the original subject")
    assert (await site.call("GET", f"/v2/streams/{site.stream}/last"))["data"] == "one, mended"
    await screen.main.get_by_label("Choose letter 2").check()
    await screen.click("Redrive 1 chosen")
    await expect(screen.page.locator(".toast")).to_have_count(2)
    assert (await site.call("GET", f"/v2/streams/{site.stream}/last"))["data"] == "two"
    await screen.click("Redrive all")
    await screen.confirm("Redrive all")
    assert (await site.call("GET", f"/v2/streams/{site.stream}/last"))["data"] == "three"
