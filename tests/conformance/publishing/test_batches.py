"""Atomic batches: stored together or not at all."""

from collections.abc import Callable

from tests.kits.conformance.clients import ServerFactory
from tests.kits.conformance.publishing import SECOND, Headers, Scenario, config_text

ADVISORIES = "$JS.EVENT.ADVISORY.STREAM.BATCH_ABANDONED.>"


def part(number: int | str, *, batch: str = "b", commit: str | None = None, **more: str) -> Headers:
    """The headers of one message of a batch; `more` has `_` for `-`."""
    headers = {"Nats-Batch-Id": batch, "Nats-Batch-Sequence": str(number)}
    if commit is not None:
        headers["Nats-Batch-Commit"] = commit
    return {**headers, **{name.replace("_", "-"): value for name, value in more.items()}}


def test_a_batch_is_stored_when_it_is_committed(js: Scenario) -> None:
    for name, storage in (("M", "memory"), ("F", "file")):
        js.create(name, subjects=[f"{name}.>"], storage=storage, allow_atomic=True)
        js.publish(f"{name}.a", b"1", part(1))
        js.publish(f"{name}.b", b"2", part(2, A="b"))
        js.state(name)
        js.publish(f"{name}.z", b"alone")
        js.publish(f"{name}.a", b"3", part(3, commit="1"))
        js.stored(name)
        js.state(name)


def test_a_batch_may_end_with_a_message_that_is_not_stored(js: Scenario) -> None:
    js.create(allow_atomic=True)
    js.publish("s.a", b"1", part(1))
    js.publish("s.b", b"2", part(2))
    js.publish("s.c", b"not stored", part(3, commit="eob", Nats_Expected_Stream="wrong"))
    js.stored()


def test_a_batch_of_one(js: Scenario) -> None:
    js.create(allow_atomic=True)
    js.publish("s.a", b"1", part(1, commit="1"))
    js.publish("s.a", b"2", part(1, commit="eob"))
    js.publish("s.a", b"3", part(1))
    js.publish("s.a", b"", part(2, commit="eob"))
    js.stored()


def test_batches_are_interleaved_and_each_is_whole(js: Scenario) -> None:
    js.create(allow_atomic=True)
    js.publish("s.a", b"b1", part(1))
    js.publish("s.a", b"c1", part(1, batch="c"))
    js.publish("s.a", b"c2", part(2, batch="c", commit="1"))
    js.publish("s.a", b"b2", part(2, commit="1"))
    js.stored()


def test_messages_of_a_batch_need_no_reply(js: Scenario) -> None:
    js.create(allow_atomic=True)
    js.tell("s.a", b"1", part(1))
    js.tell("s.a", b"2", part(2))
    js.publish("s.a", b"3", part(3, commit="1"))
    js.tell("s.a", b"4", part(1))
    js.tell("s.a", b"5", part(2, commit="1"))
    js.until(messages=5)
    js.stored()


def test_batches_have_to_be_allowed(js: Scenario) -> None:
    js.create(max_msg_size=100)
    js.publish("s.a", b"1", part(1, commit="1"))
    js.publish("s.a", b"x" * 101, part(1, commit="1"))
    js.publish("s.a", b"1", part(1, batch=""))
    js.publish("s.a", b"1", {"Nats-Batch-Sequence": "1", "Nats-Batch-Commit": "1"})
    js.stored()


def test_the_id_of_a_batch_may_have_64_bytes(js: Scenario) -> None:
    js.create(allow_atomic=True)
    js.publish("s.a", b"1", part(1, batch="i" * 64, commit="1"))
    js.publish("s.a", b"1", part(1, batch="i" * 65, commit="1"))
    js.publish("s.a", b"1", part(1, batch='"é<', commit="1"))
    js.publish("s.a", b"1", part(1, batch="with blank", commit="1"))
    js.state()


def test_numbers_of_a_batch_have_no_gaps(js: Scenario) -> None:
    js.create(allow_atomic=True)
    js.listen(ADVISORIES)
    for number in ("", "x", "0", "2", "-1", "1.0", "99999999999999999999"):
        js.publish("s.a", b"1", part(number, batch="new"))
    js.publish("s.a", b"1", part(1))
    js.publish("s.a", b"1", part(3))
    js.publish("s.a", b"1", part(4))
    js.publish("s.a", b"1", part(1))
    js.publish("s.a", b"1", part(1))
    js.publish("s.a", b"1", part(1))
    js.publish("s.a", b"1", part(2))
    js.publish("s.a", b"1", part(2, commit="1"))
    js.publish("s.a", b"1", {"Nats-Batch-Id": "none"})
    js.publish("s.a", b"1", part(1, batch="eob", commit="eob"))
    js.publish("s.a", b"1", part("01", batch="zero", commit="1"))
    js.heard(ADVISORIES, 4)
    js.state()


