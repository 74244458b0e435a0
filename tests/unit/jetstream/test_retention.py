"""Messages that a stream removes: limits, age, and purges."""

import json
from typing import Any

import pytest

from millstream.base import slices
from millstream.jetstream.stream import retention
from millstream.store import purge
from tests.kits.jetstream.stream import SECOND, Site

FULL = (503, 10077, "maximum messages exceeded")


def publish_all(site: Site, *subjects: str) -> None:
    for subject in subjects:
        assert "error" not in site.publish(subject)


def numbers(state: dict[str, Any]) -> tuple[int, int, int]:
    return state["messages"], state["first_seq"], state["last_seq"]


@pytest.fixture(params=["file", "memory"])
def storage(request: pytest.FixtureRequest) -> str:
    return request.param  # type: ignore[no-any-return]


# -- limits -------------------------------------------------------------------------------------------


def test_the_oldest_messages_go_when_there_are_too_many(storage: str) -> None:
    site = Site()
    site.create(max_msgs=2, storage=storage)
    publish_all(site, "s.a", "s.b", "s.c")
    assert site.subjects() == ["s.b", "s.c"]
    assert numbers(site.state()) == (2, 2, 3)


def test_the_oldest_messages_go_when_they_are_too_large(storage: str) -> None:
    site = Site()
    site.create(max_bytes=150, storage=storage)
    for _ in range(5):
        site.publish("s.a", bytes(20))
    state = site.state()
    assert state["bytes"] <= 150
    assert state["messages"] == 150 // (53 if storage == "file" else 39)


def test_a_message_larger_than_the_stream_is_acknowledged_and_gone() -> None:
    site = Site()
    site.create(max_bytes=100)
    site.publish("s.a", bytes(20))
    assert site.publish("s.a", bytes(200)) == {"stream": "S", "seq": 2}
    assert numbers(site.state()) == (0, 3, 2)


def test_each_subject_keeps_its_newest_messages(storage: str) -> None:
    site = Site()
    site.create(max_msgs_per_subject=2, storage=storage)
    publish_all(site, "s.a", "s.a", "s.b", "s.a", "s.a")
    assert site.subjects() == ["s.b", "s.a", "s.a"]
    assert site.state()["num_subjects"] == 2


def test_a_stream_that_discards_new_messages_says_why(storage: str) -> None:
    site = Site()
    site.create("N", discard="new", max_msgs=2, storage=storage)
    site.create("B", discard="new", max_bytes=100, storage=storage)
    publish_all(site, "n.a", "n.b", "b.a")
    assert site.refusal("n.c") == FULL
    assert site.refusal("b.b", bytes(80)) == (503, 10077, "maximum bytes exceeded")


def test_a_full_subject_refuses_if_it_discards_new_messages_itself() -> None:
    site = Site()
    site.create(discard="new", max_msgs_per_subject=1, discard_new_per_subject=True, allow_rollup_hdrs=True)
    publish_all(site, "s.a", "s.b")
    assert site.refusal("s.a") == (503, 10077, "maximum messages per subject exceeded")
    assert "error" not in site.publish("s.a", Nats_Rollup="sub")


def test_a_message_that_replaces_another_passes_into_a_full_stream() -> None:
    site = Site()
    site.create(discard="new", max_msgs_per_subject=1, max_msgs=2)
    publish_all(site, "s.a", "s.b", "s.a")
    assert site.refusal("s.c") == FULL
    assert site.subjects() == ["s.b", "s.a"]


def test_a_larger_message_does_not_replace_a_smaller_one_in_a_full_stream() -> None:
    site = Site()
    site.create(discard="new", max_msgs_per_subject=1, max_bytes=60)
    site.publish("s.a", bytes(20))
    assert site.refusal("s.a", bytes(21)) == (503, 10077, "maximum bytes exceeded")
    assert "error" not in site.publish("s.a", bytes(20))


def test_a_rollup_does_not_pass_into_a_full_stream() -> None:
    site = Site()
    site.create(discard="new", max_msgs=1, allow_rollup_hdrs=True)
    publish_all(site, "s.a")
    assert site.refusal("s.a", Nats_Rollup="sub") == FULL


