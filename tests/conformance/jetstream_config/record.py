"""Have nats-server answer all scenarios of all suites, and keep its answers.  Run it with Python."""

import asyncio
from typing import Any

from tests.kits.conformance.config_suite import Suite
from tests.kits.conformance.consumer_configs import CONSUMER_CONFIG
from tests.kits.conformance.stream_configs import STREAM_CONFIG
from tests.kits.reference import ServerKind, ServerProcess


async def record(suite: Suite) -> None:
    recorded: dict[str, Any] = {}
    for name in suite.servers:
        with ServerProcess(ServerKind.NATS_SERVER, config=suite.config_text(name), jetstream=True) as server:
            for account, scenario in suite.accounts_of(name):
                told = await suite.answers(server.client_url, account, scenario)
                recorded[scenario.name] = {
                    "server": scenario.server,
                    "account": scenario.account,
                    "steps": [
                        {"request": step.request, "body": step.body, **answer}
                        for step, answer in zip(scenario.steps, told, strict=True)
                    ],
                }
    document = {scenario.name: recorded[scenario.name] for scenario in suite.scenarios}
    suite.record(document)
    requests = sum(len(each["steps"]) for each in document.values())
    print(f"{suite.name}: {len(document)} scenarios, {requests} requests")


if __name__ == "__main__":
    for each in (STREAM_CONFIG, CONSUMER_CONFIG):
        asyncio.run(record(each))
