"""Requests to create and update consumers, at random: a server answers as our rules do."""

import json
import random
from typing import Any

import nats
import pytest

from millstream.jetstream.options import JetStreamLimits
from tests.kits.conformance.clients import ServerFactory
from tests.kits.consumer_rules import ConsumerRules
from tests.kits.patience import PATIENCE_S

_SECOND = 10**9
_REQUESTS = 15  # about one stream
_CONFIG = """
jetstream: {max_mem: 1GB, max_file: 1GB, limits: {max_ack_pending: 1500, max_request_batch: 50}}
"""
_LIMITS = JetStreamLimits(max_ack_pending=1500, max_request_batch=50)
_STREAMS: list[dict[str, Any]] = [
    {},
    {"retention": "workqueue"},
    {"retention": "interest"},
    {"consumer_limits": {"max_ack_pending": 50, "inactive_threshold": 100 * _SECOND}},
    {"max_consumers": 2},
    {"storage": "memory"},
]
# None leaves the field as if it were not there.
_VALUES: dict[str, list[Any]] = {
    "description": [None, "x", "d" * 4097],
    "deliver_policy": [
        "all",
        "last",
        "new",
        "by_start_sequence",
        "by_start_time",
        "last_per_subject",
        "undefined",
    ],
    "opt_start_seq": [0, 1, 5],
    "opt_start_time": [None, "2020-01-01T00:00:00Z", "2020-01-01T02:00:00+02:00"],
    "ack_policy": ["none", "all", "explicit", "explicit", "explicit", "flow_control"],
    "ack_wait": [0, -1, 5, 30 * _SECOND],
    "max_deliver": [0, -1, -2, 1, 2, 5],
    "backoff": [None, [_SECOND], [_SECOND, 2 * _SECOND], [-1], [0, 0, 0]],
    "filter_subject": [None, "s.a", "s.*", "s.>", "s..a", "x.y", "s.b.c"],
    "filter_subjects": [None, ["s.a"], ["s.a", "s.b"], ["s.*", "s.a"], [""], ["s..b"], ["s.c.*", "s.*.d"]],
    "replay_policy": ["instant", "original"],
    "rate_limit_bps": [0, 100],
    "sample_freq": [None, "5", "5%", "x", "-1", "+3%"],
    "max_waiting": [0, -1, 5, 512],
    "max_ack_pending": [0, -1, -5, 5, 100, 2000],
    "flow_control": [True, False],
    "headers_only": [True, False],
    "max_batch": [0, -1, 5, 100],
    "max_expires": [0, -1, 5, _SECOND],
    "max_bytes": [0, -1, 5],
    "deliver_subject": [None, "d.x", "d.x", "d.y", "s.x", "d.*", "d..x"],
    "deliver_group": [None, "g"],
    "idle_heartbeat": [0, -1, 5, _SECOND, 2 * _SECOND],
    "inactive_threshold": [0, -1, 60 * _SECOND, 3600 * _SECOND],
    "num_replicas": [0, 1, 2, -1],
    "mem_storage": [True, False],
    "metadata": [None, {"a": "b"}, {"_nats.ver": "1", "_nats.req.level": "5"}],
    "pause_until": [None, "2100-01-01T00:00:00Z", "2100-01-01T02:00:00+02:00", "0001-01-01T00:00:00Z"],
    "priority_policy": ["none", "overflow", "pinned_client", "prioritized"],
    "priority_groups": [None, ["A"], ["A", "B"], [""], ["a b"]],
    "priority_timeout": [0, -1, _SECOND],
}


class Requests:
    """One after the other, each mostly a small change to one that was accepted."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._accepted: dict[str, Any] = {}

    def stream(self) -> dict[str, Any]:
        return self._random.choice(_STREAMS)

    def next(self, stream: str) -> tuple[str, dict[str, Any]]:
        pick = self._random
        name = pick.choice("abc")
        config = dict(self._accepted) if pick.random() < 0.7 else {}
        for field in pick.sample(sorted(_VALUES), pick.choice((0, 1, 1, 2, 2, 3, 5))):
            config[field] = pick.choice(_VALUES[field])
        flag = pick.choice((None, None, None, "direct", "sourcing"))
        if flag is not None:
            config[flag] = True
        verb = f"CONSUMER.CREATE.{stream}.{name}"
        match pick.choice(
            ("named", "named", "durable", "durable", "old durable", "old ephemeral", "filtered")
        ):
            case "durable":
                config["durable_name"] = name
            case "old durable":
                config["durable_name"] = name
                verb = f"CONSUMER.DURABLE.CREATE.{stream}.{name}"
            case "old ephemeral":
                verb = f"CONSUMER.CREATE.{stream}"
            case "filtered":
                verb += f".{pick.choice(('s.a', 's.*'))}"
        body: dict[str, Any] = {"stream_name": stream, "config": config}
        if pick.random() < 0.3:
            body["action"] = pick.choice(("create", "update", ""))
        if pick.random() < 0.2:
            body["pedantic"] = True
        return verb, body

    def accepted(self, config: dict[str, Any]) -> None:
        self._accepted = {
            field: value
            for field, value in config.items()
            if field not in ("durable_name", "direct", "sourcing")
        }


@pytest.mark.parametrize("seed", range(40))
async def test_answers_as_the_rules_do(shared_server: ServerFactory, seed: int) -> None:
    server = shared_server(config=_CONFIG, jetstream=True)
    connection = await nats.connect(server.client_url, allow_reconnect=False)
    requests = Requests(seed)
    rules = ConsumerRules(server=_LIMITS)
    stream = f"S{seed}"
    past = []
    try:
        made = json.dumps({"name": stream, "subjects": ["s.>"], **requests.stream()}).encode()
        reply = await connection.request(f"$JS.API.STREAM.CREATE.{stream}", made, timeout=PATIENCE_S)
        assert b'"error"' not in reply.data, reply.data
        rules.add_stream(made)
        for _ in range(_REQUESTS):
            verb, body = requests.next(stream)
            past.append((verb, body))
            text = json.dumps(body).encode()
            reply = await connection.request(f"$JS.API.{verb}", text, timeout=PATIENCE_S)
            told = {key: value for key, value in json.loads(reply.data).items() if key in ("error", "config")}
            assert told == rules.answer(verb, text), past
            if "config" in told:
                requests.accepted(body["config"])
    finally:
        await connection.request(f"$JS.API.STREAM.DELETE.{stream}", b"", timeout=PATIENCE_S)
        await connection.close()
