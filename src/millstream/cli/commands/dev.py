"""`millstream dev`: broker, gateway and dashboard on this machine, without a configuration file.

Each runs as its own command in a process of its own, and is restarted until Ctrl-C.  All data is in one
folder; a folder with files of others is refused.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Final

import typer

from millstream.base.reasons import file_reason
from millstream.cli.endings import FAILED, Ending, UsageError, need, tell
from millstream.cli.gateway import PACKAGES
from millstream.cli.output.tables import CommandOutput, JsonOption
from millstream.cli.parts import StartedPart, broker_part, gateway_part, is_taken

MARK: Final = "millstream-dev.txt"
_TEXT: Final = "This folder was made by `millstream dev`, which keeps its streams and logs here.\n"
_LOOK_S: Final = 0.05


def dev(
    *,
    data: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER", help="Where everything is kept [default: ~/.local/share/millstream/dev]"
        ),
    ] = None,
    port: Annotated[int, typer.Option(metavar="NUMBER", min=1, max=65535, help="Port of NATS.")] = 4222,
    gateway_port: Annotated[
        int, typer.Option(metavar="NUMBER", min=1, max=65535, help="Port of the dashboard and the HTTP API.")
    ] = 3000,
    monitor_port: Annotated[
        int, typer.Option(metavar="NUMBER", min=1, max=65535, help="Port of monitoring.")
    ] = 8222,
    arrow_port: Annotated[
        int, typer.Option(metavar="NUMBER", min=1, max=65535, help="Port of streams as Arrow.")
    ] = 8224,
    json: JsonOption = False,
) -> None:
    """Start a broker with JetStream, and a gateway with the dashboard, for this machine alone.

    Needs no file and no Java. Everything listens on 127.0.0.1, without passwords. What is stored stays when
    it ends, and is there when it starts again; to begin anew, delete the folder, which is printed.

    \b
    Examples:
      millstream dev
      millstream dev --port 4333 --gateway-port 3001 --monitor-port 8333 --arrow-port 8334
      millstream dev --data ./try
    """
    need("gateway", *PACKAGES)
    ports = {
        "--port": port,
        "--gateway-port": gateway_port,
        "--monitor-port": monitor_port,
        "--arrow-port": arrow_port,
    }
    _check_ports(ports)
    folder = own_folder((data or default_folder(os.environ)).expanduser())
    nats = f"nats://127.0.0.1:{port}"
    parts = [broker_part(folder, port, monitor_port, arrow_port), gateway_part(folder, nats, gateway_port)]
    addresses = {
        "dashboard": f"http://127.0.0.1:{gateway_port}/ui",
        "nats": nats,
        "http": f"http://127.0.0.1:{gateway_port}/v2/docs",
        "arrow": f"http://127.0.0.1:{arrow_port}/arrow/v1/streams",
        "monitoring": f"http://127.0.0.1:{monitor_port}",
        "data": str(folder),
    }
    asyncio.run(_run(parts, addresses, json))


def default_folder(environment: Mapping[str, str]) -> Path:
    """Return the folder for data by the XDG rules."""
    home = environment.get("XDG_DATA_HOME", "")
    base = Path(home) if os.path.isabs(home) else Path.home() / ".local" / "share"
    return base / "millstream" / "dev"


def own_folder(folder: Path) -> Path:
    """Return the folder, and create it if needed; raises UsageError if it has files of others."""
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        mark = folder / MARK
        if not mark.exists():
            if any(folder.iterdir()):
                raise UsageError(
                    f"{folder} holds files that are not ours; name an empty or new folder: --data FOLDER"
                )
            mark.write_text(_TEXT)
    except FileExistsError:
        raise UsageError(f"{folder} is no folder; name another one: --data FOLDER") from None
    except OSError as error:
        raise UsageError(f"{folder}: {file_reason(error)}; name another folder: --data FOLDER") from None
    return folder.resolve()


def _check_ports(ports: dict[str, int]) -> None:
    if len(set(ports.values())) < len(ports):
        raise UsageError("the ports have to differ")
    taken = [(flag, number) for flag, number in ports.items() if is_taken(number)]
    if taken:
        text = " and ".join(f"port {number} is in use" for _, number in taken)
        change = " ".join(
            f"{flag} {number + 1000 if number < 64535 else number - 1000}" for flag, number in taken
        )
        raise Ending(f"{text}; choose others: millstream dev {change}", FAILED)


async def _run(parts: list[StartedPart], addresses: dict[str, str], json: bool) -> None:
    """Start the parts in order, print their addresses, and keep them running until a signal."""
    stop = asyncio.Event()
    _on_signals(parts, stop)
    output = CommandOutput(json=json)
    output.note("starting …")
    try:
        for part in parts:
            part.start()
            while not part.ready and not stop.is_set():
                if part.trouble:
                    raise Ending(f"{part.name}: {part.trouble}; its log is {part.log}", FAILED)
                await asyncio.sleep(_LOOK_S)
        if not stop.is_set():
            _welcome(output, addresses)
            await _watch(parts, stop)
    finally:
        for part in reversed(parts):
            await part.stop()
    output.note(f"stopped; everything stored is kept in {addresses['data']}")


def _on_signals(parts: list[StartedPart], stop: asyncio.Event) -> None:
    """Stop at the first signal, and kill everything at the second."""
    loop = asyncio.get_running_loop()

    def stop_or_kill(number: signal.Signals) -> None:
        if stop.is_set():
            for part in parts:
                part.kill()
            os._exit(128 + number)
        stop.set()

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:  # `nohup` ignores SIGHUP
            loop.add_signal_handler(number, stop_or_kill, number)


async def _watch(parts: list[StartedPart], stop: asyncio.Event) -> None:
    """Print a line when a part ends or runs again, until the stop."""
    told = {part.name: "" for part in parts}
    while not stop.is_set():
        for part in parts:
            if part.trouble != told[part.name]:
                told[part.name] = part.trouble
                tell(part.trouble or f"{part.name} runs again")
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), _LOOK_S * 10)


def _welcome(output: CommandOutput, addresses: dict[str, str]) -> None:
    if output.json:
        output.event(addresses, "")
        return
    titles = {"nats": "NATS", "http": "HTTP API", "arrow": "Arrow"}
    for name, address in addresses.items():
        output.line(f"{titles.get(name, name.capitalize()):<10}  {address}")
    server = "" if addresses["nats"].endswith(":4222") else f" -s {addresses['nats']}"
    steps = (
        "stream add ORDERS --subjects 'orders.>'",
        "pub orders.eu hello --jetstream",
        "stream view ORDERS",
        "top",
    )
    output.line("")
    output.line("First steps, in another terminal; Ctrl-C here stops everything:")
    for step in steps:
        output.line(f"  millstream {step}{server}")