def test_lower_limits_hold_at_once() -> None:
    site = Site()
    site.create()
    publish_all(site, "s.a", "s.b", "s.b", "s.c", "s.d")
    site.update(max_msgs_per_subject=1)
    assert site.subjects() == ["s.a", "s.b", "s.c", "s.d"]
    site.update(max_msgs=2)
    assert site.subjects() == ["s.c", "s.d"]
    assert site.restarted().subjects() == ["s.c", "s.d"]


# -- age ----------------------------------------------------------------------------------------------


def test_messages_go_when_they_are_too_old(storage: str) -> None:
    site = Site()
    site.create(max_age=10 * SECOND, storage=storage)
    publish_all(site, "s.a")
    site.world.advance(6)
    publish_all(site, "s.b")
    site.world.advance(3.9)
    assert site.subjects() == ["s.a", "s.b"]
    site.world.advance(0.2)
    assert site.subjects() == ["s.b"]
    site.world.advance(6)
    assert numbers(site.state()) == (0, 3, 2)


def test_messages_that_became_too_old_while_the_server_was_down_go_at_its_start() -> None:
    site = Site()
    site.create(max_age=10 * SECOND)
    publish_all(site, "s.a")
    site.world.time_ns += 60 * SECOND
    assert site.restarted().state()["messages"] == 0


def test_a_shorter_age_holds_at_once() -> None:
    site = Site()
    site.create(max_age=3600 * SECOND)
    publish_all(site, "s.a")
    site.world.advance(60)
    site.update(max_age=30 * SECOND, duplicate_window=SECOND)
    assert site.state()["messages"] == 0


def test_a_clock_that_goes_back_only_keeps_messages_longer() -> None:
    site = Site()
    site.create(max_age=10 * SECOND)
    publish_all(site, "s.a")
    site.world.time_ns -= 100 * SECOND
    publish_all(site, "s.b")
    site.world.advance(50)
    assert site.state()["messages"] == 2
    site.world.advance(70)
    assert site.state()["messages"] == 0


# -- purging ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("request_", "purged", "left"),
    [
        ({}, 6, []),
        ({"seq": 3}, 2, ["s.c", "s.a", "s.b", "s.c"]),
        ({"seq": 1}, 0, ["s.a", "s.b", "s.c", "s.a", "s.b", "s.c"]),
        ({"keep": 2}, 4, ["s.b", "s.c"]),
        ({"keep": 9}, 0, ["s.a", "s.b", "s.c", "s.a", "s.b", "s.c"]),
        ({"filter": "s.a"}, 2, ["s.b", "s.c", "s.b", "s.c"]),
        ({"filter": "s.*", "seq": 3}, 2, ["s.c", "s.a", "s.b", "s.c"]),
        ({"filter": "s.b", "seq": 5}, 1, ["s.a", "s.c", "s.a", "s.b", "s.c"]),
        ({"filter": "s.b", "keep": 1}, 1, ["s.a", "s.c", "s.a", "s.b", "s.c"]),
        ({"filter": "s.>", "keep": 2}, 4, ["s.b", "s.c"]),
        ({"filter": "zz"}, 0, ["s.a", "s.b", "s.c", "s.a", "s.b", "s.c"]),
        ({"filter": "bad..x"}, 0, ["s.a", "s.b", "s.c", "s.a", "s.b", "s.c"]),
    ],
)
def test_a_purge_takes_what_it_is_asked_to(
    request_: dict[str, Any], purged: int, left: list[str], storage: str
) -> None:
    site = Site()
    site.create(storage=storage)
    publish_all(site, "s.a", "s.b", "s.c", "s.a", "s.b", "s.c")
    answer = site.ask("STREAM.PURGE.S", request_)
    assert (answer["success"], answer["purged"]) == (True, purged)
    assert site.subjects() == left
    if storage == "file":
        assert site.restarted(orderly=False).subjects() == left


def test_a_body_that_is_not_json_asks_for_nothing_special() -> None:
    site = Site()
    site.create()
    publish_all(site, "s.a", "s.b")
    assert site.ask("STREAM.PURGE.S", b"x")["purged"] == 2


def test_a_purge_beyond_the_end_uses_up_the_sequences_up_to_it(storage: str) -> None:
    site = Site()
    site.create(storage=storage)
    publish_all(site, "s.a")
    assert site.ask("STREAM.PURGE.S", {"seq": 99})["purged"] == 1
    assert numbers(site.state()) == (0, 99, 98)
    assert site.publish("s.a") == {"stream": "S", "seq": 99}
    assert site.ask("STREAM.PURGE.S", {"seq": 9})["purged"] == 0


