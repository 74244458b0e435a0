"""Direct get in all its forms: one message, batches, the last of each subject; statuses and headers."""

from typing import Any

import pytest

from tests.kits.conformance.streams import JsWith, Prepare, Session

DIRECT = "$JS.API.DIRECT.GET"
SUBJECTS = ["a.>", "b.>"]
LONG_AGO = "2001-02-03T04:05:06Z"
SOME_DAY = "2101-02-03T04:05:06Z"
STORAGES = pytest.mark.parametrize("storage", ["file", "memory"])


def seven(js: Session, storage: str = "file", **config: Any) -> None:
    """A stream with seven messages, one of them deleted."""
    js.create(subjects=SUBJECTS, storage=storage, allow_direct=True, **config)
    js.publish("a.1", "one")
    js.publish("a.2", "two", {"Some": "header", "Other": "value"})
    js.publish("b.1")
    js.publish("a.1", "four", {"Nats-Msg-Id": "four"})
    js.publish("b.2", "five")
    js.publish("a.3", "six")
    js.publish("b.1", "seven")
    js.do("STREAM.MSG.DELETE.S", {"seq": 5})


def seven_in_files(js: Session) -> None:
    seven(js)


def seven_in_memory(js: Session) -> None:
    seven(js, "memory")


SEVENS = pytest.mark.parametrize("sevens", [seven_in_files, seven_in_memory], ids=["file", "memory"])


@SEVENS
@pytest.mark.parametrize(
    "body",
    [
        "",
        "{}",
        "1",
        "not JSON",
        "[]",
        "null",
        {"seq": 0},
        {"seq": 1},
        {"seq": 2},
        {"seq": 3},
        {"seq": 5},
        {"seq": 8},
        {"seq": -1},
        {"seq": "1"},
        {"last_by_subj": "a.1"},
        {"last_by_subj": "a.>"},
        {"last_by_subj": ">"},
        {"last_by_subj": "b.2"},
        {"last_by_subj": "a..1"},
        {"next_by_subj": "a.1"},
        {"next_by_subj": "a.1", "seq": 2},
        {"next_by_subj": "a.1", "seq": 5},
        {"next_by_subj": ">", "seq": 5},
        {"next_by_subj": "b.*", "start_time": LONG_AGO},
        {"start_time": LONG_AGO},
        {"start_time": SOME_DAY},
        {"start_time": "yesterday"},
        {"seq": 2, "no_hdr": True},
        {"seq": 1, "no_hdr": True},
        {"seq": 8, "no_hdr": True},
        {"last_by_subj": "a.1", "no_hdr": True},
        {"seq": 1, "max_bytes": 1},
        {"seq": 1, "up_to_seq": 1},
        {"seq": 1, "up_to_seq": 1, "up_to_time": SOME_DAY},
        {"seq": 1, "last_by_subj": "a.1"},
        {"seq": 1, "start_time": LONG_AGO},
        {"last_by_subj": "a.1", "start_time": LONG_AGO},
        {"last_by_subj": "a.1", "next_by_subj": "a.1"},
        {"last_by_subj": "a.1", "batch": 0},
        {"seq": 1, "unknown": 1},
    ],
    ids=str,
)
def test_one_message(js_with: JsWith, sevens: Prepare, body: Any) -> None:
    js = js_with(sevens)
    js.get("S", body)


@SEVENS
@pytest.mark.parametrize(
    "body",
    [
        {"seq": 1, "batch": 1},
        {"seq": 1, "batch": 2},
        {"seq": 1, "batch": 6},
        {"seq": 1, "batch": 100},
        {"seq": 4, "batch": 2},
        {"seq": 5, "batch": 2},
        {"seq": 7, "batch": 2},
        {"seq": 8, "batch": 2},
        {"batch": 2},
        {"seq": 0, "batch": 2},
        {"batch": 3, "next_by_subj": "a.1"},
        {"batch": 3, "next_by_subj": "a.>"},
        {"batch": 2, "next_by_subj": "a.>", "seq": 2},
        {"batch": 1, "next_by_subj": "a.>", "seq": 4},
        {"batch": 2, "next_by_subj": ">", "seq": 3},
        {"batch": 3, "next_by_subj": "c.>"},
        {"batch": 3, "next_by_subj": "a.>", "seq": 7},
        {"batch": 2, "start_time": LONG_AGO},
        {"batch": 2, "start_time": SOME_DAY},
        {"batch": 2, "start_time": LONG_AGO, "next_by_subj": "b.>"},
        {"batch": 2, "last_by_subj": "a.1"},
        {"batch": 3, "seq": 1, "max_bytes": 1},
        {"batch": 3, "seq": 1, "max_bytes": 7},
        {"batch": 3, "seq": 1, "max_bytes": 1000},
        {"batch": 3, "seq": 1, "max_bytes": -1},
        {"batch": 3, "seq": 1, "no_hdr": True},
        {"batch": 9, "seq": 1, "no_hdr": True},
        {"batch": -1, "seq": 1},
        {"batch": 2, "seq": 1, "up_to_seq": 1},
        {"batch": 2, "seq": 1, "up_to_seq": 1, "up_to_time": LONG_AGO},
    ],
    ids=str,
)
def test_batches(js_with: JsWith, sevens: Prepare, body: Any) -> None:
    js = js_with(sevens)
    js.get("S", body)


