"""Direct get: what nats-server 2.15.1 answers to the same requests over the same messages."""

from __future__ import annotations

import pytest

from millstream.golang.time import format_time
from millstream.jetstream.account import AccountJetStream
from millstream.jsapi.enums import StorageType
from millstream.jsapi.stream_types import StreamConfig
from millstream.protocol import headers
from tests.kits.fake_world import FakeWorld, Published

DIRECT = b"$JS.API.DIRECT.GET.D"
NOT_FOUND = b"NATS/1.0 404 Message Not Found\r\n\r\n"
BAD = b"NATS/1.0 408 Bad Request\r\n\r\n"
PAST = b"2020-01-01T00:00:00Z"
FUTURE = b"2090-01-01T00:00:00Z"


def make(world: FakeWorld, storage: StorageType = StorageType.FILE, **fields: object) -> AccountJetStream:
    """d.0 d.1 d.2 d.0 d.1 d.2 d.4, one a second, the even ones with a header; the second is removed."""
    account = world.account()
    config = StreamConfig(name="D", subjects=["d.>"], allow_direct=True, storage=storage, **fields)  # type: ignore[arg-type]
    stream = account.add(config)
    for number in range(6):
        block = headers.make((b"A", b"%d" % number)) if number % 2 else None
        world.send(b"d.%d" % (number % 3), b"m%d" % number, headers=block)
        world.settle()
        world.time_ns += 1_000_000_000
    world.send(b"d.4", b"x", headers=b"NATS/1.0\r\n\r\n")
    world.settle()
    stream.log.remove(2)
    account.committer.dirty(stream)
    world.settle()
    return account


@pytest.fixture
def world() -> FakeWorld:
    world = FakeWorld()
    make(world)
    return world


def get(
    world: FakeWorld, body: bytes, subject: bytes = DIRECT, block: bytes | None = None
) -> list[Published]:
    world.published.clear()
    world.send(subject, body, reply=b"me", headers=block)
    world.settle()
    assert all(each.subject == b"me" for each in world.published)
    return list(world.published)


def message(seq: int, *extra: tuple[bytes, int], number: int | None = None) -> Published:
    """The answer with message `seq`."""
    number = seq - 1 if number is None else number
    subject = b"d.4" if seq == 7 else b"d.%d" % (number % 3)
    own = [(b"A", b"%d" % number)] if number % 2 else []
    block = headers.make(
        *own,
        (b"Nats-Stream", b"D"),
        (b"Nats-Subject", subject),
        (b"Nats-Sequence", b"%d" % seq),
        (b"Nats-Time-Stamp", format_time(1_700_000_000_000_000_000 + number * 1_000_000_000).encode()),
        *((key, b"%d" % value) for key, value in extra),
    )
    return Published(b"me", b"x" if seq == 7 else b"m%d" % number, block)


def place(left: int, last: int) -> tuple[tuple[bytes, int], tuple[bytes, int]]:
    return (b"Nats-Num-Pending", left), (b"Nats-Last-Sequence", last)


def end(left: int, last: int, up_to: int | None = None) -> Published:
    ceiling = b"" if up_to is None else b"Nats-UpTo-Sequence: %d\r\n" % up_to
    lines = b"Nats-Num-Pending: %d\r\nNats-Last-Sequence: %d\r\n" % (left, last)
    return Published(b"me", b"", b"NATS/1.0 204 EOB\r\n" + lines + ceiling + b"\r\n")


