"""Scheduled messages: accepted, refused, and what is stored when they are due."""

from datetime import UTC, datetime, timedelta

from tests.kits.conformance.publishing import Scenario

NEVER_SOON = "@at 2099-01-01T00:00:00Z"


def in_a_moment(**delta: float) -> str:
    moment = datetime.now(UTC) + timedelta(**delta)
    return f"@at {moment.isoformat(timespec='milliseconds').replace('+00:00', 'Z')}"


def test_a_pattern_has_many_forms(js: Scenario) -> None:
    js.create(allow_msg_schedules=True)
    patterns = (
        NEVER_SOON,
        "@at 2099-01-01T00:00:00.123456789+02:00",
        "@every 1h30m",
        "@yearly",
        "@annually",
        "@monthly",
        "@weekly",
        "@daily",
        "@midnight",
        "@hourly",
        "0 0 0 1 1 *",
        "0 0-30/10 8,20 ? JAN-MAR mon-fri",
        "59 59 23 31 12 ?",
        "0 0 0 29 2 *",
        "0  0   0 1 1 *",
        "5/10 0 0 1 1 0",
        "",
        "@every 1500ms",  # those at the end are soon due
        "@every 1s",
        "*/15 * * * * *",
    )
    for number, pattern in enumerate(patterns):
        js.publish(f"s.{number}", b"1", {"Nats-Schedule": pattern, "Nats-Schedule-Target": "s.target"})


def test_what_is_no_pattern_is_refused(js: Scenario) -> None:
    js.create(allow_msg_schedules=True)
    for pattern in (
        "x",
        "@at",
        "@at ",
        "@at x",
        "@at 2099-01-01",
        "@at 2099-01-01 00:00:00Z",
        "@every",
        "@every x",
        "@every 0s",
        "@every -1s",
        "@every 999ms",
        "@every 1",
        "@Daily",
        "@decadely",
        "* * * * *",
        "* * * * * * *",
        "60 * * * * *",
        "* 60 * * * *",
        "* * 24 * * *",
        "* * * 0 * *",
        "* * * 32 * *",
        "* * * * 0 *",
        "* * * * 13 *",
        "* * * * * 7",
        "a * * * * *",
        "1-0 * * * * *",
        "*/0 * * * * *",
        "*/-1 * * * * *",
        "1-2-3 * * * * *",
        "1/2/3 * * * * *",
        "0 0 0 30 2 *",
        "0 0 0 31 6 *",
        "@every1s",
        "@at2099-01-01T00:00:00Z",
        "TZ=UTC * * * * * *",
    ):
        js.publish("s.a", b"1", {"Nats-Schedule": pattern, "Nats-Schedule-Target": "s.target"})
    js.state()


def test_a_time_zone_is_for_patterns_only(js: Scenario) -> None:
    js.create(allow_msg_schedules=True)
    for zone, pattern in (
        ("Europe/Berlin", "@daily"),
        ("UTC", "0 0 0 1 1 *"),
        ("Nowhere/Land", "@daily"),
        ("", "@daily"),
        ("europe/berlin!", "@daily"),
        ("UTC", "@every 1h"),
        ("UTC", NEVER_SOON),
        ("Nowhere/Land", ""),
    ):
        headers = {
            "Nats-Schedule": pattern,
            "Nats-Schedule-Target": "s.target",
            "Nats-Schedule-Time-Zone": zone,
        }
        js.publish("s.a", b"1", headers)
    js.publish("s.a", b"1", {"Nats-Schedule-Time-Zone": "Nowhere/Land"})


def test_a_schedule_needs_a_target_and_a_source_that_make_sense(js: Scenario) -> None:
    js.create(allow_msg_schedules=True, subjects=["s.>", "t.*"])
    js.publish("s.a", b"1", {"Nats-Schedule": NEVER_SOON})
    for target in ("", "s.a", "s.*", "s.>", "other", "t.a.b", "s..b", "t.a", "s b"):
        js.publish("s.a", b"1", {"Nats-Schedule": NEVER_SOON, "Nats-Schedule-Target": target})
    for source in ("", "s.a", "s.t", "s.*", "other", "s..x", "t.a"):
        headers = {
            "Nats-Schedule": NEVER_SOON,
            "Nats-Schedule-Target": "s.t",
            "Nats-Schedule-Source": source,
        }
        js.publish("s.a", b"1", headers)
    js.stored()


def test_a_schedule_may_say_how_long_its_messages_live_and_what_they_replace(js: Scenario) -> None:
    js.create(allow_msg_schedules=True)
    base = {"Nats-Schedule": NEVER_SOON, "Nats-Schedule-Target": "s.t"}
    for header, value in (
        ("Nats-Schedule-TTL", "5s"),
        ("Nats-Schedule-TTL", "bad"),
        ("Nats-Schedule-TTL", "0"),
        ("Nats-Schedule-TTL", ""),
        ("Nats-Schedule-Rollup", "sub"),
        ("Nats-Schedule-Rollup", "all"),
        ("Nats-Schedule-Rollup", "SUB"),
        ("Nats-Schedule-Rollup", ""),
        ("Nats-Rollup", "sub"),
        ("Nats-Rollup", "SUB"),
        ("Nats-Rollup", "all"),
        ("Nats-Rollup", "bad"),
        ("Nats-TTL", "1h"),
    ):
        js.publish("s.a", b"1", {**base, header: value})
    js.update(allow_msg_ttl=True)
    for value in ("5s", "never", "500ms", "bad", "-1"):
        js.publish("s.a", b"1", {**base, "Nats-Schedule-TTL": value})
    js.stored()


