"""`millstream top`: streams, consumers and connections, live on a terminal.

Each look lists all streams and sorts them by stored messages a second.  Consumers are requested for a few of
the shown streams only, so that a look is cheap with thousands of streams.
"""

from __future__ import annotations

import asyncio
import time
from typing import Annotated, Any, Final

import msgspec
import typer

from millstream.cli.checkup.server import CONNECTIONS, ask
from millstream.cli.connection import connected, talks_to_a_server
from millstream.cli.endings import UsageError
from millstream.cli.output.readings import read_duration
from millstream.cli.output.tables import CommandOutput, JsonOption, make_table, on_terminal
from millstream.cli.output.texts import count_text, safe, size_text
from millstream.cli.session import run
from millstream.link.errors import LinkApiError, LinkError
from millstream.link.options import LinkOptions
from millstream.transfer.api import JetStreamApi

_SHORTEST_S: Final = 0.2
_CONSUMERS_OF: Final = 5  # streams whose consumers are requested
_STREAM_COLUMNS: Final = ("Stream", "#Messages", "#Size", "#Consumers", "#Stored/s", "#Bytes/s")
_CONSUMER_COLUMNS: Final = ("Consumer", "Stream", "#Pending", "#Ack pending", "#Redelivered", "#Delivered/s")
_FRAME: Final = 4  # lines around the rows of a table
_CONNECTION_COLUMNS: Final = ("Connection", "#Pending", "#In/s", "#Out/s", "#Subscriptions")


@talks_to_a_server
def top(
    *,
    server: LinkOptions,
    every: Annotated[str, typer.Option("--interval", metavar="TIME", help="Time between two looks.")] = "2s",
    rows: Annotated[
        int,
        typer.Option(
            "--rows",
            metavar="NUMBER",
            min=1,
            max=200,
            help="Rows of each table, as far as the terminal has room.",
        ),
    ] = 10,
    count: Annotated[
        int,
        typer.Option("--count", metavar="NUMBER", min=0, help="End after this number of looks; 0 is never."),
    ] = 0,
    json: JsonOption = False,
) -> None:
    """Watch streams, consumers and connections, the busiest first, until Ctrl-C.

    Without a terminal, it looks twice, prints the tables once, and ends.

    \b
    Examples:
      millstream top
      millstream top --interval 500ms --rows 20
      millstream top --json --count 2 | tail -1 | jq .streams
    """
    interval_s = read_duration(every, "--interval") / 1e9
    if interval_s < _SHORTEST_S:
        raise UsageError(f"--interval is at least {_SHORTEST_S:g}s")

    async def work() -> None:
        output = CommandOutput(json=json)
        async with connected(server, "millstream top") as api:
            watcher = _Watcher(api, rows)
            await watcher.look()
            if json:
                for _ in range(count or 1):
                    await asyncio.sleep(interval_s)
                    await watcher.look()
                    output.event(watcher.document, "")
            elif on_terminal():
                await _show_live(watcher, interval_s, count)
            else:
                await asyncio.sleep(interval_s)
                await watcher.look()
                for columns, lines in watcher.tables:
                    output.table(None, columns, lines)

    run(work())


async def _show_live(watcher: _Watcher, interval_s: float, count: int) -> None:
    from rich.console import Group
    from rich.live import Live
    from rich.text import Text

    looks = 0
    with Live(screen=True, auto_refresh=False) as live:
        while not count or looks < count:
            head = Text(f"{watcher.title}   every {interval_s:g} s, Ctrl-C ends")
            found = watcher.tables
            room = live.console.size.height - 1 - _FRAME * len(found)
            shares = fair_shares([len(lines) for _, lines in found], room)
            tables = [
                make_table(columns, lines[:share])
                for (columns, lines), share in zip(found, shares, strict=True)
            ]
            live.update(Group(head, *tables), refresh=True)
            await asyncio.sleep(interval_s)
            await watcher.look()
            looks += 1


