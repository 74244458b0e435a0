"""Message ids, what a publisher expects of a stream, and rollups."""

from tests.kits.conformance.publishing import SECOND, Scenario


def test_a_duplicate_is_answered_with_the_sequence_of_the_first(js: Scenario) -> None:
    js.create()
    js.publish("s.a", b"1", {"Nats-Msg-Id": "one"})
    js.publish("s.a", b"2", {"Nats-Msg-Id": "two"})
    js.publish("s.b", b"other subject, other body", {"Nats-Msg-Id": "one"})
    js.publish("s.a", b"3")
    js.publish("s.a", b"4", {"Nats-Msg-Id": "two"})
    js.state()


def test_an_empty_id_is_none(js: Scenario) -> None:
    js.create()
    js.publish("s.a", b"1", {"Nats-Msg-Id": ""})
    js.publish("s.a", b"2", {"Nats-Msg-Id": ""})
    js.publish("s.a", b"2", b"NATS/1.0\r\nNats-Msg-Id:x\r\n\r\n")
    js.publish("s.a", b"2", b"NATS/1.0\r\nNats-Msg-Id:   x   \r\n\r\n")
    js.publish("s.a", b"2", b"NATS/1.0\r\nNats-Msg-Id: x\r\nNats-Msg-Id: y\r\n\r\n")
    js.publish("s.a", b"2", b"NATS/1.0\r\nX-Nats-Msg-Id: x\r\n\r\n")
    js.publish("s.a", b"2", b"NATS/1.0\r\nNATS-MSG-ID: x\r\n\r\n")
    js.stored()


def test_an_id_is_known_even_if_its_message_is_gone(js: Scenario) -> None:
    js.create()
    js.publish("s.a", b"1", {"Nats-Msg-Id": "one"})
    js.api("STREAM.MSG.DELETE.S", {"seq": 1})
    js.publish("s.a", b"2", {"Nats-Msg-Id": "one"})
    js.publish("s.a", b"2", {"Nats-Msg-Id": "two"})
    js.api("STREAM.PURGE.S")
    js.publish("s.a", b"2", {"Nats-Msg-Id": "two"})
    js.state()


