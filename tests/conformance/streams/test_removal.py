"""Purging streams and deleting messages, accepted and refused, and what is left afterwards."""

from typing import Any

import pytest

from tests.kits.conformance.streams import Session

SEVEN = ("a.1", "a.2", "b.1", "a.1", "b.2", "a.3", "b.1")
SUBJECTS = ["a.>", "b.>"]
STORAGES = pytest.mark.parametrize("storage", ["file", "memory"])


@STORAGES
@pytest.mark.parametrize(
    "body",
    [
        "",
        "not JSON",
        " ",
        {},
        "[]",
        "{",
        {"filter": "a.>"},
        {"filter": "a.1"},
        {"filter": "a.1", "keep": 1},
        {"filter": "*.1", "keep": 2},
        {"filter": "a.>", "seq": 4},
        {"filter": "a.>", "seq": 100},
        {"filter": "a.>", "seq": 3, "keep": 1},
        {"filter": "a..b"},
        {"filter": "nothing.here"},
        {"filter": ">"},
        {"filter": ">", "keep": 2},
        {"filter": ">", "seq": 3},
        {"filter": "a.>", "keep": 100},
        {"keep": 2},
        {"keep": 7},
        {"keep": 100},
        {"keep": 0},
        {"seq": 1},
        {"seq": 4},
        {"seq": 7},
        {"seq": 8},
        {"seq": 100},
        {"seq": 3, "keep": 1},
        {"keep": -1},
        {"seq": "3"},
        {"unknown": 1},
    ],
    ids=str,
)
def test_purge_removes_what_the_request_says(js: Session, storage: str, body: Any) -> None:
    js.create(subjects=SUBJECTS, storage=storage)
    js.fill(*SEVEN)
    js.ask("STREAM.PURGE.S", body)
    js.state()
    js.note(js.publish("a.9"), asked="the next sequence")
    js.state()


@STORAGES
def test_purge_of_an_empty_stream(js: Session, storage: str) -> None:
    js.create(subjects=SUBJECTS, storage=storage)
    for body in ("", {"keep": 1}, {"seq": 5}, {"filter": "a.>"}):
        js.ask("STREAM.PURGE.S", body)
        js.state()


@STORAGES
def test_purge_twice(js: Session, storage: str) -> None:
    js.create(subjects=SUBJECTS, storage=storage)
    js.fill(*SEVEN)
    js.ask("STREAM.PURGE.S", {"filter": "b.>"})
    js.ask("STREAM.PURGE.S", {"filter": "b.>"})
    js.ask("STREAM.PURGE.S")
    js.ask("STREAM.PURGE.S")
    js.state()


@STORAGES
def test_purge_leaves_gaps_that_are_counted(js: Session, storage: str) -> None:
    js.create(subjects=SUBJECTS, storage=storage)
    js.fill(*SEVEN)
    js.do("STREAM.MSG.DELETE.S", {"seq": 2})
    js.ask("STREAM.PURGE.S", {"filter": "a.>", "keep": 1})
    js.state()
    js.ask("STREAM.PURGE.S", {"keep": 2})
    js.state()


@STORAGES
@pytest.mark.parametrize("erase", ["erased", "not erased"])
@pytest.mark.parametrize("seq", [1, 3, 7])
def test_deleted_messages_are_gone(js: Session, storage: str, erase: str, seq: int) -> None:
    js.create(subjects=SUBJECTS, storage=storage, allow_direct=True)
    js.fill(*SEVEN)
    no_erase = {"no_erase": True} if erase == "not erased" else {}
    js.ask("STREAM.MSG.DELETE.S", {"seq": seq, **no_erase})
    js.state()
    js.ask("STREAM.MSG.GET.S", {"seq": seq})
    js.get("S", {"seq": seq})
    js.ask("STREAM.MSG.DELETE.S", {"seq": seq, **no_erase})
    js.note(js.publish("a.9"), asked="the next sequence")
    js.state()


