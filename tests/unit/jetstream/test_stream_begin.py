"""A stream takes messages the moment it is asked for; its folder is made before its first commit."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from millstream.golang.time import ZERO_TIME
from millstream.jetstream.stream import committer
from millstream.jsapi.enums import StorageType
from millstream.jsapi.stream_types import StreamConfig
from tests.kits.jetstream.stream import NO_SPACE, Site

CREATE = b"$JS.API.STREAM.CREATE.S"
CONFIG = json.dumps({"name": "S", "subjects": ["s.>"]}).encode()


def answers(site: Site, subject: bytes) -> list[dict[str, Any]]:
    return [json.loads(each.payload) for each in site.sent(subject)]


def test_what_is_sent_behind_a_creation_is_stored_and_answered_in_order() -> None:
    site = Site()
    site.world.send(CREATE, CONFIG, reply=b"created")
    site.world.send(b"s.a", b"1", reply=b"stored")
    site.world.send(b"$JS.API.STREAM.INFO.S", reply=b"info")
    consumer = {"stream_name": "S", "config": {"durable_name": "C", "ack_policy": "explicit"}}
    site.world.send(b"$JS.API.CONSUMER.DURABLE.CREATE.S.C", json.dumps(consumer).encode(), reply=b"consumer")
    assert [site.sent(to) for to in (b"created", b"stored", b"info", b"consumer")] == [[], [], [], []]
    site.world.settle()
    assert answers(site, b"created")[0]["did_create"]
    assert answers(site, b"stored") == [{"stream": "S", "seq": 1}]
    assert answers(site, b"info")[0]["state"]["messages"] == 1
    assert answers(site, b"consumer")[0]["name"] == "C"
    again = site.restarted(orderly=False)
    assert again.account.streams["S"].log.messages == 1
    assert "C" in again.account.streams["S"].consumers


def test_nothing_is_committed_before_the_folder_is_there() -> None:
    site = Site()
    site.world.send(CREATE, CONFIG)
    site.world.send(b"s.a", b"1", reply=b"me")
    site.world.settle()
    made = site.disk.syncs.index("store/streams")
    assert all(not path.endswith(".log") for path in site.disk.syncs[:made])
    assert site.sent(b"me")


def test_a_stream_whose_folder_cannot_be_made_is_gone_and_everybody_is_told() -> None:
    site = Site()
    site.disk.full = True
    site.world.send(CREATE, CONFIG, reply=b"created")
    site.world.send(b"s.a", b"1", reply=b"stored")
    site.world.send(b"$JS.API.STREAM.INFO.S", reply=b"info")
    site.world.settle()
    created = answers(site, b"created")[0]["error"]
    assert created["err_code"] == 10077
    assert NO_SPACE in created["description"]
    assert answers(site, b"stored")[0]["error"]["err_code"] == 10077
    assert answers(site, b"info")[0]["error"]["err_code"] == 10059
    assert site.account.streams == {}
    assert len(site.account.configs()) == 0
    site.disk.full = False
    site.world.settle()
    site.create("S", subjects=["s.>"])
    assert "error" not in site.publish("s.a")


def test_a_stream_that_is_asked_for_twice_is_answered_twice() -> None:
    site = Site()
    site.world.send(CREATE, CONFIG, reply=b"one")
    site.world.send(CREATE, CONFIG, reply=b"two")
    site.world.settle()
    assert answers(site, b"one")[0]["config"] == answers(site, b"two")[0]["config"]


def test_a_stream_can_be_deleted_and_updated_while_it_is_created() -> None:
    site = Site()
    site.world.send(CREATE, CONFIG)
    body = json.dumps({"name": "S", "subjects": ["s.>"], "max_msgs": 7}).encode()
    site.world.send(b"$JS.API.STREAM.UPDATE.S", body, reply=b"updated")
    site.world.settle()
    assert answers(site, b"updated")[0]["config"]["max_msgs"] == 7
    assert site.restarted(orderly=False).account.streams["S"].config.max_msgs == 7
    other = CONFIG.replace(b'"S"', b'"T"').replace(b"s.>", b"t.>")
    site.world.send(CREATE[:-1] + b"T", other)
    site.world.send(b"$JS.API.STREAM.DELETE.T", reply=b"deleted")
    site.world.settle()
    assert answers(site, b"deleted")[0]["success"]
    assert sorted(site.restarted(orderly=False).account.streams) == ["S"]


def test_a_server_that_stops_finishes_what_it_began() -> None:
    site = Site()
    site.world.send(CREATE, CONFIG)
    site.world.send(b"s.a", b"1")
    again = site.restarted()
    assert again.account.streams["S"].log.messages == 1


def test_figures_of_an_account_are_those_of_its_streams() -> None:
    site = Site()

    def check() -> None:
        streams = list(site.account.streams.values())
        for storage in StorageType:
            own = [each for each in streams if each.config.storage is storage]
            assert site.account.usage.used(storage) == sum(each.bytes() for each in own)
            assert site.account.usage.reserved(storage) == sum(max(each.config.max_bytes, 0) for each in own)
        assert site.account.consumers == sum(each.consumer_count for each in streams)
        assert dict(site.account.configs()) == {each.name: each.config for each in streams}

    site.create("A", max_bytes=1000)
    site.create("B", storage="memory")
    check()
    for subject in ("a.x", "b.x", "b.x"):
        site.publish(subject, b"123")
        check()
    consumer = {"durable_name": "C", "ack_policy": "explicit"}
    assert site.ask("CONSUMER.DURABLE.CREATE.A.C", {"stream_name": "A", "config": consumer})["name"] == "C"
    check()
    site.ask("STREAM.UPDATE.A", {"name": "A", "subjects": ["a.>", "c"], "max_bytes": 500})
    check()
    site.ask("STREAM.PURGE.B")
    check()
    again = site.restarted()
    site = again
    check()
    assert site.account.consumers == 1
    site.ask("STREAM.DELETE.A")
    check()
    assert site.account.consumers == 0


def test_the_first_time_of_a_stream_is_that_of_the_message_that_is_first_now() -> None:
    site = Site()
    stream = site.create("S", subjects=["s.>"])
    for _ in range(3):
        site.world.advance(1.0)
        site.publish("s.a")
    times = [stream.state().first_ts]
    for seq in (1, 2):
        assert site.ask("STREAM.MSG.DELETE.S", {"seq": seq})["success"]
        times.append(stream.state().first_ts)
    assert [later - earlier for earlier, later in itertools.pairwise(times)] == [10**9, 10**9]
    site.ask("STREAM.PURGE.S")
    assert stream.state().first_ts == ZERO_TIME


def test_many_streams_are_synced_at_once_when_a_server_starts() -> None:
    site = Site()
    for number in range(20):
        site.create(f"S{number}")
        site.publish(f"s{number}.a")
    asked: list[str] = []

    def sync_all(folder: str, below: Sequence[str]) -> bool:
        asked.append(folder)
        return True

    site.account.stop()
    site.disk.sync_all = sync_all  # type: ignore[method-assign]
    site.disk.syncs.clear()
    again = Site(disk=site.disk)
    assert len(again.account.streams) == 20
    assert asked == ["store/streams"]
    assert [path for path in site.disk.syncs if path.endswith(".log")] == []


def test_a_start_lists_each_folder_of_a_stream_once(monkeypatch: pytest.MonkeyPatch) -> None:
    site = Site()
    for number in range(3):
        site.create(f"S{number}")
        site.publish(f"s{number}.a")
    site.account.stop()
    listed: list[str] = []
    names = site.disk.list
    monkeypatch.setattr(site.disk, "list", lambda folder: (listed.append(folder), names(folder))[1])
    again = Site(disk=site.disk)
    assert [each.log.messages for each in again.account.streams.values()] == [1, 1, 1]
    folders = [f"store/streams/S{number}" for number in range(3)]
    assert sorted(listed) == sorted(["store", *folders, *(f"{folder}/log" for folder in folders)])


def test_commits_of_many_streams_begin_some_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(committer, "_STARTS_AT_ONCE", 64)
    site = Site()
    for number in range(200):
        site.create(f"S{number}")
    begun: list[int] = []
    start = site.world.writers.start
    site.world.writers.start = lambda *each: (begun.append(len(steps)), start(*each))[1]  # type: ignore[method-assign]
    steps: list[None] = []
    soon = site.world.call_soon

    def call_soon(callback: Callable[[], None]) -> None:
        soon(lambda: (steps.append(None), callback())[1])

    site.world.call_soon = call_soon  # type: ignore[method-assign]
    for number in range(200):
        site.world.send(f"s{number}.a".encode(), b"1", reply=b"me")
    site.world.settle()
    assert len(site.sent(b"me")) == 200
    assert len(begun) == 200
    assert max(begun.count(step) for step in set(begun)) <= 64


# -- a configuration that takes more than one slice -----------------------------------------------

MANY = [f"s.{number}.{'x' * 20}" for number in range(1000)]
LARGE = json.dumps({"name": "S", "subjects": MANY}).encode()


def begun(site: Site) -> None:
    """Ask for a stream, and stop while it subscribes to its subjects."""
    site.world.send(CREATE, LARGE, reply=b"created")
    while "S" not in site.account.streams:
        site.world.settle_once()
    assert not site.sent(b"created")
    stream = site.account.streams["S"]
    assert site.account.awaited(stream) is stream


def test_whoever_asks_about_a_stream_that_begins_waits_for_it() -> None:
    site = Site()
    begun(site)
    site.world.send(MANY[0].encode(), b"1", reply=b"stored")
    site.world.send(b"$JS.API.STREAM.INFO.S", reply=b"info")
    site.world.send(CREATE, LARGE, reply=b"again")
    site.world.settle_once()
    assert [site.sent(to) for to in (b"stored", b"info", b"again")] == [[], [], []]
    site.world.settle()
    assert answers(site, b"created")[0]["did_create"]
    assert answers(site, b"stored") == [{"stream": "S", "seq": 1}]
    assert answers(site, b"info")[0]["state"]["messages"] == 1
    assert answers(site, b"again")[0]["config"]["subjects"] == MANY
    assert site.publish(MANY[-1])["seq"] == 2
    again = site.restarted(orderly=False)
    assert again.account.streams["S"].log.messages == 2
    assert again.publish(MANY[-1])["seq"] == 3


def test_a_stream_that_is_deleted_while_it_begins_is_not_created() -> None:
    site = Site()
    begun(site)
    site.world.send(MANY[0].encode(), b"1", reply=b"stored")
    site.account.delete(site.account.streams["S"])
    site.world.settle()
    assert answers(site, b"created")[0]["error"]["err_code"] == 10077
    assert site.account.streams == {}
    assert len(site.account.configs()) == 0
    assert site.restarted(orderly=False).account.streams == {}
    site.create("S", subjects=["s.>"])


def test_a_server_that_stops_while_a_stream_begins_has_none() -> None:
    site = Site()
    starting = site.account.begin_in_slices(StreamConfig(name="S", subjects=MANY))
    next(starting)
    assert "S" in site.account.streams
    starting.close()
    assert site.account.streams == {}
    assert site.restarted().account.streams == {}


def test_messages_of_many_exchanged_subjects_are_stored_once() -> None:
    site = Site()
    site.world.send(CREATE, LARGE)
    site.world.settle()
    others = [f"t.{number}.{'x' * 20}" for number in range(1000)]
    body = json.dumps({"name": "S", "subjects": [*others, MANY[0], "s.1.*"]}).encode()
    site.world.send(b"$JS.API.STREAM.UPDATE.S", body, reply=b"updated")
    while not site.sent(b"updated"):
        site.world.send(MANY[0].encode(), b"")
        site.world.send(MANY[1].encode(), b"")
        site.world.settle_once()
    site.world.settle()
    log = site.account.streams["S"].log
    assert log.count_of(MANY[0].encode()) == log.count_of(MANY[1].encode()) > 3
    assert site.publish(others[-1])["stream"] == "S"
    site.world.send(MANY[-1].encode(), b"")
    assert log.count_of(MANY[-1].encode()) == 0


def test_a_stream_is_deleted_twice_while_it_begins() -> None:
    """The first deletion waits for the disk, and the second waits for the same commit."""
    site = Site()
    body = json.dumps({"name": "S", "subjects": ["s.>"]}).encode()
    site.world.send(CREATE, body, reply=b"created")
    site.world.send(b"$JS.API.STREAM.DELETE.S", b"", reply=b"first")
    site.world.send(b"$JS.API.STREAM.DELETE.S", b"", reply=b"second")
    site.world.send(CREATE, body, reply=b"again")
    site.world.settle()
    first, second = (json.loads(site.sent(each)[0].payload) for each in (b"first", b"second"))
    assert first["success"]
    assert second["error"]["err_code"] == 10059
    assert "error" not in json.loads(site.sent(b"again")[0].payload)
    assert list(site.account.streams) == ["S"]