def test_schedules_have_to_be_allowed(js: Scenario) -> None:
    js.create()
    js.publish("s.a", b"1", {"Nats-Schedule": NEVER_SOON, "Nats-Schedule-Target": "s.t"})
    js.publish("s.a", b"1", {"Nats-Schedule": "bad"})
    js.publish("s.a", b"1", {"Nats-Schedule": ""})
    js.publish("s.a", b"1", {"Nats-Schedule-Next": "purge", "Nats-Scheduler": "s.b"})
    js.publish("s.a", b"1", {"Nats-Schedule-Next": "purge"})
    js.publish("s.a", b"1", {"Nats-Scheduler": "s.b"})
    js.publish("s.a", b"1", {"Nats-Schedule-Target": "s.t", "Nats-Schedule-TTL": "bad"})
    js.update(allow_msg_schedules=True)
    js.update(allow_msg_schedules=False)
    js.stored()


def test_a_subject_has_one_schedule(js: Scenario) -> None:
    js.create(allow_msg_schedules=True)
    for body in (b"1", b"2"):
        js.publish("s.a", body, {"Nats-Schedule": NEVER_SOON, "Nats-Schedule-Target": "s.t"})
    js.publish("s.b", b"3", {"Nats-Schedule": NEVER_SOON, "Nats-Schedule-Target": "s.t"})
    js.stored()


def test_what_is_due_is_stored_once_and_its_schedule_goes(js: Scenario) -> None:
    for name, storage in (("M", "memory"), ("F", "file")):
        js.create(name, subjects=[f"{name}.>"], storage=storage, allow_msg_schedules=True, allow_msg_ttl=True)
        js.publish(f"{name}.t", b"old")
        js.publish(
            f"{name}.source", b"of the source", {"Own": "header", "Nats-Msg-Id": "m", "Nats-TTL": "1h"}
        )
        base = {"Nats-Schedule": "@at 2020-01-01T00:00:00Z", "Nats-Schedule-Target": f"{name}.t"}
        js.ask_raw(f"{name}.never", {**base, "Nats-Schedule": NEVER_SOON})
        js.ask_raw(f"{name}.a", {"First": "1", **base, "Last": "2", "Nats-Msg-Id": "x", "Nats-TTL": "1h"})
        js.until(name, last_seq=5, messages=4)
        js.stored(name)
        js.ask_raw(f"{name}.b", {**base, "Nats-Expected-Last-Sequence": "5", "Nats-Schedule-TTL": "1h"})
        js.until(name, last_seq=7, messages=5)
        js.ask_raw(f"{name}.c", {**base, "Nats-Schedule-Rollup": "sub"})
        js.until(name, last_seq=9, messages=3)
        js.ask_raw(f"{name}.d", {**base, "Nats-Schedule-Source": f"{name}.source"})
        js.until(name, last_seq=11, messages=4)
        js.ask_raw(f"{name}.e", {**base, "Nats-Schedule-Source": f"{name}.empty", "A": "b"})
        js.until(name, last_seq=13, messages=5)
        js.stored(name)
        js.state(name)


def test_what_is_due_in_a_moment_is_stored_in_a_moment_and_no_subscriber_gets_it(js: Scenario) -> None:
    js.create(allow_msg_schedules=True)
    js.listen("s.t")
    for subject, delay in (("s.late", 2), ("s.early", 1)):
        headers = {"Nats-Schedule": in_a_moment(seconds=delay), "Nats-Schedule-Target": "s.t"}
        js.ask_raw(subject, headers)
    js.until(last_seq=4)
    js.stored()
    js.publish("s.t", b"the only one a subscriber gets")
    js.heard("s.t", 1)


def test_what_is_due_again_and_again_names_the_next_time(js: Scenario) -> None:
    js.create(allow_msg_schedules=True)
    js.create("C", subjects=["c.>"], allow_msg_schedules=True)
    js.publish("s.a", b"tick", {"Nats-Schedule": "@every 1s", "Nats-Schedule-Target": "s.t"})
    js.publish("c.a", b"tick", {"Nats-Schedule": "* * * * * *", "Nats-Schedule-Target": "c.t"})
    js.wait_for("two of each", lambda: js.info("S")["last_seq"] >= 3 and js.info("C")["last_seq"] >= 3)
    for name, subject in (("S", "s.a"), ("C", "c.a")):
        js.ask_raw(f"{subject}.stop", {"Nats-Schedule-Next": "purge", "Nats-Scheduler": subject})
        found = js.ask(f"STREAM.MSG.GET.{name}", {"last_by_subj": subject})
        js.note(f"the schedule: {found['error']['description']}")
        js.note(js.headers_of(name, 2))
        js.note(js.headers_of(name, 3))
        announced = js.headers_of(name, 2).removesuffix("]").rpartition(" ")[2]
        third = js.ask(f"STREAM.MSG.GET.{name}", {"seq": 3})["message"]["time"]
        js.note(f"the third came when the second said: {announced[:19] <= third[:19]}")
        js.note(f"which is a whole second: {len(announced) == len('2000-01-01T00:00:00Z')}")


