"""The rules for configurations of streams and consumers, with a server's API but without a server.

    rules = ConsumerRules()
    rules.add_stream(b'{"name": "S", "subjects": ["s.>"]}')
    rules.answer("CONSUMER.CREATE.S.c", b'{"stream_name": "S", "config": {}}')    # {"config": {...}}

The result is the `config` or `error` of a server's response.
"""

import json
from typing import Any

from millstream.jetstream.config.stream import StreamLimits, check_new
from millstream.jetstream.consumers.config import (
    ConsumerLimits,
    CreateSubject,
    Form,
    check,
    decorated,
    name_of,
    settle_name,
    settle_sourcing,
)
from millstream.jetstream.options import AccountJetStreamOptions, JetStreamLimits
from millstream.jsapi.codec import JsonError, decode_strict, encode
from millstream.jsapi.consumer_types import ConsumerConfig
from millstream.jsapi.errors import ApiError, Err
from millstream.jsapi.requests import CreateConsumerRequest, StreamConfigRequest
from millstream.jsapi.stream_types import StreamConfig

_VERSION = "2.15.1"


class ConsumerRules:
    """The streams and consumers of one account, as far as the rules depend on them."""

    def __init__(
        self, account: AccountJetStreamOptions | None = None, server: JetStreamLimits | None = None
    ) -> None:
        self._limits = ConsumerLimits(
            account=account or AccountJetStreamOptions(), server=server or JetStreamLimits()
        )
        self._streams: dict[str, StreamConfig] = {}
        self._consumers: dict[str, dict[str, ConsumerConfig]] = {}
        self._made = 0
        self.heard: set[str] = set()  # subjects with a subscriber

    def add_stream(self, body: bytes) -> None:
        config = decode_strict(body, StreamConfigRequest).config
        self._streams[config.name] = check_new(config.name, config, self._streams, StreamLimits())
        self._consumers[config.name] = {}

    def answer(self, verb: str, body: bytes) -> dict[str, Any]:
        """Create or update a consumer; return the response's `config` or `error`."""
        try:
            return {"config": json.loads(encode(decorated(self._create(verb, body), _VERSION)))}
        except JsonError as error:
            return {"error": json.loads(encode(ApiError(Err.INVALID_JSON, err=error).body))}
        except ApiError as error:
            return {"error": json.loads(encode(error.body))}

    def _create(self, verb: str, body: bytes) -> ConsumerConfig:
        request = decode_strict(body, CreateConsumerRequest)
        wanted = settle_name(_subject(verb), request)
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
            bound=old is not None and old.deliver_subject in self.heard,
        )
        self._made += 1
        consumers[name_of(config) or f"unnamed {self._made}"] = config
        return config


def _subject(verb: str) -> CreateSubject:
    place = verb.removeprefix("CONSUMER.")
    if place.startswith("DURABLE."):
        return CreateSubject.of(Form.DURABLE, place.removeprefix("DURABLE.CREATE."))
    place = place.removeprefix("CREATE.")
    return CreateSubject.of(Form.NAMED if "." in place else Form.EPHEMERAL, place)
