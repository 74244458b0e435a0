"""Streams that are written, trimmed and read at random, by scripts that are the same for the same seed.

Left out is where nats-server is wrong: a stream in files that never had a message lists sequence 0 as
deleted, and one in memory does not find the last message of `>` if the last sequence is gone.
"""

from random import Random
from typing import Any

import pytest

from tests.kits.conformance.streams import Session

SUBJECTS = ["a.1", "a.2", "b.1", "b.2", "a.b.c", "c"]
PATTERNS = [*SUBJECTS, "a.*", "*.1", "a.>", "*", "b.*", "x", "a.*.c", "*.*", "*.>"]
LIMITS: list[dict[str, Any]] = [
    {},
    {"max_msgs_per_subject": 1},
    {"max_msgs_per_subject": 3},
    {"max_msgs": 5},
    {"max_bytes": 300},
    {"first_seq": 5},
    {"max_msgs": 8, "discard": "new"},
]


def purge_body(random: Random) -> dict[str, Any]:
    body: dict[str, Any] = {}
    if random.random() < 0.6:
        body["filter"] = random.choice(PATTERNS)
    if random.random() < 0.5:
        body[random.choice(["seq", "keep"])] = random.randint(1, 20)
    return body


def get_body(random: Random) -> dict[str, Any]:
    """A request for messages that says what it wants in one of many ways."""
    body: dict[str, Any] = {}
    form = random.choice(["seq", "last", "next", "batch", "each", "anything"])
    if form in ("seq", "next", "batch"):
        body["seq"] = random.randint(0, 25)
    if form == "last":
        body["last_by_subj"] = random.choice(PATTERNS)
    if form == "next" or (form == "batch" and random.random() < 0.6):
        body["next_by_subj"] = random.choice(PATTERNS)
    if form == "batch":
        body["batch"] = random.randint(1, 8)
    if form == "each":
        body["multi_last"] = random.sample([*PATTERNS, ">"], random.randint(1, 3))
        for field, most in (("up_to_seq", 25), ("batch", 5), ("seq", 25)):
            if random.random() < 0.4:
                body[field] = random.randint(1, most)
    if form in ("batch", "each") and random.random() < 0.25:
        body["max_bytes"] = random.randint(1, 60)
    if form == "anything":
        choices = {"seq": 3, "batch": 2, "no_hdr": True, "next_by_subj": "a.>", "last_by_subj": "b.1"}
        choices |= {"multi_last": ["a.*"], "up_to_seq": 3}
        body = {field: value for field, value in choices.items() if random.random() < 0.35}
    return body


def step(js: Session, random: Random) -> None:
    kind = random.choices(["publish", "delete", "purge", "direct", "get", "state"], [50, 8, 5, 22, 8, 7])[0]
    if kind == "publish":
        size = random.randint(0, 12)
        headers = {"H": "v" * size} if random.random() < 0.3 else None
        js.ask_subject(random.choice(SUBJECTS), "x" * size, headers)
    elif kind == "delete":
        body = {"seq": random.randint(1, 22), "no_erase": random.random() < 0.5}
        js.ask("STREAM.MSG.DELETE.S", body)
    elif kind == "purge":
        js.ask("STREAM.PURGE.S", purge_body(random))
    elif kind == "direct":
        js.get("S", get_body(random))
    elif kind == "get":
        js.ask("STREAM.MSG.GET.S", get_body(random))
    else:
        js.state()


@pytest.mark.parametrize("storage", ["file", "memory"])
@pytest.mark.parametrize("seed", range(12))
def test_a_random_script(js: Session, storage: str, seed: int) -> None:
    random = Random(seed)
    js.create(subjects=["a.>", "b.>", "c"], storage=storage, allow_direct=True, **random.choice(LIMITS))
    js.publish("a.1", "first")
    for _ in range(30):
        step(js, random)
    js.state()
