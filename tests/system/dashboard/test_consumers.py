"""Consumers in the dashboard: why one does not deliver, and what mends it."""

from playwright.async_api import expect

from tests.kits.dashboard import Screen, Site


async def test_a_stuck_consumer_is_explained_and_mended(screen: Screen, site: Site) -> None:
    await site.add_stream(retention="workqueue")
    await site.publish(*(f"{number}" for number in range(5)))
    consumer = await site.add_consumer("billing", max_ack_pending=2, ack_wait=3600 * 10**9)
    taken = (await site.call("POST", f"{consumer}/fetch", json={"batch": 2}))["messages"]
    assert len(taken) == 2
    await screen.open("streams", site.stream, "consumers")
    await expect(screen.main.locator("tbody tr")).to_contain_text("billing")
    await screen.click("billing")
    why = screen.main.locator(".why")
    await expect(why).to_contain_text("Why it does not deliver")
    await expect(why.locator("[data-kind=max_ack_pending]")).to_be_visible()
    await screen.stat("Unacked", "2")
    # What it advises: let more messages be unacknowledged.
    await screen.click("Edit")
    editor = screen.main.locator("textarea")
    await editor.fill((await editor.input_value()).replace('"max_ack_pending": 2', '"max_ack_pending": 100'))
    await screen.click("Review changes")
    await expect(screen.dialog.locator(".diff")).to_contain_text("max_ack_pending")
    await screen.confirm("Apply")
    await expect(why.locator("[data-kind=max_ack_pending]")).to_have_count(0)
    assert len((await site.call("POST", f"{consumer}/fetch", json={"batch": 3}))["messages"]) == 3
    await screen.stat("Unacked", "5")
    await screen.stat("To deliver", "0")


async def test_a_consumer_is_paused_resumed_reset_and_deleted(screen: Screen, site: Site) -> None:
    await site.add_stream()
    await site.publish("a", "b", "c")
    await screen.open("streams", site.stream, "consumers")
    await screen.click("New consumer")
    await screen.type("Name", "reader", within=screen.dialog)
    await screen.confirm("Create")
    await expect(screen.main.locator("h1")).to_have_text("reader")
    await screen.stat("To deliver", "3")
    await screen.click("Pause")
    await screen.confirm("Pause")
    await expect(screen.main.locator(".why [data-kind=paused]")).to_be_visible()
    await screen.click("Resume")
    await expect(screen.main.locator(".why [data-kind=paused]")).to_have_count(0)
    path = f"/v2/streams/{site.stream}/consumers/reader"
    taken = (await site.call("POST", f"{path}/fetch", json={"batch": 3}))["messages"]
    await site.call("POST", f"{path}/acks", json={"acks": [{"ack_id": each["ack_id"]} for each in taken]})
    await screen.stat("To deliver", "0")
    await screen.click("Reset")
    await screen.dialog.get_by_label("Where to").select_option("seq")
    await screen.type("Sequence", "2", within=screen.dialog)
    await screen.confirm("Reset")
    await screen.stat("To deliver", "2")
    await screen.click("Delete")
    await screen.confirm("Delete the consumer", typed="reader")
    await screen.shows("The stream has no consumers.")
