"""Short ways to a route: each leads to those whom the tree of subscriptions would find, or to nothing."""

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millstream.broker.router import SubjectSpace
from millstream.broker.routes import SubjectRoute, Subscriber, Subscription, Target
from millstream.protocol.parser import Frame, make_frame

MANY = 1025  # more routes below one head than are looked at one by one
GET = b"$JS.API.DIRECT.GET"


class Receiver(Subscriber):
    """Remembers the subjects of what it got."""

    def __init__(self) -> None:
        self.got: list[bytes] = []
        self.left = False

    def deliver(self, target: Target, frame: Frame, source: Subscriber | None) -> bool:
        self.got.append(target.subject)
        return True

    def gone(self) -> bool:
        return self.left


def subscription(pattern: bytes, queue: bytes | None = None) -> Subscription:
    return Subscription(Receiver(), pattern, queue, b"1")


def got(each: Subscription) -> list[bytes]:
    owner = each.owner
    assert isinstance(owner, Receiver)
    return owner.got


def crowd(space: SubjectSpace) -> None:
    """Let a space know routes for many subjects of a bucket."""
    for number in range(MANY):
        space.route(b"$KV.B.%d" % number)


def crowd_way(space: SubjectSpace, subject: bytes) -> SubjectRoute | None:
    if len(space.routes) < MANY:
        crowd(space)
    return space.crowd_route(subject)


def reached(route: SubjectRoute) -> tuple[list[int], list[list[int]]]:
    """Identities of everybody whom a route leads to, in any order."""
    queues = [sorted(id(target.owner) for target in members) for members in route.queues]
    queues += [sorted(id(each.owner) for each in group) for group in route.groups or ()]
    return sorted(id(target.owner) for target in route.plain), sorted(queues)


def found(space: SubjectSpace, subject: bytes) -> tuple[list[int], list[list[int]]]:
    """Identities of everybody whom the tree finds."""
    matches = space.tree.match(subject)
    queues = [sorted(id(each.owner) for each in members) for members in matches.queues.values()]
    return sorted(id(each.owner) for each in matches.plain), sorted(queues)


Way = Callable[[SubjectSpace, bytes], SubjectRoute | None]
CHANGES = st.lists(st.tuples(st.sampled_from(range(9)), st.booleans()), max_size=12)


def check_after_each_change(
    space: SubjectSpace,
    way: Way,
    patterns: list[bytes],
    subjects: list[bytes],
    changes: list[tuple[int, bool]],
) -> None:
    listening: dict[tuple[int, bool], Subscription] = {}
    for change in [(-1, False), *changes]:
        number, in_group = change
        if change in listening:
            space.unsubscribe(listening.pop(change))
        elif number >= 0:
            listening[change] = subscription(patterns[number % len(patterns)], b"q" if in_group else None)
            space.subscribe(listening[change])
        for subject in subjects:
            if (route := way(space, subject)) is not None:
                assert route.subject == subject
                assert reached(route) == found(space, subject)


@given(CHANGES)
@settings(max_examples=15)
def test_one_of_many_subjects_goes_to_whom_the_tree_finds(changes: list[tuple[int, bool]]) -> None:
    patterns = [
        b">",
        b"$KV.B.>",
        b"$KV.B.*",
        b"$KV.*.>",
        b"$KV.B.x",
        b"*.B.x.y",
        b"$KV.B",
        b"$KV.C.>",
        b"*.*.*",
    ]
    subjects = [b"$KV.B.x", b"$KV.B.new", b"$KV.B.x.y", b"$KV.B", b"$KV.C.x", b"other"]
    check_after_each_change(SubjectSpace("A", 7), crowd_way, patterns, subjects, changes)


def short_crowd_way(space: SubjectSpace, subject: bytes) -> SubjectRoute | None:
    for number in range(MANY):
        space.route(b"a.%d" % number)
    return space.crowd_route(subject)


def test_routes_of_short_subjects_to_few_receivers_are_cached() -> None:
    space = SubjectSpace("A", 7)
    space.subscribe(subscription(b">"))
    assert short_crowd_way(space, b"a.new") is None
    assert space.route(b"a.new") is space.route(b"a.new")


@given(CHANGES)
@settings(max_examples=15)
def test_one_of_many_subjects_of_two_tokens_goes_to_whom_the_tree_finds(
    changes: list[tuple[int, bool]],
) -> None:
    patterns = [b">", b"a.>", b"a.*", b"*.>", b"a.x", b"*.x", b"a", b"a.*.x", b"*.*"]
    subjects = [b"a.x", b"a.new", b"a.x.y", b"a", b"b.x"]
    check_after_each_change(SubjectSpace("A", 7), short_crowd_way, patterns, subjects, changes)


