"""Subjects of up to 65,535 bytes and 32,768 tokens: a store that has them starts and answers everything."""

from collections.abc import Iterable

import pytest

from millstream.base.slices import Pieces
from millstream.jetstream.stream.captures import Captures
from millstream.jetstream.stream.stream import Stream
from millstream.jsapi.stream_types import StreamConfig
from millstream.store.errors import StoreError
from tests.kits.jetstream.stream import Disk, Site

DEEPEST = b"s." + b".".join([b"a"] * 32_767)


def with_deep_subject(disk: Disk, count: int = 3) -> Site:
    site = Site(disk=disk)
    stream = site.create()
    for _ in range(count):
        stream.log.append(DEEPEST, b"x", 0, 0, 1, site.world.now_ns(), 0)
    site.account.committer.dirty(stream)
    site.world.settle()
    return site


@pytest.mark.compiled
def test_a_stream_with_the_deepest_subject_answers_every_question() -> None:
    site = with_deep_subject(Disk())
    assert site.state(subjects_filter=">")["subjects"] == {DEEPEST.decode(): 3}
    assert site.state(subjects_filter="s.*.>")["subjects"] == {DEEPEST.decode(): 3}
    found = site.ask("STREAM.MSG.GET.S", {"last_by_subj": DEEPEST.decode()})
    assert found["message"]["seq"] == 3
    assert site.ask("STREAM.PURGE.S", {"filter": "s.>", "keep": 2})["purged"] == 1


@pytest.mark.compiled
def test_limits_per_subject_are_applied_to_the_deepest_subject_and_again_at_every_start() -> None:
    site = with_deep_subject(Disk())
    assert site.update(max_msgs_per_subject=1)["config"]["max_msgs_per_subject"] == 1
    for _ in range(3):
        assert site.state(subjects_filter=">")["subjects"] == {DEEPEST.decode(): 1}
        site = site.restarted()
        assert site.account.unrecovered == {}


def test_an_update_that_cannot_be_applied_leaves_the_old_configuration(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    site = Site()
    stream = site.create()
    sound = Stream.configure

    def configure(self: Stream, config: StreamConfig) -> None:
        sound(self, config)
        if config.max_msgs == 7:
            raise StoreError("read", "log", "damaged")

    monkeypatch.setattr(Stream, "configure", configure)
    assert site.error("STREAM.UPDATE.S", {"name": "S", "subjects": ["other"], "max_msgs": 7})[0] == 503
    assert stream.config.subjects == ["s.>"]
    assert stream.config.max_msgs == -1
    assert site.publish("s.1")["seq"] == 1
    again = site.restarted()
    assert again.account.streams["S"].config.subjects == ["s.>"]


def test_a_stream_that_cannot_be_started_is_none_and_the_others_work(monkeypatch: pytest.MonkeyPatch) -> None:
    site = Site()
    site.create("A")
    site.create("B")
    sound = Stream.start

    def start(self: Stream) -> None:
        sound(self)
        if self.name == "A":
            raise RuntimeError("whatever")

    monkeypatch.setattr(Stream, "start", start)
    again = site.restarted()
    assert list(again.account.streams) == ["B"]
    assert "whatever" in again.account.unrecovered["A"]
    assert again.publish("b.1")["seq"] == 1
    again.account.usage.used(again.account.streams["B"].config.storage)
    again.account.stop()


def test_a_new_stream_that_cannot_be_started_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    site = Site()
    sound = Captures.follow

    def follow(self: Captures, subjects: Iterable[str]) -> Pieces[None]:
        yield from sound(self, subjects)
        raise StoreError("open", "x", "whatever")

    monkeypatch.setattr(Captures, "follow", follow)
    assert site.error("STREAM.CREATE.A", {"name": "A", "subjects": ["a.>"]})[0] == 503
    monkeypatch.setattr(Captures, "follow", sound)
    assert site.account.streams == {}
    assert site.restarted().account.unrecovered == {}
    site.create("A")
    assert site.publish("a.1")["seq"] == 1
