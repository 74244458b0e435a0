"""Every message that is added gets one outcome, whatever answers come, in whatever order."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.link.errors import (
    BadMessage,
    LinkApiError,
    LinkError,
    NoResponders,
    NotConnected,
    ProtocolViolation,
    RequestTimeout,
)
from millstream.link.parser import LinkOp, LinkParser
from millstream.link.publish_window import PublishWindow, Receipts, StoredIn, is_publishable

NO_RESPONDERS = b"NATS/1.0 503\r\n\r\n"


def answer(window: PublishWindow, number: int, payload: bytes, headers: bytes = b"") -> bool:
    subject = b"%b.%d" % (window.inbox, number)
    parser = LinkParser()
    if headers:
        parser.feed(
            b"HMSG %b 1 %d %d\r\n%b%b\r\n"
            % (subject, len(headers), len(headers) + len(payload), headers, payload)
        )
    else:
        parser.feed(b"MSG %b 1 %d\r\n%b\r\n" % (subject, len(payload), payload))
    assert parser.next() == LinkOp.MSG
    return window.settle(parser)


def ack(sequence: int, end: bytes = b"}") -> bytes:
    return b'{"stream":"ORDERS","seq":%d%b' % (sequence, end)


def test_frames_are_gathered_with_their_replies() -> None:
    window = PublishWindow(b"_INBOX.x", 10)
    receipts = Receipts()
    assert window.add(receipts, b"a.b", b"", b"hello") == 1
    assert window.add(receipts, b"c", b"NATS/1.0\r\nA: b\r\n\r\n", b"hi") == 2
    assert window.frames.take() == (
        b"PUB a.b _INBOX.x.1 5\r\nhello\r\nHPUB c _INBOX.x.2 18 20\r\nNATS/1.0\r\nA: b\r\n\r\nhi\r\n"
    )
    assert (window.free(), window.open_count(), receipts.open, len(receipts)) == (8, 2, 2, 2)


@pytest.mark.parametrize(
    ("payload", "sequence", "duplicate"),
    [
        (ack(7), 7, False),
        (ack(8, b',"duplicate": true}'), 8, True),
        (ack(8, b',"duplicate":true}'), 8, True),
        (b'{"stream":"ORDERS", "seq": 9}', 9, False),
        (b'{"type":"x","stream":"ORDERS","domain":"hub","seq":9}', 9, False),
        (b'{"seq":9,"stream":"ORDERS"}', 9, False),
        (ack(18446744073709551615), 18446744073709551615, False),
    ],
)
@pytest.mark.parametrize("warm", [False, True])
def test_acknowledgements_in_every_spelling(
    payload: bytes, sequence: int, duplicate: bool, warm: bool
) -> None:
    window = PublishWindow(b"i", 10)
    receipts = Receipts()
    if warm:
        window.add(receipts, b"a", b"", b"")
        assert answer(window, 1, ack(1))
    number = window.add(receipts, b"a", b"", b"")
    assert answer(window, number, payload)
    assert receipts.sequences[-1] == sequence
    origin = receipts.origins[-1]
    assert origin == StoredIn("ORDERS", "hub" if b"hub" in payload else "")
    assert receipts.duplicates == ({len(receipts) - 1} if duplicate else set())
    assert receipts.open == 0
    assert receipts.errors == {}


def test_the_value_of_a_counter_is_kept() -> None:
    window = PublishWindow(b"i", 10)
    receipts = Receipts()
    for _ in range(2):
        window.add(receipts, b"a", b"", b"")
    answer(window, 1, ack(1, b',"val":"12"}'))
    answer(window, 2, ack(3, b',"batch":"b1","count":3}'))
    assert receipts.values == {0: "12"}
    assert [receipts.ack(0).val, receipts.ack(1).val] == ["12", ""]
    assert receipts.sequences == [1, 3]


@pytest.mark.parametrize(
    ("payload", "headers", "kind"),
    [
        (
            b'{"error":{"code":400,"err_code":10071,"description":"wrong last sequence: 3"}}',
            b"",
            LinkApiError,
        ),
        (b"", NO_RESPONDERS, NoResponders),
        (b"", b"", ProtocolViolation),
        (b"[]", b"", ProtocolViolation),
        (b"{}", b"", ProtocolViolation),
        (b'{"stream":"ORDERS","seq":"x"}', b"", ProtocolViolation),
        (ack(7, b""), b"", ProtocolViolation),
        (ack(7, b"x}"), b"", ProtocolViolation),
    ],
)
def test_refusals_and_nonsense_are_errors_of_that_message(
    payload: bytes, headers: bytes, kind: type[LinkError]
) -> None:
    window = PublishWindow(b"i", 10)
    receipts = Receipts()
    for _ in range(3):
        window.add(receipts, b"a", b"", b"")
    answer(window, 1, ack(1))
    answer(window, 2, payload, headers)
    answer(window, 3, ack(2))
    assert receipts.sequences == [1, 0, 2]
    assert {place: type(error) for place, error in receipts.errors.items()} == {1: kind}


def test_a_full_window_takes_no_more_until_its_oldest_message_has_an_outcome() -> None:
    window = PublishWindow(b"i", 2)
    receipts = Receipts()
    window.add(receipts, b"a", b"", b"")
    window.add(receipts, b"a", b"", b"")
    with pytest.raises(LinkError, match="full"):
        window.add(receipts, b"a", b"", b"")
    answer(window, 2, ack(2))
    assert window.free() == 0  # the places are counted from the oldest on
    answer(window, 1, ack(1))
    assert window.free() == 2
    assert len(receipts) == 2


def test_answers_nobody_waits_for_are_ignored() -> None:
    window = PublishWindow(b"i", 2)
    receipts = Receipts()
    number = window.add(receipts, b"a", b"", b"")
    assert not answer(window, 2, ack(5))
    assert not answer(window, 0, ack(5))
    assert answer(window, number, ack(1))
    assert not answer(window, number, ack(6))
    assert receipts.sequences == [1]


def test_done_is_called_once_when_all_of_a_sealed_batch_have_an_outcome() -> None:
    window = PublishWindow(b"i", 10)
    calls: list[Receipts] = []
    receipts = Receipts(calls.append)
    window.add(receipts, b"a", b"", b"")
    answer(window, 1, ack(1))
    assert calls == []  # more may be added
    window.add(receipts, b"a", b"", b"")
    receipts.refuse(BadMessage("no"))
    receipts.seal()
    assert calls == []
    answer(window, 2, ack(2))
    assert calls == [receipts]
    assert receipts.sequences == [1, 2, 0]
    assert list(receipts.errors) == [2]
    receipts.seal()
    assert len(calls) == 1


def test_an_empty_batch_is_done_when_it_is_sealed() -> None:
    calls: list[Receipts] = []
    Receipts(calls.append).seal()
    assert len(calls) == 1


def test_what_was_written_too_long_ago_is_given_up() -> None:
    window = PublishWindow(b"i", 10)
    receipts = Receipts()
    window.add(receipts, b"a", b"", b"")
    window.mark(10.0)
    window.add(receipts, b"a", b"", b"")
    window.mark(11.0)
    assert window.oldest() == 10.0
    assert window.expire(9.9, 5.0) == 0
    assert window.expire(10.0, 5.0) == 1
    assert isinstance(receipts.errors[0], RequestTimeout)
    assert window.oldest() == 11.0
    assert not answer(window, 1, ack(1))  # too late
    assert answer(window, 2, ack(2))
    assert window.oldest() is None
    assert window.free() == 10


def test_a_lost_connection_fails_what_has_no_outcome_and_forgets_what_was_not_written() -> None:
    window = PublishWindow(b"i", 10)
    receipts = Receipts()
    for _ in range(3):
        window.add(receipts, b"a", b"", b"x")
    answer(window, 2, ack(2))
    gone = NotConnected("gone")
    assert window.fail_all(gone) == 2
    assert receipts.errors == {0: gone, 2: gone}
    assert receipts.sequences == [0, 2, 0]
    assert window.frames.take() == b""
    assert window.free() == 10


@given(st.integers(1, 40), st.integers(0, 300), st.randoms(use_true_random=False))
def test_random_traffic_leaves_each_message_with_its_own_outcome(
    limit: int, count: int, chance: random.Random
) -> None:
    """The sequence given to message k is k + 1000; every fifth is refused."""
    window = PublishWindow(b"inbox", limit)
    batches = [Receipts() for _ in range(3)]
    expected: list[list[int]] = [[], [], []]
    waiting: list[int] = []
    added = 0
    while added < count or waiting:
        if added < count and window.free() and chance.random() < 0.6:
            batch = chance.randrange(3)
            number = window.add(batches[batch], b"a", b"", b"")
            expected[batch].append(0 if number % 5 == 0 else number + 1000)
            waiting.append(number)
            added += 1
        elif waiting:
            number = waiting.pop(chance.randrange(len(waiting)))
            refused = b'{"error":{"code":503,"err_code":1,"description":"x"}}'
            assert answer(window, number, refused if number % 5 == 0 else ack(number + 1000))
    for receipts, sequences in zip(batches, expected, strict=True):
        assert receipts.sequences == sequences
        assert sorted(receipts.errors) == [place for place, value in enumerate(sequences) if value == 0]
    assert window.free() == limit


@pytest.mark.parametrize("subject", [b"a", b"a.b.c", b"$JS.x", b"a*b", b"a.b>", "größe".encode(), b"a-b_c"])
def test_plain_subjects_can_be_published_to(subject: bytes) -> None:
    assert is_publishable(subject)


@pytest.mark.parametrize(
    "subject",
    [b"", b".", b"a.", b".a", b"a..b", b"a b", b"a\tb", b"a\r\nb", b"a\0", b"*", b"a.*", b"a.>.b", b">"],
)
def test_others_can_not(subject: bytes) -> None:
    assert not is_publishable(subject)
    assert isinstance(PublishWindow(b"i", 1).problem(subject, 0, 0), BadMessage)


def test_a_message_larger_than_the_server_takes_is_a_problem() -> None:
    window = PublishWindow(b"i", 1)
    window.max_payload = 100
    assert window.problem(b"a", 40, 60) is None
    assert "101 bytes" in str(window.problem(b"a", 40, 61))


def test_a_window_has_room_for_something() -> None:
    with pytest.raises(ValueError, match="at least one"):
        PublishWindow(b"i", 0)
