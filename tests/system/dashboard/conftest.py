"""Chromium for all tests of the dashboard, and a gateway for each.

They run in one worker and in one event loop: starting a browser takes longer than most tests.
"""

import inspect
import os
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from typing import Any

import httpx
import pytest
import pytest_asyncio
from playwright.async_api import Browser, BrowserContext, async_playwright

from millstream.gateway.server import GatewayServer
from millstream.gateway.settings import Auth, Limits, Listener, Nats, Settings
from tests.kits.dashboard import CHROMIUM, FLAGS, Screen, Site, screen_of
from tests.kits.gateway.v2 import is_up
from tests.kits.patience import PATIENCE_S
from tests.kits.reference import ServerProcess

SiteFactory = Callable[..., Any]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep the tests of this folder together, in the loop that its browser lives in."""
    for item in items:
        if "tests/system/dashboard" in item.path.as_posix():
            item.add_marker(pytest.mark.xdist_group("dashboard"))
            if inspect.iscoroutinefunction(getattr(item, "obj", None)):
                item.add_marker(pytest.mark.asyncio(loop_scope="session"), append=False)


@pytest_asyncio.fixture(loop_scope="session", scope="session")
async def browser(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Browser]:
    if CHROMIUM is None:
        pytest.skip("there is no chromium: apt-get install chromium")
    folder = tmp_path_factory.mktemp("chromium")  # Chromium writes to the folder of configurations
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(
            executable_path=CHROMIUM, args=list(FLAGS), env=os.environ | {"XDG_CONFIG_HOME": str(folder)}
        )
        yield browser
        await browser.close()


@pytest_asyncio.fixture(loop_scope="session")
async def start_site() -> AsyncIterator[SiteFactory]:
    """Start a gateway in front of servers; keyword arguments are those of `Settings`."""
    async with AsyncExitStack() as stack:

        async def start(
            *urls: str, prefix: str = "/", nats: dict[str, Any] | None = None, **options: Any
        ) -> Site:
            settings = Settings(
                nats=Nats.at(*urls, reconnect_wait_s=0.1, **(nats or {})),
                listeners=(Listener(host="127.0.0.1", port=0, path_prefix=prefix),),
                limits=Limits(stop_timeout_s=1.0),
                auth=Auth(required=options.pop("auth_required", False)),
                **options,
            )
            server = await stack.enter_async_context(GatewayServer(settings))
            host, port = server.addresses[0]
            http = httpx.AsyncClient(base_url=f"http://{host}:{port}", timeout=PATIENCE_S)
            await stack.enter_async_context(http)
            await is_up(server)
            return Site(server, http)

        yield start


@pytest_asyncio.fixture(loop_scope="session")
async def site(start_site: SiteFactory, shared_server: Callable[..., ServerProcess]) -> Site:
    """Return a site in front of a server with JetStream that other tests use, too."""
    made: Site = await start_site(shared_server(jetstream=True).client_url)
    return made


@pytest_asyncio.fixture(loop_scope="session")
async def context(browser: Browser) -> AsyncIterator[BrowserContext]:
    context = await browser.new_context(viewport={"width": 1280, "height": 900}, color_scheme="light")
    yield context
    await context.close()


@pytest_asyncio.fixture(loop_scope="session")
async def screen(context: BrowserContext, site: Site) -> AsyncIterator[Screen]:
    """A page; the test fails if it complains in its console or calls another host."""
    screen = await screen_of(context, site)
    yield screen
    await screen.page.close()  # first: what runs in it must not complain about the end of the gateway
    screen.check()
