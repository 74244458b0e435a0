"""Put the scenarios to a server, and keep what nats-server answers.

Run as ``python tests/compat/js_config/consumer_config_recording.py`` to record anew.
"""

import asyncio
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nats
from consumer_config_scenarios import SCENARIOS, SERVERS, SUBSCRIBE, Scenario

from millrace.testing.reference import ServerKind, ServerProcess

GOLDEN = Path(__file__).parents[2] / "golden" / "jetstream" / "consumer_config.json"
_WAIT_S = 10.0


def recorded_answers() -> dict[str, list[dict[str, Any]]]:
    """What nats-server said to each step of each scenario."""
    text = re.sub(r"<(\w)\*(\d+)>", lambda run: run[1] * int(run[2]), GOLDEN.read_text())
    return {
        name: [{key: step[key] for key in ("error", "config") if key in step} for step in recorded["steps"]]
        for name, recorded in json.loads(text).items()
    }


def accounts_of(server: str) -> Iterator[tuple[str, Scenario]]:
    """Which account belongs to which scenario of a server."""
    return ((f"a{index}", each) for index, each in enumerate(SCENARIOS) if each.server == server)


def config_text(server: str) -> str:
    """The configuration file of one of the servers, with an account and a user for every scenario."""
    accounts = [
        f"{account}: {{jetstream: {_block(scenario.account) if scenario.account else 'enabled'},"
        f" users: [{{user: {account}, password: p}}]}}"
        for account, scenario in accounts_of(server)
    ]
    lines = "\n".join(accounts)
    return f"max_payload: 2MB\njetstream: {_block(SERVERS[server])}\naccounts: {{\n{lines}\n}}\n"


def _block(settings: dict[str, Any]) -> str:
    words = (
        f"{key}: {_block(value) if isinstance(value, dict) else str(value).lower()}"
        for key, value in settings.items()
    )
    return "{" + ", ".join(words) + "}"


async def answers(url: str, account: str, scenario: Scenario) -> list[dict[str, Any]]:
    """What the server says to each step: an error or a configuration.  Leaves no stream behind."""
    connection = await nats.connect(url, user=account, password="p", allow_reconnect=False)
    try:
        found = []
        for step in scenario.steps:
            if step.request == SUBSCRIBE:
                await connection.subscribe(step.body)
                await connection.flush()
                found.append({})
                continue
            body = step.body if isinstance(step.body, str) else json.dumps(step.body)
            reply = await connection.request(f"$JS.API.{step.request}", body.encode(), timeout=_WAIT_S)
            told = json.loads(reply.data)
            if step.request.startswith("STREAM."):
                assert "error" not in told, told  # they only set the scene
                found.append({})
                continue
            found.append({key: told[key] for key in ("error", "config") if key in told})
        names = await connection.request("$JS.API.STREAM.NAMES", b"", timeout=_WAIT_S)
        for name in json.loads(names.data)["streams"] or ():
            await connection.request(f"$JS.API.STREAM.DELETE.{name}", b"", timeout=_WAIT_S)
        return found
    finally:
        await connection.close()


async def _record() -> None:
    recorded: dict[str, Any] = {}
    for name in SERVERS:
        with ServerProcess(ServerKind.NATS_SERVER, config=config_text(name), jetstream=True) as server:
            for account, scenario in accounts_of(name):
                told = await answers(server.client_url, account, scenario)
                recorded[scenario.name] = {
                    "server": scenario.server,
                    "account": scenario.account,
                    "steps": [
                        {"request": step.request, "body": step.body, **answer}
                        for step, answer in zip(scenario.steps, told, strict=True)
                    ],
                }
    document = {scenario.name: recorded[scenario.name] for scenario in SCENARIOS}
    GOLDEN.parent.mkdir(exist_ok=True)
    text = json.dumps(document, indent=1) + "\n"
    # What is only there to be long is written as `<v*5000>`.
    GOLDEN.write_text(re.sub(r"(\w)\1{999,}", lambda run: f"<{run[1]}*{len(run[0])}>", text))
    print(f"{len(document)} scenarios, {sum(len(each['steps']) for each in document.values())} requests")


if __name__ == "__main__":
    asyncio.run(_record())
