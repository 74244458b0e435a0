"""Who counts as listening to the destination of an outlet."""

import pytest

from millrace.broker.outlet import SubjectOutlet
from millrace.broker.router import SubjectSpace, Subscriber, Subscription


def listening(space: SubjectSpace, pattern: bytes, queue: bytes | None = None) -> Subscription:
    subscription = Subscription(Subscriber(), pattern, queue, b"1")
    space.subscribe(subscription)
    return subscription


@pytest.mark.parametrize(
    ("pattern", "queue", "group", "counts"),
    [
        (b"d.here", None, None, True),
        (b"d.*", None, None, False),
        (b">", None, None, False),
        (b"d.here", b"q", None, False),
        (b"d.here", b"q", b"q", True),
        (b"d.here", b"other", b"q", False),
        (b"d.here", None, b"q", False),
        (b"d.*", b"q", b"q", False),
    ],
)
def test_only_who_names_the_destination_counts(
    pattern: bytes, queue: bytes | None, group: bytes | None, counts: bool
) -> None:
    space = SubjectSpace("A", 7)
    outlet = SubjectOutlet(space, b"d.here", group)
    assert not outlet.is_named()
    subscription = listening(space, pattern, queue)
    assert outlet.is_named() is counts
    space.unsubscribe(subscription)
    assert not outlet.is_named()


def test_one_among_others_is_enough() -> None:
    space = SubjectSpace("A", 7)
    outlet = SubjectOutlet(space, b"d", b"q")
    for pattern, queue in ((b">", None), (b"*", b"q"), (b"d", b"r"), (b"d", b"q")):
        listening(space, pattern, queue)
    assert outlet.is_named()
