"""One run: a plan is carried out on a machine, faults happen, everything settles, and the checker judges."""

from __future__ import annotations

import errno
import logging
import threading
from dataclasses import dataclass
from random import Random
from typing import Any

from tests.kits.crashfs import Keep
from tests.sim.checks.checker import check
from tests.sim.checks.damage_checks import REST_S, note_remains
from tests.sim.clients.actors import Actor, OrderedReader, Reader
from tests.sim.clients.client import SimClient
from tests.sim.clients.content import read_content
from tests.sim.clients.stream_actor import StreamActor
from tests.sim.clients.wide_reader import WideReader
from tests.sim.history import ConsumerLook, History, Rot
from tests.sim.machine.chance import fixed_chance
from tests.sim.machine.loop import SECOND_NS, SimLoop
from tests.sim.machine.machine import Machine
from tests.sim.plans.draw import GENERATION, make_plan
from tests.sim.plans.plan import Fault, Plan

LONGEST_S = 3_000.0  # of simulated time
MOST_STEPS = 200_000  # a long run has 5,000
AFTERMATH_S = 8.0  # after a fault, until everything works as before


@dataclass
class Outcome:
    """The result of a run."""

    plan: Plan
    history: History
    violations: list[str]
    simulated_s: float
    operations: int  # of the disk


