"""The fast path into a stream stores and answers what the slow path does."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.jetstream.publish import rules
from millstream.store.record import Record
from tests.kits.jetstream.stream import Site

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
        b"Nats-Expected-Last-Subject-Sequence: 0",
        b"Nats-Expected-Last-Subject-Sequence:1",
        b"Nats-Expected-Last-Subject-Sequence: 02",
        b"Nats-Expected-Last-Subject-Sequence:  2 ",
        b"Nats-Expected-Last-Subject-Sequence: 1x",
        b"Nats-Expected-Last-Subject-Sequence: ",
        b"Nats-Expected-Last-Subject-Sequence: 00000000000000000000",
        b"Nats-Expected-Last-Subject-Sequence-Subject: s.b",
        b"Other: Nats-Msg-Id: four",
        b"Other: 5",
        b"Nats-Rollup: sub",
        b"Nats-Rollup: sub",
        b"Nats-Rollup: all",
        b"Nats-Rollup:sub",
        b"Nats-Rollup: sub ",
        b"Nats-Rollup: SUB",
        b"Nats-TTL: 5",
        b"Nats-TTL: 2m",
        b"Nats-TTL:never",
        b"Nats-TTL: x",
        b"Nats-TTL: ",
    ]
)
WELL_FORMED = st.lists(PIECES, max_size=3).map(
    lambda lines: b"NATS/1.0\r\n" + b"".join(line + b"\r\n" for line in lines) + b"\r\n"
)
BLOCKS = st.one_of(WELL_FORMED, st.lists(PIECES, max_size=8).map(b"".join))


SUBJECTS = st.sampled_from([b"s.a", b"s.a", b"s.b"])


def outcome(site: Site) -> tuple[list[tuple[bytes, bytes]], list[tuple[bytes, bytes, bytes, int]]]:
    record, log = Record(), site.account.stream("S").log
    stored = []
    for seq in log.sequences(1, log.last_seq):
        assert log.get(seq, record)
        stored.append((record.subject(), record.headers(), record.payload(), record.seq))
    return [(each.subject, each.payload) for each in site.sent(b"me")], stored


def wanted(site: Site) -> None:
    """Let a consumer want one of the subjects, for streams that keep what consumers want."""
    config = {"durable_name": "d", "ack_policy": "explicit", "filter_subject": "s.b"}
    site.ask("CONSUMER.DURABLE.CREATE.S.d", {"stream_name": "S", "config": config})


BUCKET = {"max_msgs_per_subject": 2, "discard": "new", "allow_rollup_hdrs": True}


CONFIGS: list[dict[str, Any]] = [
    {},
    BUCKET,
    {"allow_rollup_hdrs": True},
    {"no_ack": True},
    {"no_ack": True, "max_msgs_per_subject": 1, "allow_rollup_hdrs": True},
    {"allow_msg_ttl": True},
    {"allow_msg_ttl": True, "subject_delete_marker_ttl": 60 * 10**9, "allow_rollup_hdrs": True},
    {"max_msgs": 2, "discard": "new"},
    {"max_bytes": 120, "discard": "new"},
    {"max_bytes": 120, "discard": "new", "storage": "memory"},
    {"max_bytes": 120, "discard": "new", "max_msgs_per_subject": 1},
    {"max_msgs": 2, "discard": "new", "no_ack": True},
    {"max_msgs": 2, "discard": "new", "allow_rollup_hdrs": True},
    {"retention": "interest"},
    {"retention": "interest", "max_msgs": 1, "discard": "new", "allow_rollup_hdrs": True},
    {"max_msgs": 3, "discard": "new", "max_msgs_per_subject": 1},
    {"max_msgs_per_subject": 1, "discard": "new", "discard_new_per_subject": True},
    {"subject_transform": {"src": "s.*", "dest": "s.t.$1"}},
    {"subject_transform": {"src": "s.a", "dest": "s.b"}, "allow_atomic": True},
]


@given(st.lists(st.tuples(SUBJECTS, BLOCKS), min_size=1, max_size=5), st.sampled_from(CONFIGS))
def test_every_message_is_stored_and_answered_as_by_the_slow_path(
    messages: list[tuple[bytes, bytes]], config: dict[str, Any]
) -> None:
    fast, slow = Site(), Site()
    for site in (fast, slow):
        stream = site.create(**config)
        if "retention" in config:
            wanted(site)
        assert stream.ingest.fast_path
        stream.ingest.fast_path = site is fast
        for number, (subject, block) in enumerate(messages):
            site.world.send(subject, b"%d" % number, reply=b"me", headers=block)
            site.world.settle()
            stream.ingest.fast_path = site is fast
    assert outcome(fast) == outcome(slow)
    assert fast.account.stream("S").log.last_seq == slow.account.stream("S").log.last_seq
    assert len(fast.account.stream("S").expiry) == len(slow.account.stream("S").expiry)


INCREMENTS = st.sampled_from(
    [
        b"Nats-Incr: 1",
        b"Nats-Incr:-5",
        b"Nats-Incr: +007",
        b"Nats-Incr: 999999999999999999",
        b"Nats-Incr: 9999999999999999999",
        b"Nats-Incr: 4611686018427387903",
        b"Nats-Incr: 1 ",
        b"Nats-Incr: ",
        b"Nats-Incr: -",
        b"Nats-Incr: 1x",
        b"Nats-Incr: 1\r\nNats-Incr: 2",
        b"Nats-Incr: 1\r\nOther: 2",
        b"Other: 2\r\nNats-Incr: 3",
        b'Nats-Incr: 1\r\nNats-Counter-Sources: {"A":{"s.a":"5"}}',
        b"Nats-Incr: 1\r\nNats-Msg-Id: one",
        b"Nats-Msg-Id: one",
    ]
)
COUNTERS: list[dict[str, Any]] = [
    {},
    {"max_msgs_per_subject": 2},
    {"max_msg_size": 60},
    {"subject_transform": {"src": "s.a", "dest": "s.b"}},
]


@given(
    st.lists(st.tuples(SUBJECTS, INCREMENTS, st.sampled_from([b"", b"", b"", b"x"])), min_size=1, max_size=6),
    st.sampled_from(COUNTERS),
)
def test_every_increment_is_stored_and_answered_as_by_the_slow_path(
    messages: list[tuple[bytes, bytes, bytes]], config: dict[str, Any]
) -> None:
    fast, slow = Site(), Site()
    for site in (fast, slow):
        stream = site.create(allow_msg_counter=True, **config)
        assert stream.ingest.fast_path
        for subject, lines, payload in messages:
            stream.ingest.fast_path = site is fast
            block = b"NATS/1.0\r\n%b\r\n\r\n" % lines
            site.world.send(subject, payload, reply=b"me", headers=block)
            site.world.settle()
    assert outcome(fast) == outcome(slow)


def test_sums_are_found_again_after_many_others() -> None:
    site = Site()
    site.create(allow_msg_counter=True)
    for round_ in (1, 2):
        for number in range(9_000):
            site.world.send(b"s.%d" % number, b"", reply=b"me", headers=b"NATS/1.0\r\nNats-Incr: 2\r\n\r\n")
        site.world.settle()
        assert site.sent(b"me")[-1].payload.endswith(b'"val":"%d"}' % (2 * round_))
    assert site.state()["messages"] == 18_000


def test_a_stream_with_limits_takes_the_fast_path_and_keeps_them() -> None:
    site = Site()
    stream = site.create(max_msgs=2)
    assert stream.ingest.fast_path
    for number in range(4):
        site.publish("s.a", b"%d" % number)
    assert (site.state()["messages"], site.state()["first_seq"]) == (2, 3)


def test_a_stream_that_refuses_what_is_too_much_takes_the_fast_path_until_it_is_full() -> None:
    site = Site()
    assert site.create(max_msgs=2, discard="new").ingest.fast_path
    assert [site.publish("s.a", b"x")["seq"] for _ in range(2)] == [1, 2]
    assert site.refusal("s.a", b"x") == (503, 10077, "maximum messages exceeded")


@pytest.mark.parametrize("history", [1, 3])
def test_a_bucket_takes_the_fast_path_and_keeps_so_many_of_each_key(history: int) -> None:
    site = Site()
    stream = site.create(max_msgs_per_subject=history, discard="new")
    assert stream.ingest.fast_path
    for number in range(12):
        site.publish(f"s.{number % 3}", b"%d" % number)
    assert site.state()["messages"] == 3 * history
    assert site.state()["first_seq"] == 12 - 3 * history + 1


def test_a_bucket_that_refuses_more_of_a_key_takes_the_fast_path_for_new_keys() -> None:
    site = Site()
    config = {"max_msgs_per_subject": 1, "discard": "new", "discard_new_per_subject": True}
    assert site.create(**config).ingest.fast_path
    assert [site.publish(f"s.{key}", b"x")["seq"] for key in "ab"] == [1, 2]
    assert site.refusal("s.a", b"x") == (503, 10077, "maximum messages per subject exceeded")


REFUSED: list[tuple[dict[str, Any], bytes]] = [
    ({"max_msgs": 1, "discard": "new"}, b""),
    ({"max_bytes": 40, "discard": "new"}, b""),
    ({"max_msgs_per_subject": 1, "discard": "new", "discard_new_per_subject": True}, b""),
    ({}, b"NATS/1.0\r\nNats-Expected-Last-Sequence: 7\r\n\r\n"),
    ({}, b"NATS/1.0\r\nNats-Expected-Last-Subject-Sequence: 7\r\n\r\n"),
]


@pytest.mark.parametrize(("config", "headers"), REFUSED)
def test_a_refusal_waits_for_no_commit_and_needs_no_rules(
    config: dict[str, Any], headers: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = Site()
    stream = site.create(**config)
    site.publish("s.a")
    monkeypatch.setattr(rules.book, "check_entry", None)
    site.world.send(b"s.a", b"", reply=b"me", headers=headers)
    [refusal] = site.sent(b"me")
    assert b'"error"' in refusal.payload
    assert (stream.log.last_seq, stream.log.has_uncommitted()) == (1, False)


def test_a_refusal_names_the_last_sequence_of_its_own_time() -> None:
    site = Site()
    site.create()
    for number in range(1, 4):
        site.publish("s.a")
        refused = site.refusal("s.a", Nats_Expected_Last_Sequence="77")
        assert refused == (400, 10071, f"wrong last sequence: {number}")


def test_an_id_of_a_message_that_nobody_wants_is_known() -> None:
    site = Site()
    stream = site.create(retention="interest")
    assert site.publish("s.a", Nats_Msg_Id="1")["seq"] == 1
    assert site.publish("s.a", Nats_Msg_Id="1") == {"stream": "S", "seq": 1, "duplicate": True}
    assert site.publish("s.a")["seq"] == 2
    assert (stream.log.messages, stream.log.last_seq) == (0, 2)


def test_sequences_of_messages_that_nobody_wants_are_used_up_for_good() -> None:
    site = Site()
    site.create(retention="interest")
    for _ in range(3):
        site.publish("s.a")
    again = site.restarted()
    assert again.publish("s.a")["seq"] == 4
