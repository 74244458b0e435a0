"""The checks of damage, removed content and configurations, on histories written by hand."""

from __future__ import annotations

from random import Random

import pytest

from tests.sim.checks.damage_checks import check_damage, note_erased
from tests.sim.checks.test_checker import history_of, plan_of, published, stored
from tests.sim.history import AckSent, Change, ConsumerLook, Delivery, Final, History, Removal, Rot
from tests.sim.machine.disk import SimDisk
from tests.sim.machine.loop import SimLoop
from tests.sim.machine.machine import Machine
from tests.sim.plans.plan import Plan

LOG = "store/jetstream/$G/streams/S/log/0000000001.log"
CONSUMERS = "store/jetstream/$G/streams/S/consumers/0000000001.log"


def _wrong(history: History, plan: Plan | None = None) -> str:
    return "\n".join(check_damage(plan or plan_of(), history))


def test_damage_that_nothing_explains_is_a_false_alarm() -> None:
    history = history_of(stored())
    history.reported = [f"ERROR {LOG}: damaged block at 0"]
    history.power_cuts = 1
    assert "there was none" in _wrong(history)
    history.rot = [Rot(1.0, LOG)]
    assert _wrong(history) == ""


def test_a_sound_stream_loses_nothing() -> None:
    history = history_of(stored())
    history.reported = ["ERROR store/jetstream/$G/streams/K/log/1.log: damaged end, at most 2 messages lost"]
    history.rot = [Rot(1.0, LOG)]
    assert "of a sound stream" in _wrong(history)
    history.reported = [f"ERROR {LOG}: damaged end, at most 2 messages lost"]
    assert _wrong(history) == ""


def test_removed_messages_leave_the_disk() -> None:
    history = history_of(stored((2, 8)), published(7, 1, size=40), published(8, 2, size=40))
    history.on_disk = {7: LOG, 8: LOG}
    assert "message 7 (1) of S was removed long ago" in _wrong(history)
    history.on_disk = {8: LOG}
    assert _wrong(history) == ""


@pytest.mark.parametrize("there", [True, False])
def test_an_erased_message_is_not_there_when_that_is_answered(there: bool) -> None:
    machine = Machine(SimLoop(Random(0)), 0, lambda *_: None)
    assert isinstance(machine.disk, SimDisk)
    machine.disk.open(LOG, create=True).append(b"s.17 xxxxxxxxxxxxx" if there else b"s.18 xxxxxxxxxxxxx")
    request = {"endpoint": "STREAM.MSG.DELETE", "seq": 1, "no_erase": False}
    removal = Removal("S", 1.0, request, {"success": True}, 2.0)
    history = history_of(stored(), published(7, 1, size=40))
    note_erased(machine, history, removal)
    assert bool(history.problems) is there


def test_a_confirmed_configuration_stays() -> None:
    final = stored()
    final.config = {"max_msgs": 3}
    history = history_of(final)
    history.changes = [Change("S", 1.0, {"max_msgs": 3}, 2.0), Change("S", 3.0, {"max_msgs": 8}, 4.0)]
    assert "was set to one of [8]" in _wrong(history)
    history.changes[1].answered_at = None  # it may have happened or not
    assert _wrong(history) == ""


def test_a_confirmed_configuration_of_a_consumer_stays() -> None:
    history = history_of(stored())
    history.changes = [Change("S.c", 1.0, {"max_ack_pending": 5}, 2.0)]
    history.looks = [ConsumerLook(9.0, "S", "c", {"config": {"max_ack_pending": 2}})]
    assert "max_ack_pending is 2" in _wrong(history)


def _read_once(final: Final) -> History:
    history = history_of(final, published(7, 1), published(8, 2))
    history.rot = [Rot(3.0, CONSUMERS)]
    history.deliveries = [Delivery(2.0, "r", 1, "S", "c", 1, 1, 1, 7, "s.1")]
    history.acks = [AckSent(2.0, "r", 1, "S", "c", 1, "+ACK", 2.5)]
    return history


def test_a_damaged_consumer_misses_nothing() -> None:
    assert "2 was never delivered" in _wrong(_read_once(stored((1, 7), (2, 8))), plan_of(consumer=True))


def test_a_damaged_consumer_that_delivers_again_says_so() -> None:
    history = _read_once(stored((1, 7)))
    history.deliveries.append(Delivery(4.0, "r", 1, "S", "c", 1, 2, 2, 7, "s.1"))
    plan = plan_of(consumer=True)
    assert "no damage was reported" in _wrong(history, plan)
    history.reported = [f"ERROR consumers in {CONSUMERS}: lost track"]
    assert _wrong(history, plan) == ""
