"""JSON that nats-server 2.15.1 wrote (tests/golden/jsapi) is read and written again byte for byte."""

import json
from pathlib import Path

import pytest

from millstream.jsapi import (
    advisory_types,
    consumer_types,
    publish_types,
    requests,
    responses,
    stream_types,
)
from millstream.jsapi.codec import JsonError, decode_lenient, decode_strict, encode
from millstream.jsapi.go_types import Struct

GOLDEN = Path(__file__).parent
ANSWERS = sorted(GOLDEN.glob("*.*.json"))
COMPLAINTS = json.loads((GOLDEN / "complaints.json").read_text())
LENIENT = {"ConsumerUnpinRequest", "ConsumerResetRequest"}
MODULES = (advisory_types, consumer_types, publish_types, requests, responses, stream_types)

# A success is put together by hand while publishing, so these two differ from what a struct would write.
HAND_MADE = {"PubAckResponse.duplicate", "PubAckResponse.domain"}


def struct_named(name: str) -> type[Struct]:
    found: type[Struct] = next(vars(module)[name] for module in MODULES if name in vars(module))
    assert issubclass(found, Struct)
    return found


@pytest.mark.parametrize("path", ANSWERS, ids=lambda path: path.stem)
def test_what_the_reference_writes_comes_out_as_it_went_in(path: Path) -> None:
    text = path.read_bytes().removesuffix(b"\n")
    kind = struct_named(path.stem.split(".")[0])
    struct = decode_strict(text, kind)
    if path.stem in HAND_MADE:
        assert json.loads(encode(struct)) == json.loads(text)
    else:
        assert encode(struct) == text
    assert decode_lenient(text, kind) == struct


def test_every_kind_of_answer_was_captured() -> None:
    captured = {path.stem.split(".")[0] for path in ANSWERS}
    shared = {"Response", "PagedResponse", "SuccessResponse"}
    only_for_the_system_account = {"SystemResponse", "AccountPurgeResponse"}
    defined = {name for name in vars(responses) if name.endswith("Response")}
    assert defined - shared - only_for_the_system_account <= captured


@pytest.mark.parametrize(("kind", "body", "complaint"), COMPLAINTS)
def test_bad_body_is_refused_in_the_words_of_the_reference(kind: str, body: str, complaint: str) -> None:
    decode = decode_lenient if kind in LENIENT else decode_strict
    if complaint:
        with pytest.raises(JsonError) as refused:
            decode(body.encode(), struct_named(kind))
        assert str(refused.value) == complaint
    else:
        decode(body.encode(), struct_named(kind))