def test_a_commit_is_one_of_two_words(js: Scenario) -> None:
    js.create(allow_atomic=True)
    for word in ("0", "true", "EOB", "", "2"):
        js.publish("s.a", b"1", part(1))
        js.publish("s.a", b"1", part(2, commit=word))
        js.publish("s.a", b"1", part(3, commit="1"))
    js.state()


def test_a_batch_needs_a_server_of_its_level(js: Scenario) -> None:
    js.create(allow_atomic=True)
    js.listen(ADVISORIES)
    js.publish("s.a", b"1", part(1, Nats_Required_Api_Level="0"))
    js.publish("s.a", b"1", part(2, Nats_Required_Api_Level="1", commit="1"))
    for level in ("99", "x", "5", "6", "+1", "-1", "1.0", ""):
        js.publish("s.a", b"1", part(1, batch=f"b{level}", Nats_Required_Api_Level=level))
    js.publish("s.a", b"1", {"Nats-Required-Api-Level": "99"})
    js.heard(ADVISORIES, 4)
    js.stored()


def test_what_a_batch_expects_is_checked_when_it_is_committed(js: Scenario) -> None:
    js.create(allow_atomic=True)
    js.publish("s.a", b"0")
    for expectation in (
        {"Nats_Expected_Stream": "T"},
        {"Nats_Expected_Last_Sequence": "7"},
        {"Nats_Expected_Last_Subject_Sequence": "7"},
        {"Nats_Expected_Last_Subject_Sequence_Subject": "s.a"},
        {"Nats_Expected_Last_Msg_Id": "x"},
        {"Nats_Rollup": "sub"},
        {"Nats_Rollup": "bad"},
        {"Nats_TTL": "1s"},
        {"Nats_TTL": "bad"},
        {"Nats_Incr": "1"},
        {"Nats_Incr": "x"},
        {"Nats_Schedule": "@every 1s"},
        {"Nats_Stream_Source": "x"},
        {"H": "h" * 70_000},
    ):
        js.publish("s.a", b"1", part(1, **expectation))
        js.publish("s.a", b"2", part(2, commit="1"))
    js.state()


def test_the_last_sequence_can_be_expected_of_the_first_only(js: Scenario) -> None:
    js.create(allow_atomic=True)
    js.publish("s.a", b"0")
    js.publish("s.a", b"1", part(1, Nats_Expected_Last_Sequence="1"))
    js.publish("s.a", b"2", part(2, commit="1"))
    js.publish("s.a", b"1", part(1, Nats_Expected_Last_Sequence="3"))
    js.publish("s.a", b"2", part(2, Nats_Expected_Last_Sequence="4", commit="1"))
    js.publish("s.a", b"1", part(1))
    js.publish("s.a", b"2", part(2, Nats_Expected_Last_Sequence="3", commit="1"))
    js.publish("s.a", b"1", part(1))
    js.publish("s.a", b"2", part(2, Nats_Expected_Last_Sequence="x", commit="1"))
    js.state()


def test_the_last_sequence_of_a_subject_can_be_expected_before_the_batch_writes_to_it(js: Scenario) -> None:
    js.create(allow_atomic=True)
    js.publish("s.a", b"0")
    js.publish("s.b", b"0")
    js.publish("s.a", b"1", part(1, Nats_Expected_Last_Subject_Sequence="1"))
    js.publish("s.b", b"2", part(2, Nats_Expected_Last_Subject_Sequence="2"))
    js.publish("s.c", b"3", part(3, Nats_Expected_Last_Subject_Sequence="0", commit="1"))
    js.publish("s.a", b"1", part(1))
    js.publish("s.a", b"2", part(2, Nats_Expected_Last_Subject_Sequence="3", commit="1"))
    js.publish("s.a", b"1", part(1))
    js.publish("s.a", b"2", part(2, Nats_Expected_Last_Subject_Sequence="6", commit="1"))
    other = "Nats_Expected_Last_Subject_Sequence_Subject"
    js.publish("s.x", b"1", part(1, Nats_Expected_Last_Subject_Sequence="3", **{other: "s.a"}))
    js.publish("s.y", b"2", part(2, Nats_Expected_Last_Subject_Sequence="4", **{other: "s.b"}, commit="1"))
    js.publish("s.x", b"1", part(1))
    js.publish("s.y", b"2", part(2, Nats_Expected_Last_Subject_Sequence="7", **{other: "s.*"}, commit="1"))
    js.publish("s.x", b"1", part(1))
    js.publish("s.y", b"2", part(2, Nats_Expected_Last_Subject_Sequence="7", **{other: "s.x"}, commit="1"))
    js.publish("s.x", b"1", part(1, Nats_Expected_Last_Subject_Sequence="5", **{other: "s.c"}))
    js.publish("s.c", b"2", part(2, commit="1"))
    js.publish("s.x", b"1", part(1, Nats_Expected_Last_Subject_Sequence="5", **{other: "s.c"}))
    js.publish("s.y", b"2", part(2, Nats_Expected_Last_Subject_Sequence="5", **{other: "s.c"}, commit="1"))
    js.stored()