def test_the_window_can_be_shortened_and_an_id_is_forgotten_behind_it(js: Scenario) -> None:
    js.create(duplicate_window=SECOND // 10)
    first = js.publish("s.a", b"1", {"Nats-Msg-Id": "one"})
    js.wait_for(
        "it is no duplicate",
        lambda: js.ask_raw("s.a", {"Nats-Msg-Id": "one"}) == first.payload.replace(b"1", b"2"),
    )
    js.state()


def test_a_stream_without_a_window_still_has_the_default_one(js: Scenario) -> None:
    js.create(duplicate_window=0)
    js.publish("s.a", b"1", {"Nats-Msg-Id": "one"})
    js.publish("s.a", b"1", {"Nats-Msg-Id": "one"})


def test_a_refused_message_leaves_no_id(js: Scenario) -> None:
    js.create(max_msgs=1, discard="new")
    js.publish("s.a", b"1")
    js.publish("s.a", b"2", {"Nats-Msg-Id": "x"})
    js.api("STREAM.PURGE.S")
    js.publish("s.a", b"2", {"Nats-Msg-Id": "x"})


def test_the_stream_can_be_expected(js: Scenario) -> None:
    js.create()
    js.publish("s.a", b"1", {"Nats-Expected-Stream": "S"})
    js.publish("s.a", b"1", {"Nats-Expected-Stream": "T"})
    js.publish("s.a", b"1", {"Nats-Expected-Stream": "s"})
    js.publish("s.a", b"1", {"Nats-Expected-Stream": ""})
    js.state()


def test_the_last_sequence_can_be_expected(js: Scenario) -> None:
    js.create()
    for expected in (
        "0",
        "0",
        "1",
        "01",
        " 2",
        "x",
        "-1",
        "3x",
        "",
        "99999999999999999999",
        "18446744073709551615",
    ):
        js.publish("s.a", b"1", {"Nats-Expected-Last-Sequence": expected})
    js.api("STREAM.PURGE.S")
    js.publish("s.a", b"1", {"Nats-Expected-Last-Sequence": "0"})
    js.state()


def test_the_last_sequence_of_the_subject_can_be_expected(js: Scenario) -> None:
    header = "Nats-Expected-Last-Subject-Sequence"
    js.create()
    for expected in ("0", "0", "1", "1", "x", "", "-1", "18446744073709551615"):
        js.publish("s.a", b"1", {header: expected})
    js.publish("s.b", b"1", {header: "2"})
    js.publish("s.b", b"1", {header: "0"})
    js.publish("s.a", b"1", {header: "2"})
    js.api("STREAM.PURGE.S", {"filter": "s.a"})
    js.publish("s.a", b"1", {header: "0"})
    js.state()


def test_the_last_sequence_of_another_subject_can_be_expected(js: Scenario) -> None:
    header = "Nats-Expected-Last-Subject-Sequence"
    js.create()
    js.publish("s.a.x", b"1")
    js.publish("s.b.x", b"2")
    js.publish("s.a.y", b"3")
    for subject, expected in (
        ("s.b.x", "2"),
        ("s.a.*", "3"),
        ("s.a.*", "1"),
        ("s.>", "4"),
        ("s.>", "6"),
        ("s.none", "0"),
        ("s.none", "1"),
        ("other.*", "0"),
        ("bad subject", "0"),
        ("s..x", "0"),
        (">", "10"),
        ("", "0"),
    ):
        js.publish("s.new", b"4", {header: expected, f"{header}-Subject": subject})
    js.publish("s.new", b"4", {f"{header}-Subject": "s.a.x"})
    js.publish("s.new", b"4", {f"{header}-Subject": "s.a.x", header: ""})
    js.state()


def test_the_last_message_id_can_be_expected(js: Scenario) -> None:
    header = "Nats-Expected-Last-Msg-Id"
    js.create()
    js.publish("s.a", b"1", {header: "x"})
    js.publish("s.a", b"1", {"Nats-Msg-Id": "a"})
    js.publish("s.a", b"1", {header: "x"})
    js.publish("s.a", b"1", {header: "a", "Nats-Msg-Id": "b"})
    js.publish("s.a", b"1", {header: "b", "Nats-Msg-Id": "b"})
    js.publish("s.a", b"1", {header: "wrong", "Nats-Msg-Id": "b"})
    js.publish("s.a", b"1", {header: ""})
    js.publish("s.a", b"1", {header: "b"})
    js.publish("s.a", b"1", {"Nats-Msg-Id": "c"})
    js.api("STREAM.PURGE.S")
    js.publish("s.a", b"1", {header: "c"})
    js.publish("s.a", b"1", {"Nats-Msg-Id": '"<é>"'})
    js.publish("s.a", b"1", {header: "c"})


def test_the_first_of_several_wrong_things_is_told(js: Scenario) -> None:
    wrong = {
        "Nats-Incr": "x",
        "Nats-Expected-Stream": "T",
        "Nats-TTL": "1s",
        "Nats-Expected-Last-Subject-Sequence": "7",
        "Nats-Expected-Last-Sequence": "8",
        "Nats-Schedule": "bad",
        "Nats-Stream-Source": "x",
        "Nats-Msg-Id": "a",
        "Nats-Expected-Last-Msg-Id": "b",
        "Nats-Rollup": "sub",
    }
    js.create(max_msg_size=400)
    js.publish("s.a", b"", {"Nats-Msg-Id": "a"})
    js.publish("s.a", b"x" * 401, wrong)
    js.publish("s.a", b"", {"H": "h" * 70_000, **wrong})
    js.update(max_msg_size=-1)
    js.publish("s.a", b"", {"H": "h" * 70_000, **wrong})
    while wrong:
        js.publish("s.a", b"", wrong)
        del wrong[next(iter(wrong))]


def test_a_rollup_replaces_what_its_subject_has(js: Scenario) -> None:
    js.create(allow_rollup_hdrs=True)
    for subject in ("s.a", "s.b", "s.a", "s.b"):
        js.publish(subject, b"old")
    js.publish("s.a", b"new", {"Nats-Rollup": "sub"})
    js.stored()
    js.publish("s.b", b"new", {"Nats-Rollup": "SUB"})
    js.stored()
    js.state()


def test_a_rollup_replaces_all_there_is(js: Scenario) -> None:
    js.create(allow_rollup_hdrs=True)
    for subject in ("s.a", "s.b", "s.a"):
        js.publish(subject, b"old")
    js.publish("s.a", b"new", {"Nats-Rollup": "all"})
    js.stored()
    js.state()
    js.publish("s.c", b"newer", {"Nats-Rollup": "All"})
    js.stored()


def test_a_rollup_is_refused_where_it_is_not_allowed_or_not_understood(js: Scenario) -> None:
    js.create()
    js.publish("s.a", b"1", {"Nats-Rollup": "sub"})
    js.publish("s.a", b"1", {"Nats-Rollup": "bad"})
    js.create("T", subjects=["t.>"], allow_rollup_hdrs=True)
    js.publish("t.a", b"1", {"Nats-Rollup": "bad"})
    js.publish("t.a", b"1", {"Nats-Rollup": 'Q"é'})
    js.publish("t.a", b"1", {"Nats-Rollup": ""})
    js.publish("t.a", b"1", {"Nats-Rollup": "sub "})
    js.state()
    js.stored("T")


def test_a_rollup_goes_past_the_limit_of_its_subject(js: Scenario) -> None:
    js.create(allow_rollup_hdrs=True, max_msgs_per_subject=1, discard="new", discard_new_per_subject=True)
    js.publish("s.a", b"1")
    js.publish("s.a", b"2")
    js.publish("s.a", b"3", {"Nats-Rollup": "sub"})
    js.publish("s.b", b"4")
    js.publish("s.a", b"5", {"Nats-Rollup": "all"})
    js.stored()


def test_limits_are_enforced_before_a_rollup_takes_what_it_replaces(js: Scenario) -> None:
    js.create(allow_rollup_hdrs=True, max_msgs=2)
    js.publish("s.a", b"1")
    js.publish("s.b", b"2")
    js.publish("s.b", b"3", {"Nats-Rollup": "sub"})
    js.stored()


def test_a_purge_of_nothing_changes_nothing(js: Scenario) -> None:
    js.create()
    for body in ({"filter": "s.a"}, {"keep": 1}, {"filter": "s.*", "keep": 1}, {"seq": 1}):
        js.api("STREAM.PURGE.S", body)
        js.state()
    js.api("STREAM.PURGE.S")
    js.state()
    js.publish("s.a", b"1")
    js.state()
