"""Requests to create and update consumers are answered as nats-server answered when it was recorded."""

import pytest

from tests.kits.conformance.clients import ServerFactory
from tests.kits.conformance.config_suite import Scenario
from tests.kits.conformance.consumer_configs import CONSUMER_CONFIG
from tests.kits.reference import ServerKind

_RECORDED = CONSUMER_CONFIG.recorded()
_CASES = [
    pytest.param(account, scenario, id=scenario.name)
    for server in CONSUMER_CONFIG.servers
    for account, scenario in CONSUMER_CONFIG.accounts_of(server)
]


def test_the_recording_is_of_these_consumer_scenarios(server_kind: ServerKind) -> None:
    assert {each.name: len(each.steps) for each in CONSUMER_CONFIG.scenarios} == {
        name: len(steps) for name, steps in _RECORDED.items()
    }


@pytest.mark.parametrize(("account", "scenario"), _CASES)
async def test_answers_consumer_requests_as_recorded(
    shared_server: ServerFactory, account: str, scenario: Scenario
) -> None:
    server = shared_server(config=CONSUMER_CONFIG.config_text(scenario.server), jetstream=True)
    assert await CONSUMER_CONFIG.answers(server.client_url, account, scenario) == _RECORDED[scenario.name]