def test_an_id_is_in_a_batch_once_and_known_afterwards(js: Scenario) -> None:
    js.create(allow_atomic=True)
    js.publish("s.a", b"1", {"Nats-Msg-Id": "known"})
    js.publish("s.a", b"1", part(1, Nats_Msg_Id="x"))
    js.publish("s.a", b"2", part(2, Nats_Msg_Id="x", commit="1"))
    js.publish("s.a", b"1", part(1, Nats_Msg_Id="known"))
    js.publish("s.a", b"2", part(2, commit="1"))
    js.publish("s.a", b"1", part(1, Nats_Msg_Id="x"))
    js.publish("s.a", b"2", part(2, Nats_Msg_Id="y", commit="1"))
    js.publish("s.a", b"1", {"Nats-Msg-Id": "x"})
    js.publish("s.a", b"1", {"Nats-Msg-Id": "z", "Nats-Expected-Last-Msg-Id": "y"})
    js.stored()


def test_a_batch_rolls_up_what_it_has_not_written(js: Scenario) -> None:
    js.create(allow_atomic=True, allow_rollup_hdrs=True)
    for subject in ("s.a", "s.b", "s.a", "s.b"):
        js.publish(subject, b"old")
    js.publish("s.a", b"1", part(1, Nats_Rollup="sub"))
    js.publish("s.b", b"2", part(2, commit="1"))
    js.stored()
    js.publish("s.a", b"1", part(1))
    js.publish("s.a", b"2", part(2, Nats_Rollup="sub", commit="1"))
    js.publish("s.a", b"1", part(1))
    js.publish("s.b", b"2", part(2, Nats_Rollup="all", commit="1"))
    js.publish("s.a", b"1", part(1, Nats_Rollup="all"))
    js.publish("s.a", b"2", part(2, commit="1"))
    js.stored()


def test_a_batch_that_does_not_fit_is_not_stored_at_all(js: Scenario) -> None:
    js.create(allow_atomic=True, max_msgs=2, discard="new")
    js.publish("s.a", b"0")
    js.publish("s.a", b"1", part(1))
    js.publish("s.a", b"2", part(2, commit="1"))
    js.create("B", subjects=["b.>"], allow_atomic=True, max_bytes=250, discard="new")
    js.publish("b.a", b"0")
    js.publish("b.a", b"1", part(1))
    js.publish("b.a", b"x" * 100, part(2, commit="1"))
    js.create(
        "P",
        subjects=["p.>"],
        allow_atomic=True,
        max_msgs_per_subject=2,
        discard="new",
        discard_new_per_subject=True,
    )
    js.publish("p.a", b"0")
    js.publish("p.a", b"1", part(1))
    js.publish("p.a", b"2", part(2, commit="1"))
    js.publish("p.b", b"1", part(1))
    js.publish("p.b", b"2", part(2, commit="1"))
    for name in "SBP":
        js.state(name)


def test_a_batch_pushes_out_the_oldest(js: Scenario) -> None:
    js.create(allow_atomic=True, max_msgs=2)
    js.publish("s.a", b"0")
    for number in (1, 2):
        js.publish("s.a", b"%d" % number, part(number))
    js.publish("s.a", b"3", part(3, commit="1"))
    js.stored()
    js.create("P", subjects=["p.>"], allow_atomic=True, max_msgs_per_subject=1)
    js.publish("p.a", b"1", part(1))
    js.publish("p.a", b"2", part(2, commit="1"))
    js.stored("P")


def test_a_message_of_a_batch_is_measured_when_it_comes(js: Scenario) -> None:
    js.create(allow_atomic=True, max_msg_size=100)
    js.publish("s.a", b"1", part(1))
    js.publish("s.a", b"x" * 101, part(2))
    js.publish("s.a", b"2", part(2, commit="1"))
    js.stored()