class _Reports(logging.Handler):
    """Collects defects that the server reports about itself."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.found: list[str] = []
        self.lines: list[str] = []
        self._thread = threading.get_ident()

    def emit(self, record: logging.LogRecord) -> None:
        if record.thread != self._thread:
            return  # of another server in this process
        text = record.getMessage()
        self.lines.append(f"{record.levelname} {text}")
        if record.name == "millstream.guard":
            trace = logging.Formatter().formatException(record.exc_info) if record.exc_info else ""
            self.found.append(f"the server reports a defect: {text}\n{trace}")


def _tells_damage(line: str) -> bool:
    return any(word in line for word in ("damaged", "missing", "lost", "removed"))


class Run:
    """A plan under way."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.loop = SimLoop(Random(f"loop {plan.seed}"))
        self.history = History()
        self.machine = Machine(self.loop, plan.seed, self._happened)
        self.clients: list[SimClient] = []
        self.actors: list[Actor] = []
        self.readers: list[Reader] = []
        self.ordered: list[OrderedReader] = []
        self.machine.rotted = lambda path: self.history.rot.append(Rot(self.loop.now, path))
        self.finished = False
        self.looks_at_disk = False  # in the end: removed messages must not be there
        for fault in plan.faults:
            if fault.kind == "machine":
                for name, value in fault.args.items():
                    setattr(self.machine, name, value)
        if plan.calm:
            self.machine.weather.stalls = self.machine.pace.stalls = 0.0
        self.history.wide.calm = not (self.machine.weather.stalls or self.machine.pace.stalls)

    def _happened(self, what: str, *more: object) -> None:
        self.history.note(self.loop.now, "----", what, *more)
        if what != "started":
            self.history.faults += 1
        self.history.power_cuts += what == "power cut"
        if what in ("power cut", "killed"):
            self.history.ends.append(self.loop.now)
        self.history.wide.disturb(self.loop.now, AFTERMATH_S)

    def carry_out(self) -> Outcome:
        reports = _Reports()
        log = logging.getLogger("millstream")
        before = (log.level, log.propagate, list(log.handlers))
        log.setLevel(logging.WARNING)
        log.propagate = False
        log.handlers = [reports]
        try:
            with fixed_chance(self.machine, self.plan.seed):
                self._run()
        finally:
            log.setLevel(before[0])
            log.propagate, log.handlers = before[1], before[2]
        self.history.reported = [line for line in reports.lines if _tells_damage(line)]
        problems = self.history.problems + self.machine.problems + reports.found
        problems += [f"{client.name} got {line}" for client in self.clients for line in client.errors]
        if not self.finished:
            problems.append(
                f"the run does not come to an end (at {self.loop.now:.0f} s, {self.loop.steps} steps)"
            )
        violations = problems + (check(self.plan, self.history) if self.finished else [])
        self.history.lines += [f"log: {line}" for line in reports.lines]
        operations = self.machine.operations + self.machine.disk.operations
        return Outcome(self.plan, self.history, violations, self.loop.now, operations)

    def _run(self) -> None:
        self.machine.start()
        for fault in self.plan.faults:
            self.loop.at(self.loop.clients, fault.at, self._fault, fault)
        self.loop.spawn(self._main())
        while not self.finished and self.loop.now < LONGEST_S and self.loop.steps < MOST_STEPS:
            if not self.machine.step():
                break

    # -- faults -----------------------------------------------------------------------------------

    def _fault(self, fault: Fault) -> None:
        machine, args = self.machine, fault.args
        self.history.note(self.loop.now, "----", fault.kind, args)
        lasts_s = args.get("for", 0.0) + {"link": 45.0, "slow": 30.0}.get(fault.kind, 0.0)
        self.history.wide.disturb(self.loop.now, lasts_s + AFTERMATH_S)
        self.history.faults += 1
        if fault.kind == "power":
            machine.cuts_at_start = args["again"]
            if "within" in args:
                machine.disk.cut_power_within(args["within"], args["operations"])
                machine.keep = Keep.SECTORS if args["torn"] else None
            else:
                machine.disk.cut_power_at(machine.disk.operations + args["operations"])
            if "keep" in args:
                machine.keep = Keep(args["keep"])
        elif fault.kind == "kill":
            machine.kill()
        elif fault.kind == "stop":
            machine.stop()
        elif fault.kind == "link" and self.clients:
            self.clients[args["client"] % len(self.clients)].cut()
        elif fault.kind == "error":
            machine.disk.fail(errno.EIO, kind=args["kind"], within=args.get("within", ""))
            machine.disk.kills = args.get("kills", False)
            machine.disk.fails_once = args.get("once", False)
            self.loop.after(self.loop.clients, args["for"], self._heal)
        elif fault.kind == "unreadable":
            machine.disk.unreadable = True
            machine.disk.unreadable_within = args.get("within", "")
            self.loop.after(self.loop.clients, args["for"], self._heal)
        elif fault.kind == "slow":
            machine.pace.slow_s = 6.0
            self.loop.after(self.loop.clients, args["for"], self._heal)
        elif fault.kind == "clock":
            machine.clock.was_set_ns += round(args["by"] * SECOND_NS)
            self.history.clock_set = True
        elif fault.kind == "rot":
            machine.rots_header_of = args.get("header_of", "")
            machine.rots_within = args.get("within", "/streams/")
            machine.rots_sectors, machine.rots = args.get("sector", False), args.get("places", 1)
            machine.rots_at_rest = args["at_rest"]
            if args["at_rest"]:
                machine.kill()
            else:
                machine.rot()
        elif fault.kind == "look at disk":
            self.looks_at_disk = True
        elif fault.kind == "full":
            machine.disk.space = machine.disk.used() + args["left"]
            self.loop.after(self.loop.clients, args["for"], self._heal)

    def _heal(self) -> None:
        self.machine.disk.heal()
        self.machine.pace.slow_s = 0.0

    # -- the course of a run ----------------------------------------------------------------------

    def _client(self, name: str) -> SimClient:
        client = SimClient(self.machine, name)
        self.clients.append(client)
        return client

    async def _main(self) -> None:
        auditor = self._client("auditor")
        await self._set_up(auditor)
        plan, history = self.plan, self.history
        readers = {each.path: each for each in plan.consumers}
        for name in sorted({op.actor for op in plan.ops} - readers.keys()):
            self._begin(name, StreamActor(self._client(name), history))
        for number, (path, consumer) in enumerate(readers.items()):
            reader = (WideReader if consumer.wide else Reader)(self._client(f"r{number}"), history, consumer)
            self.readers.append(reader)
            self._begin(path, reader)
        for number, stream in enumerate(plan.ordered):
            ordered = OrderedReader(self._client(f"o{number}"), history, stream)
            self.ordered.append(ordered)
            self.loop.spawn(ordered.run([]))
        last = max((fault.at + fault.args.get("for", 0.0) for fault in plan.faults), default=0.0)
        while not all(actor.done for actor in self.actors) or self.loop.now < last:
            await self.loop.sleep(1.0)
        self._end_faults()
        await self._settle(auditor)
        self.history.wide.ended = self.loop.now
        self.finished = True

    def _begin(self, name: str, actor: Actor) -> None:
        self.actors.append(actor)
        self.loop.spawn(actor.run([op for op in self.plan.ops if op.actor == name]))

    def _end_faults(self) -> None:
        self.history.note(self.loop.now, "---- faults end")
        self._heal()
        self.machine.cuts_at_start = 0
        self.machine.disk.cut_power_at(0)
        self.machine.disk.cut_power_within("", 0)

    async def _set_up(self, auditor: SimClient) -> None:
        for name, config in self.plan.streams.items():
            await self._insist(auditor, f"STREAM.CREATE.{name}", {"name": name, **config}, 10058)
        for consumer in self.plan.consumers:
            if consumer.wide:
                continue
            await self._insist(
                auditor,
                f"CONSUMER.DURABLE.CREATE.{consumer.stream}.{consumer.name}",
                {"stream_name": consumer.stream, "config": consumer.config},
                10148,
            )

    async def _insist(self, auditor: SimClient, endpoint: str, body: Any, there: int) -> None:
        """Ask until it is done; error `there` means that it was done before."""
        while True:
            answer = await auditor.api(endpoint, body)
            if answer is not None:
                error = answer.get("error")
                if error is None or error["err_code"] == there:
                    return
                if error["code"] == 400:
                    self.history.problems.append(f"{endpoint} is refused: {error}")
                    return
            await self.loop.sleep(0.5)

    async def _settle(self, auditor: SimClient) -> None:
        await self.loop.sleep(15.0)  # what was sent before is answered, or never will be
        for reader in self.readers:
            await reader.drain()
        await self._follow(auditor)
        if self.looks_at_disk:
            await self.loop.sleep(self.machine.erase_within_s + REST_S)
            note_remains(self.machine, self.history)
        copies = [copy.name for copy in self.history.copies]
        names = [*self.plan.streams, *copies]
        names.sort(key=lambda name: self.plan.streams.get(name, {}).get("storage") != "memory")
        for number, name in enumerate(names):
            if self.plan.last_cut and not number:
                self.machine.power_cut()
            self.history.final[name] = await read_content(
                auditor, name, direct=self._is_direct(name), compared=self.plan.seed % 8 == 0
            )
        listed = await auditor.api("STREAM.NAMES", {})
        self.history.names = None if listed is None else listed.get("streams") or []
        self.history.read_at_ns = self.machine.clock.wall_ns()
        for copy in self.history.copies:
            for consumer in self.plan.consumers:
                if copy.consumers and consumer.stream == copy.of:
                    found = await auditor.api(f"CONSUMER.INFO.{copy.name}.{consumer.name}")
                    if found is not None:
                        look = ConsumerLook(self.loop.now, copy.name, consumer.name, found)
                        self.history.looks.append(look)
        for reader in self.readers:
            for _ in range(20):
                if await reader.look_at_consumer() is not None:
                    break

    async def _follow(self, auditor: SimClient) -> None:
        """Wait until mirrors, sourcing streams and ordered readers have followed."""
        until = self.loop.now + 300.0
        while self.loop.now < until:
            info = await auditor.api("STREAM.INFO.S")
            behind = info is None
            if info is not None and info.get("state", {}).get("messages"):
                found = await auditor.api("STREAM.MSG.GET.S", {"last_by_subj": ">"})
                last = found["message"]["seq"] if found is not None and "message" in found else 0
                behind = any(reader.last < last for reader in self.ordered) and not self.history.removals
            for name, config in self.plan.streams.items():
                if info is not None and ("mirror" in config or "sources" in config):
                    found = await auditor.api(f"STREAM.INFO.{name}")
                    if found is None or "error" in found:
                        behind = behind or config.get("storage") != "memory"
                        continue
                    origins = [found["mirror"]] if "mirror" in found else found.get("sources", [])
                    behind = behind or any(
                        each.get("lag", 1) > 0 or each.get("active", -1) < 0 for each in origins
                    )
            if not behind:
                await self.loop.sleep(5.0)
                return
            await self.loop.sleep(1.0)
        self.history.problems.append("a mirror, a sourcing stream or an ordered reader stays behind")

    def _is_direct(self, name: str) -> bool:
        """Return True if direct gets of a stream are answered by itself; a mirror may be behind."""
        is_mirrored = any(
            config.get("mirror", {}).get("name") == name for config in self.plan.streams.values()
        )
        return bool(self.plan.streams.get(name, {}).get("allow_direct")) and not is_mirrored


def run_seed(seed: int, generation: int = GENERATION) -> Outcome:
    return run_plan(make_plan(seed, generation))


def run_plan(plan: Plan) -> Outcome:
    return Run(plan).carry_out()
