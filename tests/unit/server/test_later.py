"""Modules that a server imports after its start."""

import importlib
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from msgspec.structs import replace

from millstream.arrow.options import ArrowOptions
from millstream.config.options import ServerOptions
from millstream.jetstream.options import JetStreamOptions
from millstream.server import later
from millstream.server.system import documents as system_documents
from millstream.server.system import requests as system_requests
from tests.kits.patience import PATIENCE_S

EVERYTHING = ServerOptions(jetstream=JetStreamOptions(enabled=True), arrow=ArrowOptions(enabled=True))


def everything(options: ServerOptions) -> list[str]:
    return [*later.needed_at_once(options), *later.needed_later(options)]


def test_it_follows_what_is_switched_on() -> None:
    without_arrow = replace(EVERYTHING, arrow=ArrowOptions(enabled=False))
    assert "millstream.server.system.answers" in everything(ServerOptions())
    assert not [each for each in everything(ServerOptions()) if each.startswith("millstream.jetstream")]
    assert "millstream.jetstream.snapshots.api" in everything(without_arrow)
    assert "millstream.server.arrow.clients" not in everything(without_arrow)
    assert "millstream.server.arrow.clients" in everything(EVERYTHING)


@pytest.mark.parametrize("name", everything(EVERYTHING))
def test_every_module_can_be_imported(name: str) -> None:
    assert importlib.import_module(name)


def test_all_parts_of_streams_are_there_when_the_first_stream_is_made() -> None:
    code = (
        "import sys\n"
        "from millstream.jetstream import parts\n"
        "from millstream.server import later\n"
        f"later.load({list(later.needed_at_once(EVERYTHING))})\n"
        "print(sorted(set(parts.PLACES.values()) - sys.modules.keys()))\n"
    )
    assert run(code) == ["[]"]


def test_the_requests_that_are_listened_to_have_documents() -> None:
    assert set(system_requests.SERVER_DOCUMENTS) == set(system_documents.SERVER_DOCUMENTS)
    assert set(system_requests.ACCOUNT_DOCUMENTS) == set(system_documents.ACCOUNT_DOCUMENTS)


def test_no_thread_is_begun_when_all_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    later.load(everything(EVERYTHING))
    monkeypatch.setattr(threading, "Thread", None)  # cannot be called
    later.load_in_thread(EVERYTHING)


def test_a_system_without_threads_imports_what_is_needed_when_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading, "Thread", refuse)
    monkeypatch.setattr(later, "needed_later", lambda _: ["no.such.module"])
    later.load_in_thread(EVERYTHING)


IN_A_PROGRAM = """
import asyncio, sys
from millstream import Server
from millstream.server import later

async def use():
    async with Server(store_dir=sys.argv[1]) as server:
        wanted = [*later.needed_at_once(server.options), *later.needed_later(server.options)]
        print([each for each in wanted if each not in sys.modules])

asyncio.run(use())
"""

AS_A_PROCESS = """
import asyncio, sys
from millstream.server import later
from millstream.server.server import Server

later.DELAY_S = 0.0

async def report(server):
    wanted = [*later.needed_at_once(server.options), *later.needed_later(server.options)]
    while not all(each in sys.modules for each in wanted):
        await asyncio.sleep(0.001)
    print("all")
    await server.stop()

Server.wait_stopped = report
from millstream.cli.main import main
main(["serve", "-a", "127.0.0.1", "-p", "-1", "-js", "-sd", sys.argv[1]])
"""


def run(code: str, *arguments: Path) -> list[str]:
    ended = subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        env=os.environ,
    )
    assert ended.returncode == 0, ended.stderr
    return ended.stdout.splitlines()


def test_a_server_in_a_program_has_imported_all_when_it_is_ready(tmp_path: Path) -> None:
    assert run(IN_A_PROGRAM, tmp_path) == ["[]"]


def test_a_process_imports_them_when_it_is_ready(tmp_path: Path) -> None:
    assert run(AS_A_PROCESS, tmp_path) == ["all"]
