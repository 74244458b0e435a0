"""A page of real Chromium and a gateway to look at, for the tests of the dashboard."""

import json
import re
import shutil
from typing import Any
from urllib.parse import quote, urlencode

import httpx
from playwright.async_api import BrowserContext, ConsoleMessage, Locator, Page, Request, expect

from millstream.base.ids import nuid
from millstream.gateway.server import GatewayServer
from tests.kits.patience import PATIENCE_S

# Debian's package; nothing is fetched from elsewhere, and the browser calls nobody by itself.
CHROMIUM = next(
    (path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None
)
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
PATIENCE_MS = PATIENCE_S * 1000
_IS_SHOWN = """() => document.querySelector("main")?.dataset.at ===
    (location.hash.slice(1).split("?")[0] || "/")"""

expect.set_options(timeout=PATIENCE_MS)


class Site:
    """A gateway, a client of it, and names that no other test uses."""

    def __init__(self, server: GatewayServer, http: httpx.AsyncClient) -> None:
        self.server = server
        self.http = http
        host, port = server.addresses[0]
        self.origin = f"http://{host}:{port}"
        self.stream = f"S{nuid()}"
        self.subject = f"s{nuid()}"
        self.bucket = f"B{nuid()}"

    async def call(self, method: str, path: str, **options: Any) -> Any:
        """Call the gateway; the JSON of the answer, if it has some."""
        answer = await self.http.request(method, path, **options)
        assert answer.status_code < 300, (method, path, answer.status_code, answer.text)
        return answer.json() if answer.content and "json" in answer.headers["content-type"] else None

    async def add_stream(self, **config: Any) -> None:
        await self.call(
            "POST", "/v2/streams", json={"name": self.stream, "subjects": [f"{self.subject}.>"], **config}
        )

    async def add_consumer(self, name: str, **config: Any) -> str:
        path = f"/v2/streams/{self.stream}/consumers"
        await self.call("POST", path, json={"durable_name": name, "ack_policy": "explicit", **config})
        return f"{path}/{name}"

    async def publish(
        self, *bodies: str | bytes, token: str = "a", headers: dict[str, str] | None = None
    ) -> None:
        for body in bodies:
            await self.call("POST", f"/v2/subjects/{self.subject}.{token}", content=body, headers=headers)

    async def messages(self) -> int:
        return int((await self.call("GET", f"/v2/streams/{self.stream}"))["state"]["messages"])


class Screen:
    """One page of the browser; it remembers what went wrong in it, and whom it called."""

    def __init__(self, page: Page, site: Site) -> None:
        self.page = page
        self.site = site
        self.errors: list[str] = []
        self._expected: list[str] = []
        self.requests: list[str] = []
        page.on("console", self._on_console)
        page.on("pageerror", lambda error: self.errors.append(f"{error}"))
        page.on("request", self._on_request)
        page.set_default_timeout(PATIENCE_MS)

    def _on_console(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.errors.append(f"{message.text} ({message.location.get('url')})")

    def _on_request(self, request: Request) -> None:
        self.requests.append(request.url)

    def expect_errors(self, *patterns: str) -> None:
        """Let `check` pass over these: the browser reports each answer that is no success, also later."""
        self._expected += patterns

    def check(self) -> None:
        """Fail if there was an unexpected error in the console, or a request to another host."""
        unexpected = [
            error for error in self.errors if not any(re.search(each, error) for each in self._expected)
        ]
        assert unexpected == [], unexpected
        foreign = [
            url for url in self.requests if not url.startswith((self.site.origin, "data:", "blob:", "about:"))
        ]
        assert foreign == [], foreign

    async def open(self, *segments: str, **query: str) -> None:
        """Go to a view."""
        path = "/".join(quote(segment, safe="") for segment in segments)
        address = f"{self.site.origin}/ui/#/{path}" + (f"?{urlencode(query)}" if query else "")
        if self.page.url.partition("#")[0] == f"{self.site.origin}/ui/":
            await self.page.evaluate("address => { location.href = address; }", address)
        else:
            await self.page.goto(address)
        await self.page.wait_for_function(_IS_SHOWN)
        await expect(self.main.locator("h1")).to_be_visible()

    @property
    def main(self) -> Locator:
        return self.page.locator("main")

    @property
    def dialog(self) -> Locator:
        """The dialog in front."""
        return self.page.locator("dialog[open]").last

    async def click(self, name: str, *, within: Locator | None = None, exact: bool = True) -> None:
        """Press the button or link of that name."""
        place = within or self.main
        wanted = re.compile(f"^{re.escape(name)}(…)?$") if exact else name
        await (
            place.get_by_role("button", name=wanted).or_(place.get_by_role("link", name=wanted)).first.click()
        )

    async def type(self, label: str, text: str, *, within: Locator | None = None) -> None:
        await (within or self.main).get_by_label(label, exact=True).first.fill(text)

    async def confirm(self, action: str, typed: str | None = None) -> None:
        """Type what the dialog wants, press its button, and wait until it is gone."""
        dialog = self.dialog
        if typed is not None:
            await expect(dialog.get_by_role("button", name=action)).to_be_disabled()
            await dialog.get_by_label("To confirm, type its name").fill(typed)
        await dialog.get_by_role("button", name=action, exact=True).click()
        await expect(dialog.get_by_role("button", name=action, exact=True)).to_have_count(0)

    async def shows(self, text: str | re.Pattern[str]) -> None:
        await expect(self.page.locator("body")).to_contain_text(text)

    async def stat(self, name: str, value: str) -> None:
        """Wait until a number on the page has this value."""
        found = self.main.locator(
            ".stat", has=self.page.locator("dt", has_text=re.compile(f"^{re.escape(name)}$"))
        )
        await expect(found.locator(".value").first).to_have_text(value)


async def screen_of(context: BrowserContext, site: Site) -> Screen:
    return Screen(await context.new_page(), site)


def as_json(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))
