"""Requests to create and update streams are answered as nats-server answered when it was recorded."""

import pytest

from tests.kits.conformance.clients import ServerFactory
from tests.kits.conformance.config_suite import Scenario
from tests.kits.conformance.stream_configs import STREAM_CONFIG

_RECORDED = STREAM_CONFIG.recorded()
_CASES = [
    pytest.param(account, scenario, id=scenario.name)
    for server in STREAM_CONFIG.servers
    for account, scenario in STREAM_CONFIG.accounts_of(server)
]


def test_the_recording_is_of_these_scenarios() -> None:
    assert {each.name: len(each.steps) for each in STREAM_CONFIG.scenarios} == {
        name: len(steps) for name, steps in _RECORDED.items()
    }


@pytest.mark.parametrize(("account", "scenario"), _CASES)
async def test_answers_as_recorded(shared_server: ServerFactory, account: str, scenario: Scenario) -> None:
    server = shared_server(config=STREAM_CONFIG.config_text(scenario.server), jetstream=True)
    assert await STREAM_CONFIG.answers(server.client_url, account, scenario) == _RECORDED[scenario.name]
