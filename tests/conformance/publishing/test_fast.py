"""Fast ingest: batches that are driven by reply subjects and answered now and then."""

from collections.abc import Callable

from tests.kits.conformance.clients import ServerFactory
from tests.kits.conformance.publishing import Scenario, config_text

START, APPEND, COMMIT, END, PING = range(5)


def step(number: int, operation: int, *, flow: int | str = 10, gap: str = "fail", batch: str = "b") -> str:
    """A reply subject."""
    return f"f.{batch}.{flow}.{gap}.{number}.{operation}.$FI"


def test_a_batch_is_told_how_far_it_got(js: Scenario) -> None:
    js.create(allow_batched=True)
    js.listen("f.>")
    js.send("s.a", step(1, START, flow=2), b"1")
    for number in range(2, 6):
        js.send("s.a", step(number, APPEND, flow=2), b"%d" % number, {"A": "b"} if number == 3 else None)
    js.send("s.a", step(6, COMMIT, flow=2), b"6")
    js.heard("f.>", 4)
    js.stored()


def test_a_batch_may_end_without_a_message(js: Scenario) -> None:
    js.create(allow_batched=True)
    js.listen("f.>")
    js.send("s.a", step(1, START), b"1")
    js.send("s.a", step(2, APPEND), b"2")
    js.send("s.a", step(3, END), b"not stored")
    js.heard("f.>", 2)
    js.stored()


def test_a_batch_of_one_message(js: Scenario) -> None:
    js.create(allow_batched=True)
    js.listen("f.>")
    js.send("s.a", step(1, COMMIT), b"1")
    js.heard("f.>", 1)
    js.send("s.a", step(1, START), b"2")
    js.send("s.a", step(2, END))
    js.heard("f.>", 2)
    js.stored()


def test_fast_batches_have_to_be_allowed(js: Scenario) -> None:
    js.create()
    js.listen("f.>")
    for number, operation in ((1, START), (1, COMMIT), (2, APPEND), (0, 9)):
        js.send("s.a", step(number, operation), b"1")
        js.heard("f.>", 1)
    js.send("s.a", "f.$FI", b"1")
    js.heard("f.>", 1)
    js.send("s.a", step(1, START), b"1", {"A": "b"})
    js.heard("f.>", 1)
    js.send("s.a", "f.x$FI", b"1")
    js.heard("f.>", 1)
    js.state()


def test_a_pattern_has_to_be_right(js: Scenario) -> None:
    js.create(allow_batched=True)
    js.listen("f.>")
    for reply in (
        "f.$FI",
        "f.b.$FI",
        "f.10.fail.1.0.$FI",
        "f.b.10.maybe.1.0.$FI",
        "f.b.10.fail.1.5.$FI",
        "f.b.10.fail.1.x.$FI",
        "f.b.10.fail.x.0.$FI",
        "f.b.10.fail.0.0.$FI",
        "f.b.10.fail.2.0.$FI",
        "f.b.10.fail.1.1.$FI",
        "f.b.10.fail.1.3.$FI",
        "f.b.10.fail.-1.0.$FI",
        "f.b.10.FAIL.1.0.$FI",
        "f.b.10.fail.18446744073709551616.1.$FI",
    ):
        js.send("s.a", reply, b"1")
        js.heard("f.>", 1)
    js.state()


def test_the_flow_is_what_the_publisher_wants_within_bounds(js: Scenario) -> None:
    js.create(allow_batched=True)
    js.listen("f.>")
    for count, flow in enumerate(
        ("0", "-5", "x", "1", "500", "501", "65535", "65536", "99999999999999999999")
    ):
        js.send("s.a", step(1, START, flow=flow, batch=f"b{count}"), b"1")
        js.heard("f.>", 2 if flow == "1" else 1)
        js.send("s.a", step(2, END, flow=flow, batch=f"b{count}"))
        js.heard("f.>", 1)


def test_the_id_of_a_fast_batch_may_have_64_bytes(js: Scenario) -> None:
    js.create(allow_batched=True)
    js.listen("f.>")
    for batch in ("i" * 64, "i" * 65, '"é<'):
        js.send("s.a", step(1, COMMIT, batch=batch), b"1")
        js.heard("f.>", 1)
    js.send("s.a", "f.b.10.fail.1.2.$FI", b"1")
    js.heard("f.>", 1)
    js.state()


def test_an_unknown_batch_is_refused(js: Scenario) -> None:
    js.create(allow_batched=True)
    js.listen("f.>")
    for number, operation in ((2, APPEND), (2, COMMIT), (2, END), (2, PING)):
        js.send("s.a", step(number, operation), b"1")
        js.heard("f.>", 1)
    js.send("s.a", step(1, COMMIT), b"1")
    js.heard("f.>", 1)
    js.send("s.a", step(2, APPEND), b"1")
    js.heard("f.>", 1)
    js.state()


