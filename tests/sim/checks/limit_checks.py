"""Promises of limits: a stream never keeps more than it may, and refuses nothing that it has room for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from tests.sim.checks.state_checks import check_config
from tests.sim.checks.stream_view import LATE_S, MARKER, StreamView, is_certain, life_s, seconds
from tests.sim.history import Publish
from tests.sim.machine.loop import START_NS
from tests.sim.plans.plan import SECOND_NS

TOO_LARGE, SEALED = 10054, 10109


def check_limits(view: StreamView) -> Iterator[str]:
    yield from check_config(view)
    yield from _bounds(view)
    yield from _sizes(view)
    if view.config.get("discard") == "new":
        yield from _full(view)
    yield from _sealed(view)
    yield from _rolled_up(view)
    yield from _markers(view)


def _rolled_up(view: StreamView) -> Iterator[str]:
    """A rollup that is acknowledged has replaced what was before it."""
    for each in view.acked:
        what = each.headers.get("Nats-Rollup")
        if what is None:
            continue
        for stored in view.final.content:
            if stored.seq < each.seq and (what == "all" or stored.subject == each.subject):
                yield f"{stored.seq} is there, and {each.seq} has replaced it"


def _markers(view: StreamView) -> Iterator[str]:
    """The last message of a subject that expires leaves a marker, if the stream has them."""
    marker_s = view.config.get("subject_delete_marker_ttl", 0) / SECOND_NS
    if not marker_s or view.history.clock_set or view.removals or view.damages:
        return
    there = {each.subject for each in view.final.content}
    lasts: dict[str, Publish] = {}
    for each in sorted(view.publishes, key=lambda each: each.at):
        lasts[each.subject] = each
    for subject, each in lasts.items():
        least, most = life_s(view, each)
        others = any(
            not other.answer or not (other.seq or is_certain(other))
            for other in view.publishes
            if other.subject == subject
        )
        if each.seq and not others and most and "KV-Operation" not in each.headers:
            due = each.at + least
            if subject not in there and view.read_at < due + marker_s - LATE_S:
                yield f"{each.seq} of {subject} has expired, and left no marker"
    for stored in view.final.content:
        if MARKER in stored.headers:
            old = view.read_at - (seconds(stored.time) - START_NS / SECOND_NS)
            if old > marker_s + LATE_S:
                yield f"the marker {stored.seq} is {old:.1f} s old, and may be {marker_s} s old"


def _bounds(view: StreamView) -> Iterator[str]:
    """The content is within the limits that rule in the end."""
    config, content = view.final.config, view.final.content
    if not config or config.get("sealed"):  # a sealed stream keeps what it has
        return
    if 0 < config.get("max_msgs", -1) < len(content):
        yield f"has {len(content)} messages of {config['max_msgs']}"
    if 0 < config.get("max_bytes", -1) < view.final.state.get("bytes", 0):
        yield f"has {view.final.state['bytes']} bytes of {config['max_bytes']}"
    of_subject = config.get("max_msgs_per_subject", -1)
    for subject, count in Counter(each.subject for each in content).items():
        if 0 < of_subject < count:
            yield f"{subject} has {count} messages of {of_subject}"


def _sizes(view: StreamView) -> Iterator[str]:
    """A message is refused for its size if it is too large, and only then."""
    limits = [config.get("max_msg_size", -1) for config in view.configs]
    if max(limits) <= 0:
        return
    for each in view.publishes:
        if each.size < 0 or each.answer is None:
            continue
        size = _body_size(each)
        if each.seq and not each.duplicate and all(0 < limit < size for limit in limits):
            yield f"message {each.uid} has {size} bytes, and is stored"
        too_large = each.refused and each.answer["error"]["err_code"] == TOO_LARGE
        if too_large and not any(0 < limit < size for limit in limits):
            yield f"message {each.uid} has {size} bytes, and is refused: {each.answer}"


def _body_size(publish: Publish) -> int:
    block = sum(len(key) + len(value) + 4 for key, value in publish.headers.items())
    return len(str(publish.uid)) + 1 + publish.size + (block + 12 if block else 0)


def _full(view: StreamView) -> Iterator[str]:
    """A message is refused if the stream may be full, and only then."""
    config = view.config
    for each in view.publishes:
        text = each.answer["error"]["description"] if each.refused and each.answer else ""
        if not text.startswith("maximum "):
            continue
        stored = {
            other.uid: other
            for other in view.publishes
            if other is not each
            and other.at <= (each.answered_at or 0.0)
            and not (other.refused and is_certain(other))
        }
        same = sum(other.subject == each.subject for other in stored.values())
        size = sum(len(other.subject) + _body_size(other) + 34 for other in (*stored.values(), each))
        if (
            (text == "maximum messages exceeded" and len(stored) < config.get("max_msgs", 0))
            or (text == "maximum bytes exceeded" and size <= config.get("max_bytes", 0))
            or ("per subject" in text and same < config.get("max_msgs_per_subject", 0))
        ):
            yield f"message {each.uid} is refused, and there is room: {text}"


def _sealed(view: StreamView) -> Iterator[str]:
    """Nothing changes in a sealed stream."""
    for update in view.updates:
        if not (update.happened and update.config.get("sealed")) or update.answered_at is None:
            continue
        for each in view.acked:
            if each.at > update.answered_at:
                yield f"message {each.uid} is stored in a sealed stream"
        for removal in view.removals:
            if removal.happened and removal.at > update.answered_at:
                yield f"{removal.request} is granted in a sealed stream"
