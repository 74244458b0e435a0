"""Power cuts at every point of a restore: afterwards the stream is there with its consumers, or nothing."""

import json
from random import Random

import pytest

from millstream.jetstream.api import AccountApi
from millstream.store.errors import StoreError
from tests.kits.crashfs import CrashFileSystem, Keep, PowerCut
from tests.kits.fake_world import FakeWorld
from tests.kits.jetstream.archive import archive, consumer, message, state

COUNT = 40
WHERE = {
    "delivered": {"consumer_seq": 5, "stream_seq": 4},
    "ack_floor": {"consumer_seq": 2, "stream_seq": 2},
    "pending": {"4": {"Sequence": 4, "Timestamp": 1_700_000_000_000_000_000}},
    "redelivered": {"4": 1},
}
DATA = archive(
    state(messages=COUNT, bytes=5000, first_seq=1, last_seq=COUNT, consumer_count=1),
    consumer("C", {"ack_policy": "explicit"}, WHERE),
    *(message(seq, b"%d" % seq * 50, subject=b"a.%d" % (seq % 3)) for seq in range(1, COUNT + 1)),
)


def restore(fs: CrashFileSystem) -> bool:
    """Restore a stream, and return whether the client was told that it is there."""
    world = FakeWorld()
    account = world.account(fs=fs)
    account.recover()
    api = AccountApi(account, "server", "2.15.1")
    api.start()
    body = json.dumps({"config": {"name": "S", "subjects": ["a.>"]}}).encode()
    subject = json.loads(world.request(b"$JS.API.STREAM.RESTORE.S", body))["deliver_subject"].encode()
    for at in range(0, len(DATA), 500):
        world.request(subject, DATA[at : at + 500])
    return "error" not in json.loads(world.request(subject))


def look(fs: CrashFileSystem) -> bool:
    """Return whether the stream is there, after checking that it is whole."""
    world = FakeWorld()
    account = world.account(fs=fs)
    account.recover()
    world.settle()
    assert account.unrecovered == {}
    assert fs.list("store/staging") == []
    if not account.streams:
        return False
    stream = account.streams["S"]
    assert stream.log.messages == COUNT
    assert not stream.log.losses.damages
    ledger = stream.consumers["C"].ledger
    assert (ledger.floor_dseq, ledger.floor_sseq, ledger.delivered_sseq) == (2, 2, 4)
    assert list(ledger.pending) == [4]
    assert dict(ledger.redelivered) == {4: 1}
    return True


def operations() -> int:
    fs = CrashFileSystem()
    assert restore(fs)
    return fs.operations


@pytest.mark.parametrize("keep", list(Keep))
def test_there_is_all_of_it_or_nothing_after_a_power_cut(keep: Keep) -> None:
    seen = set()
    for at in range(1, operations() + 1):
        fs = CrashFileSystem()
        fs.cut_power_at(at)
        with pytest.raises(PowerCut):
            restore(fs)
        seen.add(look(fs.crash(keep, Random(at))))
    assert False in seen


def test_what_was_told_to_be_there_is_there_after_a_power_cut() -> None:
    for keep in Keep:
        fs = CrashFileSystem()
        assert restore(fs)
        assert look(fs.crash(keep, Random(1)))


def test_a_disk_that_fails_at_any_point_leaves_all_of_it_or_nothing() -> None:
    outcomes = set()
    for at in range(1, operations() + 1):
        fs = CrashFileSystem()
        fs.fail(5, at=at)
        try:
            told = restore(fs)
        except StoreError:
            continue  # before there was anything to restore
        outcomes.add(told)
        fs.failures.clear()
        assert look(fs.kill()) == told
    assert False in outcomes
