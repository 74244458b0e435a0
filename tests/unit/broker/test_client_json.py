"""JSON from clients: what is forgiven, and what is not."""

import pytest

from millstream.broker.client_json import BadJson, read_object


@pytest.mark.parametrize(
    ("text", "members"),
    [
        (b"{}", {}),
        (b" null ", {}),
        (b'{"a": [1, {"b": null}]}', {"a": [1, {"b": None}]}),
        (b'{"a": "M\xfcller"}', {"a": "M\ufffdller"}),
        (b'{"\xff": true}', {"\ufffd": True}),
        (rb'{"a": "\ud800"}', {"a": "\ufffd"}),
        (rb'{"a": "\udc00\ud83d\ude00"}', {"a": "\ufffd\U0001f600"}),
        (b'{"a": "\xff", "b": [false, -7, 1.5, null, {}]}', {"a": "\ufffd", "b": [False, -7, 1.5, None, {}]}),
        (b'{"a": 1e999}', {"a": float("inf")}),
    ],
)
def test_what_is_forgiven(text: bytes, members: dict[str, object]) -> None:
    assert read_object(text) == members


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"[]",
        b'"a"',
        b"1",
        b"{",
        b'{"a": }',
        b'{"a": \xff}',
        b"{} {}",
        b'{"a": "\x01"}',
        b'{"a": ' + b"[" * 100_000,
    ],
)
def test_what_is_no_object(text: bytes) -> None:
    with pytest.raises(BadJson):
        read_object(text)