def fair_shares(wanted: list[int], room: int) -> list[int]:
    """Divide lines between tables: each gets at least one, and what a short one leaves goes to the others."""
    shares = [0] * len(wanted)
    for place, (count, index) in enumerate(sorted((count, index) for index, count in enumerate(wanted))):
        shares[index] = min(count, max(room // (len(wanted) - place), 1))
        room -= shares[index]
    return shares


class _Watcher:
    """The figures of the last two looks."""

    def __init__(self, api: JetStreamApi, rows: int) -> None:
        self._api = api
        self._rows = rows
        self._at = 0.0
        self._before: dict[tuple[str, ...], tuple[int, int]] = {}
        self._now: dict[tuple[str, ...], tuple[int, int]] = {}
        self._seconds = 0.0
        self._trouble = ""
        self.streams: list[dict[str, Any]] = []
        self.consumers: list[dict[str, Any]] = []
        self.connections: list[dict[str, Any]] = []

    async def look(self) -> None:
        """Request all figures once; after a lost connection the last figures stay, and the loss is shown."""
        began = time.monotonic()
        self._before, self._now = self._now, {}
        self._seconds, self._at = (began - self._at if self._at else 0.0), began
        try:
            self.streams = await self._streams()
            self.consumers = await self._consumers()
            self.connections = await self._connections()
            self._trouble = ""
        except LinkApiError:
            raise
        except LinkError as error:
            if self._api.link.is_closed:
                raise
            self._trouble = f"   NOT CONNECTED: {safe(str(error), 80)}"

    def _rates(self, key: tuple[str, ...], first: int, second: int) -> tuple[float, float]:
        """Return the growth a second of two counters since the last look."""
        self._now[key] = (first, second)
        before = self._before.get(key)
        if before is None or self._seconds <= 0:
            return 0.0, 0.0
        return max(first - before[0], 0) / self._seconds, max(second - before[1], 0) / self._seconds

    async def _streams(self) -> list[dict[str, Any]]:
        found = []
        async for info in self._api.pages("STREAM.LIST", "streams"):
            state, name = info["state"], str(info["config"]["name"])
            stored, size = self._rates((name,), int(state.get("last_seq", 0)), int(state.get("bytes", 0)))
            found.append(
                {
                    "name": name,
                    "messages": state.get("messages", 0),
                    "bytes": state.get("bytes", 0),
                    "consumers": state.get("consumer_count", 0),
                    "stored_per_second": round(stored, 1),
                    "bytes_per_second": round(size, 1),
                }
            )
        found.sort(key=lambda each: (-each["stored_per_second"], -each["messages"], each["name"]))
        return found

    async def _consumers(self) -> list[dict[str, Any]]:
        found = []
        busy = [each["name"] for each in self.streams if each["consumers"]][:_CONSUMERS_OF]
        for stream in busy:
            try:
                page = await self._api.ask(f"CONSUMER.LIST.{stream}", {"offset": 0})
            except LinkApiError:
                continue  # the stream was deleted meanwhile
            for info in page.get("consumers") or []:
                name = str(info["name"])
                delivered = int((info.get("delivered") or {}).get("consumer_seq", 0))
                rate, _ = self._rates((stream, name), delivered, 0)
                found.append(
                    {
                        "name": name,
                        "stream": stream,
                        "pending": info.get("num_pending", 0),
                        "ack_pending": info.get("num_ack_pending", 0),
                        "redelivered": info.get("num_redelivered", 0),
                        "delivered_per_second": round(rate, 1),
                    }
                )
        found.sort(key=lambda each: (-each["delivered_per_second"], -each["pending"], each["name"]))
        return found

    async def _connections(self) -> list[dict[str, Any]]:
        body = msgspec.json.encode({"limit": 1024, "sort": "bytes_to"})
        data = ((await ask(self._api.link, CONNECTIONS, body)) or {}).get("data") or {}
        found = []
        for row in data.get("connections") or []:
            cid = str(row.get("cid"))
            taken, sent = self._rates(("", cid, ""), int(row.get("in_msgs", 0)), int(row.get("out_msgs", 0)))
            found.append(
                {
                    "cid": row.get("cid"),
                    "name": str(row.get("name") or f"{row.get('ip')}:{row.get('port')}"),
                    "pending_bytes": row.get("pending_bytes", 0),
                    "in_per_second": round(taken, 1),
                    "out_per_second": round(sent, 1),
                    "subscriptions": row.get("subscriptions", 0),
                }
            )
        found.sort(key=lambda each: -(each["in_per_second"] + each["out_per_second"]))
        return found

    @property
    def title(self) -> str:
        """Return the title line, with totals."""
        messages = sum(each["messages"] for each in self.streams)
        size = sum(each["bytes"] for each in self.streams)
        counts = (
            f"{count_text(len(self.streams))} streams, {count_text(messages)} messages, {size_text(size)}"
        )
        return f"{self._api.where}   {counts}   {time.strftime('%H:%M:%S')}{self._trouble}"

    @property
    def document(self) -> dict[str, Any]:
        """Return the figures for JSON."""
        most = self._rows
        return {
            "streams": self.streams[:most],
            "consumers": self.consumers[:most],
            "connections": self.connections[:most],
            "totals": {"streams": len(self.streams), "connections": len(self.connections)},
        }

    @property
    def tables(self) -> list[tuple[tuple[str, ...], list[list[str]]]]:
        """Return the columns and rows of the three tables."""
        most = self._rows
        streams = [
            [
                each["name"], count_text(each["messages"]), size_text(each["bytes"]),
                count_text(each["consumers"]), count_text(each["stored_per_second"]),
                size_text(each["bytes_per_second"]),
            ]
            for each in self.streams[:most]
        ]  # fmt: skip
        consumers = [
            [
                each["name"], each["stream"], count_text(each["pending"]), count_text(each["ack_pending"]),
                count_text(each["redelivered"]), count_text(each["delivered_per_second"]),
            ]
            for each in self.consumers[:most]
        ]  # fmt: skip
        connections = [
            [
                f"{each['cid']} {each['name']}", size_text(each["pending_bytes"]),
                count_text(each["in_per_second"]), count_text(each["out_per_second"]),
                count_text(each["subscriptions"]),
            ]
            for each in self.connections[:most]
        ]  # fmt: skip
        return [
            (_STREAM_COLUMNS, streams),
            (_CONSUMER_COLUMNS, consumers),
            (_CONNECTION_COLUMNS, connections),
        ]
