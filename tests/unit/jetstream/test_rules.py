"""A rule or a limit that is added to its tuple holds on every path into a stream."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from millstream.jetstream.publish import limits, rules
from millstream.jetstream.publish.trace import trace_publish
from millstream.jsapi.errors import ApiError, Err
from millstream.protocol.parser import make_frame
from tests.kits.jetstream.stream import Site, block

REFUSED = (503, 10077, "no cats")
CAT, DOG = b"a cat", b"a dog"


def refuse_cats(_stream: Any, message: Any, *_: Any) -> None:
    if b"cat" in message.payload:
        raise ApiError(Err.STREAM_STORE_FAILED, err="no cats")


def always(_: Any) -> bool:
    return True


def as_entry_rule(monkeypatch: pytest.MonkeyPatch) -> None:
    rule = rules.Rule("cats", rules.RuleStage.ENTRY, refuse_cats, always)
    monkeypatch.setattr(rules, "book", rules.RuleBook((*rules.RULES, rule)))


def as_header_rule(monkeypatch: pytest.MonkeyPatch) -> None:
    rule = rules.Rule("cats", rules.RuleStage.HEADERS, refuse_cats, always, batch_place=99)
    monkeypatch.setattr(rules, "book", rules.RuleBook((*rules.RULES, rule)))


def as_limit(stage: limits.LimitStage) -> Callable[[pytest.MonkeyPatch], None]:
    def add(monkeypatch: pytest.MonkeyPatch) -> None:
        limit = limits.Limit("cats", stage, refuse_cats, always)
        monkeypatch.setattr(limits, "book", limits.LimitBook((*limits.LIMITS, limit)))

    add.__name__ = f"as_{stage.name.lower()}_limit"
    return add


LIMITS = [as_limit(stage) for stage in limits.LimitStage]


@pytest.fixture(params=[as_entry_rule, as_header_rule, *LIMITS], ids=lambda add: add.__name__)
def site(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Site:
    request.param(monkeypatch)
    site = Site()
    site.create(allow_atomic=True, allow_batched=True)
    return site


def test_single_messages(site: Site) -> None:
    assert site.refusal("s.a", CAT) == REFUSED
    assert site.publish("s.a", DOG)["seq"] == 1


def test_single_messages_with_headers(site: Site) -> None:
    assert site.refusal("s.a", CAT, Nats_Msg_Id="1") == REFUSED
    assert site.publish("s.a", DOG, Nats_Msg_Id="2")["seq"] == 1


@pytest.mark.parametrize("cat_at", [1, 2, 3])
def test_atomic_batches(site: Site, cat_at: int) -> None:
    answers = []
    for number in (1, 2, 3):
        lines = {"Nats_Batch_Id": "b", "Nats_Batch_Sequence": str(number)}
        if number == 3:
            lines["Nats_Batch_Commit"] = "1"
        payload = CAT if number == cat_at else DOG
        answers.append(site.world.request(b"s.a", payload, block(**lines)))
    assert any(answer and b"error" in answer for answer in answers)
    assert site.state()["messages"] == 0


def test_fast_batches(site: Site) -> None:
    for number, operation, payload in ((1, 0, DOG), (2, 2, CAT)):
        site.world.send(b"s.a", payload, reply=b"_I.b.5.fail.%d.%d.$FI" % (number, operation))
        site.world.settle()
    assert "no cats" in " ".join(each.payload.decode() for each in site.world.published)
    assert site.state()["messages"] == 1


def test_traces(site: Site) -> None:
    stream = site.account.streams["S"]
    told = trace_publish(stream, b"s.a", make_frame(b"", None, CAT), only=False)
    assert told["error"] == "no cats"
    assert "error" not in trace_publish(stream, b"s.a", make_frame(b"", None, DOG), only=False)


@pytest.mark.parametrize("add", [as_entry_rule, *LIMITS], ids=lambda add: add.__name__)
@pytest.mark.parametrize("how", ["mirror", "sources"])
def test_messages_of_other_streams(
    add: Callable[[pytest.MonkeyPatch], None], how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rules about headers are those of the origin; its limits are not ours."""
    from millstream.jetstream.sourcing.slow_path import store_mirrored, store_sourced

    add(monkeypatch)
    site = Site()
    stream = site.create(how.upper(), subjects=["x.>"])
    assert not stream.fast_path
    if how == "mirror":
        assert not store_mirrored(stream, b"o.1", b"", CAT, 1, 1)
        assert store_mirrored(stream, b"o.1", b"", DOG, 2, 2)
    else:
        line = b"Nats-Stream-Source: O 1 > > o.1\r\n"
        assert not store_sourced(stream, b"o.1", b"", CAT, line)
        assert store_sourced(stream, b"o.1", b"", DOG, line)
    site.world.settle()
    assert site.state(how.upper())["messages"] == 1


def test_without_them_the_fast_path_is_open() -> None:
    stream = Site().create(allow_atomic=True)
    assert stream.fast_path
    assert stream.ingest.fast_path


@pytest.mark.parametrize(
    ("config", "of_single_messages"),
    [
        ({"sealed": True}, False),
        ({"max_msg_size": 10}, True),  # which checks this itself
        ({"retention": "interest"}, True),
        ({"no_ack": True}, True),
        ({"allow_msg_counter": True}, True),
        ({"allow_batched": True}, False),
        ({"max_msgs": 5, "discard": "new"}, True),
        ({"max_bytes": 5000, "discard": "new"}, True),
        (
            {"max_msgs_per_subject": 1, "discard": "new", "discard_new_per_subject": True, "max_msgs": 9},
            True,
        ),
        ({"republish": {"src": ">", "dest": "copy.>"}}, False),
        ({"subject_transform": {"src": ">", "dest": "t.>"}}, True),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else "",
)
def test_what_closes_the_fast_path(config: dict[str, Any], of_single_messages: bool) -> None:
    site = Site()
    if config.pop("sealed", False):
        site.create()
        site.update(sealed=True)
    else:
        site.create(**config)
    stream = site.account.streams["S"]
    assert not stream.fast_path
    assert stream.ingest.fast_path is of_single_messages


@pytest.mark.parametrize(
    "config",
    [{"max_msgs": 5}, {"max_bytes": 500}, {"max_msgs_per_subject": 2}, {"retention": "workqueue"}, {}],
)
def test_limits_that_discard_old_messages_leave_it_open(config: dict[str, Any]) -> None:
    assert Site().create(**config).fast_path