def test_an_empty_stream_goes_on_where_it_was_after_a_restart() -> None:
    site = Site()
    site.create()
    publish_all(site, "s.a", "s.b")
    site.ask("STREAM.PURGE.S")
    again = site.restarted()
    assert numbers(again.state()) == (0, 3, 2)
    assert again.publish("s.a") == {"stream": "S", "seq": 3}


def test_a_purge_can_be_forbidden() -> None:
    site = Site()
    site.create(deny_purge=True)
    publish_all(site, "s.a")
    answer = site.ask("STREAM.PURGE.S")
    assert answer["error"] == {"code": 500, "err_code": 10110, "description": "stream purge not permitted"}
    assert answer["purged"] == 0
    assert site.error("STREAM.PURGE.S", {"seq": 1, "keep": 1}) == (400, 10003, "bad request")
    assert site.state()["messages"] == 1


# -- in steps ------------------------------------------------------------------------------------------


@pytest.fixture
def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(purge, "STRETCH", 3)
    monkeypatch.setattr(retention, "_PIECE", 3)
    monkeypatch.setattr(slices, "MOST_ITEMS", 3)


REQUESTS = [(None, 15, 0), (None, 0, 5), (b"s.1", 0, 0), (b"s.1", 15, 0), (b"s.1", 0, 2), (b"s.*", 0, 4)]


@pytest.mark.usefixtures("small_steps")
@pytest.mark.parametrize(("subject", "below", "keep"), REQUESTS)
def test_a_purge_takes_small_steps_and_removes_the_same(subject: bytes | None, below: int, keep: int) -> None:
    at_once, in_steps = Site(), Site()
    streams = [site.create() for site in (at_once, in_steps)]
    for site in (at_once, in_steps):
        publish_all(site, *(f"s.{number % 2}" for number in range(20)))
    expected = streams[0].purge(subject, below, keep)
    log = streams[1].log
    purged, left = 0, log.messages
    steps = streams[1].purge_in_steps(subject, below, keep)
    while True:
        try:
            next(steps)
        except StopIteration as end:
            purged = end.value
            break
        assert left - log.messages <= 3
        left = log.messages
    assert purged == expected > 3
    assert list(log.sequences(1, 20)) == list(streams[0].log.sequences(1, 20))


@pytest.mark.usefixtures("small_steps")
def test_what_is_published_during_a_purge_stays_and_others_are_answered() -> None:
    site = Site()
    stream = site.create()
    publish_all(site, *["s.a"] * 20)
    steps = stream.purge_in_steps(None, 0, 2)
    next(steps)
    assert site.publish("s.a")["seq"] == 21
    assert 2 < site.state()["messages"] < 21
    for _ in steps:
        pass
    assert numbers(site.state()) == (3, 19, 21)


@pytest.mark.usefixtures("small_steps")
def test_a_stream_that_is_deleted_during_its_purge_is_told() -> None:
    site = Site()
    site.create()
    publish_all(site, *["s.a"] * 20)
    site.world.send(b"$JS.API.STREAM.PURGE.S", b'{"keep":2}', reply=b"purge")
    site.ask("STREAM.DELETE.S")
    site.world.settle()
    [answer] = site.sent(b"purge")
    assert json.loads(answer.payload)["error"]["err_code"] == 10059


@pytest.mark.usefixtures("small_steps")
def test_a_crash_in_the_middle_of_a_purge_leaves_the_newest() -> None:
    site = Site()
    stream = site.create()
    publish_all(site, *["s.a"] * 20)
    steps = stream.purge_in_steps(None, 0, 2)
    next(steps)
    next(steps)
    site.world.settle()
    again = site.restarted(orderly=False)
    assert numbers(again.state()) == (14, 7, 20)


def slices_of(site: Site, name: str) -> list[int]:
    """Return the number of items in each slice of a work."""
    return [items for each, items in site.world.slices if each == name]


