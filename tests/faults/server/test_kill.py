"""kill -9 under load, again and again: what was acknowledged is there, and the server starts every time.

A killed process loses what it had in memory; what it had written stays, because the machine goes on.  So
streams that are acknowledged before a sync must lose nothing here, too.  `tests/faults/store/test_crash.py`
and `tests/model/jetstream/test_stream.py` stop the machine.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

import pytest

from tests.kits.reference import ServerKind, ServerProcess
from tests.kits.server.process import Caller, Ledger, Publisher

KILLS = 9  # of each of the tests below
CONNECTIONS = 3
SYNC_LATER = "jetstream { sync_interval: 2m }"


@contextmanager
def running(tmp_path: Path, config: str | None = None) -> Iterator[ServerProcess]:
    server = ServerProcess(
        ServerKind.MILLSTREAM, jetstream=True, store_dir=tmp_path / "store", config=config, monitor=True
    )
    with server:
        yield server


def kill_under_load(server: ServerProcess, ledgers: list[Ledger], random: Random, most: int) -> int:
    """Let clients publish, kill the server at some moment, start it again; how many answers there were."""
    publishers = [
        Publisher(server.port, f"p{number}x{random.getrandbits(32):08x}", ledgers, random.getrandbits(32))
        for number in range(CONNECTIONS)
    ]
    for publisher in publishers:
        publisher.start()
    wanted = random.randint(0, most)
    deadline = time.monotonic() + 20
    while sum(each.answers for each in publishers) < wanted and time.monotonic() < deadline:
        time.sleep(random.random() * 0.003)
    server.kill()
    for publisher in publishers:
        publisher.finish()
    assert server.start().running
    return sum(each.answers for each in publishers)


def streams(caller: Caller) -> list[Ledger]:
    """Several kinds of streams, and what each of them promises."""
    caller.create("plain")
    caller.create("ids", duplicate_window=3600_000_000_000)
    caller.create("few", max_msgs=150)
    caller.create("kv", max_msgs_per_subject=1)
    caller.create("large", max_msgs=400)  # segments come and go
    caller.create("loose", persist_mode="async")
    caller.create("whole", allow_atomic=True)
    return [
        Ledger("plain"),
        Ledger("ids", with_id=True),
        Ledger("few", most=150),
        Ledger("kv", subjects=30, last_only=True),
        Ledger("large", padding=100_000, most=400),
        Ledger("loose"),
        Ledger("whole", batch=4),
    ]


def check_duplicates(caller: Caller, ledger: Ledger, random: Random) -> None:
    """Ids that were stored are known; those that nobody answered for can be sent again without harm."""
    stored = sorted(ledger.acked)
    for seq in random.sample(stored, min(len(stored), 10)):
        message_id = ledger.acked[seq].decode()
        answer = caller.publish("ids.again", b"never stored", Nats_Msg_Id=message_id)
        assert answer == {"stream": "ids", "seq": seq, "duplicate": True}
    for payload, subject in list(ledger.unanswered.items())[:10]:
        ledger.answered(payload, caller.publish(subject, payload, Nats_Msg_Id=payload.decode()))


def run(tmp_path: Path, kills: int, seed: int, config: str | None = None, most: int = 1500) -> None:
    random = Random(seed)
    with running(tmp_path, config) as server:
        with Caller(server.port) as caller:
            ledgers = streams(caller)
        answers = 0
        for number in range(kills):
            answers += kill_under_load(server, ledgers, random, most)
            with Caller(server.port) as caller:
                for ledger in ledgers:
                    ledger.check(caller, thoroughly=number == kills - 1)
                check_duplicates(caller, ledgers[1], random)
        assert answers > 0
        assert all(ledger.refused == [] for ledger in ledgers)


def test_killed_servers_keep_every_promise(tmp_path: Path) -> None:
    run(tmp_path, KILLS, seed=1)


def test_killed_servers_that_sync_later_keep_every_promise(tmp_path: Path) -> None:
    run(tmp_path, KILLS, seed=2, config=SYNC_LATER)


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("config", [None, SYNC_LATER])
def test_killed_servers_keep_every_promise_for_long(tmp_path: Path, seed: int, config: str | None) -> None:
    run(tmp_path, 25, seed=1000 + seed, config=config, most=4000)
