"""The configuration grammar, by example and by round trip of generated trees."""

import contextlib
import string
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from millstream.config.digest import config_digest
from millstream.config.errors import ConfigError
from millstream.config.parser import MAX_DEPTH, parse_file, parse_text
from millstream.config.tree import Plain, plain


def read(text: str, **environment: str) -> Plain:
    return plain(parse_text(text, "test.conf", environment))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a: 1", {"a": 1}),
        ("a = 1", {"a": 1}),
        ("a 1", {"a": 1}),
        ("a\n 1", {"a": 1}),
        ("a=1;b=2,c=3", {"a": 1, "b": 2, "c": 3}),
        ("\"a b\" : 1, 'c' : 2", {"a b": 1, "c": 2}),
        ("a { b: 1 }", {"a": {"b": 1}}),
        ("a\n{\n b\n 1\n}", {"a": {"b": 1}}),
        ("a { b:\n 1, }", {"a": {"b": 1}}),
        ("{ a: 1, b: 2 }", {"a": 1, "b": 2}),
        ('{"a": {"b": [1, true, "x"]}}\n', {"a": {"b": [1, True, "x"]}}),
        ("{a: 1}\nb: 2", {"a": 1, "b": 2}),
        ("a: 1 }", {"a": 1}),
        ("a: 1\n}\n", {"a": 1}),
        ("a: 1\na: 2", {"a": 2}),
        ("", {}),
        ("# only\n// comments", {}),
        ("a: 1 # one\nb: 2 // two\n#c: 3", {"a": 1, "b": 2}),
        ("a: [1, 2\n3 # three\n // none\n 4,]", {"a": [1, 2, 3, 4]}),
        ("a: [{b: 1}, {b: 2}]", {"a": [{"b": 1}, {"b": 2}]}),
        ("a: [[1], []]", {"a": [[1], []]}),
        ("a { # why\n b: 1 # because\n # end\n}", {"a": {"b": 1}}),
        ("a{b: 1", {"a{b": 1}),
    ],
)
def test_structure_is_read_as_nats_server_reads_it(text: str, expected: Plain) -> None:
    assert read(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("64", 64),
        ("-1", -1),
        ("1k", 1000),
        ("1K", 1000),
        ("1kb", 1024),
        ("1Ki", 1024),
        ("1KiB", 1024),
        ("2m", 2_000_000),
        ("2MB", 2 << 20),
        ("3g", 3_000_000_000),
        ("3GiB", 3 << 30),
        ("4T", 4 * 10**12),
        ("4tb", 4 << 40),
        ("5p", 5 * 10**15),
        ("5pb", 5 << 50),
        ("6e", 6 * 10**18),
        ("6eb", 6 << 60),
        ("-2k", -2000),
        ("1.5", 1.5),
        ("-0.25", -0.25),
        ("2026-01-02T03:04:05Z", datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)),
        ("127.0.0.1", "127.0.0.1"),
        ("127.0.0.1:4222", "127.0.0.1:4222"),
        ("127.0.0.1:-1", "127.0.0.1:-1"),
        ("20s", "20s"),
        ("2m30s", "2m30s"),
        ("500ms", "500ms"),
        ("5x", "5x"),
        ("yes", True),
        ("ON", True),
        ("False", False),
        ("no", False),
        ("off", False),
        ("word", "word"),
        ("a#b", "a#b"),
        ("nats://host:4222", "nats://host:4222"),
        (r"a\x41\tb", "aA\tb"),
        (r"tr\x75e", "true"),
        ('"true"', "true"),
        ('"12"', "12"),
        (r'"a\"b\\c\x41\n\r\t"', 'a"b\\cA\n\r\t'),
        (r'"\xc3\xa9"', "é"),
        ('"two\nlines"', "two\nlines"),
        ("'raw \\n \"text\"'", 'raw \\n "text"'),
        ("(\nfirst )\n second\n)\n", "\nfirst )\n second\n"),
        ("(\nx\n)", "\nx\n"),
        ("$2a$11$abc.def/ghi", "$2a$11$abc.def/ghi"),
    ],
)
def test_scalars_get_the_type_their_spelling_says(text: str, expected: Plain) -> None:
    assert read(f"v: {text}") == {"v": expected}


