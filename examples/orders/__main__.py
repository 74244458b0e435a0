"""`python -m examples.orders`: broker, gateway and pipeline of the order desk, with a live view.

What is stored stays in the folder `--data`; starting again goes on where it stopped.
"""

import argparse
import asyncio
import contextlib
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import nats
from nats.aio.client import Client
from rich.console import Console
from rich.live import Live

from examples.orders.figures import Watcher
from examples.orders.parts import Part, PartFailed
from examples.orders.shop import open_shop, sample_traffic
from examples.orders.view import line, picture

HERE = Path(__file__).resolve().parent


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m examples.orders", description=__doc__)
    parser.add_argument("--data", type=Path, default=Path("data"), help="where everything is kept (./data)")
    parser.add_argument("--port", type=int, default=4222, help="of the broker")
    parser.add_argument("--monitor-port", type=int, default=8222, help="of its monitoring")
    parser.add_argument("--gateway-port", type=int, default=3000, help="of the HTTP gateway")
    parser.add_argument("--orders-per-second", type=float, default=5, help="of the sample traffic; 0: none")
    parser.add_argument("--no-spark", action="store_true", help="without the pipeline")
    parser.add_argument("--seconds", type=float, help="stop by itself after this time")
    return parser.parse_args()


class OrderDesk:
    """All parts of the example, in the order in which they depend on each other."""

    def __init__(self, options: argparse.Namespace) -> None:
        self._options = options
        self._parts = contextlib.AsyncExitStack()
        self._data: Path = options.data.resolve()
        self.addresses = {
            "NATS": f"nats://127.0.0.1:{options.port}",
            "HTTP": f"http://127.0.0.1:{options.gateway_port}/v2/docs",
            "monitor": f"http://127.0.0.1:{options.monitor_port}",
            "archive": str(self._data / "archive"),
        }
        self.hints = [
            f"nats --server {self.addresses['NATS']} stream info ORDERS",
            f"curl -d hello http://127.0.0.1:{options.gateway_port}/v2/subjects/ORDERS.received",
            f"curl -N http://127.0.0.1:{options.gateway_port}/v2/streams/ORDERS/live",
            f'spark.read.format("jetstream").option("nats.servers", "{self.addresses["NATS"]}").load(…)',
        ]

    async def __aenter__(self) -> "OrderDesk":
        try:
            await self._open()
        except BaseException:
            await self._parts.aclose()
            raise
        return self

    async def _open(self) -> None:
        self._data.mkdir(parents=True, exist_ok=True)
        options = self._options
        self.running: list[Part] = []
        serve = ["-a", "127.0.0.1", "-p", str(options.port), "-m", str(options.monitor_port)]
        broker = await self._start("broker", ["serve", *serve, "-js", "-sd", "broker"])
        await broker.wait_for(f"{self.addresses['monitor']}/healthz")
        self.connection: Client = await nats.connect(self.addresses["NATS"], max_reconnect_attempts=-1)
        self._parts.push_async_callback(self.connection.close)
        await open_shop(self.connection.jetstream(timeout=60))
        self.watcher = Watcher(self.connection, self._data / "archive")
        await self.watcher.start()
        gateway = ["--server", self.addresses["NATS"], "--host", "127.0.0.1", "-p", str(options.gateway_port)]
        http = await self._start("gateway", ["gateway", *gateway])
        if not options.no_spark:
            pipeline = ["pipeline", "run", str(HERE / "pipeline.toml"), "--json"]
            await self._start(
                "pipeline", pipeline, self.watcher.pipeline_said, NATS_URL=self.addresses["NATS"]
            )
        # The addresses are shown when they answer; the pipeline says itself how far it is.
        await http.wait_for(f"http://127.0.0.1:{options.gateway_port}/v1/data/ready")

    async def _start(
        self,
        name: str,
        command: list[str],
        on_line: Callable[[str], None] | None = None,
        **environment: str,
    ) -> Part:
        part = Part(name, command, self._data, on_line)
        await part.start(**environment)
        self._parts.push_async_callback(part.stop)
        self.running.append(part)
        return part

    async def __aexit__(self, *unused: object) -> None:
        await self._parts.aclose()

    async def show(self, stop: asyncio.Event) -> None:
        """Keep the picture true until asked to stop."""
        console = Console()
        if not console.is_terminal:
            print("\n".join(f"{name}: {address}" for name, address in self.addresses.items()), flush=True)
            while not await _within(stop, 2):
                self._check()
                print(line(await self.watcher.look()), flush=True)
            return
        with Live(console=console, screen=True, auto_refresh=False) as live:
            while not await _within(stop, 0.5):
                self._check()
                live.update(picture(await self.watcher.look(), self.addresses, self.hints), refresh=True)

    def _check(self) -> None:
        for part in self.running:
            part.check()


async def _within(stop: asyncio.Event, seconds: float) -> bool:
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(stop.wait(), seconds)
    return stop.is_set()


async def main() -> int:
    options = arguments()
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    if options.seconds:
        loop.call_later(options.seconds, stop.set)
    try:
        async with OrderDesk(options) as desk, sample_traffic(desk.connection, options.orders_per_second):
            await desk.show(stop)
    except PartFailed as failed:
        print(failed, file=sys.stderr)
        return 1
    print(f"stopped; everything is kept in {options.data}")
    return 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
