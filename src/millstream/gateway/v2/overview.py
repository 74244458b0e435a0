"""The overview of an account: usage, rates, the servers if permitted, and findings that need attention."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any, Final

import msgspec

from millstream.gateway.link import CallerLink
from millstream.gateway.v2 import system
from millstream.gateway.v2.attention import Attention, ScanProgress, Watchman, about_account, now_text
from millstream.gateway.v2.calls import Call, Reply, answer
from millstream.gateway.v2.operations import Section, Tag, json_answer
from millstream.gateway.v2.snapshot import SharedLists
from millstream.gateway.v2.streams import without_type
from millstream.gateway.v2.ticks import TickQuery, tick_answer, ticks
from millstream.gateway.v2.traffic import TrafficAnswer, TrafficHistory
from millstream.gateway.v2.vitals import AccountVitals, Health, Rates, ServerVitals, Vitals, health_of
from millstream.jsapi.account_types import AccountInfo
from millstream.link.errors import JetStreamOff, LinkApiError, PermissionViolation

section: Final = Section(Tag.ACCOUNT)

_LONG_STEP_S: Final = 0.5


class Totals(msgspec.Struct, frozen=True):
    """Sums over all streams."""

    streams: int
    consumers: int
    messages: int
    bytes: int


class OverviewAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The overview; parts that these credentials may not read are null, and named in `not_permitted`."""

    time: str
    account: AccountInfo | None
    totals: Totals | None
    rates: Rates | None  # also null until there are two samples
    connections: AccountVitals | None
    server: ServerVitals | None
    health: Health
    attention: list[Attention]
    scanned: ScanProgress | None  # progress of the scan of consumers
    not_permitted: list[str]


@section.get(
    "/overview",
    "The account at a glance",
    answers=(json_answer(200, "usage, rates, health, and what needs attention", OverviewAnswer),),
)
async def read_overview(call: Call) -> Reply:
    """Numbers of the account and, as far as these credentials may read them, of the servers. `rates` needs
    two samples, so it is null in the first answer. Consumers are scanned a few hundred streams at a time;
    `scanned` has the progress."""
    return answer(await overview(call.link))


@section.get(
    "/overview/live",
    "The account at a glance, again and again",
    query=TickQuery,
    stream=True,
    answers=(tick_answer("overview", "what `/v2/overview` answers"),),
    problems=(406,),
)
async def read_overview_live(call: Call) -> Reply:
    """The overview as Server-Sent Events."""
    return await ticks(call, "overview", lambda: overview(call.link), every_s=call.query.every)


@section.get(
    "/overview/history",
    "The traffic of the last hour",
    answers=(json_answer(200, "rates in columns, oldest first", TrafficAnswer),),
)
async def read_overview_history(call: Call) -> Reply:
    """Messages and bytes a second, every five seconds. The gateway samples them from the first call of an
    overview with these credentials, and as long as it keeps the connection for them open."""
    return answer(TrafficHistory.of(call.link).answer)


async def overview(link: CallerLink) -> dict[str, Any]:
    """Return the overview; all parts are requested at the same time."""
    missing: list[str] = []
    is_system = await system.is_system(link)
    vitals = Vitals.of(link)
    TrafficHistory.of(link)
    account, streams, server, connections, health = await asyncio.gather(
        _account(link, missing),
        _streams(link, missing),
        system.permitted(partial(vitals.server, is_system), "server", missing),
        system.permitted(vitals.account, "rates", missing) if not is_system else _nothing(),
        health_of(link, is_system),
    )
    items = list(about_account(account)) if account is not None else []
    scan = totals = None
    if streams is not None:
        found, scan = await Watchman.of(link).look(streams.items)
        items += found
        totals = Totals(
            streams.total,
            sum(stream.consumers for stream in streams.items),
            sum(stream.messages for stream in streams.items),
            sum(stream.bytes for stream in streams.items),
        )
    items += _about_servers(server, health)
    return {
        "time": now_text(),
        "account": account,
        "totals": totals,
        "rates": vitals.rates,
        "connections": connections,
        "server": server,
        "health": health,
        "attention": items,
        "scanned": scan,
        "not_permitted": sorted(set(missing)),
    }


async def _nothing() -> None:
    return None


async def _account(link: CallerLink, missing: list[str]) -> dict[str, Any] | None:
    try:
        return without_type(await link.api("INFO"))
    except (PermissionViolation, JetStreamOff, LinkApiError):
        missing.append("account")
        return None


async def _streams(link: CallerLink, missing: list[str]) -> Any:
    try:
        return await SharedLists.of(link).streams()
    except (PermissionViolation, JetStreamOff, LinkApiError):
        missing.append("streams")
        return None


def _about_servers(server: ServerVitals | None, health: Health) -> list[Attention]:
    found: list[Attention] = []
    if health.status not in ("ok", "unknown"):
        found.append(Attention("error", "health", f"the server is not well: {health.error or health.status}"))
    if server is not None and server.slow_consumers:
        text = f"{server.slow_consumers} clients were cut off because they did not keep up"
        found.append(Attention("warning", "slow_consumers", text))
    step = server.longest_step if server is not None else None
    if step is not None and step.seconds > _LONG_STEP_S:
        text = f"one step of the server's loop took {step.seconds:.1f} s: {step.name}"
        found.append(Attention("warning", "longest_step", text))
    return found