def test_a_batch_of_messages_that_expire(js: Scenario) -> None:
    js.create(allow_atomic=True, allow_msg_ttl=True, subject_delete_marker_ttl=60 * SECOND)
    js.publish("s.a", b"1", part(1, Nats_TTL="1s"))
    js.publish("s.b", b"2", part(2, Nats_TTL="never", commit="1"))
    js.publish("s.a", b"1", part(1, Nats_TTL="0"))
    js.publish("s.b", b"2", part(2, commit="1"))
    js.publish("s.a", b"1", part(1, Nats_TTL="bad"))
    js.publish("s.b", b"2", part(2, commit="1"))
    js.stored()


def test_a_batch_is_transformed_and_republished(js: Scenario) -> None:
    js.create(
        allow_atomic=True,
        subject_transform={"src": "s.*", "dest": "t.$1"},
        republish={"src": "t.>", "dest": "r.>"},
    )
    js.listen("r.>")
    js.publish("s.a", b"1", part(1))
    js.publish("s.a", b"2", part(2, commit="eob"))
    js.publish("s.a", b"1", part(1, Nats_Expected_Last_Subject_Sequence="1"))
    js.publish("s.b", b"2", part(2, commit="1"))
    js.heard("r.>", 3)
    js.stored()


def test_a_stream_without_acks_takes_a_batch_in_silence(js: Scenario) -> None:
    js.create(allow_atomic=True, no_ack=True)
    js.listen("answers.>")
    js.send("s.a", "answers.1", b"1", part(1))
    js.send("s.a", "answers.2", b"2", part(2, commit="1"))
    js.until(messages=2)
    js.update(no_ack=False)
    js.send("s.a", "answers.3", b"3")
    js.heard("answers.>", 1)


def test_an_update_that_forbids_batches_ends_those_that_are_open(js: Scenario) -> None:
    js.create(allow_atomic=True)
    js.publish("s.a", b"1", part(1))
    js.update(allow_atomic=False)
    js.publish("s.a", b"2", part(2, commit="1"))
    js.update(allow_atomic=True, allow_batched=True)
    js.publish("s.a", b"2", part(2, commit="1"))
    js.listen("f.>")
    js.send("s.a", "f.b.10.fail.1.0.$FI", b"1")
    js.heard("f.>", 1)
    js.update(allow_batched=False)
    js.send("s.a", "f.b.10.fail.2.1.$FI", b"2")
    js.heard("f.>", 1)
    js.update(allow_batched=True)
    js.send("s.a", "f.b.10.fail.2.1.$FI", b"2")
    js.heard("f.>", 1)
    js.state()


def test_a_batch_is_in_no_reader_s_way_before_its_commit(js: Scenario) -> None:
    js.create(allow_atomic=True, allow_direct=True)
    js.publish("s.a", b"1", part(1))
    js.api("STREAM.MSG.GET.S", {"last_by_subj": "s.a"})
    js.publish("s.a", b"2", {"Nats-Expected-Last-Subject-Sequence": "0"})
    js.publish("s.a", b"2", part(2, commit="1"))
    js.stored()


def test_batches_have_limits(
    shared_server: ServerFactory, open_scenario: Callable[..., Scenario], account: str
) -> None:
    limits = 'limits: {batch: {max_inflight_per_stream: 2, max_msgs: 3, timeout: "3s"}}'
    server = shared_server(config=config_text(f"{{max_mem: 1G, max_file: 1G, {limits}}}"), jetstream=True)
    js = open_scenario(server, account)
    js.create(allow_atomic=True)
    js.listen(ADVISORIES)
    js.publish("s.a", b"1", part(1))
    js.publish("s.a", b"1", part(1, batch="c"))
    js.publish("s.a", b"1", part(1, batch="d"))
    js.publish("s.a", b"1", part(1, batch="d", commit="1"))
    js.publish("s.a", b"2", part(2, batch="c", commit="1"))
    js.publish("s.a", b"2", part(2))
    js.publish("s.a", b"3", part(3))
    js.publish("s.a", b"4", part(4, commit="eob"))
    for number in range(1, 4):
        js.publish("s.a", b"%d" % number, part(number))
    js.publish("s.a", b"4", part(4))
    js.publish("s.a", b"5", part(5))
    js.publish("s.a", b"5", part(4))
    js.publish("s.a", b"5", part(4, commit="eob"))
    js.heard(ADVISORIES, 1)
    js.publish("s.a", b"1", part(1, batch="slow"))
    js.heard(ADVISORIES, 1)
    js.publish("s.a", b"2", part(2, batch="slow", commit="1"))
    js.state()
