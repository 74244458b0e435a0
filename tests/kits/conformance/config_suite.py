"""Requests about configurations, put to a server one scenario after the other, and what nats-server answered.

A scenario has an account of its own, which may have limits, on one of the suite's servers.  What nats-server
answered is in `tests/golden/jetstream_config`, in a file named as the suite.
`python -m tests.conformance.jetstream_config.record` records it again.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import nats
from nats.aio.client import Client

from tests.kits.paths import GOLDEN
from tests.kits.patience import PATIENCE_S

SUBSCRIBE: Final = "SUBSCRIBE"  # a step that is no request: somebody listens to the subject that is its body
PLAIN: Final = "plain"
TIGHT: Final = "tight"

_GOLDEN: Final = GOLDEN / "jetstream_config"

Answer = dict[str, Any]  # an error, a configuration, or neither


@dataclass(frozen=True)
class Step:
    """One request below ``$JS.API.``; a body that is text is sent as it is."""

    request: str
    body: Any


@dataclass(frozen=True)
class Scenario:
    name: str
    steps: list[Step]
    server: str = PLAIN
    account: dict[str, int | bool] = field(default_factory=dict)


@dataclass(frozen=True)
class Suite:
    name: str
    servers: dict[str, dict[str, Any]]  # their JetStream blocks, by name
    scenarios: list[Scenario]
    scenery: tuple[str, ...] = ()  # how requests begin that must succeed and whose answers are not compared

    @property
    def golden(self) -> Path:
        return _GOLDEN / f"{self.name}.json"

    def recorded(self) -> dict[str, list[Answer]]:
        """Return the recorded answers of nats-server to each step of each scenario."""
        text = re.sub(r"<(\w)\*(\d+)>", lambda run: run[1] * int(run[2]), self.golden.read_text())
        return {name: [_compared(step) for step in told["steps"]] for name, told in json.loads(text).items()}

    def record(self, document: dict[str, Any]) -> None:
        text = json.dumps(document, indent=1) + "\n"
        # What is only there to be long is written as `<v*5000>`.
        self.golden.write_text(re.sub(r"(\w)\1{999,}", lambda run: f"<{run[1]}*{len(run[0])}>", text))

    def accounts_of(self, server: str) -> Iterator[tuple[str, Scenario]]:
        """Yield the account of each scenario of a server."""
        return ((f"a{index}", each) for index, each in enumerate(self.scenarios) if each.server == server)

    def config_text(self, server: str) -> str:
        """The configuration file of one of the servers, with an account and a user for every scenario."""
        accounts = [
            f"{account}: {{jetstream: {_block(scenario.account) if scenario.account else 'enabled'},"
            f" users: [{{user: {account}, password: p}}]}}"
            for account, scenario in self.accounts_of(server)
        ]
        lines = "\n".join(accounts)
        jetstream = _block(self.servers[server])
        # A busy machine may take longer to log in than the 2 s that servers wait.
        patience = "authorization: {timeout: 30}"
        return f"max_payload: 2MB\njetstream: {jetstream}\n{patience}\naccounts: {{\n{lines}\n}}\n"

    async def answers(self, url: str, account: str, scenario: Scenario) -> list[Answer]:
        """Return the server's answer to each step; leaves no stream behind."""
        connection = await nats.connect(url, user=account, password="p", allow_reconnect=False)
        try:
            found = [await self._answer(connection, step) for step in scenario.steps]
            names = await connection.request("$JS.API.STREAM.NAMES", b"", timeout=PATIENCE_S)
            for name in json.loads(names.data)["streams"] or ():
                await connection.request(f"$JS.API.STREAM.DELETE.{name}", b"", timeout=PATIENCE_S)
            return found
        finally:
            await connection.close()

    async def _answer(self, connection: Client, step: Step) -> Answer:
        if step.request == SUBSCRIBE:
            await connection.subscribe(step.body)
            await connection.flush()
            return {}
        body = step.body if isinstance(step.body, str) else json.dumps(step.body)
        reply = await connection.request(f"$JS.API.{step.request}", body.encode(), timeout=PATIENCE_S)
        told = json.loads(reply.data)
        if step.request.startswith(self.scenery):
            assert "error" not in told, told
            return {}
        return _compared(told)


def _compared(told: dict[str, Any]) -> Answer:
    return {key: told[key] for key in ("error", "config") if key in told}


def _block(settings: dict[str, Any]) -> str:
    words = (
        f"{key}: {_block(value) if isinstance(value, dict) else str(value).lower()}"
        for key, value in settings.items()
    )
    return "{" + ", ".join(words) + "}"