@pytest.mark.usefixtures("small_steps")
@pytest.mark.parametrize("ttl", [False, True])
def test_old_messages_go_a_few_at_a_time(ttl: bool) -> None:
    site = Site()
    stream = site.create(max_age=10 * SECOND, allow_msg_ttl=ttl)
    publish_all(site, *["s.a"] * 20)
    site.world.advance(11)
    assert stream.log.messages == 0
    assert len(slices_of(site, "old messages")) > 3
    assert max(slices_of(site, "old messages")) <= 5


def overdue(**config: Any) -> Site:
    """Return a site with 20 old messages, some of which are removed, and a new one."""
    site = Site()
    stream = site.create(max_age=10 * SECOND, **config)
    publish_all(site, *["s.a"] * 20)
    site.world.time_ns += 11 * SECOND
    site.world.send(b"s.a")
    stream.retention.start()
    assert 1 < stream.log.messages < 21
    return site


@pytest.mark.usefixtures("small_steps")
def test_one_timer_is_set_after_old_messages_went_however_often_was_committed_meanwhile() -> None:
    quiet = Site()
    quiet.create(max_age=10 * SECOND)
    publish_all(quiet, "s.a")
    site = overdue()
    for _ in range(5):
        site.world.send(b"s.a")
        site.world.settle_once()
    site.world.settle()
    assert numbers(site.state()) == (6, 21, 26)
    assert site.world.timers == quiet.world.timers
    site.world.advance(11)
    assert site.state()["messages"] == 0


@pytest.mark.usefixtures("small_steps")
def test_no_old_message_goes_any_more_from_a_stream_that_is_deleted() -> None:
    site = overdue()
    stream = site.account.stream("S")
    left = stream.log.messages
    site.ask("STREAM.DELETE.S")
    site.world.advance(100)
    assert stream.log.messages == left


@pytest.mark.usefixtures("small_steps")
def test_messages_are_kept_that_a_longer_age_allows_while_they_go() -> None:
    site = overdue()
    left = site.account.stream("S").log.messages
    site.update(max_age=100 * SECOND)
    assert site.state()["messages"] == left


@pytest.mark.usefixtures("small_steps")
def test_a_crash_while_old_messages_go_leaves_the_rest_to_the_next_start() -> None:
    site = overdue()
    site.world.settle_once()
    again = site.restarted(orderly=False)
    again.world.settle()
    assert again.state()["messages"] <= 1


@pytest.mark.usefixtures("small_steps")
@pytest.mark.parametrize("later", [2, 12])
def test_limits_that_change_while_others_are_enforced_are_the_ones_that_hold(later: int) -> None:
    site = Site()
    stream = site.create()
    publish_all(site, *(f"s.{number % 3}" for number in range(60)))
    body = {"name": "S", "subjects": ["s.>"]}
    for limit in (4, later):
        text = json.dumps(body | {"max_msgs_per_subject": limit}).encode()
        site.world.send(b"$JS.API.STREAM.UPDATE.S", text, reply=b"%d" % limit)
        assert stream.log.messages > 3 * 12
    site.world.settle()
    kept = {stream.log.count_of(subject) for subject in stream.log.subjects(b">")}
    assert kept == {later}
    assert len(site.sent(b"4")) == len(site.sent(b"%d" % later)) == 1


@pytest.mark.usefixtures("small_steps")
def test_who_publishes_while_limits_are_enforced_removes_no_more_than_a_few() -> None:
    site = Site()
    stream = site.create()
    publish_all(site, *["s.a"] * 60)
    text = b'{"name":"S","subjects":["s.>"],"max_msgs_per_subject":1}'
    site.world.send(b"$JS.API.STREAM.UPDATE.S", text, reply=b"update")
    before = stream.log.messages
    site.world.send(b"s.a")
    assert 1 < before - stream.log.messages < 15
    site.world.settle()
    assert numbers(site.state()) == (1, 61, 61)


@pytest.mark.usefixtures("small_steps")
def test_limits_hold_after_a_crash_in_the_middle_of_enforcing_them() -> None:
    site = Site()
    stream = site.create()
    publish_all(site, *(f"s.{number % 3}" for number in range(60)))
    text = b'{"name":"S","subjects":["s.>"],"max_msgs_per_subject":2}'
    site.world.send(b"$JS.API.STREAM.UPDATE.S", text, reply=b"update")
    site.world.settle_once()
    assert stream.log.messages > 6
    again = site.restarted(orderly=False)
    assert numbers(again.state()) == (6, 55, 60)
