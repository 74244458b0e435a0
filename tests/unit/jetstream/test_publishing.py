"""Answers of a stream to messages with headers, or with rules; texts are nats-server's."""

import json
from typing import Any

import pytest

from millstream.jetstream.options import AccountJetStreamOptions
from millstream.jetstream.resources import Resources
from tests.kits.fake_world import Published
from tests.kits.jetstream.stream import SECOND, Site, block

SEALED = (400, 10109, "invalid operation on sealed stream")


def published(seq: int, **more: Any) -> dict[str, Any]:
    return {"stream": "S", "seq": seq, **more}


# -- ids ----------------------------------------------------------------------------------------------


def test_a_message_with_a_known_id_is_not_stored_again() -> None:
    site = Site()
    site.create()
    assert site.publish("s.a", b"1", Nats_Msg_Id="1") == published(1)
    assert site.publish("s.b", b"2", Nats_Msg_Id="1") == published(1, duplicate=True)
    assert site.state()["messages"] == 1


def test_an_id_is_forgotten_when_its_window_has_passed() -> None:
    site = Site()
    site.create(duplicate_window=2 * SECOND)
    site.publish("s.a", Nats_Msg_Id="1")
    site.world.advance(1.9)
    assert site.publish("s.a", Nats_Msg_Id="1") == published(1, duplicate=True)
    site.world.advance(0.1)
    assert site.publish("s.a", Nats_Msg_Id="1") == published(2)


def test_ids_are_known_after_a_restart() -> None:
    site = Site()
    site.create()
    site.publish("s.a", Nats_Msg_Id="1")
    again = site.restarted()
    assert again.publish("s.a", Nats_Msg_Id="1") == published(1, duplicate=True)


def test_ids_outside_the_window_are_not_restored() -> None:
    site = Site()
    site.create(duplicate_window=SECOND)
    site.publish("s.a", Nats_Msg_Id="1")
    site.world.advance(2)
    assert site.restarted().publish("s.a", Nats_Msg_Id="1") == published(2)


def test_an_empty_id_is_none() -> None:
    site = Site()
    site.create()
    site.publish("s.a", Nats_Msg_Id="")
    assert site.publish("s.a", Nats_Msg_Id="") == published(2)


# -- expectations -------------------------------------------------------------------------------------


def test_the_last_id_is_that_of_the_last_message() -> None:
    site = Site()
    site.create()
    site.publish("s.a", Nats_Msg_Id="1")
    assert site.refusal("s.b", Nats_Expected_Last_Msg_Id="2") == (400, 10070, "wrong last msg ID: 1")
    assert site.publish("s.b", Nats_Expected_Last_Msg_Id="1") == published(2)
    # the message that was just stored has none
    assert site.refusal("s.b", Nats_Expected_Last_Msg_Id="1") == (400, 10070, "wrong last msg ID: ")


def test_a_plain_message_has_no_id_that_could_be_expected() -> None:
    site = Site()
    site.create()
    site.publish("s.a", Nats_Msg_Id="1")
    site.publish("s.a")
    assert site.refusal("s.b", Nats_Expected_Last_Msg_Id="1") == (400, 10070, "wrong last msg ID: ")


def test_another_stream_than_the_expected_one_refuses() -> None:
    site = Site()
    site.create()
    assert site.refusal("s.a", Nats_Expected_Stream="T") == (400, 10060, "expected stream does not match")
    assert site.publish("s.a", Nats_Expected_Stream="S") == published(1)


@pytest.mark.parametrize("wrong", ["0", "3", "x", "+2", "-2", "9" * 5000])
def test_another_last_sequence_than_the_expected_one_refuses(wrong: str) -> None:
    site = Site()
    site.create()
    site.publish("s.a")
    site.publish("s.a")
    refused = (400, 10071, "wrong last sequence: 2")
    assert site.refusal("s.b", Nats_Expected_Last_Sequence=wrong) == refused
    assert site.refusal("s.a", Nats_Expected_Last_Subject_Sequence=wrong) == refused
    assert site.publish("s.b", Nats_Expected_Last_Sequence="2") == published(3)
    assert site.publish("s.a", Nats_Expected_Last_Subject_Sequence="2") == published(4)


def test_a_subject_without_messages_has_the_last_sequence_0() -> None:
    site = Site()
    site.create()
    site.publish("s.a")
    assert site.publish("s.b", Nats_Expected_Last_Subject_Sequence="0") == published(2)
    refused = (400, 10071, "wrong last sequence: 2")
    assert site.refusal("s.b", Nats_Expected_Last_Subject_Sequence="0") == refused


