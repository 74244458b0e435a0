"""Queues that clients fill have bounds, and the log says when one is reached: once, not for every request."""

from __future__ import annotations

import json
import logging

import pytest

from millstream.base.complaints import Complaints
from millstream.jetstream.options import AccountJetStreamOptions
from millstream.jetstream.resources import Resources
from tests.kits.jetstream.stream import Site, block

MB = 1024 * 1024


def stage(
    site: Site, batch: str, number: int, size: int, *, reply: bool = True, subject: str = "s.1"
) -> bytes:
    headers = block(Nats_Batch_Id=batch, Nats_Batch_Sequence=str(number))
    if reply:
        return site.world.request(subject.encode(), bytes(size), headers)
    site.world.send(subject.encode(), bytes(size), headers=headers)
    return b""


def small_resources(size: int) -> Resources:
    resources = Resources()
    resources.max_batch_bytes = size
    return resources


@pytest.mark.parametrize("reply", [True, False])
def test_every_message_of_a_batch_counts(reply: bool, caplog: pytest.LogCaptureFixture) -> None:
    site = Site(resources=small_resources(4 * MB))
    stream = site.create(allow_atomic=True)
    for batch in range(5):
        stage(site, f"b{batch}", 1, 10)
        for number in range(2, 20):
            stage(site, f"b{batch}", number, 512 * 1024, reply=reply)
    assert stream.batches.staging.held <= 4 * MB
    assert site.account.resources.batch_bytes <= 4 * MB
    assert sum("atomic batches" in message for message in caplog.messages) == 1
    assert json.loads(stage(site, "new", 1, 6 * MB))["error"]["err_code"] == 10210


def test_what_a_batch_had_is_free_when_it_ends() -> None:
    site = Site(resources=small_resources(4 * MB))
    stream = site.create(allow_atomic=True)
    for round_ in range(5):
        for number in range(1, 4):
            assert stage(site, f"b{round_}", number, MB) == b""
        site.world.advance(60) if round_ % 2 else stream.batches.stop()
        assert (stream.batches.staging.held, site.account.resources.batch_bytes) == (0, 0)
        assert site.account.usage.batching == {}


def test_batches_count_against_the_limit_of_the_account() -> None:
    site = Site(options=AccountJetStreamOptions(max_store=3 * MB))
    site.create(allow_atomic=True)
    site.create("T", allow_atomic=True)
    assert stage(site, "a", 1, MB) == b""
    assert stage(site, "b", 1, MB, subject="t.1") == b""
    assert json.loads(stage(site, "a", 2, MB + 1))["error"]["err_code"] == 10002
    assert site.refusal("s.1", bytes(4 * MB))[1] == 10002


def test_direct_gets_of_many_messages_are_bounded(caplog: pytest.LogCaptureFixture) -> None:
    site = Site()
    site.create(allow_direct=True)
    for _ in range(3):
        site.publish("s.1", b"x")
    site.world.behind.add(b"slow")
    for _ in range(1100):
        site.world.send(b"$JS.API.DIRECT.GET.S", b'{"seq":1,"batch":3}', reply=b"slow")
    refused = [each for each in site.sent(b"slow") if each.headers.startswith(b"NATS/1.0 413")]
    assert len(refused) == 1100 - 1024
    assert sum("direct gets" in message for message in caplog.messages) == 1
    site.world.behind.clear()
    site.world.advance(5)
    site.world.send(b"$JS.API.DIRECT.GET.S", b'{"seq":1,"batch":3}', reply=b"quick")
    site.world.settle()
    assert len(site.sent(b"quick")) == 4


def test_the_last_of_millions_of_subjects_is_found_without_looking_at_all() -> None:
    site = Site()
    site.create(allow_direct=True)
    for number in range(2000):
        site.world.send(b"s.%d" % number, b"")
    site.world.settle()
    assert site.ask("STREAM.MSG.GET.S", {"last_by_subj": "s.>"})["message"]["seq"] == 2000
    site.ask("STREAM.MSG.DELETE.S", {"seq": 2000})
    assert site.ask("STREAM.MSG.GET.S", {"last_by_subj": "s.*"})["message"]["seq"] == 1999
    site.world.send(b"$JS.API.DIRECT.GET.S", b'{"multi_last":["s.>"]}', reply=b"me")
    site.world.settle()
    assert site.sent(b"me")[0].headers.startswith(b"NATS/1.0 413 Too Many Results")


def test_streams_are_removed_one_after_the_other() -> None:
    site = Site()
    for number in range(20):
        site.create(f"S{number}", subjects=[f"s{number}"])
    waiting: list[int] = []
    run = site.world.run_in_worker

    def counted(work: object, done: object) -> None:
        waiting.append(len(site.world._work))
        run(work, done)  # type: ignore[arg-type]

    for number in range(20):
        site.world.send(b"$JS.API.STREAM.DELETE.S%d" % number, b"", reply=b"me")
    site.world.run_in_worker = counted  # type: ignore[assignment,method-assign]
    site.world.settle()
    assert max(waiting) == 0
    assert site.disk.list("store/deleted") == []


def test_a_bound_is_told_once_in_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    now = 0.0
    full = Complaints(logging.getLogger("millstream.test"), lambda: now)
    for _ in range(1000):
        full.warn("%d wait", 7)
    now += 61
    full.warn("%d wait", 8)
    assert caplog.messages == [
        "7 wait",
        "8 wait (and 999 times before)",
    ]
