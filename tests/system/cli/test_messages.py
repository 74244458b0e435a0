"""`millstream pub`, `sub` and `req` on a real server."""

import subprocess
import sys
import threading
from pathlib import Path

import pytest

from millstream.cli.endings import CONFLICT, NOTHING, WRONG_USAGE
from millstream.link.blocking_link import BlockingLink
from millstream.link.options import LinkOptions, parse_servers
from tests.kits.cli import ESCAPES, Cli, assert_harmless
from tests.kits.patience import PATIENCE_S


def link_to(url: str) -> BlockingLink:
    return BlockingLink(LinkOptions(servers=parse_servers(url)))


def test_a_stream_confirms_what_is_published(cli: Cli, name: str, tmp_path: Path) -> None:
    cli("stream", "add", name)
    assert cli("pub", name, "x", "-J", "--id", "a", "--json").json["seq"] == 1
    again = cli("pub", name, "x", "-J", "--id", "a", "--json").json
    assert (again["seq"], again["duplicate"]) == (1, True)
    cli("pub", name, "x", "-J", "--expect-seq", 7, code=CONFLICT)
    (tmp_path / "body").write_bytes(b"\0\1")
    cli("pub", name, "--file", tmp_path / "body", "-J", "-H", "Trace: 7")
    cli("pub", name, "-J", "--lines", stdin=b"one\ntwo\n")
    found = cli("stream", "view", name, "--seq", 2, "--json").lines
    assert (found[0]["data"], found[0]["headers"]["Trace"]) == ("\0\1", ["7"])
    assert [each["data"] for each in found[1:]] == ["one", "two"]


def test_many_messages_arrive_in_order(cli: Cli, name: str) -> None:
    cli("stream", "add", name)
    cli("pub", name, "{n}", "--count", 1200, "-J")
    assert cli("stream", "view", name, "--seq", 1200, "--json").lines[0]["data"] == "1200"


@pytest.mark.parametrize("flags", [(), ("--json",)], ids=["text", "json"])
def test_sub_shows_messages_harmlessly(url: str, name: str, flags: tuple[str, ...]) -> None:
    command = [sys.executable, "-m", "millstream", "sub", f"{name}.>", "-s", url, "--count", "1", *flags]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    over = threading.Event()

    def keep_publishing() -> None:
        with link_to(url) as link:
            while not over.wait(0.05):
                link.publish(f"{name}.a", ESCAPES.encode(), headers={"Evil": "\x1b[2J"})
                link.flush()

    thread = threading.Thread(target=keep_publishing)
    thread.start()
    try:
        out, err = process.communicate(timeout=PATIENCE_S)
    finally:
        over.set()
        thread.join()
        process.kill()
    assert process.returncode == 0, err
    assert_harmless(out)
    assert "owned" in out


def test_sub_ends_when_nothing_comes(cli: Cli, name: str) -> None:
    cli("sub", f"{name}.>", "--wait", "50ms", code=NOTHING)
    cli("sub", f"{name}.>", f"{name}2.>", "--wait", "50ms", code=NOTHING)


def test_a_request_is_answered(cli: Cli, url: str, name: str) -> None:
    ready, over = threading.Event(), threading.Event()

    def answer() -> None:
        with link_to(url) as link:
            link.subscribe(name)
            link.flush()
            ready.set()
            while not over.is_set():
                message = link.next_message(0.05)
                if message is not None:
                    link.publish(message.reply, b"you said " + message.payload)
                    link.flush()

    thread = threading.Thread(target=answer)
    thread.start()
    try:
        assert ready.wait(PATIENCE_S)
        assert cli("req", name, "hi", "--raw").raw == b"you said hi\n"
        assert cli("req", name, "hi", "--json").lines[0]["data"] == "you said hi"
        assert cli("req", name, "hi", "--replies", 0, "--raw").raw == b"you said hi\n"
    finally:
        over.set()
        thread.join()
    assert "nobody listens" in cli("req", f"{name}.nobody", "hi", code=NOTHING).err


def test_mistakes_are_one_clear_sentence(cli: Cli, name: str) -> None:
    cli("pub", "a b", "x", code=WRONG_USAGE)
    cli("pub", f"{name}.nobody", "x", "-J", code=NOTHING)
    cli("pub", name, "x", "--id", "7", code=WRONG_USAGE)
    cli("pub", name, "x", "-H", "no header", code=WRONG_USAGE)
    cli("pub", name, "x", "-H", "bad name: x", code=WRONG_USAGE)
    cli("pub", name, terminal=True, code=WRONG_USAGE)
    cli("pub", name, "--file", "/none", code=WRONG_USAGE)
    cli("pub", name, "x" * (1 << 21), code=WRONG_USAGE)
    cli("pub", code=WRONG_USAGE)
    cli("sub", "--raw", "--json", name, code=WRONG_USAGE)
