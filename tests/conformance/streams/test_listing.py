"""Names and lists of streams in pages, and what stream info tells on request."""

from typing import Any

import pytest

from tests.kits.conformance.streams import JsWith, Prepare, Session


def five_streams(js: Session) -> None:
    for name, subjects in {"C": ["a.1"], "A": ["a.2.>"], "B": ["b"], "a": ["c.1", "d"]}.items():
        js.create(name, subjects=subjects, storage="memory")
    js.create("M", mirror={"name": "C"}, storage="memory")
    js.publish("a.1")


@pytest.mark.parametrize("endpoint", ["STREAM.NAMES", "STREAM.LIST"])
@pytest.mark.parametrize(
    "body",
    [
        {},
        {"offset": 0},
        {"offset": 1},
        {"offset": 2},
        {"offset": 5},
        {"offset": 6},
        {"offset": 100},
        {"offset": -1},
        {"subject": "a.1"},
        {"subject": "a.*"},
        {"subject": "a.>"},
        {"subject": "*.1"},
        {"subject": ">"},
        {"subject": "*"},
        {"subject": "b"},
        {"subject": "nothing"},
        {"subject": "a..b"},
        {"subject": ""},
        {"subject": "a.>", "offset": 1},
        {"subject": "a.>", "offset": 100},
        {"limit": 1},
    ],
    ids=str,
)
def test_pages(js_with: JsWith, endpoint: str, body: Any) -> None:
    js = js_with(five_streams)
    answer = js.request(f"$JS.API.{endpoint}", body)[0].json
    # A mirror has what its origin has, sooner or later.
    if endpoint == "STREAM.LIST" and "error" not in answer:
        answer["streams"] = [
            each["config"]["name"] if "mirror" in each["config"] else each for each in answer["streams"]
        ]
    js.note_masked(answer, asked=endpoint)


@pytest.mark.parametrize("endpoint", ["STREAM.NAMES", "STREAM.LIST"])
def test_no_streams_at_all(js: Session, endpoint: str) -> None:
    js.ask(endpoint)
    js.ask(endpoint, {"offset": 5})
    js.ask(endpoint, {"subject": "a"})


@pytest.mark.parametrize(("endpoint", "count"), [("STREAM.NAMES", 1030), ("STREAM.LIST", 260)])
def test_pages_have_so_many_entries(js: Session, endpoint: str, count: int) -> None:
    for number in range(count):
        js.create(f"S{number:04}", storage="memory")
    for offset in (0, 4, 5, 6, 255, 1000, count - 1, count):
        answer = js.do(endpoint, {"offset": offset})
        streams = answer.pop("streams") or []
        names = [each if isinstance(each, str) else each["config"]["name"] for each in streams]
        js.note([answer, len(names), names[:1], names[-1:]], asked=f"{endpoint} from {offset}")


def with_gaps(js: Session, storage: str) -> None:
    js.create(subjects=["a.>", "b.>"], storage=storage)
    js.fill("a.1", "a.2", "b.1", "a.1", "b.2", "a.3", "b.1")
    for seq in (1, 2, 4, 6):
        js.do("STREAM.MSG.DELETE.S", {"seq": seq})
    js.publish("a.1")
    js.do("STREAM.MSG.DELETE.S", {"seq": 8})


def gaps_in_files(js: Session) -> None:
    with_gaps(js, "file")


def gaps_in_memory(js: Session) -> None:
    with_gaps(js, "memory")


@pytest.mark.parametrize("gaps", [gaps_in_files, gaps_in_memory], ids=["file", "memory"])
@pytest.mark.parametrize(
    "body",
    [
        {},
        {"deleted_details": True},
        {"deleted_details": False},
        {"subjects_filter": ">"},
        {"subjects_filter": "a.>"},
        {"subjects_filter": "a.1"},
        {"subjects_filter": "*.1"},
        {"subjects_filter": "nothing.>"},
        {"subjects_filter": "a..b"},
        {"subjects_filter": ""},
        {"subjects_filter": ">", "offset": 1},
        {"subjects_filter": ">", "offset": 3},
        {"subjects_filter": ">", "offset": 4},
        {"subjects_filter": ">", "offset": 5},
        {"subjects_filter": ">", "offset": 100},
        {"subjects_filter": ">", "offset": -1},
        {"offset": 2},
        {"subjects_filter": ">", "deleted_details": True},
        {"subjects_filter": 1},
        {"deleted_details": 1},
        {"unknown": 1},
        "text",
        "",
    ],
    ids=str,
)
def test_info_on_request(js_with: JsWith, gaps: Prepare, body: Any) -> None:
    js = js_with(gaps)
    answer = js.request("$JS.API.STREAM.INFO.S", body)[0].json
    answer.pop("config", None)
    js.note_masked(answer, asked="STREAM.INFO.S")


def test_info_of_an_empty_stream_on_request(js: Session) -> None:
    """Before its first message nats-server lists sequence 0 of a stream in files as deleted; we do not."""
    js.create("M", storage="memory")
    js.ask("STREAM.INFO.M", {"deleted_details": True, "subjects_filter": ">", "offset": 3})
    js.create()
    js.ask("STREAM.INFO.S", {"subjects_filter": ">", "offset": 3})
    js.publish("S")
    js.do("STREAM.MSG.DELETE.S", {"seq": 1})
    js.ask("STREAM.INFO.S", {"deleted_details": True, "subjects_filter": ">"})


def test_subjects_come_in_pages(js: Session) -> None:
    total = 100_003
    js.create(subjects=["s.*"], storage="memory")
    for start in range(0, total, 10_000):
        block = b"".join(
            b"PUB s.%06d 0\r\n\r\n" % number for number in range(start, min(start + 10_000, total))
        )
        js.client.send(block)
        js.client.round_trip()
    js.eventually("STREAM.INFO.S", lambda answer: answer["state"]["messages"] == total)
    for offset in (0, 2, 3, 100_000, 100_002, 100_003, 100_004):
        answer = js.do("STREAM.INFO.S", {"subjects_filter": ">", "offset": offset})
        subjects = list(answer["state"].get("subjects", {}))
        page = {key: answer[key] for key in ("total", "offset", "limit")}
        js.note([page, len(subjects), subjects[:1], subjects[-1:]], asked=f"subjects from {offset}")
