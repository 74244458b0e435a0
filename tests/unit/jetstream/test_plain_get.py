"""Plain bodies of direct gets mean what ``jsapi.codec`` says they mean; all others are left to it."""

from __future__ import annotations

import json
import random

import pytest

from millstream.jetstream.read.plain_request import HAS_LAST, HAS_NEXT, HAS_SEQ, HAS_TIME, PlainGet
from millstream.jsapi.codec import decode_lenient
from millstream.jsapi.requests import MsgGetRequest


def read(body: bytes) -> PlainGet | None:
    plain = PlainGet()
    return plain if plain.read(b"##" + body + b"##", 2, 2 + len(body)) else None


@pytest.mark.parametrize(
    "body",
    [
        b'{"seq":1}',
        b' { "seq" : 9223372036854775807 } ',
        b'{"last_by_subj":"a.b"}',
        b'{"next_by_subj":"a.*","seq":7}',
        b'{"seq":7,"no_hdr":true}',
        b'{"seq":7,"no_hdr":false}',
        b'{"start_time":"2026-11-17T18:00:00Z"}',
        b'{"start_time":"1970-01-01T00:00:00Z","next_by_subj":"x"}',
        b'{"start_time":"2024-02-29T23:59:59.123456789Z"}',
        b'{"start_time":"2100-02-28T00:00:00.5Z"}',
    ],
)
def test_it_means_what_the_codec_says(body: bytes) -> None:
    plain, wanted = read(body), decode_lenient(body, MsgGetRequest)
    assert plain is not None
    assert (plain.seq if plain.has & HAS_SEQ else 0) == wanted.seq
    assert (plain.subject.decode() if plain.has & HAS_LAST else "") == wanted.last_by_subj
    assert (plain.subject.decode() if plain.has & HAS_NEXT else "") == wanted.next_by_subj
    assert (plain.start_time if plain.has & HAS_TIME else None) == wanted.start_time
    assert plain.bare == wanted.no_hdr


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{}",
        b"[]",
        b'{"seq":0}',
        b'{"seq":01}',
        b'{"seq":-1}',
        b'{"seq":1.0}',
        b'{"seq":1e3}',
        b'{"seq":"1"}',
        b'{"seq":9223372036854775808}',
        b'{"seq":1,"seq":2}',
        b'{"Seq":1}',
        b'{"seq":1,"batch":2}',
        b'{"seq":1}x',
        b'{"seq":1',
        b'{"seq":1,}',
        b'{"seq":null}',
        b'{"last_by_subj":""}',
        b'{"last_by_subj":"a","next_by_subj":"a"}',
        b'{"last_by_subj":"\\u0061"}',
        b'{"last_by_subj":"\xc3\xa4"}',
        b'{"seq":1,"no_hdr":1}',
        b'{"start_time":"2026-11-17T18:00:00+00:00"}',
        b'{"start_time":"2023-02-29T00:00:00Z"}',
        b'{"start_time":"2026-04-31T00:00:00Z"}',
        b'{"start_time":"2026-13-01T00:00:00Z"}',
        b'{"start_time":"2026-11-17T24:00:00Z"}',
        b'{"start_time":"2026-11-17T18:00:60Z"}',
        b'{"start_time":"2026-11-17T18:00:00.Z"}',
        b'{"start_time":"2026-11-17T18:00:00.1234567890Z"}',
        b'{"start_time":"1969-12-31T23:59:59Z"}',
        b'{"start_time":"2026-11-17 18:00:00Z"}',
        b'{"start_time":"x"}',
    ],
)
def test_everything_else_is_left_to_the_codec(body: bytes) -> None:
    assert read(body) is None


def test_any_moment_is_the_one_of_the_codec() -> None:
    chance = random.Random(1)
    for _ in range(2_000):
        text = (
            f"{chance.randint(1970, 2200)}-{chance.randint(1, 12):02}-{chance.randint(1, 28):02}T"
            f"{chance.randint(0, 23):02}:{chance.randint(0, 59):02}:{chance.randint(0, 59):02}"
            f"{chance.choice(['', f'.{chance.randint(0, 999)}'])}Z"
        )
        body = json.dumps({"start_time": text}).encode()
        plain = read(body)
        assert plain is not None
        assert plain.start_time == decode_lenient(body, MsgGetRequest).start_time


def test_nothing_is_read_behind_the_body() -> None:
    plain = PlainGet()
    body = b'{"seq":12}34,"no_hdr":true}'
    assert plain.read(body, 0, 10)
    assert (plain.seq, plain.bare) == (12, False)
    assert not plain.read(b'{"seq":12', 0, 9)
    assert not plain.read(b'{"no_hdr":true}', 0, 12)
