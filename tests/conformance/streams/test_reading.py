"""STREAM.MSG.GET: by sequence, by subject, by time; what is asked wrongly and what is missing."""

from typing import Any

import pytest

from tests.kits.conformance.streams import JsWith, Prepare, Session

SUBJECTS = ["a.>", "b.>"]
SEVEN = ("a.1", "a.2", "b.1", "a.1", "b.2", "a.3", "b.1")
LONG_AGO = "2001-02-03T04:05:06Z"
SOME_DAY = "2101-02-03T04:05:06Z"


def some_messages(js: Session, storage: str) -> None:
    js.create(subjects=SUBJECTS, storage=storage)
    js.publish("a.1", "one")
    js.publish("a.2", b"\x00\xff\xfe", {"Some": "header", "Other": "value"})
    js.publish("b.1")
    js.publish("a.1", "four", {"Nats-Msg-Id": "four"})
    js.fill("b.2", "a.3", "b.1")
    js.do("STREAM.MSG.DELETE.S", {"seq": 6})


def messages_in_files(js: Session) -> None:
    some_messages(js, "file")


def messages_in_memory(js: Session) -> None:
    some_messages(js, "memory")


@pytest.mark.parametrize("messages", [messages_in_files, messages_in_memory], ids=["file", "memory"])
@pytest.mark.parametrize(
    "body",
    [
        "",
        "{}",
        "{ }",
        "1",
        "not JSON",
        "[]",
        "null",
        {"seq": 1},
        {"seq": 3},
        {"seq": 7},
        {"seq": 8},
        {"seq": 0},
        {"seq": -1},
        {"seq": 2**64 - 1},
        {"seq": 2**64},
        {"seq": "1"},
        {"last_by_subj": "a.1"},
        {"last_by_subj": "a.>"},
        {"last_by_subj": "a.*"},
        {"last_by_subj": "*.1"},
        {"last_by_subj": ">"},
        {"last_by_subj": "b.2"},
        {"last_by_subj": "a.3"},
        {"last_by_subj": "a.9"},
        {"last_by_subj": "a..1"},
        {"last_by_subj": ""},
        {"last_by_subj": "a.1", "seq": 1},
        {"last_by_subj": "a.1", "next_by_subj": "a.1"},
        {"last_by_subj": "a.1", "start_time": LONG_AGO},
        {"next_by_subj": "a.1"},
        {"next_by_subj": "a.1", "seq": 1},
        {"next_by_subj": "a.1", "seq": 2},
        {"next_by_subj": "a.1", "seq": 5},
        {"next_by_subj": "a.*", "seq": 3},
        {"next_by_subj": ">", "seq": 3},
        {"next_by_subj": "b.>", "seq": 8},
        {"next_by_subj": "a..1", "seq": 1},
        {"next_by_subj": "a.1", "start_time": LONG_AGO},
        {"next_by_subj": "b.>", "start_time": LONG_AGO},
        {"next_by_subj": "b.>", "start_time": SOME_DAY},
        {"next_by_subj": "b.>", "start_time": LONG_AGO, "seq": 3},
        {"start_time": LONG_AGO},
        {"start_time": SOME_DAY},
        {"start_time": "0001-01-01T00:00:00Z"},
        {"start_time": "yesterday"},
        {"start_time": 5},
        {"start_time": LONG_AGO, "seq": 1},
        {"seq": 4, "no_hdr": True},
        {"seq": 2, "no_hdr": False},
        {"seq": 1, "batch": 1},
        {"seq": 1, "batch": -1},
        {"seq": 1, "max_bytes": 10},
        {"seq": 1, "up_to_seq": 3},
        {"seq": 1, "up_to_time": SOME_DAY},
        {"multi_last": ["a.1"]},
        {"seq": 1, "multi_last": ["a.1"]},
        {"seq": 1, "unknown": 1},
    ],
    ids=str,
)
def test_message_get(js_with: JsWith, messages: Prepare, body: Any) -> None:
    js = js_with(messages)
    js.ask("STREAM.MSG.GET.S", body)


def test_message_get_of_an_empty_stream(js: Session) -> None:
    js.create()
    for body in (
        {"seq": 1},
        {"last_by_subj": "S"},
        {"next_by_subj": "S"},
        {"start_time": LONG_AGO},
        {"start_time": SOME_DAY},
    ):
        js.ask("STREAM.MSG.GET.S", body)


def test_a_message_starts_where_its_time_is(js: Session) -> None:
    js.create(subjects=SUBJECTS, storage="memory")
    js.fill(*SEVEN)
    for seq in (1, 4, 7):
        time = js.do("STREAM.MSG.GET.S", {"seq": seq})["message"]["time"]
        js.ask("STREAM.MSG.GET.S", {"start_time": time})
        js.ask("STREAM.MSG.GET.S", {"start_time": time, "next_by_subj": "b.1"})