def test_the_last_sequence_of_another_subject_can_be_expected() -> None:
    site = Site()
    site.create()
    site.publish("s.a")
    site.publish("s.b")

    def expect(seq: int, subject: str) -> dict[str, Any]:
        header = {
            "Nats_Expected_Last_Subject_Sequence": str(seq),
            "Nats_Expected_Last_Subject_Sequence_Subject": subject,
        }
        return site.publish("s.c", **header)

    assert expect(1, "s.a") == published(3)
    assert expect(2, "s.*")["error"]["description"] == "wrong last sequence: 3"
    assert expect(1, "bad..a")["error"]["description"] == "wrong last sequence: 0"
    assert site.refusal("s.c", Nats_Expected_Last_Subject_Sequence_Subject="s.a") == (
        400,
        10193,
        "missing sequence for expected last sequence per subject",
    )


def test_expectations_without_a_value_expect_nothing() -> None:
    site = Site()
    site.create()
    for name in ("Stream", "Last_Sequence", "Last_Subject_Sequence", "Last_Msg_Id"):
        assert "error" not in site.publish("s.a", **{f"Nats_Expected_{name}": ""})


def test_a_message_that_is_not_as_expected_does_not_use_up_its_id() -> None:
    site = Site()
    site.create()
    site.refusal("s.a", Nats_Msg_Id="1", Nats_Expected_Last_Sequence="5")
    assert site.publish("s.a", Nats_Msg_Id="1") == published(1)


def test_a_duplicate_is_one_before_the_last_id_is_looked_at() -> None:
    site = Site()
    site.create()
    site.publish("s.a", Nats_Msg_Id="1")
    assert site.publish("s.a", Nats_Msg_Id="1", Nats_Expected_Last_Msg_Id="x") == published(1, duplicate=True)


# -- rollups ------------------------------------------------------------------------------------------


def test_a_rollup_replaces_what_was_there_of_its_subject_or_of_all() -> None:
    site = Site()
    site.create(allow_rollup_hdrs=True)
    for subject in ("s.a", "s.b", "s.b"):
        site.publish(subject)
    assert site.publish("s.b", Nats_Rollup="SUB") == published(4)
    assert site.subjects() == ["s.a", "s.b"]
    site.publish("s.c", Nats_Rollup="all")
    assert site.subjects() == ["s.c"]
    assert site.state()["first_seq"] == 5


def test_rollups_are_refused_where_they_are_not_allowed_or_not_understood() -> None:
    site = Site()
    site.create()
    site.create("R", allow_rollup_hdrs=True)
    assert site.refusal("s.a", Nats_Rollup="sub") == (500, 10111, "rollup not permitted")
    assert site.refusal("r.a", Nats_Rollup="Bad") == (500, 10111, 'rollup value invalid: "bad"')
    assert "error" not in site.publish("s.a", Nats_Rollup="")


# -- sizes and limits ---------------------------------------------------------------------------------


def test_headers_count_for_the_size_of_a_message() -> None:
    site = Site()
    site.create(max_msg_size=30)
    too_large = (400, 10054, "message size exceeds maximum allowed")
    assert site.refusal("s.a", bytes(31)) == too_large
    assert site.publish("s.a", bytes(30)) == published(1)
    assert site.refusal("s.a", bytes(20), X="1") == too_large


def test_headers_have_a_size_of_their_own() -> None:
    site = Site()
    site.create()
    refused = (400, 10097, "header size exceeds maximum allowed of 64k")
    assert site.refusal("s.a", X="1" * 70_000) == refused


def test_a_source_header_is_for_servers_only() -> None:
    site = Site()
    site.create()
    refused = (400, 10227, "message stream source header is not allowed")
    assert site.refusal("s.a", Nats_Stream_Source="x 1") == refused


def test_a_sealed_stream_takes_nothing() -> None:
    site = Site()
    site.create()
    site.update(sealed=True)
    assert site.refusal("s.a") == SEALED


def test_an_account_stores_no_more_than_it_may() -> None:
    site = Site(options=AccountJetStreamOptions(max_store=1000, max_memory=100))
    site.create()
    site.create("M", storage="memory")
    refused = (400, 10002, "resource limits exceeded for account")
    assert "error" not in site.publish("s.a", bytes(700))
    assert site.refusal("s.a", bytes(300)) == refused
    assert "error" not in site.publish("m.a", bytes(50))  # each kind of storage by itself
    assert site.refusal("m.a", bytes(50)) == refused
    site.ask("STREAM.PURGE.S")
    assert "error" not in site.publish("s.a", bytes(300))
    assert site.ask("INFO")["storage"] == site.state()["bytes"]


