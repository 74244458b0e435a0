"""Promises of what a stream tells of itself: its state, its configuration, and every way to read it."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator
from typing import Any

from tests.sim.checks.stream_view import StreamView, seconds, size_of
from tests.sim.history import History, Stored
from tests.sim.plans.plan import Plan

_NOTHING = (None, 0, -1, "", "none", False)  # all mean that something is not set


def check_sound(view: StreamView) -> Iterator[str]:
    """Sequences and times grow, and the state counts what is there."""
    content, state = view.final.content, view.final.state
    for one, two in itertools.pairwise(content):
        if two.seq <= one.seq:
            yield f"sequence {two.seq} is listed after {one.seq}"
        if seconds(two.time) < seconds(one.time) and not view.times_may_fall:
            yield f"the time of {two.seq} is before that of {one.seq}"
    if state["messages"] != len(content):
        yield f"the state counts {state['messages']} messages, and there are {len(content)}"
    if content and (state["first_seq"] != content[0].seq or state["last_seq"] < content[-1].seq):
        yield f"the state is {state}, and sequences are {content[0].seq} to {content[-1].seq}"
    if content and state.get("num_deleted", 0) != state["last_seq"] - state["first_seq"] + 1 - len(content):
        yield f"the state counts {state.get('num_deleted', 0)} deleted messages: {state}"
    yield from _details(view, content, state)
    yield from view.final.problems


def _details(view: StreamView, content: list[Stored], state: dict[str, Any]) -> Iterator[str]:
    if "bytes" not in state:
        return  # a history written by hand
    subjects = Counter(each.subject for each in content)
    if state.get("num_subjects", 0) != len(subjects):
        yield f"the state counts {state.get('num_subjects', 0)} subjects, and there are {len(subjects)}"
    if state.get("subjects", {}) != subjects:
        yield f"the subjects are {state.get('subjects')}, and there are {dict(subjects)}"
    if content:
        there = {each.seq for each in content}
        gone = [seq for seq in range(state["first_seq"], state["last_seq"] + 1) if seq not in there]
        if state.get("deleted", []) != gone:
            yield f"the deleted messages are {state.get('deleted')}, and there are none of {gone}"
        if state["first_ts"] != content[0].time:
            yield f"the first time is {state['first_ts']}, and the first message is of {content[0].time}"
        last = seconds(state["last_ts"]) - seconds(content[-1].time)
        if not view.times_may_fall and (last < 0 or (last and state["last_seq"] == content[-1].seq)):
            yield f"the last time is {state['last_ts']}, and the last message is of {content[-1].time}"
    if all(each.size != -1 for each in content):
        size = sum(map(size_of, content))
        if view.in_memory:
            size = sum(size_of(each) - (18 if each.headers else 14) for each in content)
        if state["bytes"] != size:
            yield f"the state counts {state['bytes']} bytes, and there are {size}"


def check_config(view: StreamView) -> Iterator[str]:
    """Check that the configuration is the one that was confirmed last, or a later one."""
    found = view.final.config
    if not found:
        return
    last = max((number for number, each in enumerate(view.updates) if each.happened), default=-1)
    possible = [view.config if last < 0 else view.updates[last].config]
    possible += [each.config for each in view.updates[last + 1 :]]
    if view.name != "L" and not view.deaths and not any(_is_like(config, found) for config in possible):
        yield f"has the configuration {found}, and {possible[0]} was confirmed"


def _is_like(wanted: dict[str, Any], found: dict[str, Any]) -> bool:
    if wanted.get("sealed"):
        wanted = {key: value for key, value in wanted.items() if key not in ("max_age", "discard")}
    return all(_is_same(value, found.get(key)) for key, value in wanted.items()) and all(
        key in wanted or key not in found for key in ("mirror", "sources")
    )


def _is_same(one: Any, two: Any) -> bool:
    if isinstance(one, dict) and isinstance(two, dict):
        return all(_is_same(value, two.get(key)) for key, value in one.items())
    if isinstance(one, list) and isinstance(two, list):
        return len(one) == len(two) and all(map(_is_same, one, two))
    return bool(one == two) or (one in _NOTHING and two in _NOTHING)


def check_names(plan: Plan, history: History) -> Iterator[str]:
    """Check that all streams are listed, in order."""
    if history.names is None:
        return
    wanted = {name for name, final in history.final.items() if final.complete}
    unsure = {op.args["copy"] for op in plan.ops if op.kind == "snapshot"}
    listed = set(history.names)
    if history.names != sorted(listed) or not wanted <= listed <= wanted | unsure:
        yield f"the streams are {sorted(wanted)}, and listed are {history.names}"