def test_a_schedule_is_ended_by_a_message_that_names_it(js: Scenario) -> None:
    js.create(allow_msg_schedules=True)
    js.publish("s.a", b"1", {"Nats-Schedule": NEVER_SOON, "Nats-Schedule-Target": "s.t"})
    js.publish("s.plain", b"2")
    for headers in (
        {"Nats-Schedule-Next": "purge"},
        {"Nats-Scheduler": "s.a"},
        {"Nats-Schedule-Next": "2099-01-01T00:00:00Z", "Nats-Scheduler": "s.a"},
        {"Nats-Schedule-Next": "PURGE", "Nats-Scheduler": "s.a"},
        {"Nats-Schedule-Next": "purge", "Nats-Scheduler": "s.end"},
        {"Nats-Schedule-Next": "purge", "Nats-Scheduler": "s.plain"},
        {"Nats-Schedule-Next": "purge", "Nats-Scheduler": "s.*"},
        {"Nats-Schedule-Next": "purge", "Nats-Scheduler": "bad subject"},
        {"Nats-Schedule-Next": "purge", "Nats-Scheduler": "s.none"},
        {"Nats-Schedule-Next": "purge", "Nats-Scheduler": "elsewhere"},
    ):
        js.publish("s.end", b"", headers)
    js.state()
    js.publish("s.end", b"", {"Nats-Schedule-Next": "purge", "Nats-Scheduler": "s.a"})
    js.stored()


def test_a_schedule_that_is_overwritten_or_removed_is_never_due(js: Scenario) -> None:
    js.create(allow_msg_schedules=True)
    moment = in_a_moment(seconds=2)
    for subject in ("s.over", "s.deleted", "s.kept"):
        js.ask_raw(subject, {"Nats-Schedule": moment, "Nats-Schedule-Target": "s.t"})
    js.publish("s.over", b"plain")
    js.api("STREAM.MSG.DELETE.S", {"seq": 2})
    js.until(last_seq=5)
    js.publish("s.after", b"", {"Nats-Expected-Last-Sequence": "5"})
    js.stored()


def test_a_schedule_in_a_batch(js: Scenario) -> None:
    js.create(allow_msg_schedules=True, allow_atomic=True, allow_batched=True)
    base = {"Nats-Schedule": NEVER_SOON, "Nats-Schedule-Target": "s.t"}
    js.publish("s.a", b"1", {**base, "Nats-Batch-Id": "b", "Nats-Batch-Sequence": "1"})
    end = {"Nats-Schedule-Next": "purge", "Nats-Scheduler": "s.a"}
    last = {"Nats-Batch-Id": "b", "Nats-Batch-Sequence": "2", "Nats-Batch-Commit": "1"}
    js.publish("s.b", b"2", last)
    js.stored()
    js.publish("s.c", b"1", {"Nats-Batch-Id": "b", "Nats-Batch-Sequence": "1", **base})
    js.publish("s.d", b"2", {**last, **end})
    js.stored()
    js.publish("s.c", b"1", {"Nats-Batch-Id": "b", "Nats-Batch-Sequence": "1"})
    js.publish("s.d", b"2", {**last, **end, "Nats-Scheduler": "s.c"})
    js.listen("f.>")
    js.send("s.x", "f.b.10.fail.1.2.$FI", b"1", base)
    js.heard("f.>", 1)
    js.send("s.y", "f.b.10.fail.1.2.$FI", b"1", {**base, "Nats-Schedule-Target": "no"})
    js.heard("f.>", 1)
    js.stored()


def test_a_schedule_is_published_again_like_any_message(js: Scenario) -> None:
    js.create(allow_msg_schedules=True, republish={"src": "s.>", "dest": "r.>"})
    js.listen("r.>")
    js.publish("s.a", b"1", {"Nats-Schedule": "@at 2020-01-01T00:00:00Z", "Nats-Schedule-Target": "s.t"})
    js.heard("r.>", 2)


def test_a_schedule_does_not_fire_into_a_stream_that_nobody_is_interested_in(js: Scenario) -> None:
    js.create(allow_msg_schedules=True, retention="interest")
    js.publish("s.a", b"1", {"Nats-Schedule": "@at 2020-01-01T00:00:00Z", "Nats-Schedule-Target": "s.t"})
    js.state()


def test_scheduled_messages_push_out_the_oldest(js: Scenario) -> None:
    js.create(allow_msg_schedules=True, max_msgs_per_subject=1)
    for subject in ("s.a", "s.b"):
        js.ask_raw(subject, {"Nats-Schedule": "@at 2020-01-01T00:00:00Z", "Nats-Schedule-Target": "s.t"})
    js.until(last_seq=4)
    js.stored()
