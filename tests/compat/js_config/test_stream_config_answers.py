"""Requests to create and update streams are answered as nats-server answered when it was recorded."""

import pytest
from compat_kit import ServerFactory
from stream_config_recording import accounts_of, answers, config_text, recorded_answers
from stream_config_scenarios import SCENARIOS, SERVERS, Scenario

_RECORDED = recorded_answers()
_CASES = [
    pytest.param(account, scenario, id=scenario.name)
    for server in SERVERS
    for account, scenario in accounts_of(server)
]


def test_the_recording_is_of_these_scenarios() -> None:
    assert {each.name: len(each.steps) for each in SCENARIOS} == {
        name: len(steps) for name, steps in _RECORDED.items()
    }


@pytest.mark.parametrize(("account", "scenario"), _CASES)
async def test_answers_as_recorded(shared_server: ServerFactory, account: str, scenario: Scenario) -> None:
    server = shared_server(config=config_text(scenario.server), jetstream=True)
    assert await answers(server.client_url, account, scenario) == _RECORDED[scenario.name]
