"""Promises about damage, about bytes of removed messages on the disk, and about changes of configurations."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from tests.sim.checks.consumer_checks import SETTLES, check_consumer
from tests.sim.checks.stream_view import StreamView
from tests.sim.history import Change, History, Publish, Removal
from tests.sim.plans.plan import ConsumerPlan, Plan

if TYPE_CHECKING:
    from tests.sim.machine.machine import Machine

REST_S = 75.0  # after a failure, the server tries again within this time
_TOLD = 10  # bytes of a payload behind its number that are looked for
_KEEPS = ("S", "W", "I", "K", "L")  # streams whose messages nobody else removes or copies
# Reports that no power loss explains: what they name was durable, or is left out as not finished.
_ONLY_DAMAGE = (
    "no commit journal has them",
    "a batch is damaged",
    "the damaged batch",
    "the damaged header",
    "damaged block",
    "the index of the blocks is damaged",
    "damaged segment without a summary",
    "the segment is missing",
    "records are missing",
    "makes no sense",
    "its end is damaged",
    "its index is damaged",
)
_LOST = re.compile(r"at most ([1-9][0-9]*) messages lost")


def check_damage(plan: Plan, history: History) -> Iterator[str]:
    """Yield what is wrong with reports, removed content, and configurations."""
    yield from _reports(history)
    yield from _remains(history)
    yield from _configurations(plan, history)
    yield from _damaged_consumers(plan, history)


# -- reports --------------------------------------------------------------------------------------


def _reports(history: History) -> Iterator[str]:
    """Check that nothing is called damaged that is not, and that reports name the damaged stream."""
    damaged = {rot.stream for rot in history.rot}
    for line in history.reported:
        if not history.rot and any(words in line for words in _ONLY_DAMAGE):
            yield f"damage is reported, and there was none: {line}"
        lost = _LOST.search(line)
        if lost and not history.power_cuts and not any(f"streams/{name}/" in line for name in damaged):
            yield f"messages of a sound stream are reported as lost: {line}"


# -- bytes on the disk ----------------------------------------------------------------------------


def note_remains(machine: Machine, history: History) -> None:
    """Note which messages lie on the disk when all has rested; the checker knows which were removed."""
    for each in history.publishes:
        if each.seq and each.stream in _KEEPS and not each.increment:
            path = machine.disk.has(_text(each), _folder(each.stream))
            if path:
                history.on_disk[each.uid] = path


def note_erased(machine: Machine, history: History, removal: Removal) -> None:
    """Note where a message lies whose deletion was just answered, if its bytes should be gone."""
    request = removal.request
    if request["endpoint"] != "STREAM.MSG.DELETE" or request["no_erase"] or not removal.happened:
        return
    if history.rot:
        return  # a damaged message is given up, and its bytes go later
    for each in history.publishes:
        if each.stream == removal.stream and each.seq == request["seq"] and not each.duplicate:
            twice = sum(other.uid == each.uid for other in history.publishes) > 1
            if each.size < _TOLD or twice:
                continue
            for folder in (_folder(each.stream), *_journals(machine, each.stream)):
                if path := machine.disk.has(_text(each), folder):
                    history.problems.append(f"{each.seq} of {each.stream} was erased, and is in {path}")


def _folder(stream: str) -> str:
    return f"/streams/{stream}/log/"


def _journals(machine: Machine, stream: str) -> list[str]:
    """Return where copies in a commit journal lie, if no other stream has the same messages."""
    copied = any(f"/streams/{name}" in path for name in ("M", "G", "R") for path in machine.disk.paths())
    return [] if stream == "S" and copied else ["/millstream-"]


def _text(publish: Publish) -> bytes:
    """Return the beginning of the content with what lies before it in a record."""
    before = b"\r\n\r\n" if publish.msg_id or publish.batch else publish.subject.encode()
    return before + b"%d " % publish.uid + b"x" * min(publish.size, _TOLD)


def _remains(history: History) -> Iterator[str]:
    """Check that the bytes of removed messages have left the files of their streams."""
    if history.rot:
        return
    finals = [(name, final) for name, final in history.final.items() if final.complete]
    there = {(name, stored.uid) for name, final in finals for stored in final.content}
    for each in history.publishes:
        path = history.on_disk.get(each.uid)
        if path and each.size >= _TOLD and (each.stream, each.uid) not in there:
            yield f"message {each.uid} ({each.seq}) of {each.stream} was removed long ago, and is in {path}"


# -- configurations -------------------------------------------------------------------------------


def _configurations(plan: Plan, history: History) -> Iterator[str]:
    """Check that a change that was confirmed is there in the end, unless another one came after it."""
    found: dict[str, dict[str, object]] = {
        name: final.config for name, final in history.final.items() if final.complete
    }
    for look in history.looks:
        found[f"{look.stream}.{look.consumer}"] = look.info.get("config", {})
    for name in {each.name for each in history.changes}:
        updates = [each for each in history.changes if each.name == name]
        sure = [each for each in updates if each.answered_at is not None]
        if not sure or name not in found or any(each.stream == name for each in history.incarnations):
            continue
        possible = [each for each in updates if not any(_is_after(other, each) for other in sure)]
        for field in sure[0].values:
            values = [each.values.get(field) for each in possible]
            if found[name].get(field) not in values:
                yield f"{name}: {field} is {found[name].get(field)}, and was set to one of {values}"


def _is_after(later: Change, earlier: Change) -> bool:
    end = earlier.answered_at
    return end is not None and later.at > end


# -- consumers of damaged streams -----------------------------------------------------------------


def _damaged_consumers(plan: Plan, history: History) -> Iterator[str]:
    """Check what damage may not do to consumers: it never settles a message, and says what it cost."""
    for consumer in plan.consumers:
        rots = [rot for rot in history.rot if rot.stream == consumer.stream]
        final = history.final.get(consumer.stream)
        if not rots or final is None or not final.complete:
            continue
        view = StreamView(plan, history, consumer.stream)
        if view.removals or not view.plain:
            continue  # a removal that was damaged brings back messages that consumers have passed
        if not any("/consumers/" in rot.path for rot in rots):
            yield from (f"{consumer.path}: {each}" for each in check_consumer(view, consumer))
        elif not consumer.wide:  # others may begin anywhere
            yield from (f"{consumer.path}: {each}" for each in _lost_track(view, consumer))


def _lost_track(view: StreamView, consumer: ConsumerPlan) -> Iterator[str]:
    """A consumer with a damaged state may deliver again what was settled, and says so; it misses nothing."""
    history = view.history
    told = any(f"streams/{consumer.stream}/consumers" in line for line in history.reported)
    looks = [look.at for look in history.looks if (look.stream, look.consumer) == (view.name, consumer.name)]
    if told and max(looks, default=0.0) < max(rot.at for rot in history.rot):
        return  # it was lost within a second of its creation: its record had no copy yet
    got = {each.seq for each in view.deliveries if each.consumer == consumer.name}
    wanted = consumer.config.get("filter_subject")
    gives_up = consumer.config.get("max_deliver", -1) > 0
    if not gives_up and consumer.config["ack_policy"] != "all":
        for stored in view.final.content:
            if stored.seq not in got and wanted in (None, stored.subject):
                yield f"{stored.seq} was never delivered"
    if told:
        return
    settled = {
        each.seq: each.confirmed_at
        for each in history.acks
        if (each.stream, each.consumer) == (consumer.stream, consumer.name) and each.kind in SETTLES
    }
    for delivery in view.deliveries:
        end = settled.get(delivery.seq)
        if delivery.consumer == consumer.name and end is not None and delivery.at > end:
            yield f"{delivery.seq} was settled and is delivered again, and no damage was reported"
