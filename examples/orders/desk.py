"""The order desk as a whole: its programs, the shop that works on them, and the view, until it is stopped."""

import argparse
import asyncio
import contextlib
import os
import shlex
import signal
import sys
import time
from collections.abc import Coroutine
from pathlib import Path
from typing import Final, NoReturn

import nats
import nats.errors

from examples.orders.figures import Jobs, Watcher
from examples.orders.shop import Traffic, is_complete, one_line, open_shop
from examples.orders.view import LEAVE_SCREEN, Moment, open_view
from millstream.cli.parts import StartedPart, broker_part, gateway_part, is_taken

HERE: Final = Path(__file__).resolve().parent
_POLL_S: Final = 0.02
_AGAIN_S: Final = 1.0
_LOOK_AFTER_S: Final = 5.0
_LET_GO_WITHIN_S: Final = 5.0


class CannotStart(Exception):
    """The order desk cannot be opened; the text is one line that says what to do."""


class OrderDesk:
    """All parts of the example, in the order in which they depend on each other.

    Whatever ends while it is open, the connection to the broker too, is made anew.
    """

    def __init__(self, options: argparse.Namespace) -> None:
        self._options = options
        self._data: Path = options.data.resolve()
        self._nats = f"nats://127.0.0.1:{options.port}"
        self._http = f"127.0.0.1:{options.gateway_port}"
        self._monitor = f"http://127.0.0.1:{options.monitor_port}"
        self._notes: list[str] = []  # troubles that stay as they are
        self._shop_trouble = ""
        self._began = time.monotonic()
        self._watcher = Watcher(self._data / "archive")
        self._traffic = Traffic(options.orders_per_second)
        self._jobs = Jobs()
        self._broker = self._make_broker()
        self._gateway = self._make_gateway()
        self._pipeline = None if options.no_spark else self._make_pipeline()

    def _make_broker(self) -> StartedPart:
        options = self._options
        if is_taken(options.port):
            raise CannotStart(
                f"port {options.port} is in use; choose another: make run RUN_FLAGS=--port={options.port + 1}"
            )
        monitor_port = options.monitor_port
        if is_taken(monitor_port):
            self._notes.append(f"no monitoring: port {monitor_port} is in use (--monitor-port)")
            self._monitor, monitor_port = "", 0
        arrow_port = 0 if is_taken(options.arrow_port) else options.arrow_port  # else on a free port
        return broker_part(self._data, options.port, monitor_port, arrow_port)

    def _make_gateway(self) -> StartedPart:
        return gateway_part(self._data, self._nats, self._options.gateway_port)

    def _make_pipeline(self) -> StartedPart:
        return StartedPart(
            "pipeline",
            ["pipeline", "run", str(HERE / "pipeline.toml"), "--json"],
            self._data,
            on_start=self._jobs.forget,
            on_line=self._jobs.hear,
            needs=shlex.split(self._options.before_spark),
            environment={"NATS_URL": self._nats},
        )

    @property
    def _parts(self) -> list[StartedPart]:
        return [part for part in (self._broker, self._gateway, self._pipeline) if part is not None]

    async def open(self) -> None:
        """Start everything; return when the broker answers, or raise CannotStart."""
        try:
            self._data.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise CannotStart(
                f"{self._options.data}: {error.strerror}; choose another folder: --data"
            ) from None
        self._broker.start()
        while not self._broker.ready:
            if self._broker.trouble:
                raise CannotStart(self._broker.trouble)
            await asyncio.sleep(_POLL_S)
        self._gateway.start()
        if self._pipeline is not None:
            self._pipeline.start()

    async def work(self) -> None:
        """Keep the shop open and the figures true, until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._keep_shop())
            tasks.create_task(self._watcher.keep_looking())

    async def _keep_shop(self) -> None:
        while True:
            try:
                await self._run_shop()
            except Exception as error:
                self._shop_trouble = one_line("the shop is closed", error)
            await asyncio.sleep(_AGAIN_S)

    async def _run_shop(self) -> None:
        closed = asyncio.Event()

        async def on_closed() -> None:
            closed.set()

        connection = await nats.connect(
            self._nats, max_reconnect_attempts=-1, error_cb=_pass_over, closed_cb=on_closed
        )
        jetstream = connection.jetstream(timeout=60)
        try:
            await open_shop(jetstream)
            await self._watcher.attach(connection)
            async with self._traffic.on(connection):
                # nats-py mends a lost connection; after some errors it closes it instead.
                while not await _within(_LOOK_AFTER_S, closed):
                    if not await is_complete(jetstream):
                        await open_shop(jetstream)
                    self._shop_trouble = ""
        finally:
            await connection.close()

    async def show(self, stop: asyncio.Event) -> None:
        """Keep the view true until asked to stop."""
        with open_view(self._options.line_every) as view:
            while not stop.is_set():
                view.show(self._moment())
                await _within(view.interval_s, stop)

    async def close(self) -> None:
        """Stop the parts, the last one first, and say which one is being waited for."""
        for part in reversed(self._parts):
            if part.running:
                say(f"stopping the {part.name}{_PATIENCE.get(part.name, '')}")
            await part.stop()

    def kill(self) -> None:
        """End the parts now."""
        for part in self._parts:
            part.kill()

    def _moment(self) -> Moment:
        return Moment(
            figures=self._watcher.figures,
            jobs=self._jobs.told if self._pipeline is not None and self._pipeline.running else {},
            spark=self._spark(),
            addresses=self._addresses(),
            hints=self._hints(),
            troubles=self._troubles(),
        )

    def _addresses(self) -> list[str]:
        monitoring = f"   monitoring  {self._monitor}" if self._monitor else ""
        return [
            f"Dashboard  http://{self._http}/ui/",
            f"HTTP       http://{self._http}/v2/docs",
            f"NATS       {self._nats}{monitoring}",
        ]

    def _hints(self) -> list[str]:
        """Return commands that work now, as they are, in the project's folder."""
        hints = []
        if self._gateway.ready:
            subject = f"{self._http}/v2/subjects/ORDERS.received"
            hints += [
                f"""curl -d '{{"order":1,"item":"lamp"}}' {subject}""",
                f"curl -d hello {subject}",
                f"curl -N {self._http}/v2/streams/ORDERS/live",
            ]
        if self._pipeline is not None and self._pipeline.ready:
            hints.append(f"{_short(sys.executable)} -m examples.orders.table --server {self._nats}")
        return hints

    def _troubles(self) -> list[str]:
        parts = [part.trouble for part in self._parts]
        jobs = self._jobs.troubles() if self._pipeline is not None and self._pipeline.running else []
        others = [self._shop_trouble, self._traffic.trouble, self._watcher.figures.trouble]
        return [each for each in (*parts, *jobs, *self._notes, *others) if each]

    def _spark(self) -> str:
        """Say what the pipeline does while it has no jobs to show."""
        if self._pipeline is None:
            return "off (--no-spark)"
        if self._pipeline.preparing and self._pipeline.running:
            return f"Spark is being installed ({time.monotonic() - self._began:.0f} s) …"
        if not self._pipeline.running:
            return "not running"
        return "Spark is starting; this takes about half a minute …"


