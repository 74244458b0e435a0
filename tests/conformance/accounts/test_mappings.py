"""Subject mappings: renaming, reordering tokens, splitting by weight."""

from collections import Counter

import pytest

from tests.kits.conformance.clients import Dial, ServerFactory, message, publish
from tests.kits.reference import ServerProcess

MAPPINGS = """
mappings {
  plain: "mapped.plain"
  "tokens.*.*": "swapped.$2.$1"
  "modern.*.*": "modern.out.{{wildcard(2)}}.{{wildcard(1)}}"
  "tail.>": "other.>"
  "split.it": [ { destination: "split.a", weight: 50% }, { destination: "split.b", weight: 50 } ]
  "lossy": [ { destination: "lossy", weight: 50% } , { destination: "lost", weight: 50% } ]
  "part.*": "part.{{partition(3,1)}}.{{wildcard(1)}}"
  "cut.*": "cut.{{left(1,2)}}.{{right(1,2)}}"
  "slice.*": "sliced.{{SliceFromLeft(1,2)}}"
  "divide.*": "divided.{{split(1,-)}}"
  "from.left.*": "lefted.{{SplitFromLeft(1,3)}}"
  "from.right.*": "righted.{{SplitFromRight(1,3)}}"
}
"""


@pytest.fixture
def mapped(shared_server: ServerFactory) -> ServerProcess:
    return shared_server(config=MAPPINGS, monitor=True)


@pytest.mark.parametrize(
    ("published", "seen_as"),
    [
        ("plain", "mapped.plain"),
        ("tokens.a.b", "swapped.b.a"),
        ("modern.a.b", "modern.out.b.a"),
        ("tail.x.y", "other.x.y"),
        ("untouched", "untouched"),
        ("tokens.*.b", "swapped.b.*"),  # a published star is a token like others
        ("tokens.>.b", "tokens.>.b"),  # but not every wildcard is covered by one
        ("tail.>", "other.>"),
        ("tail.>.b", "other.>.b"),
        ("part.>", "part.>"),
        ("part.a", "part.1.a"),
        ("part.b", "part.1.b"),
        ("part.hello", "part.0.hello"),
        ("cut.abcdef", "cut.ab.ef"),
        ("slice.abcde", "sliced.ab.cd.e"),
        ("divide.a-b-c", "divided.a.b.c"),
        ("from.left.abcde", "lefted.abc.de"),
        ("from.right.abcde", "righted.ab.cde"),
    ],
)
def test_mapped_subject(mapped: ServerProcess, join: Dial, published: str, seen_as: str) -> None:
    client = join(mapped)
    assert client.round_trip(b"SUB > 1\r\n" + publish(published, b"x")) == message(seen_as, 1, b"x")


def test_subscription_to_the_source_of_a_mapping_gets_nothing(mapped: ServerProcess, join: Dial) -> None:
    assert join(mapped).round_trip(b"SUB plain 1\r\n" + publish("plain")) == b""


def test_weights_share_the_messages(mapped: ServerProcess, join: Dial) -> None:
    client = join(mapped)
    frames = client.round_trip(b"SUB split.* 1\r\n" + publish("split.it") * 400)
    shares = Counter(line.split()[1] for line in frames.split(b"\r\n") if line)
    assert sum(shares.values()) == 400
    assert 100 < shares[b"split.a"] < 300
    assert set(shares) == {b"split.a", b"split.b"}


def test_weights_may_name_the_source(mapped: ServerProcess, join: Dial) -> None:
    client = join(mapped)
    frames = client.round_trip(b"SUB lossy 1\r\n" + publish("lossy") * 400)
    assert 100 < frames.count(b"MSG ") < 300


def test_replies_are_not_mapped(mapped: ServerProcess, join: Dial) -> None:
    client = join(mapped)
    sent = b"SUB untouched 1\r\n" + publish("untouched", b"x", "plain")
    assert client.round_trip(sent) == message("untouched", 1, b"x", "plain")


def test_nobody_there_names_the_mapped_subject(mapped: ServerProcess, join: Dial) -> None:
    answer = join(mapped).round_trip(b"SUB box 1\r\n" + publish("plain", b"", "box"))
    assert b"NATS/1.0 503\r\nNats-Subject: mapped.plain\r\n" in answer
