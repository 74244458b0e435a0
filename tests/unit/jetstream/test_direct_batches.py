"""Batches of direct gets under way: turns, receivers that are behind, commits and removals in between."""

from __future__ import annotations

import re
from typing import Any

import pytest

from millstream.jetstream.account import AccountJetStream
from millstream.jetstream.stream.stream import Stream
from millstream.jsapi.stream_types import StreamConfig
from millstream.protocol.parser import Frame
from millstream.store.errors import StoreError
from millstream.store.fs import MemoryFile
from millstream.store.layout import place_of
from tests.kits.fake_world import FakeOutlet, FakeWorld

DIRECT = b"$JS.API.DIRECT.GET.D"
AT_ONCE = 2048
END = re.compile(rb"NATS/1.0 204 EOB\r\nNats-Num-Pending: (\d+)\r\nNats-Last-Sequence: (\d+)\r\n")


class Listened(FakeWorld):
    """A world with a stream D."""

    def __init__(self, count: int, **fields: object) -> None:
        super().__init__()
        self.js: AccountJetStream = self.account()
        config = StreamConfig(name="D", subjects=["d.>"], allow_direct=True, **fields)  # type: ignore[arg-type]
        self.stream: Stream = self.js.add(config)
        for number in range(count):
            self.send(b"d.%d" % (number % 10), b"%d" % number)
        self.settle()
        self.published.clear()

    def ask(self, body: bytes, reply: bytes = b"me") -> None:
        self.send(DIRECT, body, reply=reply)

    def turn(self) -> None:
        """One turn of the event loop."""
        soon, self._soon = self._soon, []
        for callback in soon:
            callback()

    def got(self, reply: bytes = b"me") -> list[bytes]:
        return [each.payload for each in self.published if each.subject == reply and each.payload]

    def end(self, reply: bytes = b"me") -> tuple[int, int] | None:
        """Return the pending count and the last sequence from the end of the batch."""
        last = [each for each in self.published if each.subject == reply][-1]
        found = END.match(last.headers)
        return (int(found[1]), int(found[2])) if found else None


def numbers(first: int, last: int) -> list[bytes]:
    return [b"%d" % number for number in range(first, last)]


def test_a_large_batch_goes_out_in_turns() -> None:
    world = Listened(5000)
    world.ask(b'{"seq":1,"batch":4500}')
    assert len(world.got()) == AT_ONCE
    world.turn()
    assert len(world.got()) == 2 * AT_ONCE
    world.turn()
    assert world.got() == numbers(0, 4500)
    assert world.end() == (500, 4500)


def test_large_messages_fill_a_turn_as_well() -> None:
    world = Listened(0)
    for _ in range(5):
        world.send(b"d.0", b"x" * 400_000)
    world.settle()
    world.published.clear()
    world.ask(b'{"seq":1,"batch":5}')
    assert len(world.got()) == 3
    world.turn()
    assert (len(world.got()), world.end()) == (5, (0, 5))


def test_batches_take_turns() -> None:
    world = Listened(5000)
    for reply in (b"a", b"b", b"c"):
        world.ask(b'{"seq":1,"batch":2100}', reply)
    assert [len(world.got(reply)) for reply in (b"a", b"b", b"c")] == [AT_ONCE, 0, 0]
    world.turn()
    gained = [len(world.got(reply)) for reply in (b"a", b"b", b"c")]
    assert sum(gained) == 2 * AT_ONCE
    assert gained[0] == 2100
    assert abs(gained[1] - gained[2]) <= 128
    world.settle()
    assert [world.got(reply) for reply in (b"a", b"b", b"c")] == [numbers(0, 2100)] * 3


