"""Completion of names, as a shell asks for it."""

import os
import subprocess
import sys

import pytest

from tests.kits.cli import Cli
from tests.kits.patience import PATIENCE_S

_HOSTILE = ("$(touch$IFS$9pwned)", "`x`", "'", ";ls", "&", "|x", "~", "(x)")


def complete(url: str, *words: str, shell: str = "bash") -> list[str]:
    """Return what the program offers for the last word."""
    line = " ".join(("millstream", *words))
    environment = {
        "_MILLSTREAM_COMPLETE": f"complete_{shell}",
        "COMP_WORDS": line,
        "COMP_CWORD": str(len(words)),
        "NATS_URL": url,
    }
    command = [sys.executable, "-m", "millstream"]
    done = subprocess.run(
        command, env=os.environ | environment, capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    return done.stdout.split()


def test_commands_streams_and_consumers_are_completed(cli: Cli, url: str, name: str) -> None:
    cli("stream", "add", name, "--subjects", f"{name}.>")
    cli("consumer", "add", name, "billing")
    cli("kv", "add", name, "--storage", "memory")
    assert complete(url, "str") == ["stream"]
    assert complete(url, "stream", "ed") == ["edit"]
    assert complete(url, "stream", "info", name) == [name]
    assert complete(url, "consumer", "info", name, "bil") == ["billing"]
    assert complete(url, "kv", "ls", name) == [name]
    assert complete("nats://127.0.0.1:1", "stream", "info", name) == []


@pytest.mark.parametrize("end", _HOSTILE)
def test_names_that_a_shell_acts_on_are_not_offered(cli: Cli, url: str, name: str, end: str) -> None:
    cli("stream", "add", f"{name}{end}", "--subjects", f"{name}.>", "--storage", "memory")
    assert complete(url, "stream", "info", name) == []
    assert end in cli("stream", "ls").out