@pytest.mark.parametrize(
    ("body", "seq"),
    [
        (b'{"seq":1}', 1),
        (b'{"seq":4}', 4),
        (b'{"seq":7}', 7),
        (b'{"SEQ":1}', 1),
        (b'{"seq":1,"foo":2}', 1),
        (b'{"seq":1,"max_bytes":1}', 1),
        (b'{"seq":1,"up_to_seq":3}', 1),
        (b'{"last_by_subj":"d.0"}', 4),
        (b'{"last_by_subj":"d.*"}', 7),
        (b'{"next_by_subj":"d.0"}', 1),
        (b'{"next_by_subj":"d.0","seq":2}', 4),
        (b'{"next_by_subj":"d.*","seq":2}', 3),
        (b'{"start_time":"%b"}' % PAST, 1),
        (b'{"start_time":"%b"}' % format_time(1_700_000_000_500_000_000).encode(), 3),
    ],
)
def test_one_message_is_found(world: FakeWorld, body: bytes, seq: int) -> None:
    assert get(world, body) == [message(seq)]


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b'{"seq":2}', b"404 Message Not Found"),
        (b'{"seq":99}', b"404 Message Not Found"),
        (b'{"last_by_subj":"x"}', b"404 Message Not Found"),
        (b'{"last_by_subj":"d..x"}', b"404 Message Not Found"),
        (b'{"next_by_subj":"d.0","seq":50}', b"404 Message Not Found"),
        (b'{"start_time":"%b"}' % FUTURE, b"404 Message Not Found"),
        (b'{"seq":50,"batch":3}', b"404 Message Not Found"),
        (b'{"multi_last":["x"]}', b"404 No Results"),
        (b'{"multi_last":["d.*"],"up_to_seq":99}', b"404 No Results"),
        (b'{"multi_last":["d.*"],"up_to_time":"%b"}' % PAST, b"404 No Results"),
        (b"", b"408 Empty Request"),
        (b"{}", b"408 Empty Request"),
        (b'{"foo":1}', b"408 Empty Request"),
        (b'{"batch":3}', b"408 Empty Request"),
        (b"x", b"408 Malformed Request"),
        (b"1", b"408 Malformed Request"),
        (b"[]", b"408 Malformed Request"),
        (b'{"seq":1}x', b"408 Malformed Request"),
        (b'{"seq":"a"}', b"408 Malformed Request"),
        (b'{"seq":-1}', b"408 Malformed Request"),
        (b'{"seq":1,"last_by_subj":"d.0"}', b"408 Bad Request"),
        (b'{"seq":1,"start_time":"%b"}' % PAST, b"408 Bad Request"),
        (b'{"last_by_subj":"d.0","batch":2}', b"408 Bad Request"),
        (b'{"multi_last":["d.*"],"last_by_subj":"d.0"}', b"408 Bad Request"),
        (b'{"multi_last":["d.*"],"up_to_seq":1,"up_to_time":"%b"}' % PAST, b"408 Bad Request"),
    ],
)
def test_what_cannot_be_answered_gets_a_status(world: FakeWorld, body: bytes, status: bytes) -> None:
    assert get(world, body) == [Published(b"me", b"", b"NATS/1.0 %b\r\n\r\n" % status)]


def test_no_hdr_leaves_every_header_out(world: FakeWorld) -> None:
    assert get(world, b'{"seq":4,"no_hdr":true}') == [Published(b"me", b"m3")]


def test_a_batch_counts_down_and_ends_with_eob(world: FakeWorld) -> None:
    assert get(world, b'{"seq":1,"batch":3}') == [
        message(1, *place(5, 0)),
        message(3, *place(4, 1)),
        message(4, *place(3, 3)),
        end(3, 4),
    ]
    assert get(world, b'{"seq":5,"batch":30}')[-1] == end(0, 7)
    assert get(world, b'{"seq":1,"batch":-1}') == [end(6, 0)]


def test_a_batch_without_headers_does_not_count_down(world: FakeWorld) -> None:
    bodies = [Published(b"me", body) for body in (b"m0", b"m2", b"m3")]
    assert get(world, b'{"seq":1,"batch":3,"no_hdr":true}') == [*bodies, end(6, 4)]


def test_a_batch_follows_a_subject_and_a_time(world: FakeWorld) -> None:
    assert get(world, b'{"next_by_subj":"d.0","batch":5}') == [
        message(1, *place(1, 0)),
        message(4, *place(0, 1)),
        end(0, 4),
    ]
    assert get(world, b'{"next_by_subj":"d.*","seq":3,"batch":1}') == [message(3, *place(4, 0)), end(4, 3)]
    assert get(world, b'{"start_time":"%b","next_by_subj":"d.1","batch":2}' % PAST) == [
        message(5, *place(0, 0)),
        end(0, 5),
    ]


def test_the_message_that_crosses_max_bytes_is_the_last(world: FakeWorld) -> None:
    assert get(world, b'{"seq":1,"batch":30,"max_bytes":9}') == [
        message(1, *place(5, 0)),
        message(3, *place(4, 1)),
        end(4, 3),
    ]
    assert get(world, b'{"multi_last":["d.*"],"max_bytes":9}') == [message(4, *place(3, 0)), end(3, 4, 7)]


def test_a_batch_is_no_larger_than_what_a_connection_may_have_to_read() -> None:
    world = FakeWorld()
    make(world).resources.max_pending = 9
    assert get(world, b'{"seq":1,"batch":30}') == [
        message(1, *place(5, 0)),
        message(3, *place(4, 1)),
        end(4, 3),
    ]
    assert get(world, b'{"multi_last":["d.*"]}') == [message(4, *place(3, 0)), end(3, 4, 7)]


def test_multi_last_has_the_last_message_of_each_subject_in_order(world: FakeWorld) -> None:
    everything = [
        message(4, *place(3, 0)),
        message(5, *place(2, 4)),
        message(6, *place(1, 5)),
        message(7, *place(0, 6)),
        end(0, 7, 7),
    ]
    assert get(world, b'{"multi_last":["d.*"]}') == everything
    assert get(world, b'{"multi_last":["d.0","d.0","d.>"]}') == everything
    assert get(world, b'{"multi_last":["d.*"],"no_hdr":true}') == everything
    assert get(world, b'{"multi_last":["d.*"],"up_to_time":"%b"}' % FUTURE) == everything
    assert get(world, b'{"multi_last":["d.*"],"batch":2}') == [*everything[:2], end(2, 5, 7)]