@SEVENS
@pytest.mark.parametrize(
    "body",
    [
        {"multi_last": ["a.1"]},
        {"multi_last": ["a.1", "b.1"]},
        {"multi_last": ["b.1", "a.1", "a.1"]},
        {"multi_last": ["a.*"]},
        {"multi_last": [">"]},
        {"multi_last": ["a.>", "b.>"]},
        {"multi_last": ["a.1", "a.*"]},
        {"multi_last": ["c.>"]},
        {"multi_last": ["c.>", "a.1"]},
        {"multi_last": [""]},
        {"multi_last": ["a..1"]},
        {"multi_last": []},
        {"multi_last": [], "seq": 1},
        {"multi_last": "a.1"},
        {"multi_last": [">"], "up_to_seq": 1},
        {"multi_last": [">"], "up_to_seq": 3},
        {"multi_last": [">"], "up_to_seq": 5},
        {"multi_last": [">"], "up_to_seq": 7},
        {"multi_last": [">"], "up_to_seq": 8},
        {"multi_last": [">"], "up_to_seq": 100},
        {"multi_last": ["b.2"], "up_to_seq": 7},
        {"multi_last": [">"], "up_to_time": LONG_AGO},
        {"multi_last": [">"], "up_to_time": SOME_DAY},
        {"multi_last": [">"], "up_to_time": SOME_DAY, "up_to_seq": 3},
        {"multi_last": [">"], "batch": 2},
        {"multi_last": [">"], "batch": 2, "seq": 5},
        {"multi_last": [">"], "batch": 100},
        {"multi_last": [">"], "batch": -1},
        {"multi_last": [">"], "seq": 4},
        {"multi_last": [">"], "seq": 8},
        {"multi_last": [">"], "seq": 3, "up_to_seq": 4},
        {"multi_last": [">"], "max_bytes": 1},
        {"multi_last": [">"], "max_bytes": 20},
        {"multi_last": [">"], "max_bytes": 10, "batch": 2},
        {"multi_last": [">"], "no_hdr": True},
        {"multi_last": [">"], "start_time": LONG_AGO},
        {"multi_last": [">"], "last_by_subj": "a.1"},
        {"multi_last": [">"], "next_by_subj": "a.1"},
        {"multi_last": [f"a.{number}" for number in range(1100)]},
        {"multi_last": [f"b.{number}" for number in range(10, 3000)]},
    ],
    ids=str,
)
def test_last_of_each_subject(js_with: JsWith, sevens: Prepare, body: Any) -> None:
    js = js_with(sevens)
    js.get("S", body)


@SEVENS
@pytest.mark.parametrize("subject", ["a.1", "a.2", "b.1", "a.*", ">", "c", "a", "b.2"])
def test_last_of_the_subject_in_the_subject(js_with: JsWith, sevens: Prepare, subject: str) -> None:
    js = js_with(sevens)
    js.get(f"S.{subject}")
    js.get(f"S.{subject}", "{}")
    js.get(f"S.{subject}", {"no_hdr": True})


@pytest.mark.parametrize(
    "body",
    [
        "x",
        "1",
        {"last_by_subj": "a.1"},
        {"next_by_subj": "a.1"},
        {"seq": 1},
        {"batch": 1},
        {"batch": 0},
        {"multi_last": ["a"]},
        {"multi_last": []},
        {"start_time": LONG_AGO},
        {"up_to_seq": 1},
        {"up_to_time": LONG_AGO},
        {"max_bytes": 1},
        {"unknown": 1},
    ],
    ids=str,
)
def test_bodies_beside_a_subject(js_with: JsWith, body: Any) -> None:
    js = js_with(seven_in_files)
    js.ask("DIRECT.GET.S.a.1", body)


@pytest.mark.parametrize(
    "level", ["0", "5", "6", "-1", "+5", "05", "five", "", "5.0", " 5", "99999999999999999999", "٥"]
)
def test_levels_are_checked(js_with: JsWith, level: str) -> None:
    js = js_with(seven_in_files)
    headers = {"Nats-Required-Api-Level": level}
    js.get("S", {"seq": 1}, headers)
    js.get("S.a.1", b"", headers)
    js.ask("STREAM.MSG.GET.S", {"seq": 1}, headers)


def test_streams_that_do_not_allow_it_have_no_responders(js: Session) -> None:
    js.create(subjects=SUBJECTS)
    js.publish("a.1")
    js.get("S", {"seq": 1})
    js.get("S.a.1")
    js.get("S.a.1", "", {"Nats-Required-Api-Level": "9"})
    js.get("NONE", {"seq": 1})
    js.get("NONE.a.1")
    js.get("S", {"seq": 1, "batch": 3})


