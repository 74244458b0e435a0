"""Messages that are stored under another subject, or published again under one."""

from tests.kits.conformance.publishing import Scenario


def test_messages_are_stored_under_the_transformed_subject(js: Scenario) -> None:
    js.create(subject_transform={"src": "s.*.*", "dest": "t.$2.$1"}, subjects=["s.>"])
    js.publish("s.a.b", b"1")
    js.publish("s.a", b"not transformed")
    js.publish("s.a.b", b"2", {"A": "b"})
    js.stored()
    js.state()


def test_a_transform_without_source_takes_all(js: Scenario) -> None:
    js.create(subject_transform={"src": ">", "dest": "all.>"})
    js.publish("s.a.b", b"1")
    js.create("T", subjects=["t.>"], subject_transform={"src": "", "dest": "every.>"})
    js.publish("t.a", b"1")
    js.stored()


def test_transforms_have_functions(js: Scenario) -> None:
    for number, dest in enumerate(
        (
            "t.{{wildcard(1)}}.{{wildcard(2)}}",
            "t.{{partition(5,1)}}.{{wildcard(1)}}.{{wildcard(2)}}",
            "t.{{partition(7,1,2)}}.$1.$2",
            "t.{{split(1,-)}}.$2",
            "t.{{splitfromleft(1,2)}}.$2",
            "t.{{SplitFromRight(1,2)}}.$2",
            "t.{{SliceFromLeft(1,2)}}.$2",
            "t.{{slicefromright(1,2)}}.$2",
            "t.{{left(1,3)}}.$2",
            "t.{{right(1,3)}}.$2",
        )
    ):
        name = f"S{number}"
        js.create(name, subjects=[f"{name}.>"], subject_transform={"src": f"{name}.*.*", "dest": dest})
        for subject in ("ab-cd.x", "a.b", "abcdefg.é"):
            js.publish(f"{name}.{subject}", b"")
        js.stored(name)


def test_everything_goes_by_the_transformed_subject(js: Scenario) -> None:
    js.create(
        subject_transform={"src": "s.*", "dest": "t.one"},
        allow_rollup_hdrs=True,
        max_msgs_per_subject=2,
    )
    header = "Nats-Expected-Last-Subject-Sequence"
    js.publish("s.a", b"1", {header: "0"})
    js.publish("s.b", b"2", {header: "0"})
    js.publish("s.b", b"2", {header: "1"})
    js.publish("s.b", b"3", {header: "0", f"{header}-Subject": "s.a"})
    js.publish("s.c", b"4", {"Nats-Rollup": "sub"})
    js.stored()


def test_a_transform_can_be_changed_and_taken_away(js: Scenario) -> None:
    js.create(subject_transform={"src": "s.*", "dest": "t.$1"})
    js.publish("s.a", b"1")
    js.update(subject_transform={"src": "s.*", "dest": "u.$1"})
    js.publish("s.a", b"2")
    js.update(subject_transform=None)
    js.publish("s.a", b"3")
    js.stored()


def test_stored_messages_are_published_again(js: Scenario) -> None:
    js.create(republish={"src": "s.*", "dest": "r.$1"})
    js.listen("r.>")
    js.publish("s.a", b"1")
    js.publish("s.b", b"2", {"A": "b"})
    js.publish("s.a", b"3", {"Nats-Msg-Id": "x"})
    js.publish("s.a", b"3", {"Nats-Msg-Id": "x"})
    js.publish("s.not.this", b"4")
    js.tell("s.a", b"5")
    js.publish("s.a", b"", b"NATS/1.0\r\n\r\n")
    found = js.heard("r.>", 5)
    js.note(f"replies: {[each.reply for each in found]}")


def test_headers_may_be_all_that_is_published_again(js: Scenario) -> None:
    js.create(republish={"src": ">", "dest": "r.>", "headers_only": True})
    js.listen("r.>")
    js.publish("s.a", b"123")
    js.publish("s.a", b"", {"A": "b"})
    js.heard("r.>", 2)
    js.update(republish={"src": ">", "dest": "r.>"})
    js.publish("s.a", b"456")
    js.heard("r.>", 1)


def test_what_was_removed_does_not_count_as_the_last_of_its_subject(js: Scenario) -> None:
    js.create(republish={"src": ">", "dest": "r.>"}, max_msgs_per_subject=1, allow_rollup_hdrs=True)
    js.listen("r.>")
    js.publish("s.a", b"1")
    js.publish("s.a", b"2")
    js.publish("s.b", b"3")
    js.publish("s.a", b"4", {"Nats-Rollup": "sub"})
    js.api("STREAM.PURGE.S", {"filter": "s.a"})
    js.publish("s.a", b"5")
    js.heard("r.>", 5)


def test_a_message_is_transformed_before_it_is_published_again(js: Scenario) -> None:
    js.create(
        subject_transform={"src": "s.*", "dest": "t.$1"},
        republish={"src": "t.*", "dest": "r.{{wildcard(1)}}"},
    )
    js.listen("r.>")
    js.publish("s.a", b"1")
    js.heard("r.>", 1)


def test_another_stream_stores_what_is_published_again(js: Scenario) -> None:
    js.create(republish={"src": ">", "dest": "r.>"})
    js.create("R", subjects=["r.>"])
    js.publish("s.a", b"1", {"Nats-Msg-Id": "x"})
    js.until("R", messages=1)
    js.publish("s.b", b"2")
    js.until("R", messages=2)
    js.stored("R")


def test_nothing_is_published_again_if_nobody_is_interested_in_it(js: Scenario) -> None:
    js.create(republish={"src": ">", "dest": "r.>"}, retention="interest")
    js.listen("r.>")
    js.publish("s.a", b"1")
    js.update(retention="limits")
    js.publish("s.a", b"2")
    js.heard("r.>", 1)
