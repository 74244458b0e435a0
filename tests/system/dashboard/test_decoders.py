"""Bodies of messages in readable forms; what a stranger sends neither hangs nor fills the page."""

import base64
import json
from typing import Any

import msgspec
import pytest

from tests.kits.dashboard import Screen

VALUES = [
    {"order": 7, "items": ["a", "ü", None, True], "price": 1.5, "big": 2**63, "negative": -(2**40)},
    [],
    {},
    [[[[1]]]],
    'text with "quotes" and \n lines <script>alert(1)</script>',
    list(range(300)),
]
# Appendix A of RFC 8949, as diagnostic notation without blanks.
CBOR = {
    "1bffffffffffffffff": "18446744073709551615",
    "3bffffffffffffffff": "-18446744073709551616",
    "f97bff": "65504.0",
    "f90001": "5.960464477539063e-8",
    "fb7e37e43c8800759c": "1e+300",
    "f97c00": "Infinity",
    "f6": "null",
    "f7": "undefined",
    "f8ff": "simple(255)",
    "c11a514b67b0": "1(1363896240)",
    "4401020304": "h'01020304'",
    "62c3bc": '"ü"',
    "8301820203820405": "[1,[2,3],[4,5]]",
    "a201020304": "{1:2,3:4}",
    "5f42010243030405ff": "(_h'0102',h'030405')",
    "9f018202039f0405ffff": "[1,[2,3],[4,5]]",
    "bf6346756ef563416d7421ff": '{"Fun":true,"Amt":-2}',
}
HOSTILE = [
    bytes.fromhex("dfffffffff"),  # a map of 2**32 entries
    bytes.fromhex("ddffffffff") + b"\x01",
    b"\x91" * 10_000 + b"\x01",  # lists in lists
    bytes.fromhex("9bffffffffffffffff"),
    b"\x9f" * 10_000,
    b"\xc1" * 10_000 + b"\x01",
    bytes.fromhex("5bffffffffffffffff"),
    bytes.fromhex("dcffff") + b"\x90" * 65535,  # more values than are shown
    b"\xff\xfe\x00",
    b"",
]


async def _show(screen: Screen, body: bytes, form: str) -> dict[str, Any]:
    """Return what the page makes of a body."""
    if screen.page.url == "about:blank":
        await screen.page.goto(f"{screen.site.origin}/ui/#/login")
    script = """async ([text, form]) => {
        const base = document.querySelector("script[src]").src;
        const forms = await import(new URL("decode/forms.js", base));
        const bytes = await import(new URL("decode/bytes.js", base));
        return forms.show(bytes.fromBase64(text), form);
    }"""
    shown: dict[str, Any] = await screen.page.evaluate(script, [base64.b64encode(body).decode(), form])
    return shown


async def test_messagepack_is_shown_as_what_it_is(screen: Screen) -> None:
    for value in VALUES:
        shown = await _show(screen, msgspec.msgpack.encode(value), "msgpack")
        assert shown["note"] == ""
        assert json.loads(shown["text"]) == value
    shown = await _show(screen, msgspec.msgpack.encode({"a": b"\x00\xff"}), "auto")
    assert (shown["form"], "".join(shown["text"].split())) == ("msgpack", "{\"a\":h'00ff'}")


async def test_cbor_is_shown_in_diagnostic_notation(screen: Screen) -> None:
    for encoded, text in CBOR.items():
        shown = await _show(screen, bytes.fromhex(encoded), "cbor")
        assert (shown["note"], "".join(shown["text"].split())) == ("", text), encoded


async def test_json_keeps_every_digit_and_the_order_of_keys(screen: Screen) -> None:
    text = '{"z":12345678901234567890.10,"a":[],"b":{},"c":[1,{"d":"x,{}:\\"y"}]}'
    shown = await _show(screen, text.encode(), "auto")
    assert shown["form"] == "json"
    assert "".join(shown["text"].split()) == text
    assert shown["text"].startswith('{\n  "z": 12345678901234567890.10,\n  "a": [],')
    assert (await _show(screen, b"{not json", "auto"))["form"] == "text"
    assert (await _show(screen, bytes(range(256)), "auto"))["form"] == "hex"


@pytest.mark.parametrize("form", ["auto", "json", "text", "hex", "base64", "msgpack", "cbor"])
async def test_hostile_bodies_are_shown_within_bounds(screen: Screen, form: str) -> None:
    for body in HOSTILE:
        shown = await _show(screen, body, form)
        assert len(shown["text"]) < 1_000_000