def test_a_gap_ends_a_batch_that_may_have_none(js: Scenario) -> None:
    js.create(allow_batched=True)
    js.listen("f.>")
    js.send("s.a", step(1, START), b"1")
    js.send("s.a", step(2, APPEND), b"2")
    js.send("s.a", step(4, APPEND), b"4")
    js.heard("f.>", 3)
    js.send("s.a", step(5, APPEND), b"5")
    js.heard("f.>", 1)
    js.stored()


def test_a_gap_is_told_to_a_batch_that_may_have_some(js: Scenario) -> None:
    js.create(allow_batched=True)
    js.listen("f.>")
    js.send("s.a", step(1, START, gap="ok"), b"1")
    js.send("s.a", step(4, APPEND, gap="ok"), b"4")
    js.send("s.a", step(7, COMMIT, gap="ok"), b"7")
    js.heard("f.>", 4)
    js.stored()


def test_a_number_that_was_there_already_ends_a_batch(js: Scenario) -> None:
    js.create(allow_batched=True)
    js.listen("f.>")
    for gap in ("ok", "fail"):
        js.send("s.a", step(1, START, gap=gap, batch=gap), b"1")
        js.heard("f.>", 1)
        js.send("s.a", step(2, APPEND, gap=gap, batch=gap), b"2")
        js.send("s.a", step(2, APPEND, gap=gap, batch=gap), b"2")
        js.heard("f.>", 2)
    js.stored()


def test_a_ping_tells_how_far_a_batch_got(js: Scenario) -> None:
    js.create(allow_batched=True)
    js.listen("f.>")
    js.send("s.a", step(1, START, flow=2), b"1")
    js.send("s.a", step(1, PING, flow=2))
    js.heard("f.>", 2)
    js.send("s.a", step(2, APPEND, flow=2), b"2")
    js.send("s.a", step(3, APPEND, flow=2), b"3")
    js.heard("f.>", 1)
    js.send("s.a", step(3, PING, flow=2))
    js.heard("f.>", 1)
    js.send("s.a", step(5, PING, flow=2))
    js.heard("f.>", 2)
    js.send("s.a", step(1, START, gap="ok", flow=2), b"1")
    js.send("s.a", step(6, PING, gap="ok", flow=2))
    js.heard("f.>", 3)
    js.send("s.a", step(7, END, gap="ok", flow=2))
    js.heard("f.>", 1)
    js.stored()


def test_what_is_wrong_with_the_first_message_is_told_as_of_any(js: Scenario) -> None:
    js.create(allow_batched=True, max_msg_size=200)
    js.listen("f.>")
    attempts: tuple[dict[str, str], ...] = (
        {"Nats-Expected-Stream": "T"},
        {"Nats-Expected-Last-Sequence": "7"},
        {"Nats-Expected-Last-Subject-Sequence": "7"},
        {"Nats-Expected-Last-Msg-Id": "7"},
        {"Nats-Rollup": "sub"},
        {"Nats-TTL": "1s"},
        {"Nats-Incr": "1"},
        {"Nats-Schedule": "@every 1s"},
        {"Nats-Required-Api-Level": "99"},
        {"H": "h" * 200},
    )
    for number, headers in enumerate(attempts):
        js.send("s.a", step(1, COMMIT, batch=f"b{number}"), b"1", headers)
        js.heard("f.>", 1)
    js.state()


def test_what_is_wrong_with_a_later_message_ends_a_batch_without_gaps(js: Scenario) -> None:
    js.create(allow_batched=True)
    js.listen("f.>")
    js.send("s.a", step(1, START), b"1")
    js.send("s.a", step(2, APPEND), b"2", {"Nats-Expected-Stream": "T"})
    js.heard("f.>", 3)
    js.send("s.a", step(3, APPEND), b"3")
    js.heard("f.>", 1)
    js.send("s.a", step(1, START), b"1")
    js.send("s.a", step(2, COMMIT), b"2", {"Nats-Expected-Stream": "T"})
    js.heard("f.>", 3)
    js.stored()


def test_what_is_wrong_with_a_message_is_a_gap_where_gaps_are_allowed(js: Scenario) -> None:
    js.create(allow_batched=True)
    js.listen("f.>")
    js.send("s.a", step(1, START, gap="ok"), b"1", {"Nats-Expected-Stream": "T"})
    js.heard("f.>", 2)
    js.send("s.a", step(2, APPEND, gap="ok"), b"2", {"Nats-Expected-Stream": "T"})
    js.heard("f.>", 1)
    js.send("s.a", step(3, APPEND, gap="ok"), b"3")
    js.send("s.a", step(4, COMMIT, gap="ok"), b"4", {"Nats-Expected-Stream": "T"})
    js.heard("f.>", 2)
    js.stored()