def test_it_follows_the_configuration(js: Session) -> None:
    seven(js)
    js.get("S", {"seq": 1})
    config = {"name": "S", "subjects": SUBJECTS}
    js.do("STREAM.UPDATE.S", config)
    js.get("S", {"seq": 1})
    js.do("STREAM.UPDATE.S", config | {"allow_direct": True})
    js.get("S", {"seq": 1})
    js.do("STREAM.DELETE.S")
    js.get("S", {"seq": 1})


@STORAGES
def test_an_empty_stream(js: Session, storage: str) -> None:
    js.create(subjects=SUBJECTS, storage=storage, allow_direct=True)
    for body in (
        {"seq": 1},
        {"last_by_subj": "a.1"},
        {"next_by_subj": ">"},
        {"seq": 1, "batch": 3},
        {"start_time": LONG_AGO},
        {"start_time": LONG_AGO, "batch": 2},
        {"multi_last": [">"]},
        {"multi_last": [">"], "up_to_seq": 1},
        {"multi_last": [">"], "up_to_time": SOME_DAY},
    ):
        js.get("S", body)
    js.get("S.a.1")


@STORAGES
def test_a_stream_that_was_emptied(js: Session, storage: str) -> None:
    seven(js, storage)
    js.do("STREAM.PURGE.S")
    for body in (
        {"seq": 1},
        {"seq": 1, "batch": 3},
        {"next_by_subj": ">"},
        {"start_time": LONG_AGO},
        {"multi_last": [">"]},
        {"multi_last": [">"], "up_to_seq": 7},
        {"multi_last": [">"], "up_to_time": SOME_DAY},
    ):
        js.get("S", body)
    js.publish("a.1", "eight")
    js.get("S", {"seq": 1, "batch": 3})
    js.get("S", {"multi_last": [">"], "up_to_seq": 7})


@STORAGES
def test_times_of_messages(js: Session, storage: str) -> None:
    seven(js, storage)
    for seq in (1, 4, 7):
        time = js.do("STREAM.MSG.GET.S", {"seq": seq})["message"]["time"]
        js.get("S", {"start_time": time})
        js.get("S", {"start_time": time, "batch": 2})
        js.get("S", {"multi_last": [">"], "up_to_time": time})


@STORAGES
def test_batches_that_go_on_where_the_last_one_ended(js: Session, storage: str) -> None:
    seven(js, storage)
    for seq in (1, 3, 6):
        js.get("S", {"seq": seq, "batch": 2, "next_by_subj": ">"})
    js.get("S", {"multi_last": [">"], "batch": 2})
    js.get("S", {"multi_last": [">"], "batch": 2, "seq": 5, "up_to_seq": 7})
    js.get("S", {"multi_last": [">"], "batch": 2, "seq": 8, "up_to_seq": 7})


@STORAGES
def test_too_many_subjects(js: Session, storage: str) -> None:
    js.create(subjects=SUBJECTS, storage=storage, allow_direct=True)
    js.client.send(b"".join(b"PUB a.%d 0\r\n\r\n" % number for number in range(1024)))
    js.publish("a.0")
    js.note(
        len(js.request(f"{DIRECT}.S", {"multi_last": [">"], "up_to_seq": 1024}, many=True)),
        asked="1024 subjects",
    )
    js.publish("b.0")
    js.get("S", {"multi_last": [">"]})
    js.get("S", {"multi_last": [">"], "batch": 1})
    js.get("S", {"multi_last": ["b.>"]})


@STORAGES
def test_a_batch_ends_at_the_pending_bytes_of_a_connection(js: Session, storage: str) -> None:
    """The limit without `max_bytes` is what a connection may have pending: 64 MiB."""
    js.create(subjects=SUBJECTS, storage=storage, allow_direct=True)
    for _ in range(3):
        js.publish("a.1", b"x" * 1_000_000)
    found = js.request(f"{DIRECT}.S", {"seq": 1, "batch": 3}, many=True)
    js.note([len(each.payload) for each in found], asked="sizes")


def test_headers_of_messages_come_before_ours(js: Session) -> None:
    js.create(subjects=SUBJECTS, allow_direct=True)
    js.publish("a.1", "x", {"Nats-Streams": "mine", "Nats-Sequences": "77", "B": "1", "A": "2"})
    js.publish("a.1", "", {"Nats-Number": "5"})
    js.get("S", {"seq": 1})
    js.get("S", {"seq": 1, "batch": 2})
    js.get("S", {"multi_last": ["a.1"]})
    js.ask("STREAM.MSG.GET.S", {"seq": 1})


def test_without_an_answer_to_send_to_nothing_happens(js: Session) -> None:
    seven(js)
    js.client.send(b"PUB $JS.API.DIRECT.GET.S 9\r\n" + b'{"seq":1}' + b"\r\n")
    js.get("S", {"seq": 1})
