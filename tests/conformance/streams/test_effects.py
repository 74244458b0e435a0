"""Effects of the fields of a stream's configuration, at creation and after an update."""

from typing import Any

import pytest

from tests.kits.conformance.clients import ServerFactory
from tests.kits.conformance.streams import OpenSession, Session

STORAGES = pytest.mark.parametrize("storage", ["file", "memory"])
SUBJECTS = ["a.>", "b.>"]
SECOND = 10**9


def update(js: Session, name: str = "S", **config: Any) -> Any:
    return js.ask(f"STREAM.UPDATE.{name}", {"name": name, **config})


# -- subjects ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (["a"], ["a"]),
        (["a.*"], ["a.b"]),
        (["a.b"], ["a.*"]),
        (["a.>"], ["a.b.c"]),
        (["a.>"], ["a"]),
        (["x.*.b"], ["x.a.*"]),
        (["x.*.b"], ["x.a.c"]),
        ([">"], ["x"]),
        (["a", "b"], ["c", "b"]),
        (["a.*.c"], ["a.b.*"]),
        (["a.*.c"], ["a.b"]),
        (["T"], None),
        (None, ["S"]),
    ],
    ids=str,
)
def test_streams_may_not_overlap(js: Session, first: Any, second: Any) -> None:
    of_first = {} if first is None else {"subjects": first}
    of_second = {} if second is None else {"subjects": second}
    if first == [">"]:
        of_first["no_ack"] = True
    js.create("S", **of_first)
    answer = js.request("$JS.API.STREAM.CREATE.T", {"name": "T", **of_second})[0].json
    js.note(answer.get("error"), asked="STREAM.CREATE.T")
    js.ask("STREAM.NAMES", {"subject": ">"})


def test_subjects_that_a_stream_gives_up_are_free(js: Session) -> None:
    js.create("S", subjects=["a", "b"])
    js.fill("a", "b")
    update(js, subjects=["a"])
    js.ask_subject("b", "nobody")
    js.create("T", subjects=["b"])
    js.note(js.publish("b"), asked="the first sequence of T")
    update(js, subjects=["a", "b"])
    js.state()
    js.state("T")


# -- sequences ---------------------------------------------------------------------------------------------


@STORAGES
@pytest.mark.parametrize("first", [0, 1, 2, 1000, 2**63])
def test_first_sequence(js: Session, storage: str, first: int) -> None:
    js.create(storage=storage, first_seq=first)
    js.note_masked(js.do("STREAM.INFO.S")["state"], asked="the state of S")
    js.note(js.publish("S"), asked="sequence")
    js.note(js.publish("S"), asked="sequence")
    js.state()
    js.do("STREAM.PURGE.S")
    js.state()


# -- limits that are lowered -------------------------------------------------------------------------------


@STORAGES
@pytest.mark.parametrize(
    "limit",
    [
        {"max_msgs": 2},
        {"max_bytes": 100},
        {"max_msgs_per_subject": 1},
        {"max_msgs_per_subject": 2},
        {"max_msgs": 2, "discard": "new"},
        {"max_bytes": 100, "discard": "new"},
        {"max_msgs_per_subject": 1, "discard": "new"},
        {"max_msgs_per_subject": 1, "discard": "new", "discard_new_per_subject": True},
        {"max_msg_size": 5},
        {"no_ack": True},
    ],
    ids=str,
)
def test_a_lower_limit_holds_at_once(js: Session, storage: str, limit: dict[str, Any]) -> None:
    js.create(subjects=SUBJECTS, storage=storage)
    js.fill("a.1", "a.2", "b.1", "a.1", "b.1", "a.3", "b.1")
    js.do("STREAM.UPDATE.S", {"name": "S", "subjects": SUBJECTS, "storage": storage, **limit})
    js.state()
    if "no_ack" not in limit:
        js.ask_subject("a.1", "another")
        js.ask_subject("a.9", "another")
    js.state()


@STORAGES
@pytest.mark.parametrize("per_subject", [False, True])
def test_discard_new(js: Session, storage: str, per_subject: bool) -> None:
    js.create(
        subjects=SUBJECTS,
        storage=storage,
        discard="new",
        max_msgs=4,
        max_msgs_per_subject=2,
        discard_new_per_subject=per_subject,
    )
    for subject in ("a.1", "a.1", "a.1", "a.2", "a.2", "a.2", "a.3"):
        js.ask_subject(subject, "x")
    js.state()
    js.do("STREAM.MSG.DELETE.S", {"seq": 2})
    js.ask_subject("a.1", "x")
    js.state()


@STORAGES
def test_old_messages_go(js: Session, storage: str) -> None:
    js.create(subjects=SUBJECTS, storage=storage)
    js.fill("a.1", "b.1")
    js.do(
        "STREAM.UPDATE.S",
        {
            "name": "S",
            "subjects": SUBJECTS,
            "storage": storage,
            "max_age": SECOND // 10,
            "duplicate_window": SECOND // 10,
        },
    )
    js.eventually("STREAM.INFO.S", lambda answer: answer["state"]["messages"] == 0)
    js.state()