def test_a_variable_is_a_key_of_an_enclosing_block_before_it_is_the_environment() -> None:
    text = "NAME: outer\na { NAME: inner, b { c: $NAME } }\nd: $NAME\ne: $OTHER"
    assert read(text, NAME="unused", OTHER="[1, two, $MORE]", MORE="3k") == {
        "NAME": "outer",
        "a": {"NAME": "inner", "b": {"c": "inner"}},
        "d": "outer",
        "e": [1, "two", 3000],
    }


def test_a_key_that_is_used_as_a_variable_is_marked() -> None:
    root = parse_text("a: 1\nb: $a\nc: 2", "test.conf", {})
    assert {key: entry.used for key, entry in root.items()} == {"a": True, "b": False, "c": False}


def test_an_empty_environment_variable_is_an_empty_string() -> None:
    assert read("a: $EMPTY", EMPTY="") == {"a": ""}


def test_includes_are_relative_to_the_file_that_has_them(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "main.conf").write_text("a: 1\ninclude 'sub/one.conf'\nb { include ./sub/two.conf }\nc: $x")
    (tmp_path / "sub" / "one.conf").write_text('include "two.conf"\na: 2')
    (tmp_path / "sub" / "two.conf").write_text("x: 3")
    root = parse_file(tmp_path / "main.conf", {})
    assert plain(root) == {"x": 3, "a": 2, "b": {"x": 3}, "c": 3}
    assert root["a"].at.file == str(tmp_path / "sub" / "one.conf")


@pytest.mark.parametrize(
    ("text", "line", "column", "reason"),
    [
        ("a: 1\nb: [1, 2", 2, 4, "the [ that stands here is not closed"),
        ("a {\n b: 1\n", 1, 3, "the { that stands here is not closed"),
        ("{ a: 1\n", 1, 1, "the { that stands here is not closed"),
        ("a: 1 2", 1, 6, "expected the value to end here, found '2'"),
        ("a", 1, 2, 'the key "a" has no value'),
        ("a:\n 1", 1, 3, 'the key "a" has no value'),
        ("a {b: }", 1, 7, 'the key "b" has no value'),
        (": 1", 1, 1, "expected a key, found ':'"),
        ("a: 1,, b: 2", 1, 6, "expected a key, found ','"),
        ("a: [,]", 1, 5, "expected a value, found ','"),
        ("a: [1 2]", 1, 7, "expected ',' or ']' after a list item, found '2'"),
        ('a: "x', 1, 4, 'the string that begins here has no closing "'),
        ("a: 'x", 1, 4, "the string that begins here has no closing '"),
        ("a: (\nx )", 1, 4, "the block that begins here has no ')' alone on a line"),
        (r'a: "\q"', 1, 5, r"unknown escape '\q'; known are \xHH \t \n \r \" \\"),
        (r'a: "\xg1"', 1, 5, "expected two hexadecimal digits after \\x"),
        ("a: .5", 1, 4, "a number must start with a digit"),
        ("a: 1.", 1, 4, "a number must have a digit after '.'"),
        ("a: 1.5GB", 1, 7, "expected the value to end here, found 'G'"),
        ("a: -x", 1, 4, "expected a digit after '-'"),
        ("a: 1kbi", 1, 4, 'unknown size suffix "kbi"'),
        ("a: 9223372036854775808", 1, 4, "the integer 9223372036854775808 is out of range"),
        ("a: 9e", 1, 4, None),
        ("a: 10e", 1, 4, "the integer 10e is out of range"),
        ("a: 12-3", 1, 4, "a date must be written like 2026-01-02T03:04:05Z; quote it if it is a word"),
        ("a: 2026-13-02T03:04:05Z", 1, 4, "there is no such date as 2026-13-02T03:04:05Z"),
        ("a: don't", 1, 7, "a quote inside a bare word; put the whole value in double quotes"),
        ("a: $NOPE", 1, 4, "the variable $NOPE is neither a key above nor in the environment"),
        ("a: $LOOP", 1, 4, "the variable $LOOP cannot be read: "),
        ("a: $TWO", 1, 4, "the variable $TWO cannot be read: expected the value to end here, found 'w'"),
        ("include 'gone.conf'", 1, 1, "include: cannot read gone.conf: No such file or directory"),
        ("include [x]", 1, 9, "include: expected a file name, found '['"),
    ],
)
def test_what_cannot_be_read_is_refused_where_it_stands(
    text: str, line: int, column: int, reason: str | None
) -> None:
    environment = {"LOOP": "$AGAIN", "AGAIN": "$LOOP", "TWO": "two words"}
    if reason is None:
        parse_text(text, "test.conf", environment)
        return
    with pytest.raises(ConfigError) as caught:
        parse_text(text, "test.conf", environment)
    error = caught.value
    assert (error.file, error.line, error.column) == ("test.conf", line, column)
    assert error.reason.startswith(reason)
    assert str(error) == f"test.conf:{line}:{column}: {error.reason}"


