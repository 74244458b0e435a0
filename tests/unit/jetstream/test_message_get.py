"""STREAM.MSG.GET while commits are under way: what is stored is found, and answered when it is durable."""

import json
from typing import Any

from millstream.store.errors import StoreError
from tests.kits.jetstream.stream import Site

REPLY = b"me"


def ask(site: Site, body: bytes) -> None:
    """Return the answer before any deferred work has run."""
    site.world.send(b"$JS.API.STREAM.MSG.GET.S", body, reply=REPLY)


def answers(site: Site) -> list[dict[str, Any]]:
    return [json.loads(each.payload) for each in site.sent(REPLY)]


def test_a_message_that_is_not_durable_is_given_when_it_is() -> None:
    site = Site()
    site.create()
    site.world.send(b"s.a", b"new")
    ask(site, b'{"last_by_subj":"s.a"}')
    assert answers(site) == []
    site.world.settle()
    assert [each["message"]["seq"] for each in answers(site)] == [1]


def test_what_is_durable_does_not_wait_for_what_is_not() -> None:
    site = Site()
    site.create()
    site.publish("s.a", b"old")
    site.world.send(b"s.b", b"new")
    ask(site, b'{"seq":1}')
    assert [each["message"]["seq"] for each in answers(site)] == [1]


def test_a_key_that_is_written_all_the_time_can_be_got() -> None:
    site = Site()
    stream = site.create(max_msgs_per_subject=1)
    site.world.send(b"s.a", b"first")
    ask(site, b'{"last_by_subj":"s.a"}')
    commit = stream.log.begin_commit()
    stream.commit_begins()
    assert commit is not None
    commit.run()
    site.world.send(b"s.a", b"second")  # replaces the first before its commit has ended
    stream.log.end_commit(commit)
    stream.commit_durable()
    stream.commit_ended()
    assert [each["message"]["seq"] for each in answers(site)] == [1]


def test_a_message_that_cannot_be_written_yet_is_answered_with_the_reason() -> None:
    site = Site()
    stream = site.create()
    site.disk.full = True
    site.world.send(b"s.a", b"lost")
    ask(site, b'{"seq":1}')
    site.world.settle()
    assert isinstance(stream.failure, StoreError)
    assert [each["error"]["err_code"] for each in answers(site)] == [10077]


def test_times_that_no_clock_has_are_before_and_after_everything() -> None:
    site = Site()
    site.create()
    site.publish("s.a")
    first = site.ask("STREAM.MSG.GET.S", {"start_time": "0001-01-01T00:00:00Z"})
    assert first["message"]["seq"] == 1
    assert site.error("STREAM.MSG.GET.S", {"start_time": "9999-01-01T00:00:00Z"})[1] == 10037


def test_a_sequence_that_was_never_given_out_is_not_found() -> None:
    site = Site()
    site.create()
    for seq in (1, 2**63, 2**64 - 1):
        assert site.error("STREAM.MSG.GET.S", {"seq": seq})[1] == 10037
        assert site.error("STREAM.MSG.GET.S", {"seq": seq, "next_by_subj": ">"})[1] == 10037