def test_a_duplicate_is_passed_over(js: Scenario) -> None:
    js.create(allow_batched=True)
    js.listen("f.>")
    js.publish("s.a", b"0", {"Nats-Msg-Id": "x"})
    js.send("s.a", step(1, START), b"1")
    js.send("s.a", step(2, APPEND), b"2", {"Nats-Msg-Id": "x"})
    js.send("s.a", step(3, APPEND), b"3", {"Nats-Msg-Id": "y"})
    js.send("s.a", step(4, COMMIT), b"4", {"Nats-Msg-Id": "y"})
    js.heard("f.>", 2)
    js.send("s.a", step(1, COMMIT), b"1", {"Nats-Msg-Id": "x"})
    js.heard("f.>", 1)
    js.stored()


def test_expectations_and_rollups_hold_inside_a_batch(js: Scenario) -> None:
    js.create(allow_batched=True, allow_rollup_hdrs=True, allow_msg_ttl=True)
    js.listen("f.>")
    js.send("s.a", step(1, START), b"1", {"Nats-Expected-Last-Sequence": "0"})
    js.send("s.a", step(2, APPEND), b"2", {"Nats-Expected-Last-Sequence": "1"})
    js.send("s.a", step(3, APPEND), b"3", {"Nats-Expected-Last-Subject-Sequence": "2"})
    js.send("s.b", step(4, APPEND), b"4", {"Nats-TTL": "1h"})
    js.send("s.a", step(5, COMMIT), b"5", {"Nats-Rollup": "sub"})
    js.heard("f.>", 2)
    js.stored()


def test_a_full_stream_ends_a_batch(js: Scenario) -> None:
    js.create(allow_batched=True, max_msgs=2, discard="new")
    js.listen("f.>")
    js.send("s.a", step(1, START), b"1")
    js.send("s.a", step(2, APPEND), b"2")
    js.send("s.a", step(3, APPEND), b"3")
    js.heard("f.>", 3)
    js.stored()


def test_two_batches_share_the_flow(js: Scenario) -> None:
    js.create(allow_batched=True)
    js.listen("f.>")
    js.send("s.a", step(1, START, flow=4, batch="x"), b"x1")
    js.heard("f.>", 1)
    js.send("s.a", step(1, START, flow=4, batch="y"), b"y1")
    js.heard("f.>", 2)
    for number in range(2, 7):
        js.send("s.a", step(number, APPEND, flow=4, batch="y"), b"y%d" % number)
    js.heard("f.>", 1)
    js.send("s.a", step(2, COMMIT, flow=4, batch="x"), b"x2")
    js.heard("f.>", 1)
    js.send("s.a", step(7, COMMIT, flow=4, batch="y"), b"y7")
    js.heard("f.>", 1)


def test_a_stream_without_acks_says_nothing_of_a_batch(js: Scenario) -> None:
    js.create(allow_batched=True, no_ack=True)
    js.listen("f.>")
    js.send("s.a", step(1, START), b"1")
    js.send("s.a", step(2, COMMIT), b"2")
    js.until(messages=2)
    js.update(no_ack=False)
    js.send("s.a", step(1, COMMIT, batch="c"), b"3")
    js.heard("f.>", 1)


def test_fast_batches_are_transformed_and_republished(js: Scenario) -> None:
    js.create(
        allow_batched=True,
        subject_transform={"src": "s.*", "dest": "t.$1"},
        republish={"src": "t.>", "dest": "r.>"},
    )
    js.listen("f.>")
    js.listen("r.>")
    js.send("s.a", step(1, START), b"1", {"A": "b"})
    js.send("s.a", step(2, COMMIT), b"2")
    js.heard("f.>", 2)
    js.heard("r.>", 2)
    js.stored()


def test_fast_batches_have_limits(
    shared_server: ServerFactory, open_scenario: Callable[..., Scenario], account: str
) -> None:
    limits = 'limits: {batch: {max_inflight_per_stream: 2, max_msgs: 3, timeout: "3s"}}'
    server = shared_server(config=config_text(f"{{max_mem: 1G, max_file: 1G, {limits}}}"), jetstream=True)
    js = open_scenario(server, account)
    js.create(allow_batched=True)
    js.listen("f.>")
    for batch in "xyz":
        js.send("s.a", step(1, START, batch=batch), b"1")
        js.heard("f.>", 2 if batch == "y" else 1)
    js.wait_for("one timed out", lambda: b"10211" not in js.ask_raw("s.a", None, ".z.10.fail.1.2.$FI"))
    js.state()
