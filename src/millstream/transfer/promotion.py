"""Move streams and their consumers to another server, and switch over to it.

    copy        each stream is backed up to a folder of our own, checked, and restored at the target
    follow      (live) copies are kept up to date until the user starts the cut-over
    freeze      the source accepts no messages and delivers none (``freeze``)
    finish      missing messages are copied, and consumers are moved to their positions at the source
    switch      the copies get their own configuration and accept messages
    verify      every message and every consumer is compared

Until the switch, everything can be undone, and a run that fails does so: the source continues as before.
Nothing is ever removed from the source.  What is left at the target is marked as unfinished, and the next run
continues from there.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from millstream.base.errors import MillstreamError
from millstream.link.errors import LinkApiError
from millstream.transfer.answers import Json
from millstream.transfer.api import JetStreamApi
from millstream.transfer.archive import ArchiveSummary
from millstream.transfer.backup import BackupOptions, back_up
from millstream.transfer.comparison import compare_consumers, compare_messages
from millstream.transfer.consumer_move import carry, obstacle
from millstream.transfer.errors import CopyDiffers, TransferError
from millstream.transfer.follower import CanNotFollow, Follower, following_config
from millstream.transfer.freeze import drained, freeze, release
from millstream.transfer.late_acks import LateAcks
from millstream.transfer.marks import freeze_note, is_unfinished_copy, marked
from millstream.transfer.plan import Found, Method, PromoteOptions, StreamPlan
from millstream.transfer.progress import TransferProgress
from millstream.transfer.restore import STEP as RESTORE_STEP
from millstream.transfer.restore import put
from millstream.transfer.snapshots import digest, peek

_ROUND_EVERY_S: Final = 5.0
_MOST_ROUNDS: Final = 20  # after the freeze, when no more messages come
_CLOSE_ENOUGH: Final = 1_000  # messages that one round copies in no time


@dataclass(slots=True)
class StreamResult:
    """The result for one stream."""

    plan: StreamPlan
    state: Json = field(default_factory=dict)  # at the target, when it was complete
    digest: str = ""  # of its messages; empty if they were compared one by one while following
    consumers: list[str] = field(default_factory=list)
    was_there: bool = False  # it existed at the target and was equal
    error: str = ""

    def report(self) -> dict[str, Any]:
        found: dict[str, Any] = {"stream": self.plan.name, "method": str(self.plan.method)}
        if self.error:
            return {**found, "error": self.error}
        return {
            **found,
            "remark": self.plan.remark,
            "messages": self.state["messages"],
            "first_seq": self.state["first_seq"],
            "last_seq": self.state["last_seq"],
            "consumers": self.consumers,
            "digest": self.digest,
            "was_there": self.was_there,
        }


@dataclass(slots=True)
class PromotionResult:
    """The results for all streams."""

    streams: list[StreamResult]
    cut_over: bool
    verified: bool
    frozen_s: float = 0.0
    late_acks: int = 0
    in_hand: int = 0  # pending messages when consumers were copied

    @property
    def complete(self) -> bool:
        return not any(each.error for each in self.streams)

    def report(self) -> dict[str, Any]:
        return {
            "streams": [each.report() for each in self.streams],
            "cut_over": self.cut_over,
            "verified": self.verified,
            "frozen_seconds": round(self.frozen_s, 3),
            "in_hand": self.in_hand,
            "late_acks": self.late_acks,
        }


class Promotion:
    """One run.  `folder` keeps archives meanwhile; `go` is awaited before the cut-over."""

    def __init__(
        self,
        source: JetStreamApi,
        target: JetStreamApi,
        plans: list[StreamPlan],
        options: PromoteOptions,
        progress: TransferProgress,
        folder: Path,
        go: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        self._source = source
        self._target = target
        self._plans = plans
        self._options = options
        self._progress = progress
        self._folder = folder
        self._go = go
        self._copied: dict[str, ArchiveSummary] = {}

    async def run(self) -> PromotionResult:
        problems = [f"{each.name}: {problem}" for each in self._plans for problem in each.problems]
        if problems:
            raise TransferError("; ".join(problems))
        options = self._options
        if not options.live and not options.cut_over:
            return await self._copy_all()
        if options.live:
            for each in self._plans:
                await self._first_copy(each)
            await self._follow()
        return await self._cut_over()

    # -- copies -----------------------------------------------------------------------------------

    async def _copy_all(self) -> PromotionResult:
        """Copy all streams as they are now; the source continues."""
        results = []
        for each in self._plans:
            try:
                if each.found is Found.STREAM and not self._may_replace(each):
                    await self._recognise(each)
                    results.append(await self._result(each, was_there=True))
                    continue
                await self._copy(each, each.target_config)
                await self._complete(each)
                results.append(await self._result(each))
            except MillstreamError as error:
                results.append(StreamResult(each, error=str(error)))
        return PromotionResult(results, cut_over=False, verified=self._options.verify)

    def _may_replace(self, plan: StreamPlan) -> bool:
        """Return True if a stream at the target may be replaced.

        Not while the source is frozen: the target may already be in charge, with messages that the source
        never had.
        """
        return self._options.replace and not plan.frozen

    async def _recognise(self, plan: StreamPlan) -> None:
        """Raise TransferError unless the stream at the target is a complete copy of this one."""
        mine = await digest(self._source, plan.name)
        if await compare_messages(self._target, plan.name, mine):
            raise TransferError(_other_stream(plan))
        self._copied[plan.name] = mine

    async def _copy(self, plan: StreamPlan, config: Json) -> None:
        """Copy the stream, replacing an unfinished copy or a replaceable stream, and compare."""
        name = plan.name
        await Follower(self._source, self._target, name, self._progress).remove_feed()
        there = await self._target.find_stream(name)
        if there is not None:
            if not is_unfinished_copy(there, plan.origin) and not self._may_replace(plan):
                raise TransferError(f"{name}: {_other_stream(plan)}")
            await self._target.delete_stream(name)
        options = BackupOptions(replace=True, verify=False)  # it is read again below
        done = await back_up(self._source, name, self._folder / name, self._progress, options)
        summary = await asyncio.to_thread(done.backup.check)
        self._progress.begin(name, RESTORE_STEP, done.backup.archive.stat().st_size)
        if not config.get("sealed"):  # a sealed stream could not be unmarked later
            config = marked(config, plan.origin)
        await put(self._target, done.backup, config, self._progress)
        self._progress.end(name, RESTORE_STEP)
        self._copied[name] = summary
        if self._options.verify:
            differences = await compare_messages(self._target, name, summary)
            differences += await compare_consumers(self._target, name, summary.consumers)
            if differences:
                raise CopyDiffers(name, differences)

    async def _first_copy(self, plan: StreamPlan) -> None:
        """Make the first copy of a live promotion, or continue with that of an earlier run."""
        if plan.found is Found.UNFINISHED:
            there = await self._target.stream(plan.name)
            fits = bool(there["config"].get("mirror")) == (plan.method is Method.FOLLOW)
            if fits and there["state"]["last_seq"] and await self._is_prefix(plan, there):
                self._progress.say(f"{plan.name}: going on with the copy of an earlier run")
                return
        if plan.method is Method.FOLLOW:
            try:
                await self._copy(plan, following_config(plan.target_config))
                return
            except LinkApiError as error:
                plan.method, plan.remark = Method.COPY, f"can not be followed: {error}"
        await self._copy(plan, plan.target_config)

    async def _is_prefix(self, plan: StreamPlan, there: Json) -> bool:
        """Return True if an unfinished copy equals the source as far as it goes."""
        mine = await digest(self._source, plan.name, upto=there["state"]["last_seq"])
        return not await compare_messages(self._target, plan.name, mine, upto=there["state"]["last_seq"])

    # -- live -------------------------------------------------------------------------------------

    async def _follow(self) -> None:
        """Run rounds until the cut-over is due and the copies are as close as they get."""
        go = asyncio.ensure_future(self._go()) if self._go is not None else None
        self._progress.say("every stream is at the target; following")
        before = 0
        try:
            while True:
                behind = 0
                for each in self._plans:
                    if each.method is Method.FOLLOW:
                        behind += await self._round(each)
                # More is published during a round, so do not wait for a smaller lag than that.
                near = behind <= _CLOSE_ENOUGH or 0 < before <= 2 * behind
                if (go is None or go.done()) and near:
                    break
                before = behind
                if go is not None and not go.done():
                    await asyncio.wait([go], timeout=_ROUND_EVERY_S)
            if go is not None:
                go.result()
        finally:
            if go is not None:
                go.cancel()

    async def _round(self, plan: StreamPlan) -> int:
        follower = Follower(self._source, self._target, plan.name, self._progress)
        try:
            lag = await follower.round()
        except CanNotFollow as error:
            self._progress.say(f"{error}; it is copied again")
            await self._copy(plan, following_config(plan.target_config))
            lag = await follower.lag()
        return lag.messages

    # -- the cut-over -----------------------------------------------------------------------------

    async def _cut_over(self) -> PromotionResult:
        names = [each.name for each in self._plans]
        acks = LateAcks(self._source.link, self._target.link, names)
        start = time.monotonic()
        try:
            await acks.listen()
            for name in names:
                await freeze(self._source, name)
            self._progress.say("the source is frozen: it takes and delivers no messages")
            left = await drained(self._source, names, self._options.grace_s)
            for each in self._plans:
                await self._finish(each, acks)
        except BaseException:
            await self._give_back()
            await acks.close()
            raise
        try:
            await self._switch_all()
            await acks.flow()
            frozen_s = time.monotonic() - start
            self._progress.say(f"the target takes over, after {frozen_s:.1f} s")
            if left:
                self._progress.say(f"{left} messages are in hand; acknowledgements of them are carried over")
                await drained(self._source, names, self._options.grace_s)
        finally:
            await acks.close()
        results = [await self._result(each) for each in self._plans]
        return PromotionResult(results, True, self._options.verify, frozen_s, acks.carried, left)

    async def _give_back(self) -> None:
        """Release the source, since nothing was switched; not streams that an earlier run froze."""
        stuck = []
        for each in self._plans:
            if each.frozen:
                self._progress.say(f"{each.name} was frozen before, and stays so; --release gives it back")
                continue
            try:
                await release(self._source, each.name)
            except TransferError as error:  # the first error is the one that is raised
                stuck.append(each.name)
                self._progress.say(f"{each.name} may still be frozen ({error}); --release gives it back")
        if not stuck:
            self._progress.say("the source goes on as before")

    async def _finish(self, plan: StreamPlan, acks: LateAcks) -> None:
        """Make the copy equal to the source while everything is frozen."""
        if plan.found is Found.STREAM and plan.frozen:
            await self._recognise(plan)  # an earlier run got this far
            return
        if plan.method is Method.FOLLOW:
            try:
                await self._finish_following(plan, acks)
                return
            except (CanNotFollow, LinkApiError) as error:
                self._progress.say(f"{plan.name}: {error}; it is copied again")
                plan.method, plan.remark = Method.COPY, str(error)
        await self._copy(plan, plan.target_config)

    async def _finish_following(self, plan: StreamPlan, acks: LateAcks) -> None:
        name = plan.name
        summary = await peek(self._source, name)
        for consumer, entry in summary.consumers.items():
            reason = obstacle(consumer, entry)
            if reason:
                raise CanNotFollow(reason)
        follower = Follower(self._source, self._target, name, self._progress)
        for _ in range(_MOST_ROUNDS):
            if not (await follower.round()).messages:
                break
        else:
            raise CanNotFollow(f"stream {name}: the source is frozen, and still gets messages")
        await follower.settle_removals()
        for info in await self._target.consumers(name):
            if info["name"] not in summary.consumers:
                await self._target.delete_consumer(name, info["name"])
        for consumer, entry in summary.consumers.items():
            original = await self._source.consumer(name, consumer)
            kept = await carry(self._target, name, consumer, entry, original)
            acks.replies |= {(name, consumer, seq): reply for seq, reply in kept.items()}
        if self._options.verify:
            differences = await compare_consumers(self._target, name, summary.consumers)
            if differences:
                raise CanNotFollow("; ".join(differences))
        self._copied[name] = summary

    async def _switch_all(self) -> None:
        """Switch all streams; from here on, going back loses what is published to the target."""
        try:
            for each in self._plans:
                await self._switch(each)
        except TransferError as error:
            raise TransferError(
                f"{error}; the source stays frozen: run the same command again to go on, or give it "
                "back with --release if nothing was published to the target yet"
            ) from error

    async def _complete(self, plan: StreamPlan) -> None:
        """Give the copy its own configuration."""
        if not plan.target_config.get("sealed"):
            await self._target.update_stream(plan.target_config)

    async def _switch(self, plan: StreamPlan) -> None:
        await self._complete(plan)
        note = freeze_note((await self._source.stream(plan.name))["config"]) or {"paused": []}
        for info in await self._target.consumers(plan.name):
            if info.get("paused") and info["name"] in note["paused"]:
                await self._target.pause_consumer(plan.name, info["name"], "")

    async def _result(self, plan: StreamPlan, *, was_there: bool = False) -> StreamResult:
        summary = self._copied[plan.name]
        info = await self._target.stream(plan.name)
        return StreamResult(plan, info["state"], summary.digest, sorted(summary.consumers), was_there)


def _other_stream(plan: StreamPlan) -> str:
    if not plan.frozen:
        return "the target has a stream of that name with other messages; --replace deletes it there first"
    return (
        "the source is frozen, and the target has a stream of that name with other messages, which may have "
        "taken over already; if it has not, give the source back with --release and begin again"
    )