def test_multi_last_looks_back_to_a_sequence(world: FakeWorld) -> None:
    assert get(world, b'{"multi_last":["d.*"],"up_to_seq":4}') == [
        message(3, *place(1, 0)),
        message(4, *place(0, 3)),
        end(0, 4, 4),
    ]
    assert get(world, b'{"multi_last":["d.*"],"seq":6}') == [
        message(6, *place(1, 0)),
        message(7, *place(0, 6)),
        end(0, 7, 7),
    ]
    assert get(world, b'{"multi_last":["d.*"],"seq":60}') == [end(0, 0, 7)]


def test_multi_last_refuses_more_than_1024_subjects() -> None:
    world = FakeWorld()
    make(world, StorageType.MEMORY)
    for number in range(1021):
        world.send(b"d.n.%d" % number)
    world.settle()
    assert get(world, b'{"multi_last":["d.>"]}') == [
        Published(b"me", b"", b"NATS/1.0 413 Too Many Results\r\n\r\n")
    ]
    assert len(get(world, b'{"multi_last":["d.>"],"up_to_seq":1027}')) == 1025
    assert get(world, b'{"multi_last":["d.4"],"up_to_seq":10250}')[-1] == end(0, 7, 10250)


@pytest.mark.parametrize("body", [b"", b"{}", b'{"max_bytes":1}'])
def test_the_subject_may_be_part_of_the_subject(world: FakeWorld, body: bytes) -> None:
    assert get(world, body, DIRECT + b".d.0") == [message(4)]


@pytest.mark.parametrize(
    ("subject", "body", "answer"),
    [
        (b".d.0", b'{"no_hdr":true}', Published(b"me", b"m3")),
        (b".d.0", b"x", Published(b"me", b"", b"NATS/1.0 408 Malformed Request\r\n\r\n")),
        (b".d.0", b'{"seq":1}', Published(b"me", b"", BAD)),
        (b".d.0", b'{"batch":1}', Published(b"me", b"", BAD)),
        (b".d.9", b"", Published(b"me", b"", NOT_FOUND)),
        (b".d", b"", Published(b"me", b"", NOT_FOUND)),
    ],
)
def test_a_request_by_subject_is_checked(
    world: FakeWorld, subject: bytes, body: bytes, answer: Published
) -> None:
    assert get(world, body, DIRECT + subject) == [answer]


@pytest.mark.parametrize("subject", [DIRECT, DIRECT + b".d.0"])
@pytest.mark.parametrize(("level", "refused"), [(b"5", False), (b"99", True), (b"x", True)])
def test_an_api_level_can_be_required(world: FakeWorld, subject: bytes, level: bytes, refused: bool) -> None:
    body = b'{"seq":4}' if subject == DIRECT else b""
    answers = get(world, body, subject, headers.make((b"Nats-Required-Api-Level", level)))
    status = Published(b"me", b"", b"NATS/1.0 412 Required Api Level\r\n\r\n")
    assert answers == [status if refused else message(4)]


def test_a_message_that_is_not_durable_is_sent_when_it_is(world: FakeWorld) -> None:
    world.published.clear()
    world.send(b"d.0", b"new")
    world.send(DIRECT, b'{"last_by_subj":"d.0"}', reply=b"me")
    world.send(DIRECT, b'{"seq":1,"no_hdr":true}', reply=b"other")
    assert world.published == [Published(b"other", b"m0")]
    world.settle()
    assert [each.payload for each in world.published] == [b"m0", b"new"]


def test_a_key_that_is_written_all_the_time_can_be_read() -> None:
    world = FakeWorld()
    account = make(world, max_msgs_per_subject=1)
    world.published.clear()
    world.send(b"d.0", b"first")
    world.send(DIRECT, b'{"last_by_subj":"d.0"}', reply=b"me")
    stream = account.stream("D")
    commit = stream.log.begin_commit()
    stream.commit_begins()
    assert commit is not None
    commit.run()
    world.send(b"d.0", b"second")  # replaces the first before its commit has ended
    stream.log.end_commit(commit)
    stream.commit_durable()
    stream.commit_ended()
    assert [each.payload for each in world.published] == [b"first"]


def test_nobody_answers_for_a_stream_that_does_not_allow_it() -> None:
    world = FakeWorld()
    account = world.account()
    stream = account.add(StreamConfig(name="D", subjects=["d.>"]))
    assert get(world, b'{"seq":1}') == []
    account.update(stream, StreamConfig(name="D", subjects=["d.>"], allow_direct=True))
    assert get(world, b'{"seq":1}') == [Published(b"me", b"", NOT_FOUND)]
    account.update(stream, StreamConfig(name="D", subjects=["d.>"]))
    assert get(world, b'{"seq":1}') == []
    account.update(stream, StreamConfig(name="D", subjects=["d.>"], allow_direct=True))
    account.delete(stream)
    assert get(world, b'{"seq":1}') == []