def test_small_batches_share_a_turn_and_get_a_new_one() -> None:
    world = Listened(5000)
    for number in range(5):
        world.ask(b'{"seq":1,"batch":1000}', b"r%d" % number)
    assert sum(len(world.got(b"r%d" % number)) for number in range(5)) == AT_ONCE
    world.settle()
    assert [world.end(b"r%d" % number) for number in range(5)] == [(4000, 1000)] * 5
    world.ask(b'{"seq":1,"batch":1000}', b"again")
    assert len(world.got(b"again")) == 1000


def test_who_is_behind_gets_the_rest_later_and_nobody_waits_for_it() -> None:
    world = Listened(5000)
    world.behind.add(b"slow")
    world.ask(b'{"seq":1,"batch":10}', b"slow")
    world.ask(b'{"seq":1,"batch":4000}', b"fast")
    world.settle()
    assert (len(world.got(b"slow")), len(world.got(b"fast"))) == (0, 4000)
    world.advance(1.0)
    assert not world.got(b"slow")
    world.behind.clear()
    world.advance(1.0)
    assert (world.got(b"slow"), world.end(b"slow")) == (numbers(0, 10), (4990, 10))


def test_a_batch_for_somebody_who_went_away_ends() -> None:
    world = Listened(5000)
    world.ask(b'{"seq":1,"batch":5000}')
    world.listen(b"me", ends=True)
    world.turn()
    world.listen(b"me")
    world.settle()
    assert len(world.got()) == AT_ONCE
    world.ask(b'{"seq":1,"batch":10}', b"other")
    assert len(world.got(b"other")) == 10


def test_what_comes_while_a_batch_is_under_way_is_part_of_it_and_of_its_count() -> None:
    world = Listened(3000)
    world.ask(b'{"seq":1,"batch":3002}')
    for number in range(3000, 3005):
        world.send(b"d.0", b"%d" % number)
    world.settle()
    assert world.got() == numbers(0, 3002)
    assert world.end() == (3, 3002)


def test_what_is_removed_while_a_batch_is_under_way_is_left_out() -> None:
    world = Listened(3000)
    world.ask(b'{"seq":1,"batch":3000}')
    world.stream.log.remove(2500)
    world.settle()
    assert world.got() == numbers(0, 2499) + numbers(2500, 3000)


def test_messages_that_are_not_durable_come_behind_those_that_are() -> None:
    world = Listened(5)
    world.send(b"d.0", b"late")
    world.send(b"d.1", b"later")
    world.ask(b'{"seq":4,"batch":3}')
    world.ask(b'{"seq":1,"batch":5}', b"content")
    assert world.got() == [b"3", b"4"]
    assert (world.got(b"content"), world.end(b"content")) == (numbers(0, 5), (2, 5))
    world.settle()
    assert (world.got(), world.end()) == ([b"3", b"4", b"late"], (1, 6))


def test_a_message_that_was_replaced_before_it_was_durable_is_in_the_batch() -> None:
    world = Listened(10, max_msgs_per_subject=1)
    world.send(b"d.0", b"first")
    world.ask(b'{"seq":1,"batch":100}')
    commit = world.stream.log.begin_commit()
    world.stream.commit_begins()
    assert commit is not None
    commit.run()
    world.send(b"d.0", b"second")
    world.stream.log.end_commit(commit)
    world.stream.commit_durable()
    world.stream.commit_ended()
    assert world.got() == [*numbers(1, 10), b"first"]


def test_a_filter_and_its_count_go_on_from_page_to_page() -> None:
    world = Listened(100)
    seen: list[bytes] = []
    seq, left = 1, 10
    while left:
        world.published.clear()
        world.ask(b'{"seq":%d,"batch":4,"next_by_subj":"d.3"}' % seq)
        seen += world.got()
        found = world.end()
        assert found is not None
        left, last = found
        assert left == 10 - len(seen)
        seq = last + 1
    assert seen == [b"%d" % number for number in range(3, 100, 10)]


