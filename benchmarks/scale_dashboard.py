"""The time that the dashboard needs to show a large account.

``python -m benchmarks.scale_dashboard`` fills a server with 5,000 streams, 10,000 consumers and a bucket of a
million keys, asks the gateway for what each view asks for, and opens the views in chromium, if there is one.
Each figure is the median of five; the browser's is from the change of the address to the row that is last.
"""

import argparse
import asyncio
import statistics
import time
from collections.abc import Awaitable, Callable
from typing import Any

import httpx

from millstream.gateway.server import GatewayServer
from millstream.gateway.settings import Limits, Listener, Nats, Settings
from tests.kits.dashboard import CHROMIUM, FLAGS
from tests.kits.gateway.v2 import is_up
from tests.kits.reference import ServerKind, ServerProcess

_TIMES = 5
_AT_ONCE = 32
_KEYS_AT_ONCE = 50_000


async def _fill(http: httpx.AsyncClient, streams: int, consumers: int, keys: int) -> None:
    gate = asyncio.Semaphore(_AT_ONCE)

    async def post(path: str, body: Any) -> None:
        async with gate:
            answer = await http.post(path, json=body)
            assert answer.status_code == 201, answer.text

    await asyncio.gather(
        *(
            post("/v2/streams", {"name": f"S{n:05}", "subjects": [f"s.{n}.>"], "storage": "memory"})
            for n in range(streams)
        )
    )
    many = {"name": "MANY", "subjects": ["many.>"], "storage": "memory", "max_consumers": consumers}
    await post("/v2/streams", many)
    lazy = {"ack_policy": "explicit", "mem_storage": True}
    path = "/v2/streams/MANY/consumers"
    await asyncio.gather(*(post(path, {"durable_name": f"c{n:05}", **lazy}) for n in range(consumers)))
    await post("/v2/kv", {"bucket": "big", "storage": "memory"})
    for start in range(0, keys, _KEYS_AT_ONCE):
        numbers = range(start, min(start + _KEYS_AT_ONCE, keys))
        lines = "".join(f'{{"subject":"$KV.big.g{n % 1000}.k{n}","data":"v"}}\n' for n in numbers)
        headers = {"Content-Type": "application/x-ndjson"}
        await http.post("/v2/messages?results=failures", content=lines, headers=headers)


async def _median(work: Callable[[], Awaitable[Any]]) -> float:
    took = []
    for _ in range(_TIMES):
        began = time.perf_counter()
        await work()
        took.append(time.perf_counter() - began)
    return statistics.median(took)


async def _calls(http: httpx.AsyncClient) -> None:
    for name, path in {
        "overview": "/v2/overview",
        "streams, first page": "/v2/streams?summary=true&limit=50",
        "streams, searched": "/v2/streams?summary=true&search=S0123&limit=50",
        "streams, by messages, last page": "/v2/streams?summary=true&sort=messages&offset=4950&limit=50",
        "consumers, first page": "/v2/streams/MANY/consumers?summary=true&limit=50",
        "consumers, by pending": "/v2/streams/MANY/consumers?summary=true&sort=pending&order=desc&limit=50",
        "keys, first level": "/v2/streams/KV_big/subjects?prefix=$KV.big&depth=1&limit=200",
        "keys, second level": "/v2/streams/KV_big/subjects?prefix=$KV.big.g7&depth=1&limit=200",
        "keys, by prefix": "/v2/kv/big/keys?prefix=g7.k1&limit=200",
        "one key with history": "/v2/kv/big/g7.k7?history=true",
    }.items():

        async def ask(path: str = path) -> None:
            answer = await http.get(path)
            assert answer.status_code == 200, answer.text

        print(f"  {name:34} {await _median(ask) * 1000:8.0f} ms", flush=True)


async def _browser(origin: str) -> None:
    if CHROMIUM is None:
        print("  no chromium: apt-get install chromium")
        return
    from playwright.async_api import async_playwright

    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=CHROMIUM, args=list(FLAGS))
        page = await browser.new_page()
        await page.goto(f"{origin}/ui/#/publish")
        await page.wait_for_selector("main h1")
        for view, sign in {
            "": ".stat .value",
            "streams": "tbody tr:nth-child(50)",
            "streams/MANY/consumers": "tbody tr:nth-child(50)",
            "kv/big": ".tree li:nth-child(50)",
            "kv/big?as=list": ".tree li:nth-child(50)",
        }.items():

            async def look(view: str = view, sign: str = sign) -> None:
                await page.evaluate("view => { location.hash = '#/' + view; }", view)
                await page.wait_for_selector(f"main {sign}")

            took = []
            for _ in range(_TIMES):
                await page.evaluate("location.hash = '#/publish'")
                await page.wait_for_selector("main textarea")
                began = time.perf_counter()
                await look()
                took.append(time.perf_counter() - began)
            print(f"  page #/{view:30} {statistics.median(took) * 1000:8.0f} ms", flush=True)
        await browser.close()


async def _run(options: argparse.Namespace) -> None:
    server = ServerProcess(ServerKind(options.server), jetstream=True).start()
    settings = Settings(
        nats=Nats.at(server.client_url, request_timeout_s=60.0),
        listeners=(Listener(host="127.0.0.1", port=0),),
        limits=Limits(max_body=64 * 1024 * 1024),
    )
    try:
        async with GatewayServer(settings) as gateway:
            await is_up(gateway)
            origin = f"http://127.0.0.1:{gateway.addresses[0][1]}"
            async with httpx.AsyncClient(base_url=origin, timeout=600) as http:
                began = time.perf_counter()
                await _fill(http, options.streams, options.consumers, options.keys)
                print(f"{options.server}: filled in {time.perf_counter() - began:.0f} s", flush=True)
                await _calls(http)
                await _browser(origin)
    finally:
        server.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--streams", type=int, default=5_000)
    parser.add_argument("--consumers", type=int, default=10_000)
    parser.add_argument("--keys", type=int, default=1_000_000)
    parser.add_argument("--server", default="millstream")
    asyncio.run(_run(parser.parse_args()))
