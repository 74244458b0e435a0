"""Answers to a publisher: PubAcks, refusals, and silence."""

from collections.abc import Callable

from tests.kits.conformance.clients import ServerFactory
from tests.kits.conformance.publishing import Scenario, config_text


def test_a_publish_is_answered_with_stream_and_sequence(js: Scenario) -> None:
    js.create()
    js.publish("s.a", b"1")
    js.publish("s.b", b"2")
    js.publish("s.a")
    js.state()
    js.stored()


def test_a_file_stream_answers_like_one_in_memory(js: Scenario) -> None:
    js.create(storage="file")
    js.publish("s.a", b"1")
    js.publish("s.b", b"2", {"A": "b"})
    js.state()
    js.stored()


def test_the_sequence_begins_where_the_stream_was_told_to(js: Scenario) -> None:
    js.create(first_seq=1000)
    js.state()
    js.publish("s.a", b"1")
    js.state()


def test_unknown_headers_are_kept_as_they_are(js: Scenario) -> None:
    js.create()
    js.publish("s.a", b"1", b"NATS/1.0\r\nA:b\r\nA:  c \r\nnats-msg-id: lower\r\nEmpty:\r\n\r\n")
    js.publish("s.a", b"1", b"NATS/1.0\r\nA:b\r\nnats-msg-id: lower\r\n\r\n")
    js.publish("s.a", b"", b"NATS/1.0\r\n\r\n")
    js.publish("s.a", b"x", b"NATS/1.0 503 No Responders\r\nA: b\r\n\r\n")
    js.publish("s.a", b"x", b"NATS/1.0 100 Idle\r\n\r\n")
    js.stored()
    js.state()


def test_a_message_without_reply_is_stored_in_silence(js: Scenario) -> None:
    js.create(max_msg_size=10)
    js.tell("s.a", b"1")
    js.tell("s.a", b"much too large")
    js.tell("s.a", b"2", {"A": "b"})
    js.tell("s.a", b"3", {})
    js.publish("s.a", b"4")
    js.stored()


def test_a_stream_without_acks_answers_nothing_not_even_refusals(js: Scenario) -> None:
    js.create(no_ack=True, max_msg_size=60)
    js.listen("answers.>")
    js.send("s.a", "answers.1", b"1")
    js.send("s.a", "answers.2", b"x" * 61)
    js.send("s.a", "answers.3", b"2", {"Nats-Msg-Id": "x"})
    js.send("s.a", "answers.4", b"2", {"Nats-Msg-Id": "x"})
    js.until(messages=2)
    js.update(no_ack=False)
    js.send("s.a", "answers.5", b"3")
    js.heard("answers.>", 1)
    js.stored()


def test_a_sealed_stream_takes_nothing(js: Scenario) -> None:
    js.create(allow_atomic=True, allow_batched=True)
    js.publish("s.a", b"1")
    js.update(sealed=True)
    js.publish("s.a", b"2")
    js.publish("s.a", b"2", {"Nats-Expected-Stream": "wrong"})
    js.publish("s.a", b"2", {"Nats-Batch-Id": "b", "Nats-Batch-Sequence": "1", "Nats-Batch-Commit": "1"})
    js.listen("f.>")
    js.send("s.a", "f.b1.10.fail.1.2.$FI", b"3")
    js.heard("f.>", 1)
    js.state()


def test_two_streams_can_not_have_a_subject_and_a_third_subject_has_no_responders(js: Scenario) -> None:
    js.create("S", subjects=["s.*"])
    js.create("T", subjects=["t.>"])
    js.publish("s.a")
    js.publish("t.a.b")
    js.publish("s.a.b")
    js.publish("u")


def test_a_stream_takes_other_subjects_after_an_update(js: Scenario) -> None:
    js.create("S", subjects=["s.*"])
    js.publish("s.a")
    js.update("S", subjects=["t.*"])
    js.publish("t.a")
    js.publish("s.a")
    js.stored()


def test_a_deleted_stream_answers_no_more(js: Scenario) -> None:
    js.create()
    js.publish("s.a")
    js.api("STREAM.DELETE.S")
    js.publish("s.a")


def test_a_subscriber_gets_what_a_stream_stores_with_its_reply(js: Scenario) -> None:
    js.create()
    js.listen("s.a")
    js.send("s.a", "nowhere.1", b"1", {"Nats-Msg-Id": "m"})
    found = js.heard("s.a", 1)
    js.note(f"reply {found[0].reply}")
    js.until(messages=1)


def test_the_headers_of_a_message_may_have_64_kib_and_no_more(js: Scenario) -> None:
    js.create()
    for length in (65535, 65536, 65537):
        filler = length - len(b"NATS/1.0\r\nH: \r\n\r\n")
        js.publish("s.a", b"1", {"H": "h" * filler})
    js.state()


def test_a_message_may_be_as_large_as_the_stream_says(js: Scenario) -> None:
    js.create(max_msg_size=100)
    js.publish("s.a", b"x" * 100)
    js.publish("s.a", b"x" * 101)
    js.publish("s.a", b"x" * (100 - 18), {"A": "b"})
    js.publish("s.a", b"x" * (101 - 18), {"A": "b"})
    js.publish("s.a", b"x" * (100 - 18), {"A": "bc"})
    js.update(max_msg_size=5)
    js.publish("s.a", b"123456")
    js.publish("s.a", b"12345")
    js.state()


def test_answers_name_the_domain(
    shared_server: ServerFactory, open_scenario: Callable[..., Scenario], account: str
) -> None:
    server = shared_server(config=config_text("{max_mem: 1G, max_file: 1G, domain: hub}"), jetstream=True)
    js = open_scenario(server, account)
    js.create(allow_msg_counter=True, subjects=["c.>"], name="C")
    js.create(allow_atomic=True, allow_batched=True)
    js.publish("c.x", b"", {"Nats-Incr": "1"})
    js.publish("s.a", b"", {"Nats-Msg-Id": "m"})
    js.publish("s.a", b"", {"Nats-Msg-Id": "m"})
    js.publish("s.a", b"", {"Nats-Expected-Stream": "T"})
    js.publish("s.a", b"", {"Nats-Batch-Id": "b", "Nats-Batch-Sequence": "1", "Nats-Batch-Commit": "1"})
    js.listen("f.>")
    js.send("s.a", "f.b1.10.fail.1.2.$FI", b"3")
    js.heard("f.>", 1)
    js.listen("$JS.EVENT.ADVISORY.STREAM.>")
    js.publish("s.a", b"", {"Nats-Batch-Id": "b", "Nats-Batch-Sequence": "1"})
    js.publish("s.a", b"", {"Nats-Batch-Id": "b", "Nats-Batch-Sequence": "3"})
    js.heard("$JS.EVENT.ADVISORY.STREAM.>", 1)
    js.api("STREAM.DELETE.S")
    js.heard("$JS.EVENT.ADVISORY.STREAM.>", 1)


def test_a_name_that_json_escapes_is_escaped_in_an_ack(js: Scenario) -> None:
    js.create("S<&é\u2028", subjects=["s.>"])
    js.publish("s.a")
    js.publish("s.a", b"", {"Nats-Expected-Stream": "T"})


def test_a_source_header_is_not_for_clients(js: Scenario) -> None:
    js.create()
    js.publish("s.a", b"1", {"Nats-Stream-Source": "O 1 > > o"})
    js.publish("s.a", b"1", {"Nats-Stream-Source": ""})
    js.stored()
