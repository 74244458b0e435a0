"""Our rules for configurations of consumers give nats-server's answers, all that were recorded."""

import json
import re
from typing import Any

import pytest

from millstream.jetstream.options import AccountJetStreamOptions, JetStreamLimits
from tests.kits.consumer_rules import ConsumerRules
from tests.kits.paths import GOLDEN

_TEXT = (GOLDEN / "jetstream_config" / "consumer_config.json").read_text()
_GOLDEN: dict[str, Any] = json.loads(
    re.sub(r"<(\w)\*(\d+)>", lambda run: run[1] * int(run[2]), _TEXT)  # what is only there to be long
)
_SERVERS = {
    "plain": JetStreamLimits(),
    "tight": JetStreamLimits(max_ack_pending=500, max_request_batch=50, default_max_consumers=2),
}


def take(rules: ConsumerRules, step: dict[str, Any]) -> dict[str, Any]:
    request, body = step["request"], step["body"]
    if request == "SUBSCRIBE":
        rules.heard.add(body)
        return {}
    text = (body if isinstance(body, str) else json.dumps(body)).encode()
    if request.startswith("STREAM."):
        rules.add_stream(text)
        return {}
    return rules.answer(request, text)


@pytest.mark.parametrize("scenario", _GOLDEN)
def test_gives_the_answers_that_nats_server_gave(scenario: str) -> None:
    recorded = _GOLDEN[scenario]
    rules = ConsumerRules(AccountJetStreamOptions(**recorded["account"]), _SERVERS[recorded["server"]])
    for step in recorded["steps"]:
        told = {key: step[key] for key in ("error", "config") if key in step}
        assert take(rules, step) == told, step["body"]


def test_enough_was_recorded_to_mean_something() -> None:
    steps = [step for recorded in _GOLDEN.values() for step in recorded["steps"]]
    codes = {step["error"]["err_code"] for step in steps if "error" in step}
    assert len(steps) > 500
    assert len(codes) > 50
