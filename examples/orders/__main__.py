"""`python -m examples.orders`: broker, gateway and pipeline of the order desk, with a live view.

What is stored stays in the folder `--data`; starting again goes on where it stopped.
"""

import argparse
import asyncio
import contextlib
import shlex
import signal
import socket
import sys
import time
from pathlib import Path
from typing import Final

import nats
import nats.errors
from nats.aio.client import Client
from rich.console import Console
from rich.live import Live

from examples.orders.figures import Watcher
from examples.orders.parts import Part, PartFailed
from examples.orders.shop import Traffic, open_shop, sample_traffic
from examples.orders.view import line, picture

HERE: Final = Path(__file__).resolve().parent
_CONNECT_WITHIN_S: Final = 60


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m examples.orders", description=__doc__)
    parser.add_argument("--data", type=Path, default=Path("data"), help="where everything is kept (./data)")
    parser.add_argument("--port", type=int, default=4222, help="of the broker")
    parser.add_argument("--monitor-port", type=int, default=8222, help="of its monitoring")
    parser.add_argument("--gateway-port", type=int, default=3000, help="of the HTTP gateway")
    parser.add_argument("--orders-per-second", type=float, default=5, help="of the sample traffic; 0: none")
    parser.add_argument("--no-spark", action="store_true", help="without the pipeline")
    parser.add_argument("--before-spark", default="", help="a command to run before the pipeline is started")
    parser.add_argument("--seconds", type=float, help="stop by itself after this time")
    return parser.parse_args()


class OrderDesk:
    """All parts of the example, in the order in which they depend on each other."""

    def __init__(self, options: argparse.Namespace) -> None:
        self._options = options
        self._stack = contextlib.AsyncExitStack()
        self._data: Path = options.data.resolve()
        self._parts: list[Part] = []
        self._notes: list[str] = []  # troubles that stay as they are
        self._pipeline: Part | None = None
        self._began = time.monotonic()
        self._nats = f"nats://127.0.0.1:{options.port}"
        self._http = f"http://127.0.0.1:{options.gateway_port}"
        self._monitor = f"http://127.0.0.1:{options.monitor_port}"

    async def __aenter__(self) -> "OrderDesk":
        try:
            await self._open()
        except BaseException:
            await self.close()
            raise
        return self

    async def __aexit__(self, *unused: object) -> None:
        await self.close()

    async def close(self) -> None:
        await self._stack.aclose()

    async def _open(self) -> None:
        self._data.mkdir(parents=True, exist_ok=True)
        options = self._options
        await self._start_broker()
        self.connection = await self._connect()
        self._stack.push_async_callback(self.connection.close)
        await open_shop(self.connection.jetstream(timeout=60))
        self.watcher = Watcher(self.connection, self._data / "archive")
        await self.watcher.start()
        gateway = ["gateway", "--server", self._nats, "--host", "127.0.0.1", "-p", str(options.gateway_port)]
        http = self._start(Part("gateway", gateway, self._data))
        if not options.no_spark:
            self._pipeline = self._start(
                Part(
                    "pipeline",
                    ["pipeline", "run", str(HERE / "pipeline.toml"), "--json"],
                    self._data,
                    self.watcher.pipeline_said,
                    needs=shlex.split(options.before_spark),
                    environment={"NATS_URL": self._nats},
                )
            )
        # The addresses are shown when they answer; a gateway that cannot start is named in the view.
        with contextlib.suppress(PartFailed):
            await http.wait_for(f"{self._http}/v1/data/ready")

    async def _start_broker(self) -> None:
        options = self._options
        command = ["serve", "-a", "127.0.0.1", "-p", str(options.port), "-js", "-sd", "broker"]
        if _taken(options.port):
            raise PartFailed(
                f"port {options.port} is in use; choose another: make run RUN_FLAGS=--port={options.port + 1}"
            )
        if _taken(options.monitor_port):
            self._notes.append(f"no monitoring: port {options.monitor_port} is in use (--monitor-port)")
        else:
            command += ["-m", str(options.monitor_port)]
        self._broker = self._start(Part("broker", command, self._data))

    async def _connect(self) -> Client:
        """Return a connection to the broker as soon as it answers."""
        try:
            async with asyncio.timeout(_CONNECT_WITHIN_S):
                while _free(self._options.port):
                    if self._broker.trouble:
                        raise PartFailed(f"the broker cannot start: {self._broker.last_words()}")
                    await asyncio.sleep(0.02)
                return await nats.connect(self._nats, max_reconnect_attempts=-1, error_cb=_pass_over)
        except (TimeoutError, OSError, nats.errors.Error) as error:
            raise PartFailed(f"the broker does not answer at {self._nats}: {error or 'no answer'}") from None

    def _start(self, part: Part) -> Part:
        part.start()
        self._stack.push_async_callback(self._stop, part)
        self._parts.append(part)
        return part

    async def _stop(self, part: Part) -> None:
        if part.running:
            print(f"stopping the {part.name}", flush=True)
        await part.stop()

    async def show(self, stop: asyncio.Event, traffic: Traffic) -> None:
        """Keep the picture true until asked to stop."""
        console = Console()
        if console.is_terminal:
            with Live(console=console, screen=True, auto_refresh=False) as live:
                while not await _within(stop, 0.5):
                    figures = await self.watcher.look()
                    troubles = self._troubles(traffic, figures.trouble)
                    view = picture(figures, self._addresses(), self._hints(), self._spark(), troubles)
                    live.update(view, refresh=True)
            return
        print("\n".join([*self._addresses(), *self._hints()]), flush=True)
        told: set[str] = set()
        while not await _within(stop, 2):
            figures = await self.watcher.look()
            for trouble in self._troubles(traffic, figures.trouble):
                if trouble not in told:
                    print(trouble, flush=True)
            told = set(self._troubles(traffic, figures.trouble))
            print(line(figures, self._spark()), flush=True)

    def _addresses(self) -> list[str]:
        return [f"HTTP  {self._http}/v2/docs", f"NATS  {self._nats}   monitoring  {self._monitor}"]

    def _hints(self) -> list[str]:
        """Commands that work as they are in the project's folder."""
        return [
            f"""curl -d '{{"order":1,"item":"lamp"}}' {self._http}/v2/subjects/ORDERS.received""",
            f"curl -d hello {self._http}/v2/subjects/ORDERS.received",
            f"curl -N {self._http}/v2/streams/ORDERS/live",
            f"{_short(sys.executable)} -m examples.orders.table --server {self._nats}",
        ]

    def _troubles(self, traffic: Traffic, figures: str) -> list[str]:
        parts = [part.trouble for part in self._parts]
        return [each for each in (*parts, *self._notes, traffic.trouble, figures) if each]

    def _spark(self) -> str:
        """Say what the pipeline does while it has no jobs to show."""
        if self._pipeline is None:
            return "off (--no-spark)"
        if self._pipeline.trouble:
            return "not running"
        if self._pipeline.preparing:
            return f"Spark is being installed ({time.monotonic() - self._began:.0f} s) …"
        return "Spark is starting; this takes about half a minute …"


