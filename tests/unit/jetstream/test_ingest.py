"""The short way into a stream stores and answers what the general way does."""

from hypothesis import given
from hypothesis import strategies as st
from stream_kit import Site

from millstream.store.record import Record

PIECES = st.sampled_from(
    [
        b"NATS/1.0",
        b"NATS/1.0\r\n",
        b"NATS/1.0 200\r\n",
        b"\r\n",
        b"\r",
        b"\n",
        b" ",
        b"Nats-Msg-Id:",
        b"Nats-Msg-Id: one",
        b"Nats-Msg-Id:two",
        b"nats-msg-id: three",
        b"Nats-",
        b"Nats-Expected-Stream: T",
        b"Nats-Expected-Last-Sequence: 1",
        b"Other: Nats-Msg-Id: four",
        b"Other: 5",
    ]
)
WELL_FORMED = st.lists(PIECES, max_size=3).map(
    lambda lines: b"NATS/1.0\r\n" + b"".join(line + b"\r\n" for line in lines) + b"\r\n"
)
BLOCKS = st.one_of(WELL_FORMED, st.lists(PIECES, max_size=8).map(b"".join))


def outcome(site: Site) -> tuple[list[tuple[bytes, bytes]], list[tuple[bytes, bytes, bytes, int]]]:
    record, log = Record(), site.account.stream("S").log
    stored = []
    for seq in range(1, log.last_seq + 1):
        assert log.get(seq, record)
        stored.append((record.subject(), record.headers(), record.payload(), record.seq))
    return [(each.subject, each.payload) for each in site.sent(b"me")], stored


@given(st.lists(BLOCKS, min_size=1, max_size=4))
def test_every_message_is_stored_and_answered_as_by_the_general_way(blocks: list[bytes]) -> None:
    short, general = Site(), Site()
    for site in (short, general):
        stream = site.create()
        assert stream.ingest.plain
        stream.ingest.plain = site is short
        for number, block in enumerate(blocks):
            site.world.send(b"s.a", b"%d" % number, reply=b"me", headers=block)
            site.world.settle()
            stream.ingest.plain = site is short
    assert outcome(short) == outcome(general)


def test_a_stream_with_limits_takes_the_short_way_and_keeps_them() -> None:
    site = Site()
    stream = site.create(max_msgs=2)
    assert stream.ingest.plain
    for number in range(4):
        site.publish("s.a", b"%d" % number)
    assert (site.state()["messages"], site.state()["first_seq"]) == (2, 3)


def test_a_stream_that_refuses_what_is_too_much_does_not() -> None:
    site = Site()
    assert not site.create(max_msgs=2, discard="new").ingest.plain