def test_a_server_that_is_full_takes_nothing_until_it_is_not() -> None:
    site = Site(resources=Resources(max_store=100))
    site.create()
    assert "error" not in site.publish("s.a", bytes(100))  # over the limit, as nats-server does
    assert site.refusal("s.a") == (503, 10023, "insufficient resources")
    site.ask("STREAM.PURGE.S")
    assert "error" not in site.publish("s.a")
    assert site.account.streams["S"].ingest.fast_path


# -- what comes out -----------------------------------------------------------------------------------


def test_republished_messages_say_where_they_are_from() -> None:
    site = Site()
    site.create(republish={"src": "s.>", "dest": "copy.>"})
    site.publish("s.a", b"1")
    site.publish("s.a", b"22", X="y")
    first, second = site.sent(b"copy.a")
    assert first.payload == b"1"
    assert second.headers == (
        b"NATS/1.0\r\nX: y\r\nNats-Stream: S\r\nNats-Subject: s.a\r\nNats-Sequence: 2\r\n"
        b"Nats-Time-Stamp: 2023-11-14T22:13:20Z\r\nNats-Last-Sequence: 1\r\n\r\n"
    )


def test_republished_headers_say_how_large_the_message_is() -> None:
    site = Site()
    site.create(republish={"src": ">", "dest": "copy.>", "headers_only": True})
    site.publish("s.a", b"22")
    (copy,) = site.sent(b"copy.s.a")
    assert copy.payload == b""
    assert b"Nats-Msg-Size: 2\r\n" in copy.headers
    assert b"Nats-Last-Sequence: 0\r\n" in copy.headers


def test_nothing_is_republished_before_it_is_durable() -> None:
    site = Site()
    site.create(republish={"src": ">", "dest": "copy.>"})
    site.disk.full = True
    site.refusal("s.a")
    assert site.sent(b"copy.s.a") == []
    site.disk.full = False
    site.world.advance(1)
    assert len(site.sent(b"copy.s.a")) == 1


def test_subjects_are_transformed_before_anything_else() -> None:
    site = Site()
    site.create(subject_transform={"src": "s.*", "dest": "kept.$1"})
    site.publish("s.a")
    site.publish("s.a.b")  # does not match
    assert site.subjects() == ["kept.a", "s.a.b"]
    assert site.publish("s.a", Nats_Expected_Last_Subject_Sequence="1") == published(3)


def test_a_stream_without_acks_answers_nobody() -> None:
    site = Site()
    site.create(no_ack=True)
    site.world.send(b"s.a", reply=b"me")
    site.world.send(b"s.a", reply=b"me", headers=block(Nats_Expected_Stream="T"))
    site.world.settle()
    assert site.sent(b"me") == []
    assert site.state()["messages"] == 1


def test_the_domain_is_in_the_answer() -> None:
    site = Site(domain="hub")
    site.create()
    site.world.send(b"s.a", reply=b"me")
    site.world.settle()
    assert site.sent(b"me") == [Published(b"me", b'{"stream":"S","domain":"hub","seq":1}')]


def test_without_consumers_an_interest_stream_only_counts() -> None:
    site = Site()
    site.create(retention="interest")
    assert site.publish("s.a") == published(1)
    state = site.state()
    assert (state["messages"], state["first_seq"], state["last_seq"]) == (0, 2, 1)


def test_status_and_request_info_are_not_stored() -> None:
    site = Site()
    site.create()
    rude = b"NATS/1.0 503 No\r\nX: y\r\nNats-Request-Info: {}\r\n\r\n"
    answer = site.world.request(b"s.a", b"1", rude)
    assert json.loads(answer)["seq"] == 1
    stored = site.ask("STREAM.MSG.GET.S", {"seq": 1})["message"]["hdrs"]
    assert stored == "TkFUUy8xLjANClg6IHkNCg0K"  # NATS/1.0, X: y


def test_a_clock_that_goes_back_does_not_reorder_a_stream() -> None:
    site = Site()
    site.create()
    site.publish("s.a")
    site.world.time_ns -= 3600 * SECOND
    site.publish("s.a")
    site.publish("s.a", X="y")
    times = [site.ask("STREAM.MSG.GET.S", {"seq": seq})["message"]["time"] for seq in (1, 2, 3)]
    assert times == sorted(times)
    assert site.restarted().state()["last_seq"] == 3