# -- metadata ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "metadata",
    [
        {},
        {"owner": "me"},
        {"_nats.ver": "1.0", "_nats.level": "9", "_nats.req.level": "9", "owner": "me"},
        {"_nats.other": "kept"},
        {"b": "2", "a": "1", "<": ">"},
        {"": "empty"},
    ],
    ids=str,
)
def test_metadata(js: Session, metadata: dict[str, str]) -> None:
    js.create(metadata=metadata)
    found = [js.do(verb)["config"]["metadata"] for verb in ("STREAM.INFO.S",)]
    js.note(found, asked="metadata")
    js.note(js.do("STREAM.LIST")["streams"][0]["config"]["metadata"], asked="metadata in a list")
    again = js.create(metadata=found[0])
    js.note(again["did_create"], asked="the same again")
    changed = js.do("STREAM.UPDATE.S", {"name": "S", "metadata": {"x": "y"}, "allow_msg_ttl": True})
    js.note(changed["config"]["metadata"], asked="metadata after an update")


# -- updates -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "change",
    [
        {"storage": "memory"},
        {"retention": "workqueue"},
        {"retention": "interest"},
        {"num_replicas": 3},
        {"num_replicas": 0},
        {"name": "T"},
        {"first_seq": 100},
        {"compression": "s2"},
        {"persist_mode": "async"},
        {"allow_msg_counter": True},
        {"sealed": True},
        {"mirror": {"name": "O"}},
        {"discard_new_per_subject": True},
        {"description": "x" * 5000},
        {"unknown": True},
        {"max_consumers": 5},
        {"subjects": []},
        {"subjects": ["a..b"]},
        {"subjects": [">"]},
        {"placement": {"cluster": "c", "tags": ["t"]}},
        {"duplicate_window": SECOND},
        {"max_age": 1},
        {"republish": {"src": ">", "dest": "r.>"}},
        {"subject_transform": {"src": "a.*", "dest": "a.x.$1"}},
        {"template_owner": "x"},
    ],
    ids=str,
)
def test_updates(js: Session, change: dict[str, Any]) -> None:
    js.create(subjects=SUBJECTS)
    js.fill("a.1", "b.1")
    answer = update(js, **({"subjects": SUBJECTS} | change))
    js.note("error" in answer, asked="refused")
    js.state()
    js.ask_subject("b.2", "next")


def test_an_update_can_be_undone(js: Session) -> None:
    js.create(subjects=SUBJECTS, max_msgs=5, description="first", metadata={"a": "b"}, allow_direct=True)
    js.fill("a.1")
    update(js, subjects=["c"], max_age=SECOND * 60)
    js.ask("STREAM.INFO.S")
    update(js, subjects=SUBJECTS, max_msgs=5, description="first", metadata={"a": "b"}, allow_direct=True)
    js.ask("STREAM.INFO.S")


# -- limits of the server ----------------------------------------------------------------------------------

TIGHT = """
jetstream: {max_mem: 1000, max_file: 2000}
accounts: {a0: {jetstream: enabled, users: [{user: a0, password: p}]}}
"""


def test_a_server_reserves_no_more_than_it_has(
    open_session: OpenSession, shared_server: ServerFactory
) -> None:
    js = open_session(shared_server(config=TIGHT, jetstream=True))
    js.ask("STREAM.CREATE.A", {"name": "A", "max_bytes": 1500})
    js.ask("STREAM.CREATE.B", {"name": "B", "max_bytes": 1500})
    js.ask("STREAM.CREATE.C", {"name": "C", "max_bytes": 1500, "storage": "memory"})
    js.ask("STREAM.CREATE.D", {"name": "D", "max_bytes": 1000, "storage": "memory"})
    js.ask("STREAM.CREATE.E", {"name": "E"})
    js.ask("STREAM.UPDATE.A", {"name": "A", "max_bytes": 2500})
    js.ask("STREAM.UPDATE.A", {"name": "A", "max_bytes": 2000})
    js.ask("INFO")
    for name in ("A", "D", "E"):
        js.do(f"STREAM.DELETE.{name}")
    js.ask("INFO")


FULL = """
jetstream: {max_mem: 1000, max_file: 1000}
accounts: {a0: {jetstream: enabled, users: [{user: a0, password: p}]}}
"""


def test_a_server_that_is_full_takes_no_more(open_session: OpenSession, shared_server: ServerFactory) -> None:
    js = open_session(shared_server(config=FULL, jetstream=True))
    for name, storage in (("A", "file"), ("B", "memory")):
        js.create(name, storage=storage)
        for size in (300, 300, 300, 300, 300, 10):
            js.ask_subject(name, b"x" * size)
        js.state(name)
        js.do(f"STREAM.PURGE.{name}")
        js.ask_subject(name, b"x")
        js.do(f"STREAM.DELETE.{name}")
