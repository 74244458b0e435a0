"""Consumers by deliver policy: where they begin, what they deliver, and what they count as pending."""

from collections.abc import Callable
from typing import Any, Final

import pytest

from millstream.subjects.match import matches
from tests.kits.conformance.delivery import FUTURE, PAST, SECOND, Scene

SUBJECTS: Final = ("a.1", "b.1", "a.2", "c.1", "a.1", "b.2", "a.2", "b.1")


def never_used(js: Scene) -> None:
    js.stream()


def numbered_from_100(js: Scene) -> None:
    js.stream(first_seq=100)


def full(js: Scene) -> None:
    js.stream()
    js.publish(*SUBJECTS)


def with_holes(js: Scene) -> None:
    full(js)
    for seq in (1, 3, 5, 8):
        js.api("STREAM.MSG.DELETE.S", {"seq": seq})


def purged_below_4(js: Scene) -> None:
    full(js)
    js.api("STREAM.PURGE.S", {"seq": 4})


def purged_of_a_subject(js: Scene) -> None:
    full(js)
    js.api("STREAM.PURGE.S", {"filter": "s.a.*"})


def emptied(js: Scene) -> None:
    full(js)
    js.api("STREAM.PURGE.S")


def one_of_each_subject(js: Scene) -> None:
    js.stream(max_msgs_per_subject=1)
    js.publish(*SUBJECTS)


CONTENTS: Final = [
    never_used,
    numbered_from_100,
    full,
    with_holes,
    purged_below_4,
    purged_of_a_subject,
    emptied,
    one_of_each_subject,
]
FILTERS: Final[list[dict[str, Any]]] = [
    {},
    {"filter_subject": "s.a.1"},
    {"filter_subjects": ["s.b.1", "s.a.*"]},
    {"filter_subject": "s.*.1"},
    {"filter_subjects": ["s.none", "s.b.2"]},
    {"filter_subject": "s.>"},
]
POLICIES: Final[dict[str, dict[str, Any]]] = {
    "all": {},
    "last": {"deliver_policy": "last"},
    "new": {"deliver_policy": "new"},
    "from 4": {"deliver_policy": "by_start_sequence", "opt_start_seq": 4},
    "from 50": {"deliver_policy": "by_start_sequence", "opt_start_seq": 50},
    "from long ago": {"deliver_policy": "by_start_time", "opt_start_time": PAST},
    "from some day": {"deliver_policy": "by_start_time", "opt_start_time": FUTURE},
    "last per subject": {"deliver_policy": "last_per_subject"},
}


def is_wanted(subject: str, filters: dict[str, Any]) -> bool:
    patterns = filters.get("filter_subjects") or [filters.get("filter_subject", "s.>")]
    return any(matches(f"s.{subject}".encode(), pattern.encode()) for pattern in patterns)


def in_the_future(policy: str, contents: Callable[[Scene], None]) -> bool:
    """Return whether a consumer starts after everything that the test publishes."""
    return (policy == "from 50" and contents is not numbered_from_100) or (
        policy == "from 4" and contents is never_used
    )


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("contents", CONTENTS, ids=lambda each: each.__name__)
def test_what_a_consumer_gets(js: Scene, contents: Callable[[Scene], None], policy: str) -> None:
    contents(js)
    every = FILTERS[1:] if policy == "last per subject" else FILTERS  # that one needs a filter
    names = [f"c{number}" for number in range(len(every))]
    for name, filters in zip(names, every, strict=True):
        js.consumer(name, mem_storage=True, **POLICIES[policy], **filters)
        js.drain(name)
        js.look(name)
    # Where a new message replaces one, nats-server counts what is pending sometimes so and sometimes so.
    added = ("d.1" if contents is one_of_each_subject else "a.1", "c.2")
    js.publish(*added)
    for name, filters in zip(names, every, strict=True):
        if not in_the_future(policy, contents):
            js.await_pending(sum(is_wanted(each, filters) for each in added), name)
        js.drain(name)
        js.look(name)


@pytest.mark.parametrize("at", [1, 4, 5, 8])
def test_a_start_time_is_that_of_the_first_message(js: Scene, at: int) -> None:
    full(js)
    start = js.ask("STREAM.MSG.GET.S", {"seq": at})["message"]["time"]
    js.api("STREAM.MSG.DELETE.S", {"seq": 5})
    for name, filters in enumerate(FILTERS):
        js.consumer(f"c{name}", deliver_policy="by_start_time", opt_start_time=start, **filters)
        js.drain(f"c{name}")
        js.look(f"c{name}")


