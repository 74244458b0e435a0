"""The form that publishes and asks, and commands that are copied from the page and pasted into a shell."""

import asyncio
import json
import shlex
import subprocess
import sys
from typing import Any

from playwright.async_api import expect

from millstream.base.ids import nuid
from tests.kits.dashboard import Screen, Site
from tests.kits.patience import PATIENCE_S

NASTY = 'it\'s "quoted" $(touch pwned) `x` \\ \n second line ü 日本'


async def _copied(screen: Screen, label: str, *, in_dialog: bool = False) -> str:
    """Press a button that copies, and return what it copied."""
    await screen.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    await screen.click(label, within=screen.dialog if in_dialog else None)
    await screen.shows(f"{label} copied")
    text: str = await screen.page.evaluate("navigator.clipboard.readText()")
    return text


async def test_a_message_has_headers_an_id_and_expectations(screen: Screen, site: Site) -> None:
    await site.add_stream()
    await screen.open("publish")
    await screen.click("Publish")
    await screen.shows("A message needs a subject.")
    await screen.click("Copy as curl")  # says the same, and nothing else happens
    await screen.type("Subject", f"{site.subject}.a")
    await screen.main.get_by_label("Body", exact=True).fill(NASTY)
    await screen.click("+ Add a header")
    await screen.main.get_by_label("Header name").fill("Colour")
    await screen.main.get_by_label("Header value").fill("red")
    await screen.main.get_by_text("Message id, expectations, time-out").click()
    await screen.type("Message id", "once")
    await screen.click("Publish")
    await screen.shows(f"{site.stream} #1")
    await screen.click("Publish")
    await screen.shows("a message with this id was stored before")
    await screen.type("Message id", "")
    screen.expect_errors("412")
    await screen.type("Only behind sequence", "7")
    await screen.click("Publish")
    await screen.shows("An expectation does not hold")
    await screen.type("Only behind sequence", "1")
    await screen.click("Publish")
    await screen.shows(f"{site.stream} #2")
    found = await site.call("GET", f"/v2/streams/{site.stream}/messages")
    assert [message["data"] for message in found["messages"]] == [NASTY, NASTY]
    assert found["messages"][0]["headers"] == {"Colour": "red", "Nats-Msg-Id": "once"}


async def test_a_request_is_answered_and_one_that_nobody_hears_is_told(screen: Screen, site: Site) -> None:
    link = site.server.core.links.own
    where = f"help.{nuid()}"

    def answer(messages: list[Any]) -> None:
        for message in messages:
            link.publish(message.reply, b"you said " + message.payload)

    link.subscribe(where, deliver=answer)
    await link.flush()
    await screen.open("publish", subject=where)
    await screen.main.get_by_label("Body", exact=True).fill("hello")
    await screen.click("Request an answer")
    await screen.shows("you said hello")
    screen.expect_errors("404", "503")
    await screen.type("Subject", f"{where}.nobody")
    await screen.click("Request an answer")
    await screen.shows("Nobody takes it")


async def test_templates_are_kept_in_the_browser(screen: Screen, site: Site) -> None:
    name = f"T{nuid()}"
    await screen.open("publish")
    await screen.type("Subject", "a.b")
    await screen.main.get_by_label("Body", exact=True).fill(NASTY)
    await screen.click("Keep as a template")
    await screen.type("Name", name, within=screen.dialog)
    await screen.confirm("Keep")
    await screen.page.reload()
    await screen.main.get_by_label("Template").select_option(name)
    await expect(screen.main.get_by_label("Subject", exact=True)).to_have_value("a.b")
    await expect(screen.main.get_by_label("Body", exact=True)).to_have_value(NASTY)
    await screen.click("Forget")
    await expect(screen.main.get_by_label("Template").locator("option")).to_have_count(1)


async def test_copied_commands_do_in_a_shell_what_the_page_would_do(
    screen: Screen, site: Site, tmp_path: Any
) -> None:
    await site.add_stream()
    await screen.open("publish", subject=f"{site.subject}.a")
    await screen.main.get_by_label("Body", exact=True).fill(NASTY)
    curl = await _copied(screen, "Copy as curl")
    done = await _run(["bash", "-c", curl], tmp_path)
    assert json.loads(done) == {"stream": site.stream, "seq": 1}
    tool = shlex.split(await _copied(screen, "Copy as nats"))
    assert tool == ["nats", "pub", f"{site.subject}.a", NASTY]
    assert not (tmp_path / "pwned").exists()
    await screen.open("streams", site.stream, "messages", open="1")
    shown = await _run(["bash", "-c", await _copied(screen, "curl", in_dialog=True)], tmp_path)
    assert json.loads(shown)["data"] == NASTY
    assert shlex.split(await _copied(screen, "nats", in_dialog=True)) == [
        "nats", "stream", "get", site.stream, "1"
    ]  # fmt: skip
    program = await _copied(screen, "Python", in_dialog=True)
    url = site.server.core.links.own.where
    program = program.replace("nats.connect()", f'nats.connect("nats://{url}")')
    assert repr(NASTY.encode()) in await _run([sys.executable, "-c", program], tmp_path)
    assert json.loads(await _copied(screen, "JSON", in_dialog=True))["data"] == NASTY


async def _run(command: list[str], folder: Any) -> str:
    """Run a program beside the gateway, which is in this event loop."""
    done = await asyncio.to_thread(
        subprocess.run, command, cwd=folder, capture_output=True, text=True, timeout=PATIENCE_S, check=True
    )
    return str(done.stdout).removesuffix("\n")
