"""Requests as large as a client can make them are refused or answered in a time that others can wait for."""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Callable
from typing import Any

import pytest

from millstream.golang.json import MOST_VALUES_OF_STRANGERS
from millstream.jetstream.api_requests import Bodies
from millstream.jsapi.codec import JsonError
from millstream.jsapi.requests import StreamNamesRequest
from millstream.subjects.match import is_subset
from millstream.subjects.overlap import PatternSet, TooManySteps
from tests.kits.jetstream.stream import Site

SECONDS = 10.0  # of processor time; what is quadratic takes minutes


def seconds(work: Callable[[], Any]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


def consumer(filters: list[str]) -> dict[str, Any]:
    return {"stream_name": "S", "config": {"name": "c", "durable_name": "c", "filter_subjects": filters}}


def test_a_consumer_with_thousands_of_filters_is_made_at_once() -> None:
    site = Site()
    site.create(subjects=[">"], no_ack=True)
    answers: list[dict[str, Any]] = []
    filters = [f"a.{number}.b" for number in range(4_000)]
    assert seconds(lambda: answers.append(site.ask("CONSUMER.CREATE.S.c", consumer(filters)))) < SECONDS
    assert len(answers[0]["config"]["filter_subjects"]) == 4_000


def test_overlapping_filters_among_thousands_are_found() -> None:
    site = Site()
    site.create(subjects=[">"], no_ack=True)
    filters = [f"a.{number}.b" for number in range(4_000)]
    for last in ("a.77.b", "a.*.b", "a.>", ">", "*.3999.b"):
        assert site.error("CONSUMER.CREATE.S.c", consumer([*filters, last]))[1] == 10138


def test_filters_chosen_to_be_compared_slowly_are_refused_in_time() -> None:
    site = Site()
    site.create(subjects=[">"], no_ack=True)
    prefixes = list(itertools.product("a*", repeat=11))
    filters = [".".join((*prefix, f"t{number}")) for number, prefix in enumerate(prefixes)]
    filters += [".".join((*"a" * 11, f"u{number}")) for number in range(2_000)]
    answers: list[dict[str, Any]] = []
    assert seconds(lambda: answers.append(site.ask("CONSUMER.CREATE.S.c", consumer(filters)))) < SECONDS
    assert answers[0]["error"]["code"] == 400


def test_a_stream_with_thousands_of_subjects_is_made_in_time() -> None:
    site = Site()
    body = {"name": "S", "subjects": [f"a.{number}" for number in range(4_000)]}
    assert seconds(lambda: site.ask("STREAM.CREATE.S", body)) < SECONDS
    assert len(site.restarted().account.streams["S"].config.subjects) == 4_000
    assert seconds(lambda: site.ask("STREAM.NAMES", {"subject": "b.*"})) < 1


@pytest.mark.parametrize("wrong", ["a..b", "a.>.b", " "])
def test_subjects_half_of_which_are_none_are_refused_in_time(wrong: str) -> None:
    site = Site()
    subjects = [f"a.{number}.*" for number in range(2_000)] + [wrong] * 2_000
    assert seconds(lambda: site.error("STREAM.CREATE.S", {"name": "S", "subjects": subjects})) < SECONDS


def test_sources_and_transforms_by_the_thousand_are_compared_in_time() -> None:
    site = Site()
    transforms = [{"src": f"a.{number}.*", "dest": f"b.{number}.>"} for number in range(1_000)]
    for config in (
        {"mirror": {"name": "O", "subject_transforms": transforms}},
        {"sources": [{"name": "O", "subject_transforms": transforms}]},
        {"subjects": ["s"], "sources": [{"name": "S", "filter_subject": f"x.{n}"} for n in range(1_000)]},
    ):
        assert seconds(lambda: site.ask("STREAM.CREATE.S", {"name": "S"} | config)) < SECONDS  # noqa: B023
        site.ask("STREAM.DELETE.S")


def test_sources_that_multiply_from_stream_to_stream_are_refused_in_time() -> None:
    site = Site()
    answers: list[dict[str, Any]] = []
    for name, origin in (("X", "E"), ("D", "E"), ("C", "D"), ("B", "C")):
        filters = [(each, f"f.{number}") for number in range(500) for each in (origin, "X")]
        sources = [{"name": each, "filter_subject": pattern} for each, pattern in filters]
        request = {"name": name, "sources": sources}
        assert seconds(lambda: answers.append(site.ask(f"STREAM.CREATE.{name}", request))) < SECONDS  # noqa: B023
    assert "too many" in answers[2]["error"]["description"]


def test_a_thousand_filters_of_one_origin_are_one_way_to_it() -> None:
    site = Site()
    for name, origin in (("D", "E"), ("C", "D"), ("B", "C")):
        site.create(
            name, sources=[{"name": origin, "filter_subject": f"f.{number}"} for number in range(1_000)]
        )


def test_external_prefixes_are_compared_in_time() -> None:
    site = Site()
    site.create("O", subjects=[f"o.{number}" for number in range(4_000)])
    sources: list[dict[str, Any]] = [{"name": "O"}]
    sources += [
        {"name": f"E{number}", "external": {"api": f"e.{number}", "deliver": f"d.{number}"}}
        for number in range(600)
    ]
    assert seconds(lambda: site.ask("STREAM.CREATE.S", {"name": "S", "sources": sources})) < SECONDS


@pytest.mark.parametrize(
    "body",
    [
        b"[" + b"1," * 500_000 + b"1]",
        b'{"subject":' + b"[" * 190 + b"1," * 100_000 + b"1" + b"]" * 190 + b"}",
        b'{"a":1' + b',"a":1' * 150_000 + b"}",
        b'"' + b"x" * 2_000_000 + b'"',
        b"[" * 1_000_000,
        b"{}" * 500_000,
    ],
)
def test_a_body_with_too_many_values_is_refused_in_time(body: bytes) -> None:
    def read() -> None:
        with pytest.raises(JsonError):
            Bodies(strict=True).read(body, StreamNamesRequest)

    assert seconds(read) < 1


def test_as_many_values_as_a_request_may_have_are_read() -> None:
    site = Site()
    subjects = [f"a.{number}" for number in range(MOST_VALUES_OF_STRANGERS - 10)]
    assert "error" not in site.ask("STREAM.CREATE.S", {"name": "S", "subjects": subjects})
    text = site.error("STREAM.CREATE.T", {"name": "T", "subjects": [*subjects, *["x"] * 10]})[2]
    assert text == "invalid JSON: there are too many values"


@pytest.mark.parametrize("endpoint", ["STREAM.NAMES", "STREAM.INFO.S", "CONSUMER.NAMES.S", "STREAM.PURGE.S"])
def test_every_request_is_bounded(endpoint: str) -> None:
    site = Site()
    site.create()
    body = json.dumps({"subject": "x" * 2_000_000}).encode()
    assert "larger than" in site.error(endpoint, body)[2]


def test_covering_is_judged_as_pair_by_pair() -> None:
    tokens = ("a", "b", "*", ">", "")
    patterns = [".".join(each) for size in (1, 2, 3) for each in itertools.product(tokens, repeat=size)]
    some = [pattern.encode() for pattern in patterns]
    for step in range(1, 40):
        chosen = some[step::step][:8]
        tree = PatternSet()
        for each in chosen:
            tree.add(each)
        for each in some:
            expected = sum(is_subset(each, other) for other in chosen)
            assert tree.covers_twice(each) == (expected > 1), (each, chosen)


def test_a_set_of_patterns_refuses_endless_questions() -> None:
    tree = PatternSet()
    for number in range(2_000):
        tree.add(b"a.%d.x" % number)

    def ask_often() -> None:
        for _ in range(10_000):
            tree.collides(b"a.*.y")

    with pytest.raises(TooManySteps):
        ask_often()
