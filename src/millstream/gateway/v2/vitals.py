"""Counters of servers and of the account, and the rates between two samples.

There is one object for each set of credentials, so that all who watch the same account share its samples.
"""

from __future__ import annotations

import time
from typing import Any, Final

import msgspec

from millstream.gateway.link import CallerLink
from millstream.gateway.v2 import system

_NAME: Final = "vitals"
_SHORTEST_S: Final = 0.5  # seconds between two samples of a rate
_LONGEST_S: Final = 60.0
_NANOSECOND: Final = 1e-9


class Rates(msgspec.Struct, frozen=True):
    """Messages and bytes a second that clients sent (in) and received (out)."""

    in_msgs: float
    in_bytes: float
    out_msgs: float
    out_bytes: float


class SlowestStep(msgspec.Struct, frozen=True):
    """The step that blocked the server's event loop for longest."""

    name: str
    seconds: float
    time: str


class ServerVitals(msgspec.Struct, frozen=True, kw_only=True):
    """The totals of all servers."""

    servers: int
    connections: int
    subscriptions: int
    slow_consumers: int
    mem: int
    cpu: float
    uptime: str
    longest_step: SlowestStep | None = None


class AccountVitals(msgspec.Struct, frozen=True):
    """The connections of the account, on all servers."""

    connections: int
    subscriptions: int
    slow_consumers: int


class Sample(msgspec.Struct, frozen=True):
    """Counters at one moment of our clock."""

    time: float
    in_msgs: int
    in_bytes: int
    out_msgs: int
    out_bytes: int


class Vitals:
    """The last samples of one link."""

    def __init__(self, link: CallerLink) -> None:
        self._link = link
        self._samples: list[Sample] = []  # the newest last; rates are counted from the first
        self._generation = link.generation

    @classmethod
    def of(cls, link: CallerLink) -> Vitals:
        """Return the vitals of a link."""
        found = link.companions.get(_NAME)
        if not isinstance(found, Vitals):
            found = link.companions[_NAME] = cls(link)
        return found

    def close(self) -> None:
        """Called when the link is closed."""

    async def account(self) -> AccountVitals:
        """Return the account's numbers, and take a sample; raises NotPermitted if no server answers."""
        found = [
            stat
            for document in await system.ask_all(self._link, system.ACCOUNT_STATZ)
            for stat in document.get("account_statz") or ()
        ]
        self._note(
            sum_of(found, "received", "msgs"),
            sum_of(found, "received", "bytes"),
            sum_of(found, "sent", "msgs"),
            sum_of(found, "sent", "bytes"),
        )
        return AccountVitals(
            sum_of(found, "conns"), sum_of(found, "num_subscriptions"), sum_of(found, "slow_consumers")
        )

    async def server(self, is_system: bool) -> ServerVitals:
        """Return the numbers of the servers; raises NotPermitted if no server answers."""
        if is_system:
            found = await system.ask_all(self._link, system.SERVER_VARZ)
            self._note(*(sum_of(found, name) for name in ("in_msgs", "in_bytes", "out_msgs", "out_bytes")))
        elif self._link.dialogue.info.is_millstream:
            found = [await system.ask(self._link, system.MILLSTREAM_SERVER)]
            if "uptime" not in found[0]:
                raise system.NotPermitted("the server serves others, too")
        else:
            raise system.NotPermitted("only the system account may ask servers")
        return ServerVitals(
            servers=len(found),
            connections=sum_of(found, "connections"),
            subscriptions=sum_of(found, "subscriptions"),
            slow_consumers=sum_of(found, "slow_consumers"),
            mem=sum_of(found, "mem"),
            cpu=round(sum(float(each.get("cpu") or 0) for each in found), 1),
            uptime=str(found[0].get("uptime") or ""),
            longest_step=_longest_step(found),
        )

    def _note(self, in_msgs: int, in_bytes: int, out_msgs: int, out_bytes: int) -> None:
        now = time.monotonic()
        sample = Sample(now, in_msgs, in_bytes, out_msgs, out_bytes)
        if self._generation != self._link.generation or (
            self._samples and in_msgs < self._samples[-1].in_msgs
        ):
            self._samples.clear()  # another server has other counters
            self._generation = self._link.generation
        if len(self._samples) > 1 and now - self._samples[-1].time < _SHORTEST_S:
            self._samples[-1] = sample
        else:
            self._samples = [*self._samples[-1:], sample]

    async def sample(self) -> Sample:
        """Take a sample and return it; raises NotPermitted if no server answers."""
        if await system.is_system(self._link):
            await self.server(True)
        else:
            await self.account()
        return self._samples[-1]

    @property
    def rates(self) -> Rates | None:
        """Return the rates between the last two samples; None with fewer than two."""
        return rates_between(*self._samples) if len(self._samples) == 2 else None


def rates_between(old: Sample, new: Sample) -> Rates | None:
    """Return the rates between two samples; None if they are of different servers or too far apart."""
    seconds = new.time - old.time
    if not _SHORTEST_S <= seconds <= _LONGEST_S or new.in_msgs < old.in_msgs:
        return None
    return Rates(
        *(
            round(max(getattr(new, name) - getattr(old, name), 0) / seconds, 1)
            for name in ("in_msgs", "in_bytes", "out_msgs", "out_bytes")
        )
    )


def sum_of(documents: list[dict[str, Any]], *path: str) -> int:
    """Return the sum of a number in documents; other values count as 0."""
    total = 0
    for document in documents:
        value: Any = document
        for name in path:
            value = value.get(name) if isinstance(value, dict) else None
        if isinstance(value, int):
            total += value
    return total


def _longest_step(documents: list[dict[str, Any]]) -> SlowestStep | None:
    """Return the longest step of all Millstream servers; other servers report none."""
    steps = [
        step
        for document in documents
        for step in (document.get("event_loop") or {}).get("slowest") or ()
        if isinstance(step, dict)
    ]
    if not steps:
        return None
    worst = max(steps, key=lambda step: int(step.get("longest") or 0))
    return SlowestStep(
        str(worst.get("step") or ""), int(worst.get("longest") or 0) * _NANOSECOND, str(worst.get("at") or "")
    )


class Health(msgspec.Struct, frozen=True):
    """The health of the servers: `ok`, or a status with an error."""

    status: str
    error: str = ""


async def health_of(link: CallerLink, is_system: bool) -> Health:
    """Return the health of the servers; without permission to ask, only whether one answers."""
    if is_system:
        try:
            found = await system.ask_all(link, system.SERVER_HEALTHZ)
        except system.NotPermitted as error:
            return Health("unknown", str(error))
        bad = [each for each in found if each.get("status") != "ok"]
        if bad:
            return Health(str(bad[0].get("status") or "error"), str(bad[0].get("error") or ""))
        return Health("ok")
    return Health("ok") if link.is_up else Health("unavailable", "there is no connection to NATS")