def test_the_reply_tells_when_a_message_was_stored(js: Scene) -> None:
    full(js)
    js.consumer()
    for message in js.pull(8):
        stored = js.ask("STREAM.MSG.GET.S", {"seq": message.sseq})["message"]["time"]
        nanoseconds = int(message.reply.split(".")[-2])
        whole, _, fraction = stored.removesuffix("Z").partition(".")
        assert f"{nanoseconds % SECOND:09}".rstrip("0") == fraction
        assert whole.startswith("20")


def test_what_is_deleted_before_its_turn_is_passed_over(js: Scene) -> None:
    full(js)
    js.consumer()
    js.consumer("f", filter_subject="s.a.*")
    js.consumer("p", deliver_policy="last_per_subject", filter_subject="s.>")
    js.pull(1)
    js.pull(1, "f")
    js.pull(1, "p")
    for seq in (2, 5, 7):
        js.api("STREAM.MSG.DELETE.S", {"seq": seq})
    js.look("p")  # nats-server stumbles over what is missing from its list, and waits
    for name in "cf":
        js.look(name)
        js.drain(name)
        js.look(name)


def test_what_is_purged_before_its_turn_is_passed_over(js: Scene) -> None:
    full(js)
    js.consumer()
    js.consumer("f", filter_subjects=["s.a.*", "s.b.2"])
    js.consumer("p", deliver_policy="last_per_subject", filter_subject="s.>")
    for name in "cfp":
        js.pull(1, name)
    js.api("STREAM.PURGE.S", {"filter": "s.a.2"})
    for name in "cfp":
        js.look(name)
    js.api("STREAM.PURGE.S", {"seq": 6})
    js.look("p")
    for name in "cf":
        js.look(name)
        js.drain(name)
        js.look(name)
    js.api("STREAM.PURGE.S")
    js.publish("a.1")
    for name in "cf":
        js.await_pending(1, name)
        js.look(name)
        js.drain(name)
        js.look(name)


@pytest.mark.soak  # on a busy machine nats-server loses count of what limits took away
def test_limits_take_away_what_is_still_to_be_delivered(js: Scene) -> None:
    js.stream(max_msgs=4)
    js.publish(*SUBJECTS[:4])
    js.consumer()
    js.consumer("f", filter_subject="s.a.1")
    js.publish(*SUBJECTS[4:])
    for name in "cf":
        js.look(name)
        js.drain(name)
        js.look(name)


def test_the_last_of_each_subject_in_the_order_of_the_stream(js: Scene) -> None:
    js.stream()
    js.publish("z", "a", "m", "a", "z", "b")
    js.consumer(deliver_policy="last_per_subject", filter_subject="s.>", ack_policy="explicit")
    js.publish("m", "z")
    js.await_pending(6)
    first = js.pull(2)
    js.look()
    js.say(first[1])
    js.look()
    js.drain()
    js.look()
    js.say(first[0])
    js.look()


def test_subjects_that_a_stream_transforms_are_seen_as_stored(js: Scene) -> None:
    js.stream(subject_transform={"src": "s.in.*", "dest": "s.out.{{wildcard(1)}}"})
    js.publish("in.1", "in.2", "other")
    js.consumer(filter_subject="s.out.*")
    js.drain()
    js.consumer("i", filter_subject="s.in.*")
    js.drain("i")


def test_headers_arrive_as_published(js: Scene) -> None:
    js.stream()
    js.publish("a", headers="A: 1\r\nB: two\r\nA: 3")
    js.publish("a", payload=b"", headers="Nats-Msg-Id: x")
    js.publish("a", payload=b"")
    js.consumer()
    js.drain()


@pytest.mark.parametrize("push", [False, True])
def test_headers_only(js: Scene, push: bool) -> None:
    js.stream()
    js.publish("a", payload=b"x" * 1000)
    js.publish("a", payload=b"", headers="A: 1")
    js.publish("a", payload=b"abc", headers="A: 1\r\nNats-Msg-Sizes: 7")
    js.publish("a", payload=b"")
    js.listen("d")
    js.consumer(headers_only=True, **({"deliver_subject": "d"} if push else {}))
    if push:
        js.heard("d", 4)
    else:
        js.drain()
        js.consumer(headers_only=False)
        js.publish("a", payload=b"whole")
        js.drain()