def test_one_of_a_large_group_gets_a_message_of_a_crowd() -> None:
    space = SubjectSpace("A", 7)
    group = [subscription(b"a.>", b"q") for _ in range(100)]
    for each in group:
        space.subscribe(each)
    for each in group[1:]:
        owner = each.owner
        assert isinstance(owner, Receiver)
        owner.left = True
    route = short_crowd_way(space, b"a.new")
    assert route is not None
    assert route.receivers() == 1
    assert space.deliver(route, make_frame(b"", b"", b"x"), None) == 1
    assert got(group[0]) == [b"a.new"]


@given(CHANGES)
@settings(max_examples=60)
def test_a_get_by_key_goes_to_whom_the_tree_finds(changes: list[tuple[int, bool]]) -> None:
    patterns = [GET + each for each in (b".S.>", b".*.>", b".S.k", b".S.*", b".>", b".T.>", b".S")]
    patterns += [b">", b"$JS.API.>"]
    subjects = [GET + each for each in (b".S.k", b".S.a.b", b".S", b".T.k")]
    check_after_each_change(SubjectSpace("A", 7), SubjectSpace.direct_route, patterns, subjects, changes)


def test_the_short_way_is_taken_for_keys_of_a_bucket() -> None:
    space = SubjectSpace("A", 7)
    for pattern in (b"$KV.B.>", b"$KV.>"):
        space.subscribe(subscription(pattern))
    crowd(space)
    route = space.crowd_route(b"$KV.B.new")
    assert route is not None
    assert route.receivers() == 2
    assert b"$KV.B.new" not in space.routes
    assert space.crowd_route(b"$KV.B.7") is None  # which is cached
    assert space.crowd_route(b"$KV.B..x") is None
    assert space.crowd_route(b"$KV.B.x.") is None
    assert space.crowd_route(b"$KV.B.x y") is None
    space.subscribe(subscription(b"$KV.B.new"))
    again = space.crowd_route(b"$KV.B.new")
    assert again is None or again.receivers() == 3


def test_the_short_way_is_taken_for_gets_by_key() -> None:
    space = SubjectSpace("A", 7)
    answers = subscription(GET + b".S.>", b"_sys_")
    space.subscribe(answers)
    route = space.direct_route(GET + b".S.some.key")
    assert route is not None
    assert [[target.subject for target in members] for members in route.queues] == [[GET + b".S.some.key"]]
    for subject in (b".S", b".S.", b".S.a..b", b".S.a.", b".S.a b", b".T.a"):
        assert space.direct_route(GET + subject) is None, subject
    spy = subscription(GET + b".S.some.key")
    space.subscribe(spy)
    assert space.direct_route(GET + b".S.some.key") is None
    space.unsubscribe(spy)
    assert space.direct_route(GET + b".S.some.key") is not None
    space.unsubscribe(answers)
    assert space.direct_route(GET + b".S.some.key") is None


@pytest.mark.parametrize("pattern", [b"_INBOX.a.*", b"_INBOX.a.7", b"_INBOX.>", b"*.a.*", b">"])
def test_an_answer_reaches_everybody_who_listens(pattern: bytes) -> None:
    space = SubjectSpace("A", 7)
    listener = subscription(pattern)
    space.subscribe(listener)
    frame = make_frame(b"", None, b"x")
    assert [space.deliver_reply(b"_INBOX.a.7", frame) for _ in range(2)] == [1, 1]
    assert space.deliver_reply(b"other.b.7", frame) == (1 if pattern == b">" else 0)
    second = subscription(b"_INBOX.a.7")
    space.subscribe(second)
    assert space.deliver_reply(b"_INBOX.a.7", frame) == 2
    space.unsubscribe(listener)
    space.unsubscribe(second)
    assert space.deliver_reply(b"_INBOX.a.7", frame) == 0
    assert got(listener).count(b"_INBOX.a.7") == 3


def test_an_answer_reaches_one_of_a_group() -> None:
    space = SubjectSpace("A", 7)
    members = [subscription(b"_INBOX.a.*", b"q") for _ in range(2)]
    for each in members:
        space.subscribe(each)
    assert space.deliver_reply(b"_INBOX.a.7", make_frame(b"", None, b"x")) == 1
    assert sum(len(got(each)) for each in members) == 1