@STORAGES
@pytest.mark.parametrize(
    "body",
    [
        "",
        "{}",
        " { } ",
        "2",
        "not JSON",
        "[]",
        {"seq": 0},
        {"seq": 8},
        {"seq": 100},
        {"seq": -1},
        {"seq": "1"},
        {"seq": 1.5},
        {"no_erase": True},
        {"seq": 1, "unknown": True},
        {"seq": 1, "no_erase": 1},
    ],
    ids=str,
)
def test_requests_to_delete_nothing(js: Session, storage: str, body: Any) -> None:
    js.create(subjects=SUBJECTS, storage=storage)
    js.fill(*SEVEN)
    js.ask("STREAM.MSG.DELETE.S", body)
    js.state()


@STORAGES
def test_all_messages_deleted_one_by_one(js: Session, storage: str) -> None:
    js.create(subjects=SUBJECTS, storage=storage)
    js.fill("a.1", "b.1", "a.2")
    for seq in (2, 3, 1):
        js.ask("STREAM.MSG.DELETE.S", {"seq": seq})
        js.state()
    for seq in (1, 3, 4):
        js.ask("STREAM.MSG.DELETE.S", {"seq": seq})
    js.note(js.publish("a.9"), asked="the next sequence")
    js.state()


def test_delete_in_an_empty_stream(js: Session) -> None:
    js.create("F", subjects=["f"])
    js.create("M", subjects=["m"], storage="memory")
    for name in ("F", "M"):
        js.ask(f"STREAM.MSG.DELETE.{name}", {"seq": 1})


def test_unknown_streams_are_not_found(js: Session) -> None:
    js.ask("STREAM.PURGE.S")
    js.ask("STREAM.PURGE.S", {"seq": 1, "keep": 1})
    js.ask("STREAM.PURGE.S", "{")
    js.ask("STREAM.MSG.DELETE.S", {"seq": 1})
    js.ask("STREAM.MSG.DELETE.S", "{}")
    js.ask("STREAM.MSG.DELETE.S", "x")
    js.ask("STREAM.MSG.GET.S", {"seq": 1})
    js.ask("STREAM.MSG.GET.S", "{}")
    js.ask("STREAM.MSG.GET.S", "x")


def test_denied_deletes(js: Session) -> None:
    js.create(subjects=SUBJECTS, deny_delete=True)
    js.fill(*SEVEN)
    js.ask("STREAM.MSG.DELETE.S", {"seq": 1})
    js.ask("STREAM.MSG.DELETE.S", {"seq": 100})
    js.ask("STREAM.MSG.DELETE.S", "{}")
    js.ask("STREAM.PURGE.S", {"keep": 6})
    js.state()


def test_denied_purges(js: Session) -> None:
    js.create(subjects=SUBJECTS, deny_purge=True)
    js.fill(*SEVEN)
    js.ask("STREAM.PURGE.S")
    js.ask("STREAM.PURGE.S", {"seq": 1, "keep": 1})
    js.ask("STREAM.PURGE.S", {"filter": "a..b"})
    js.ask("STREAM.MSG.DELETE.S", {"seq": 1})
    js.state()


def test_sealed_streams_keep_everything(js: Session) -> None:
    js.create(subjects=SUBJECTS)
    js.fill(*SEVEN)
    js.ask("STREAM.UPDATE.S", {"name": "S", "subjects": SUBJECTS, "sealed": True})
    js.ask_subject("a.1", "late")
    js.ask("STREAM.PURGE.S")
    js.ask("STREAM.PURGE.S", {"seq": 1, "keep": 1})
    js.ask("STREAM.PURGE.S", "{")
    js.ask("STREAM.MSG.DELETE.S", {"seq": 1})
    js.ask("STREAM.MSG.DELETE.S", {"seq": 100})
    js.ask("STREAM.MSG.DELETE.S", "{}")
    js.ask("STREAM.MSG.GET.S", {"seq": 1})
    js.ask("STREAM.UPDATE.S", {"name": "S", "subjects": SUBJECTS})
    js.state()
    js.ask("STREAM.DELETE.S")