# What to expect of a part that is being stopped.
_PATIENCE: Final = {"pipeline": ": the batches that run are finished first, which takes some seconds"}


def say(text: str) -> None:
    """Print a line, if anybody reads it."""
    with contextlib.suppress(OSError):
        print(text, flush=True)


def _short(path: str) -> str:
    """Return a path as one would type it here."""
    with contextlib.suppress(ValueError):
        return str(Path(path).relative_to(Path.cwd()))
    return path


async def _within(seconds: float, event: asyncio.Event) -> bool:
    """Wait for an event, but not longer than that; tell whether it happened."""
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(event.wait(), seconds)
    return event.is_set()


async def _pass_over(error: Exception) -> None:
    """Say nothing about a lost connection: nats-py mends it, and the view shows what is missing."""


def run(options: argparse.Namespace) -> NoReturn:
    """Open the order desk, close it when a signal asks for it, and end the process.

    A task of nats-py that is cancelled while its server goes away may not end, and `asyncio.run` would wait
    for it.  All parts have ended by then, so nothing is lost.
    """
    code = asyncio.Runner().run(_run(options))
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError):
            stream.flush()
    os._exit(code)


async def _run(options: argparse.Namespace) -> int:
    try:
        desk = OrderDesk(options)
        stop = _stop_on_signals(desk, options.seconds)
        try:
            await _until(stop, desk.open())
            working = asyncio.create_task(desk.work())
            try:
                await desk.show(stop)
            finally:
                working.cancel()
                await asyncio.wait({working}, timeout=_LET_GO_WITHIN_S)
        finally:
            await desk.close()
    except CannotStart as failed:
        print(failed, file=sys.stderr)
        return 1
    say(f"stopped; everything is kept in {options.data}")
    return 0


def _stop_on_signals(desk: OrderDesk, seconds: float | None) -> asyncio.Event:
    """Return an event that the first signal sets; the second one ends everything at once."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()

    def stop_or_kill(number: signal.Signals) -> None:
        if stop.is_set():
            desk.kill()
            say(f"{LEAVE_SCREEN if sys.stdout.isatty() else ''}ended at once; everything stored is kept")
            os._exit(128 + number)
        stop.set()

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:  # as `nohup` leaves SIGHUP
            loop.add_signal_handler(number, stop_or_kill, number)
    if seconds:
        loop.call_later(seconds, stop.set)
    return stop


async def _until(stop: asyncio.Event, opening: Coroutine[None, None, None]) -> None:
    """Wait for the opening, but not longer than until somebody asks to stop."""
    task, stopped = asyncio.ensure_future(opening), asyncio.ensure_future(stop.wait())
    await asyncio.wait({task, stopped}, return_when=asyncio.FIRST_COMPLETED)
    stopped.cancel()
    if task.done():
        await task
    else:
        task.cancel()
        await asyncio.wait({task})