@pytest.mark.parametrize(("body", "last"), [(b"", 1), (b',"next_by_subj":"d.*"', 1), (b',"no_hdr":true', 1)])
def test_counts_are_right_after_messages_came_and_went(body: bytes, last: int) -> None:
    world = Listened(20)
    page = b'{"seq":%d,"batch":1' + body + b"}"
    world.ask(page % 1)
    world.send(b"d.new", b"new")
    world.settle()
    world.ask(page % 2)
    bare = b"no_hdr" in body  # then the count is as it was before the page
    assert world.end() == (19 + bare, 2)
    world.stream.log.remove(10)
    world.ask(page % 3)
    assert world.end() == (17 + bare, 3)
    world.send(b"d.new", b"new")  # as many as were removed
    world.stream.log.remove(11)
    world.settle()
    world.ask(page % 4)
    assert world.end() == (16 + bare, 4)


def test_a_stream_that_goes_away_ends_its_batches() -> None:
    world = Listened(5000)
    world.ask(b'{"seq":1,"batch":5000}')
    world.behind.add(b"slow")
    world.ask(b'{"multi_last":["d.*"]}', b"slow")
    world.turn()
    world.js.delete(world.stream)
    assert world.end() == (5000 - 2 * AT_ONCE, 2 * AT_ONCE)
    assert world.end(b"slow") == (10, 0)
    world.settle()
    world.advance(10)
    assert len(world.got()) == 2 * AT_ONCE


def test_an_update_of_the_stream_leaves_a_batch_alone() -> None:
    world = Listened(3000)
    world.ask(b'{"seq":1,"batch":3000}')
    world.js.update(world.stream, StreamConfig(name="D", subjects=["d.>"]))
    world.settle()
    assert (world.got(), world.end()) == (numbers(0, 3000), (0, 3000))


@pytest.mark.compiled
def test_the_last_of_many_subjects_goes_out_in_turns() -> None:
    world = Listened(0)
    for number in range(400):
        world.send(b"d.%d" % number, b"x" * 10_000)
    world.settle()
    world.published.clear()
    world.ask(b'{"multi_last":["d.>"]}')
    assert 0 < len(world.got()) < 200
    world.settle()
    assert (len(world.got()), world.end()) == (400, (0, 400))


def test_no_last_messages_are_found_in_a_stream_that_is_deleted_meanwhile() -> None:
    world = Listened(0)
    for number in range(1000):
        world.send(b"d.%d" % number, b"x")
    world.settle()
    world.published.clear()
    world.ask(b'{"multi_last":["d.>"],"up_to_seq":1000}')
    assert not world.published
    world.js.delete(world.stream)
    world.settle()
    assert world.got() == []
    assert [b"404" in each.headers for each in world.published if each.subject == b"me"] == [True]


def test_messages_that_the_disk_does_not_give_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    world = Listened(3)
    read = MemoryFile.read
    offset = place_of(world.stream.log, 2).offset

    def failing(self: Any, at: int, size: int) -> bytes:
        if at <= offset < at + size:
            raise StoreError("read", "a file", "Input/output error")
        return read(self, at, size)

    world.stream.log.keep_recent(False)
    monkeypatch.setattr(MemoryFile, "read", failing)
    world.ask(b'{"seq":2,"batch":3}')
    world.settle()
    assert (world.got(), world.end()) == ([b"2"], (1, 3))
    world.ask(b'{"seq":2}', b"one")
    assert world.published[-1].headers == b"NATS/1.0 404 Message Not Found\r\n\r\n"


def test_answers_have_the_name_of_the_reply_subject() -> None:
    seen: list[bytes] = []

    class Outlet(FakeOutlet):
        def send(self, subject: bytes, frame: Frame) -> int:
            seen.append(subject)
            return super().send(subject, frame)

    world = Listened(3)
    world.outlet = lambda subject, queue=None: Outlet(world, subject)  # type: ignore[method-assign]
    for body in (b'{"seq":1}', b'{"seq":1,"batch":2}', b'{"multi_last":["d.1"]}'):
        world.ask(body)
    assert seen == [b"me"] * 4
