"""Messages that go after a time of their own, and the markers that are left in their place.

Streams of many kinds wait for the same second, the shortest time to live.  Where something has to be done
before, it is two.
"""

from tests.kits.conformance.publishing import SECOND, Scenario


def test_a_time_to_live_has_many_forms(js: Scenario) -> None:
    js.create(allow_msg_ttl=True)
    for value in (
        "10s", "1h30m", "10.5s", "10000ms", "+20s", "90", "10", "never", "NEVER", "Never", "007", "1e3",
        "1h1h", "", "15000000us", "9223372036", "2562047h", "  50s",
    ):  # fmt: skip
        js.publish("s.a", b"", {"Nats-TTL": value})
    js.stored()


def test_a_time_to_live_that_is_none_is_refused(js: Scenario) -> None:
    js.create(allow_msg_ttl=True)
    for value in (
        "0", "0s", "-1", "-1s", "999ms", "500ms", "x", "1x", "1.5", "1 s", "s", "nev er", "5s ", "0x10", "+5",
        "9999999999999999999", "18446744073709551616", "2562048h", "1_000", "٣",
    ):  # fmt: skip
        js.publish("s.a", b"", {"Nats-TTL": value})
    js.stored()


def test_a_time_to_live_is_refused_where_it_is_not_allowed(js: Scenario) -> None:
    js.create()
    for value in ("1s", "never", "bad", "0", ""):
        js.publish("s.a", b"", {"Nats-TTL": value})
    js.update(allow_msg_ttl=True)
    js.publish("s.a", b"", {"Nats-TTL": "1h"})
    js.update(allow_msg_ttl=False)
    js.stored()


def test_messages_go_when_their_time_has_come(js: Scenario) -> None:
    for name, storage in (("M", "memory"), ("F", "file")):
        js.create(name, subjects=[f"{name}.>"], storage=storage, allow_msg_ttl=True)
        js.publish(f"{name}.a", b"1", {"Nats-TTL": "1s"})
        js.publish(f"{name}.b", b"2")
        js.publish(f"{name}.c", b"3", {"Nats-TTL": "1"})
        js.publish(f"{name}.d", b"4", {"Nats-TTL": "1h"})
        js.publish(f"{name}.e", b"5", {"Nats-TTL": "1s"})
    for name in "MF":
        js.until(name, messages=2)
        js.state(name)
        js.stored(name)
        js.publish(f"{name}.a", b"6", {"Nats-Expected-Last-Subject-Sequence": "0"})


def test_some_messages_outlive_the_age_of_their_stream(js: Scenario) -> None:
    for name, storage in (("M", "memory"), ("F", "file")):
        js.create(
            name,
            subjects=[f"{name}.>"],
            storage=storage,
            allow_msg_ttl=True,
            max_age=SECOND // 2,
            duplicate_window=SECOND // 2,
        )
        js.publish(f"{name}.never", b"1", {"Nats-TTL": "never"})
        js.publish(f"{name}.plain", b"2")
        js.publish(f"{name}.later", b"3", {"Nats-TTL": "1h"})
        js.publish(f"{name}.plain", b"4")
    for name in "MF":
        js.until(name, messages=1)
        js.stored(name)
        js.publish(f"{name}.plain", b"5")
        js.until(name, messages=1)
        js.stored(name)


def test_a_marker_takes_the_place_of_the_last_message(js: Scenario) -> None:
    kinds = {"M": "memory", "F": "file"}
    for name, storage in kinds.items():
        js.create(
            name,
            subjects=[f"{name}.>"],
            storage=storage,
            subject_delete_marker_ttl=3600 * SECOND,
            max_msgs_per_subject=1,  # otherwise no message goes before a marker would
        )
        js.publish(f"{name}.a", b"1")
        js.publish(f"{name}.a", b"2", {"Nats-Msg-Id": "x", "Nats-TTL": "2s"})
        js.publish(f"{name}.b", b"3", {"Nats-TTL": "2s"})
        js.publish(f"{name}.gone", b"4", {"Nats-TTL": "2s"})
        js.api(f"STREAM.MSG.DELETE.{name}", {"seq": 4})
    for name in kinds:
        js.until(name, messages=2, last_seq=6)
        js.stored(name)
        js.state(name)
        js.publish(f"{name}.a", b"5")