def test_a_file_that_includes_itself_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.conf").write_text("include b.conf")
    (tmp_path / "b.conf").write_text("x: 1\n include a.conf")
    with pytest.raises(ConfigError, match=r"b\.conf:2:2: a\.conf includes itself"):
        parse_file(tmp_path / "a.conf")


def test_an_error_in_an_included_file_names_that_file(tmp_path: Path) -> None:
    (tmp_path / "a.conf").write_text("include b.conf")
    (tmp_path / "b.conf").write_text("x: [")
    with pytest.raises(ConfigError) as caught:
        parse_file(tmp_path / "a.conf")
    assert caught.value.file == str(tmp_path / "b.conf")


def test_a_missing_file_is_refused_with_its_name(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"cannot read .*gone\.conf: No such file"):
        parse_file(tmp_path / "gone.conf")


def test_nesting_is_bounded() -> None:
    assert read("a: " + "[" * MAX_DEPTH + "]" * MAX_DEPTH)
    with pytest.raises(ConfigError, match="nested"):
        read("a: " + "[" * (MAX_DEPTH + 1))


names = st.text(string.ascii_letters + string.digits + "_", min_size=1, max_size=8).filter(
    lambda name: name.lower() != "include"
)
scalars = (
    st.integers(-(2**63), 2**63 - 1)
    | st.booleans()
    | st.decimals(-1000, 1000, places=3).map(float)
    | st.text(max_size=12)
    | st.datetimes(datetime(1970, 1, 1), datetime(9999, 1, 1)).map(
        lambda moment: moment.replace(microsecond=0, tzinfo=UTC)
    )
)
trees = st.dictionaries(
    names,
    st.recursive(
        scalars,
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(names, inner, max_size=4),
        max_leaves=12,
    ),
    max_size=5,
)


def spell(value: Any, draw: st.DataObject) -> str:
    """Write a tree with a layout that hypothesis chooses."""

    def choose(*options: str) -> str:
        return draw.draw(st.sampled_from(options))

    match value:
        case bool():
            return choose("true", "yes", "ON") if value else choose("false", "no", "Off")
        case int():
            return str(value)
        case float():
            return f"{value:.3f}"
        case datetime():
            return f"{value.year:04}" + value.strftime("-%m-%dT%H:%M:%SZ")
        case str():
            escaped = "".join(
                f"\\x{byte:02x}" if byte < 32 or byte in b'"\\' else chr(byte) for byte in value.encode()
            )
            return '"' + escaped.encode("latin-1").decode() + '"'
        case list():
            return (
                "["
                + "".join(spell(item, draw) + choose(", ", "\n", " # note\n", ",\n\n") for item in value)
                + "]"
            )
        case _:
            return "{" + spell_entries(value, draw) + "}"


def spell_entries(value: dict[str, Any], draw: st.DataObject) -> str:
    parts = []
    for key, item in value.items():
        quote = draw.draw(st.sampled_from(["", '"', "'"]))
        separator = draw.draw(st.sampled_from([": ", " = ", " ", ":", "="]))
        end = draw.draw(st.sampled_from(["\n", ", ", "; ", " // note\n", "\n\t# note\n"]))
        parts.append(f"{quote}{key}{quote}{separator}{spell(item, draw)}{end}")
    return "".join(parts)


# The first text that hypothesis draws in a fresh clone builds its table of characters, which is slow.
@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(trees, st.data())
def test_every_tree_survives_being_written_and_read(tree: dict[str, Any], draw: st.DataObject) -> None:
    text = spell_entries(tree, draw)
    if draw.draw(st.booleans()):
        text = "{" + text + "}"
    assert read(text) == tree


@settings(deadline=None)
@given(st.text(alphabet="ab {}[](),;:=#/\\\"'$.-0123456789kmTZ\n\t", max_size=60))
def test_any_text_is_a_tree_or_a_config_error(text: str) -> None:
    with contextlib.suppress(ConfigError):
        assert config_digest(parse_text(text, "test.conf", {})).startswith("sha256:")
