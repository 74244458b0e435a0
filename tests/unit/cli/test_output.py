"""Tables, JSON, questions, and texts of others on a terminal."""

import io
import json
import sys
from typing import Any

import pytest

from millstream.cli.commands.top import fair_shares
from millstream.cli.endings import UsageError
from millstream.cli.output.confirmation import Declined, confirm
from millstream.cli.output.tables import CommandOutput, check_raw
from millstream.cli.output.texts import (
    count_text,
    duration_text,
    limit_text,
    list_text,
    payload_fields,
    payload_text,
    safe,
    since_text,
    size_text,
    time_text,
)

EVIL = "\x1b]0;x\x07\x1b[2J\r\n\u202e\x9b31m"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_every_control_character_is_escaped() -> None:
    for number in (*range(32), *range(127, 160), 0x200B, 0x2028, 0x2029, 0x202E, 0xFEFF, 0xD800):
        assert safe(chr(number)).isprintable(), hex(number)
        assert payload_text(chr(number).encode("utf-8", "surrogatepass")).isprintable(), hex(number)
    assert safe("ordinär 訂單 ✓") == "ordinär 訂單 ✓"
    assert safe("x" * 10, 5) == "xxxx…"


def test_payloads() -> None:
    assert payload_text(b"plain") == "plain"
    assert payload_text(b"a\nb\tc") == "a\\nb\\tc"
    assert payload_text(b"\xff\xfe") == "(2 B of binary data: ff fe)"
    assert payload_text(b"a\0b") == "(3 B of binary data: 61 00 62)"
    assert payload_fields("ä".encode()) == {"data": "ä"}
    assert payload_fields(b"\xff") == {"base64": "/w=="}


def test_numbers_and_times() -> None:
    assert [size_text(each) for each in (0, 1023, 1024, 5 << 40)] == ["0 B", "1023 B", "1.0 KiB", "5.0 TiB"]
    assert (count_text(1_234_567), limit_text(-1), limit_text(5)) == ("1,234,567", "unlimited", "5")
    nanoseconds = (0, 20_000, 1_500_000, 2 * 10**9, 90 * 10**9, 90_061 * 10**9)
    assert [duration_text(each) for each in nanoseconds] == ["-", "20µs", "1.5ms", "2s", "1m30s", "1d1h1m1s"]
    assert time_text("0001-01-01T00:00:00Z") == time_text(None) == time_text("nonsense") == "never"
    assert since_text("2026-11-18T06:00:00Z", 1_794_981_605) == "5s"
    assert since_text("2026-11-18T06:00:00Z", 0) == "0s"
    assert list_text(["a", "b", "c"], 2) == "a, b, … 1 more"


def test_a_pipe_gets_plain_columns(capsys: pytest.CaptureFixture[str]) -> None:
    CommandOutput().table(None, ("Name", "#Count"), [["a", "1"], ["long", "10"]])
    assert capsys.readouterr().out == "NAME  COUNT\na         1\nlong     10\n"
    CommandOutput().table(None, ("Name",), [], empty="there is nothing")
    assert capsys.readouterr() == ("", "there is nothing\n")


def test_texts_of_others_make_no_lines_and_no_columns(capsys: pytest.CaptureFixture[str]) -> None:
    output = CommandOutput()
    output.table(None, ("A", "B"), [[EVIL, "x"]])
    output.details(None, {"Title": {EVIL: EVIL}})
    output.event({}, EVIL)
    output.done({}, EVIL)
    text = capsys.readouterr().out
    assert len(text.splitlines()) == 6
    assert all(line.isprintable() for line in text.split("\n"))


def test_a_terminal_gets_a_table_without_markup(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stdout", terminal)
    monkeypatch.setenv("TERM", "xterm")
    CommandOutput().table(None, ("A",), [["[bold]x[/bold] [link=http://e]y[/link]"], [EVIL]])
    text = terminal.getvalue()
    assert "[bold]x[/bold] [link=http://e]y[/link]" in text
    assert "\x1b]" not in text
    assert "\x07" not in text
    assert "\x1b[2J" not in text


def test_json_is_ascii_and_nothing_else(capsys: pytest.CaptureFixture[str]) -> None:
    output = CommandOutput(json=True)
    output.table([EVIL], ("A",), [[EVIL]])
    output.note("not shown")
    found = capsys.readouterr()
    assert json.loads(found.out) == [EVIL]
    assert found.out.replace("\n", "").isprintable()
    assert found.err == ""


@pytest.mark.parametrize("answer", ["", "n", "no", "Y e s", "yess"])
def test_only_yes_is_yes(answer: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, stream in (("stdin", Terminal(f"{answer}\n")), ("stderr", Terminal())):
        monkeypatch.setattr(sys, name, stream)
    with pytest.raises(Declined, match="nothing was done"):
        confirm("delete everything", force=False)


def test_a_question_is_asked_once_and_not_with_force(monkeypatch: pytest.MonkeyPatch) -> None:
    streams: dict[str, Any] = {"stdin": Terminal("yes\n"), "stderr": Terminal()}
    for name, stream in streams.items():
        monkeypatch.setattr(sys, name, stream)
    confirm(f"delete {EVIL}", force=False)
    assert streams["stderr"].getvalue().isprintable()
    confirm("delete", force=True)
    monkeypatch.setattr(sys, "stdin", io.StringIO("yes\n"))
    with pytest.raises(Declined, match="--force"):
        confirm("delete", force=False)


def test_raw_bytes_are_not_for_terminals(monkeypatch: pytest.MonkeyPatch) -> None:
    check_raw(True)
    with pytest.raises(UsageError, match="exclude"):
        check_raw(True, True)
    monkeypatch.setattr(sys, "stdout", Terminal())
    with pytest.raises(UsageError, match="terminal"):
        check_raw(True)


@pytest.mark.parametrize(
    ("wanted", "room", "shares"),
    [
        ([10, 10, 10], 30, [10, 10, 10]),
        ([10, 10, 10], 12, [4, 4, 4]),
        ([10, 1, 10], 12, [5, 1, 6]),
        ([0, 3, 100], 20, [0, 3, 17]),
        ([5, 5, 5], -3, [1, 1, 1]),
    ],
)
def test_tables_share_the_lines_of_a_terminal(wanted: list[int], room: int, shares: list[int]) -> None:
    assert fair_shares(wanted, room) == shares