def test_a_marker_is_left_when_the_time_of_a_message_has_come_and_goes_without_one(js: Scenario) -> None:
    js.create(allow_msg_ttl=True, subject_delete_marker_ttl=SECOND)
    js.listen("s.>")
    js.publish("s.a", b"1", {"Nats-TTL": "2s"})
    js.publish("s.b", b"2", {"Nats-TTL": "2s"})
    js.publish("s.b", b"3")
    js.until(last_seq=4)
    js.until(messages=1)
    js.stored()
    js.state()


def test_a_time_to_live_is_at_least_that_of_a_marker(js: Scenario) -> None:
    js.create(subject_delete_marker_ttl=60 * SECOND)
    js.publish("s.a", b"1", {"Nats-TTL": "1s"})
    js.publish("s.a", b"1", {"A": "b", "Nats-TTL": "59s", "C": "d"})
    js.publish("s.a", b"1", {"Nats-TTL": "60s"})
    js.publish("s.a", b"1", {"Nats-TTL": "61s"})
    js.publish("s.a", b"1", {"Nats-TTL": "never"})
    js.stored()
    js.create("T", subjects=["t.>"], subject_delete_marker_ttl=60 * SECOND, max_msgs_per_subject=1)
    js.publish("t.a", b"1", {"Nats-TTL": "2s"})
    js.stored("T")


def test_a_purge_of_a_key_value_client_is_a_marker_already(js: Scenario) -> None:
    js.create(allow_msg_ttl=True, subject_delete_marker_ttl=3600 * SECOND, max_msgs_per_subject=1)
    js.publish("s.a", b"", {"KV-Operation": "PURGE", "Nats-Rollup": "sub", "Nats-TTL": "2s"})
    js.publish("s.b", b"", {"KV-Operation": "DEL", "Nats-TTL": "2s"})
    js.publish("s.c", b"", {"Nats-Marker-Reason": "Purge", "Nats-TTL": "2s"})
    js.publish("s.d", b"1")
    js.until(last_seq=5)
    js.until(messages=2)
    js.stored()


def test_a_marker_is_left_although_the_stream_is_full(js: Scenario) -> None:
    js.create(
        allow_msg_ttl=True,
        subject_delete_marker_ttl=3600 * SECOND,
        max_msgs=2,
        max_msgs_per_subject=1,
        discard="new",
        discard_new_per_subject=True,
    )
    js.publish("s.a", b"1", {"Nats-TTL": "2s"})
    js.publish("s.b", b"1")
    js.publish("s.c", b"1")
    js.until(last_seq=3)
    js.stored()


def test_age_leaves_a_marker_that_is_published_again(js: Scenario) -> None:
    js.create(
        max_age=SECOND,
        duplicate_window=SECOND,
        subject_delete_marker_ttl=3600 * SECOND,
        republish={"src": "s.>", "dest": "r.>"},
    )
    js.listen("r.>")
    js.publish("s.a", b"1")
    js.heard("r.>", 2)


def test_what_is_removed_by_hand_or_by_a_limit_leaves_no_marker(js: Scenario) -> None:
    js.create(subject_delete_marker_ttl=SECOND, max_msgs=2)
    for subject in ("s.a", "s.b", "s.c"):
        js.publish(subject, b"1")
    js.api("STREAM.MSG.DELETE.S", {"seq": 2})
    js.api("STREAM.PURGE.S", {"filter": "s.c"})
    js.state()
    js.publish("s.d", b"1")
    js.stored()
