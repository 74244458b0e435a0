"""Our rules for configurations of consumers give nats-server's answers, all that were recorded."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from millrace.jetstream.consumers.config import (
    ConsumerLimits,
    CreateSubject,
    Form,
    check,
    decorated,
    name_of,
    settle_name,
    settle_sourcing,
)
from millrace.jetstream.options import AccountJetStreamOptions, JetStreamLimits
from millrace.jetstream.stream_config import StreamLimits, check_new
from millrace.jsapi.codec import JsonError, decode_strict, encode
from millrace.jsapi.consumer_types import ConsumerConfig
from millrace.jsapi.errors import ApiError, Err
from millrace.jsapi.requests import CreateConsumerRequest, StreamConfigRequest
from millrace.jsapi.stream_types import StreamConfig

_TEXT = (Path(__file__).parents[3] / "golden" / "jetstream" / "consumer_config.json").read_text()
_GOLDEN: dict[str, Any] = json.loads(
    re.sub(r"<(\w)\*(\d+)>", lambda run: run[1] * int(run[2]), _TEXT)  # what is only there to be long
)
_SERVERS = {
    "plain": JetStreamLimits(),
    "tight": JetStreamLimits(max_ack_pending=500, max_request_batch=50, default_max_consumers=2),
}


def subject_of(verb: str) -> CreateSubject:
    place = verb.removeprefix("CONSUMER.")
    if place.startswith("DURABLE."):
        return CreateSubject.of(Form.DURABLE, place.removeprefix("DURABLE.CREATE."))
    place = place.removeprefix("CREATE.")
    return CreateSubject.of(Form.NAMED if "." in place else Form.EPHEMERAL, place)


class Account:
    """The streams and consumers of one scenario: what the functions under test need to know of the world."""

    def __init__(self, server: str, options: dict[str, Any]) -> None:
        self._limits = ConsumerLimits(account=AccountJetStreamOptions(**options), server=_SERVERS[server])
        self._streams: dict[str, StreamConfig] = {}
        self._consumers: dict[str, dict[str, ConsumerConfig]] = {}
        self._heard: set[str] = set()
        self._made = 0

    def take(self, step: dict[str, Any]) -> dict[str, Any]:
        body = step["body"]
        if step["request"] == "SUBSCRIBE":
            self._heard.add(body)
            return {}
        text = (body if isinstance(body, str) else json.dumps(body)).encode()
        if step["request"].startswith("STREAM."):
            config = decode_strict(text, StreamConfigRequest).config
            self._streams[config.name] = check_new(config.name, config, self._streams, StreamLimits())
            self._consumers[config.name] = {}
            return {}
        return self.answer(step["request"], text)

    def answer(self, verb: str, body: bytes) -> dict[str, Any]:
        try:
            return {"config": json.loads(encode(decorated(self._create(verb, body), "2.15.1")))}
        except JsonError as error:
            return {"error": json.loads(encode(ApiError(Err.INVALID_JSON, err=error).body))}
        except ApiError as error:
            return {"error": json.loads(encode(error.body))}

    def _create(self, verb: str, body: bytes) -> ConsumerConfig:
        request = decode_strict(body, CreateConsumerRequest)
        wanted = settle_name(subject_of(verb), request)
        stream = self._streams.get(request.stream_name)
        if stream is None:
            raise ApiError(Err.STREAM_NOT_FOUND)
        wanted = settle_sourcing(wanted, stream, "x")
        consumers = self._consumers[stream.name]
        old = consumers.get(name_of(wanted))
        config = check(
            wanted,
            stream,
            consumers,
            self._limits,
            action=request.action,
            pedantic=request.pedantic,
            bound=old is not None and old.deliver_subject in self._heard,
        )
        self._made += 1
        consumers[name_of(config) or f"unnamed {self._made}"] = config
        return config


@pytest.mark.parametrize("scenario", _GOLDEN)
def test_gives_the_answers_that_nats_server_gave(scenario: str) -> None:
    recorded = _GOLDEN[scenario]
    account = Account(recorded["server"], recorded["account"])
    for step in recorded["steps"]:
        told = {key: step[key] for key in ("error", "config") if key in step}
        assert account.take(step) == told, step["body"]


def test_enough_was_recorded_to_mean_something() -> None:
    steps = [step for recorded in _GOLDEN.values() for step in recorded["steps"]]
    codes = {step["error"]["err_code"] for step in steps if "error" in step}
    assert len(steps) > 500
    assert len(codes) > 50
