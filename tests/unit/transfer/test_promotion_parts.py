"""The rules of a promotion that need no server: marks, obstacles, acknowledgements, comparisons."""

from typing import Any

import pytest

from millstream.jsapi import names
from millstream.transfer.comparison import consumer_differences
from millstream.transfer.consumer_move import copied_config, obstacle
from millstream.transfer.errors import CopyDiffers
from millstream.transfer.follower import following_config, why_not
from millstream.transfer.late_acks import LateAck, read_ack
from millstream.transfer.marks import freeze_note, frozen, is_unfinished_copy, marked, own_config
from millstream.transfer.plan import OUR_KEYS, only_ours

CONFIG = {"name": "ORDERS", "subjects": ["orders.>"], "metadata": {"team": "x", "_nats.ver": "2.15.1"}}


def test_a_freeze_changes_subjects_and_notes_what_they_were() -> None:
    still = frozen(CONFIG, ["worker"])
    assert still["subjects"] == ["millstream.frozen.ORDERS"]
    assert freeze_note(still) == {"subjects": ["orders.>"], "paused": ["worker"]}
    assert freeze_note(CONFIG) is None
    assert own_config(still) == {"name": "ORDERS", "subjects": ["orders.>"], "metadata": {"team": "x"}}


def test_a_stream_without_subjects_is_frozen_without_any() -> None:
    mirror = {"name": "COPY", "mirror": {"name": "ORDERS"}}
    assert "subjects" not in frozen(mirror, [])
    assert own_config(frozen(mirror, [])) == mirror


def test_an_unfinished_copy_is_told_from_any_other_stream() -> None:
    copy = {"config": marked(CONFIG, "then")}
    assert is_unfinished_copy(copy, "then")
    assert not is_unfinished_copy(copy, "another time")
    assert not is_unfinished_copy({"config": CONFIG}, "then")
    assert own_config(copy["config"]) == own_config(CONFIG)


@pytest.mark.parametrize(
    ("subject", "body", "expected"),
    [
        ("$JS.ACK.S.C.1.7.3.99.0", b"", (7, "$JS.ACK.S.C.1.7.3.99.0", b"+ACK")),
        ("$JS.ACK.S.C.1.7.3.99.0", b"+NXT 5", (7, "$JS.ACK.S.C.1.7.3.99.0", b"+ACK")),
        ("$JS.ACK.S.C.1.7.3.99.0", b"+TERM bad", (7, "$JS.ACK.S.C.1.7.3.99.0", b"+TERM")),
        ("$JS.ACK.hub.acc.S.C.1.7.3.99.0.rnd", b"+ACK", (7, "$JS.ACK.S.C.1.7.3.99.0", b"+ACK")),
        ("$JS.ACK.S.C.1.7.3.99.0", b"-NAK", None),
        ("$JS.ACK.S.C.1.7.3.99.0", b"+WPI", None),
        ("$JS.ACK.S.C", b"", None),
        ("orders.new", b"", None),
    ],
)
def test_an_acknowledgement_says_which_message_it_is_for(
    subject: str, body: bytes, expected: tuple[int, str, bytes] | None
) -> None:
    found = read_ack(subject, body)
    assert found == (None if expected is None else LateAck("S", "C", *expected))


def entry(delivered: int, floor: int, pending: list[int], **config: Any) -> dict[str, Any]:
    state = {
        "delivered": {"stream_seq": delivered},
        "ack_floor": {"stream_seq": floor},
        "pending": {str(seq): {} for seq in pending},
    }
    return {"config": {"ack_policy": "explicit", **config}, "state": state}


@pytest.mark.parametrize(
    ("one", "word"),
    [
        (entry(9, 5, [6, 9]), ""),
        (entry(9, 9, [], deliver_subject="push"), ""),
        (entry(9, 7, [8, 9], deliver_subject="push"), ""),
        (entry(9, 7, [9], deliver_subject="push"), "gaps"),
        (entry(9, 9, [], deliver_policy="last"), "reset"),
        (entry(9, 7, [9], priority_policy="pinned_client"), "priority"),
        (entry(9, 7, [9], ack_policy="flow_control"), "flow control"),
    ],
)
def test_what_keeps_a_consumer_from_being_carried_is_said(one: dict[str, Any], word: str) -> None:
    assert word in obstacle("c", one)
    assert bool(obstacle("c", one)) == bool(word)


def test_a_consumer_is_not_paused_at_the_target() -> None:
    config = {"name": "c", "pause_until": "2030-01-01T00:00:00Z", "metadata": {"_nats.ver": "1", "a": "b"}}
    assert copied_config(config) == {"name": "c", "metadata": {"a": "b"}}


@pytest.mark.parametrize(
    ("config", "word"),
    [
        ({}, ""),
        ({"retention": "limits", "discard": "old"}, ""),
        ({"retention": "workqueue"}, "workqueue"),
        ({"retention": "interest"}, "interest"),
        ({"mirror": {"name": "x"}}, "mirror"),
        ({"sealed": True}, "sealed"),
        ({"discard": "new"}, "discards"),
    ],
)
def test_only_streams_that_a_mirror_can_be_of_are_followed(config: dict[str, Any], word: str) -> None:
    assert word in why_not(config)
    assert bool(why_not(config)) == bool(word)


def test_a_copy_that_follows_is_a_mirror_without_subjects() -> None:
    config = following_config({"name": "S", "subjects": ["s"], "max_age": 5, "deny_delete": True})
    assert config == {"name": "S", "max_age": 5, "mirror": {"name": "MILLSTREAM_FEED_S"}}


def told(delivered: int, floor: int, pending: int) -> dict[str, Any]:
    return {
        "delivered": {"stream_seq": delivered},
        "ack_floor": {"stream_seq": floor},
        "num_ack_pending": pending,
    }


def test_consumers_are_compared_by_what_they_delivered_acknowledged_and_wait_for() -> None:
    expected = entry(9, 5, [6, 9])
    assert consumer_differences(told(9, 5, 2), expected, 1) == []
    assert len(consumer_differences(told(8, 4, 3), expected, 1)) == 3
    # a consumer may be lifted to where the stream begins
    assert consumer_differences(told(19, 19, 2), expected, 20) == []


def test_many_differences_are_told_shortly() -> None:
    error = CopyDiffers("S", [f"difference {number}" for number in range(9)])
    assert str(error).endswith("difference 4; and 4 more")
    assert len(error.differences) == 9


def test_what_only_millstream_honours_is_named() -> None:
    mine = {"name": "c", "config": {"metadata": {"millstream.dead_letter": "dlq.c", "team": "a"}}}
    other = {"name": "d", "config": {}}
    assert only_ours([mine, other]) == ["consumer c: only Millstream honours millstream.dead_letter"]


def test_every_key_of_our_metadata_is_named() -> None:
    ours = {value for name, value in vars(names).items() if name.startswith("METADATA_") and _is_ours(value)}
    assert ours == set(OUR_KEYS)
    metadata = dict.fromkeys(sorted(ours), "1")
    remarks = only_ours([{"name": "c", "config": {"metadata": metadata}}])
    assert sorted(remarks) == [f"consumer c: only Millstream honours {key}" for key in sorted(ours)]


def _is_ours(value: object) -> bool:
    return isinstance(value, str) and value.startswith("millstream.")
