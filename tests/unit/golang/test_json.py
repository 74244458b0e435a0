"""Complaints about JSON, each as nats-server 2.15 worded it for the same text."""

import pytest

from millstream.golang.json import BadSyntax, JsonKind, read_each, read_one, syntax_error
from millstream.golang.quote import quoted

COMPLAINTS = {
    "{bad": "invalid character 'b' looking for beginning of object key string",
    "{'a':1}": r"invalid character '\'' looking for beginning of object key string",
    '{"a":}': "invalid character '}' looking for beginning of value",
    "+1": "invalid character '+' looking for beginning of value",
    "é": "invalid character 'é' looking for beginning of value",
    "\x01": r"invalid character '\x01' looking for beginning of value",
    '{"a":1}x': "invalid character 'x' after top-level value",
    "01": "invalid character '1' after top-level value",
    "1.5.5": "invalid character '.' after top-level value",
    '{"a" 1}': "invalid character '1' after object key",
    '{"a":1 "b":2}': "invalid character '\"' after object key:value pair",
    '{"a":1,}': "invalid character '}' looking for beginning of object key string",
    "[1 2]": "invalid character '2' after array element",
    "[1,]": "invalid character ']' looking for beginning of value",
    "trux": "invalid character 'x' in literal true (expecting 'e')",
    "tRue": "invalid character 'R' in literal true (expecting 'r')",
    '"a\nb"': r"invalid character '\n' in string",
    r'"\x"': r"invalid escape sequence `\x` in string",
    r'"\\\q"': r"invalid escape sequence `\q` in string",
    r'"\u12g4"': r"invalid escape sequence `\u12g4` in string",
    r'"\u1"': r'invalid escape sequence `\u1"` in string',
    "-x": "invalid character 'x' in numeric literal",
    "-.5": "invalid character '.' in numeric literal",
    "1.x": "invalid character 'x' in numeric literal",
    "1e+x": "invalid character 'x' in numeric literal",
}


@pytest.mark.parametrize(("text", "complaint"), COMPLAINTS.items())
def test_complaint_names_the_first_wrong_character(text: str, complaint: str) -> None:
    assert syntax_error(text.encode()) == complaint


@pytest.mark.parametrize(
    "text", [" ", "{", '{"a"', "nul", "[1,2", "-", "1.", "1e", "1e+", '"a', '"\\', '"\\u1']
)
def test_text_that_is_cut_short_is_just_that(text: str) -> None:
    assert syntax_error(text.encode()) == "unexpected end of JSON input"


@pytest.mark.parametrize("text", ['{"a":[1,-2.5e3,true,null,"\\u00e9"],"b":{}}', " [] ", "0", '""'])
def test_correct_text_has_no_complaint(text: str) -> None:
    assert syntax_error(text.encode()) == ""


def test_nesting_does_not_exhaust_the_stack() -> None:
    assert syntax_error(b"[" * 100_000) == "exceeded max depth"


def test_value_remembers_how_it_was_written() -> None:
    value = read_one(b' {"a" : [1.50, "\\u0041"], "a":null} ')
    assert value.raw == b'{"a" : [1.50, "\\u0041"], "a":null}'
    (_, first), (_, second) = value.members
    assert [(item.kind, item.raw, item.text) for item in first.items] == [
        (JsonKind.NUMBER, b"1.50", ""),
        (JsonKind.STRING, b'"\\u0041"', "A"),
    ]
    assert second.kind is JsonKind.NULL


def test_values_come_one_after_the_other_until_one_is_wrong() -> None:
    values = read_each(b"1 {} x")
    assert [next(values).raw, next(values).raw] == [b"1", b"{}"]
    with pytest.raises(BadSyntax) as refused:
        next(values)
    assert refused.value.offset == 6


def test_no_values_in_an_empty_text() -> None:
    assert list(read_each(b" \n")) == []


@pytest.mark.parametrize(
    ("text", "shown"), [("a<é", '"a<é"'), ('"\\', r'"\"\\"'), ("\n\x01\u200b", r'"\n\x01\u200b"')]
)
def test_quoted_text_is_as_go_quotes_it(text: str, shown: str) -> None:
    assert quoted(text) == shown
