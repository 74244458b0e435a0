"""Servers that stop, are killed while streams come and go, or find their store taken."""

from __future__ import annotations

import subprocess
import threading
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.kits.patience import PATIENCE_S
from tests.kits.reference import ServerKind, ServerProcess, command_for
from tests.kits.server.process import Caller, Ledger, Publisher
from tests.kits.wire import WireError


def server_on(store: Path) -> ServerProcess:
    return ServerProcess(ServerKind.MILLSTREAM, jetstream=True, store_dir=store, monitor=True)


def test_a_second_server_on_a_store_says_so_and_ends(tmp_path: Path) -> None:
    with server_on(tmp_path) as first:
        arguments = ["-a", "127.0.0.1", "-p", "-1", "-js", "-sd", str(tmp_path)]
        second = subprocess.run(
            [*command_for(ServerKind.MILLSTREAM), *arguments],
            capture_output=True,
            timeout=PATIENCE_S,
            check=False,
        )
        assert second.returncode == 1
        said = (second.stdout + second.stderr).decode()
        assert "another server uses this store" in said
        assert "Traceback" not in said
        with Caller(first.port) as caller:
            caller.create("still")
            assert caller.publish("still.here", b"")["seq"] == 1


def test_a_server_that_was_killed_leaves_its_store_to_the_next(tmp_path: Path) -> None:
    with server_on(tmp_path) as first:
        first.kill()
        with server_on(tmp_path) as second:
            assert second.running


def test_a_server_that_is_told_to_stop_while_clients_publish_keeps_what_it_acknowledged(
    tmp_path: Path,
) -> None:
    random = Random(4)
    with server_on(tmp_path) as server:
        with Caller(server.port) as caller:
            caller.create("plain")
            caller.create("ids")
            caller.create("loose", persist_mode="async")
        ledgers = [Ledger("plain"), Ledger("ids", with_id=True), Ledger("loose")]
        for number in range(5):
            publishers = [
                Publisher(server.port, f"r{number}p{each}", ledgers, random.getrandbits(32))
                for each in range(3)
            ]
            for publisher in publishers:
                publisher.start()
            while sum(each.answers for each in publishers) < 300:
                publishers[0].join(0.01)
            assert server.stop() == 0
            for publisher in publishers:
                publisher.finish()
            server.start()
            with Caller(server.port) as caller:
                for ledger in ledgers:
                    assert ledger.check(caller, thoroughly=number == 4) > 0


class Manager(threading.Thread):
    """Creates, fills, updates, purges and deletes streams, and remembers what it was told."""

    def __init__(self, port: int, known: dict[str, dict[str, Any]], seed: int) -> None:
        super().__init__(daemon=True)
        self._port = port
        self._random = Random(seed)
        self._known = known  # by stream: what it is like, and what was asked for last if nobody answered
        self.done = 0
        self.problem: BaseException | None = None

    def run(self) -> None:
        try:
            with Caller(self._port) as caller:
                while True:
                    self._step(caller)
                    self.done += 1
        except (OSError, WireError):
            pass  # the server was killed
        except BaseException as error:
            self.problem = error

    def _step(self, caller: Caller) -> None:
        name = f"s{self._random.randrange(4)}"
        stream = self._known.setdefault(name, {"exists": False, "doubt": ""})
        stream["number"] = stream.get("number", 0) + 1
        if not stream["exists"]:
            stream["doubt"] = "create"
            stream["wanted"] = self._random.randrange(1, 10_000)
            caller.create(name, max_msg_size=stream["wanted"] + 100)
            stream.update(exists=True, messages={}, size=stream["wanted"], first=1)
        else:
            stream["doubt"] = what = self._random.choice(
                ["publish"] * 5 + ["update", "update", "purge", "delete"]
            )
            getattr(self, what)(caller, name, stream)
        stream["doubt"] = ""

    def publish(self, caller: Caller, name: str, stream: dict[str, Any]) -> None:
        text = b"%s %d" % (name.encode(), stream["number"])
        stream["wanted"] = text
        answer = caller.publish(f"{name}.a", text)
        stream["messages"][answer["seq"]] = text

    def update(self, caller: Caller, name: str, stream: dict[str, Any]) -> None:
        stream["wanted"] = self._random.randrange(1, 10_000)
        config = {
            "name": name,
            "subjects": [f"{name}.>"],
            "allow_direct": True,
            "max_msg_size": stream["wanted"] + 100,
        }
        answer = caller.ask(f"STREAM.UPDATE.{name}", config)
        assert "error" not in answer, answer
        stream["size"] = stream["wanted"]

    def purge(self, caller: Caller, name: str, stream: dict[str, Any]) -> None:
        answer = caller.ask(f"STREAM.PURGE.{name}")
        assert answer["success"], answer
        stream["messages"] = {}

    def delete(self, caller: Caller, name: str, stream: dict[str, Any]) -> None:
        answer = caller.ask(f"STREAM.DELETE.{name}")
        assert answer["success"], answer
        stream["exists"] = False


def check(caller: Caller, known: dict[str, dict[str, Any]]) -> None:
    """Every stream is as it was told, or as it was asked to be when the server was killed."""
    names = set(caller.ask("STREAM.NAMES")["streams"] or ())
    for name, stream in known.items():
        doubt = stream["doubt"]
        if doubt in ("create", "delete"):
            existed = stream["exists"]
            stream["exists"] = name in names
            if stream["exists"] and not existed:
                stream.update(messages={}, size=stream["wanted"])
        assert (name in names) == stream["exists"], (name, stream)
        stream["doubt"] = ""
        if not stream["exists"]:
            continue
        size = caller.ask(f"STREAM.INFO.{name}")["config"]["max_msg_size"] - 100
        assert size == stream["size"] or (doubt == "update" and size == stream["wanted"])
        stream["size"] = size
        found = {seq: message.payload for seq, message in caller.read(name).items()}
        if doubt == "publish":
            found = {
                seq: text
                for seq, text in found.items()
                if seq in stream["messages"] or text != stream["wanted"]
            }
        elif doubt == "purge" and not found:
            stream["messages"] = {}
        assert found == stream["messages"], (name, doubt)
        stream["messages"] = {seq: message.payload for seq, message in caller.read(name).items()}


def kill_managers(store: Path, kills: int, seed: int) -> None:
    random = Random(seed)
    worlds: list[dict[str, dict[str, Any]]] = [{}]
    with server_on(store) as server:
        for _ in range(kills):
            manager = Manager(server.port, worlds[0], random.getrandbits(32))
            manager.start()
            wanted = random.randint(0, 60)
            while manager.done < wanted and manager.is_alive():
                manager.join(random.random() * 0.004)
            server.kill()
            manager.join(20)
            if manager.problem is not None:
                raise manager.problem
            server.start()
            with Caller(server.port) as caller:
                check(caller, worlds[0])
            assert "cannot be started" not in server.log


def test_a_server_killed_while_streams_come_and_go_has_them_whole_or_not_at_all(tmp_path: Path) -> None:
    kill_managers(tmp_path, 8, seed=5)


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("seed", range(10))
def test_servers_killed_for_long_while_streams_come_and_go(tmp_path: Path, seed: int) -> None:
    kill_managers(tmp_path, 30, seed=100 + seed)
