"""Our rules for stream configurations give nats-server's answers, all that were recorded."""

import json
import re
from typing import Any

import pytest

from millstream.jetstream.config.stream import StreamLimits, check_new, check_update, decorated, names_storage
from millstream.jetstream.options import AccountJetStreamOptions
from millstream.jsapi.codec import JsonError, decode_lenient, decode_strict, encode
from millstream.jsapi.consumer_types import ConsumerConfig
from millstream.jsapi.enums import StorageType
from millstream.jsapi.errors import ApiError, Err
from millstream.jsapi.requests import StreamConfigRequest
from millstream.jsapi.stream_types import StreamConfig
from tests.kits.paths import GOLDEN

_TEXT = (GOLDEN / "jetstream_config" / "stream_config.json").read_text()
_GOLDEN: dict[str, Any] = json.loads(
    re.sub(r"<(\w)\*(\d+)>", lambda run: run[1] * int(run[2]), _TEXT)  # what is only there to be long
)
_MEGABYTE = 2**20
_SERVERS = {
    "plain": {"max_memory": 1024 * _MEGABYTE, "max_store": 4096 * _MEGABYTE},
    "tight": {"max_memory": _MEGABYTE, "max_store": _MEGABYTE, "duplicate_window": 60 * 10**9},
}


class Account:
    """The streams of one scenario: what the functions under test need to know of the world."""

    def __init__(self, server: str, options: dict[str, Any]) -> None:
        self._server = _SERVERS[server]
        self._options = AccountJetStreamOptions(**options)
        self._streams: dict[str, StreamConfig] = {}
        self._consumers: dict[str, ConsumerConfig] = {}

    def answer(self, request: str, body: bytes) -> dict[str, Any]:
        _, action, name = request.split(".")
        try:
            asked = decode_strict(body, StreamConfigRequest)
            arguments = (name, asked.config, self._streams, self._limits())
            if action == "CREATE":
                config = check_new(*arguments, pedantic=asked.pedantic, storage_named=names_storage(body))
            else:
                config = check_update(*arguments, pedantic=asked.pedantic, consumers=self._consumers)
        except JsonError as error:
            return {"error": json.loads(encode(ApiError(Err.INVALID_JSON, err=error).body))}
        except ApiError as error:
            return {"error": json.loads(encode(error.body))}
        self._streams[name] = config
        return {"config": json.loads(encode(decorated(config, "2.15.1")))}

    def add_consumer(self, config: dict[str, Any]) -> None:
        self._consumers[config["name"]] = decode_lenient(json.dumps(config).encode(), ConsumerConfig)

    def _limits(self) -> StreamLimits:
        return StreamLimits(
            account=self._options,
            reserved_memory=self._reserved(StorageType.MEMORY),
            reserved_store=self._reserved(StorageType.FILE),
            **self._server,
        )

    def _reserved(self, storage: StorageType) -> int:
        return sum(max(each.max_bytes, 0) for each in self._streams.values() if each.storage is storage)


@pytest.mark.parametrize("scenario", _GOLDEN)
def test_gives_the_answers_that_nats_server_gave(scenario: str) -> None:
    recorded = _GOLDEN[scenario]
    account = Account(recorded["server"], recorded["account"])
    for step in recorded["steps"]:
        if step["request"].startswith("CONSUMER."):
            account.add_consumer(step["config"])
            continue
        body = step["body"]
        text = body if isinstance(body, str) else json.dumps(body)
        told = {key: step[key] for key in ("error", "config") if key in step}
        assert account.answer(step["request"], text.encode()) == told, body


def test_enough_was_recorded_to_mean_something() -> None:
    steps = [step for recorded in _GOLDEN.values() for step in recorded["steps"]]
    codes = {step["error"]["err_code"] for step in steps if "error" in step}
    assert len(steps) > 400
    assert len(codes) > 35