def _taken(port: int) -> bool:
    """Tell whether somebody listens on the port, or whether it cannot be listened on."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return True
    return False


def _free(port: int) -> bool:
    """Tell whether nobody answers on the port yet."""
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return True
    return False


def _short(path: str) -> str:
    """Return a path as one would type it here."""
    with contextlib.suppress(ValueError):
        return str(Path(path).relative_to(Path.cwd()))
    return path


async def _pass_over(error: Exception) -> None:
    """Say nothing about a lost connection: nats-py mends it, and the view shows what is missing."""


async def _within(stop: asyncio.Event, seconds: float) -> bool:
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(stop.wait(), seconds)
    return stop.is_set()


async def _unless(stop: asyncio.Event, desk: OrderDesk) -> bool:
    """Open the desk; return False if somebody asked to stop before it was open."""
    opening = asyncio.create_task(desk.__aenter__())
    stopped = asyncio.create_task(stop.wait())
    await asyncio.wait({opening, stopped}, return_when=asyncio.FIRST_COMPLETED)
    stopped.cancel()
    if not opening.done():
        opening.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await opening
        return False
    await opening
    return True


async def main() -> int:
    options = arguments()
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    if options.seconds:
        loop.call_later(options.seconds, stop.set)
    desk = OrderDesk(options)
    print("starting the broker and the gateway …", flush=True)
    try:
        if await _unless(stop, desk):
            try:
                async with sample_traffic(desk.connection, options.orders_per_second) as traffic:
                    await desk.show(stop, traffic)
            finally:
                await desk.close()
    except (PartFailed, OSError) as failed:
        print(failed, file=sys.stderr)
        return 1
    print(f"stopped; everything is kept in {options.data}")
    return 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
