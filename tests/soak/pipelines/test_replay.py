"""Replay, end to end: a table comes back as messages, in order, and a second run adds nothing."""

import time
from pathlib import Path

import pytest

# Generous, since Spark is slow on a busy machine; and one JVM for all of them.
pytestmark = [pytest.mark.timeout(600)]


def archive(stream: str, table: Path) -> dict[str, object]:
    return {"kind": "archive", "name": "archive", "streams": [stream], "table": str(table), "trigger": "once"}


def replay(table: Path, target: str, **keys: object) -> dict[str, object]:
    return {"kind": "replay", "name": "replay", "table": str(table), "target": target,
            "subject": "back.{subject}", **keys}  # fmt: skip


@pytest.mark.soak
def test_a_replay_is_complete_in_order_and_repeatable(broker, run_pipeline, tmp_path) -> None:
    stream = broker.create("PLAYED", "played.>")
    target = broker.create("BACK", "back.>", duplicate_window=100_000_000)
    table = tmp_path / "table"
    broker.fill("played", 120)
    broker.link.api(f"STREAM.MSG.DELETE.{stream}", {"seq": 50})
    run_pipeline(broker, archive(stream, table))
    run_pipeline(broker, replay(table, target, to_sequence=70, chunk=30))
    assert broker.count(target) == 69
    # The ids are forgotten by now: what keeps the second run from doubling is the target itself.
    time.sleep(0.3)
    run_pipeline(broker, replay(table, target, chunk=50))
    run_pipeline(broker, replay(table, target))
    messages = broker.messages(target)
    expected = [number for number in range(1, 121) if number != 50]
    assert [message.data for message in messages] == [b"message %d" % number for number in expected]
    first = messages[0]
    headers = dict(first.headers)
    assert first.subject == "back.played.1"
    assert headers["Number"] == "1"
    assert headers["Nats-Msg-Id"] == "PLAYED:1"
    assert (headers["Millstream-Orig-Stream"], headers["Millstream-Orig-Seq"]) == ("PLAYED", "1")


@pytest.mark.soak
def test_a_replay_keeps_a_rate_and_the_original_timing(millstream, run_pipeline, tmp_path) -> None:
    stream = millstream.create("TIMED", "timed.>")
    target = millstream.create("AGAIN", "back.>")
    table = tmp_path / "table"
    millstream.fill("timed", 10)
    time.sleep(1)
    millstream.fill("timed", 10, first=11)
    run_pipeline(millstream, archive(stream, table))

    begin = time.monotonic()
    run_pipeline(millstream, replay(table, target, rate=10))
    assert time.monotonic() - begin > 1.8
    assert [message.data for message in millstream.messages(target)] == [
        b"message %d" % n for n in range(1, 21)
    ]

    again = millstream.create("AGAIN2", "again.>")
    begin = time.monotonic()
    run_pipeline(millstream, replay(table, again, subject="again.{subject}", speed=0.5))
    assert time.monotonic() - begin > 1.9
    messages = millstream.messages(again)
    assert len(messages) == 20
    assert dict(messages[0].headers)["Millstream-Orig-Seq"] == "1"
