"""Requests of a mirror or source, and the names of its consumers."""

import json

import pytest

from millstream.base.ids import short_hash
from millstream.golang.time import Time
from millstream.jetstream.sourcing.origin import Asker, Dialect, Origin, OriginKind, OriginStart, index_name
from millstream.jsapi.stream_types import (
    ExternalStream,
    StreamConsumerSource,
    StreamSource,
    SubjectTransformConfig,
)

ASKER = Asker("S", "A")


def make(config: StreamSource, kind: OriginKind = OriginKind.SOURCE, asker: Asker = ASKER) -> Origin:
    return Origin(kind, config, asker, [config])


@pytest.mark.parametrize(
    ("config", "name"),
    [
        (StreamSource(name="O"), "O > >"),
        (StreamSource(name="O", filter_subject="a"), "O a >"),
        (StreamSource(name="O", external=ExternalStream("x")), f"O:{short_hash('x')} > >"),
        (StreamSource(name="O", consumer=StreamConsumerSource("c", "d")), f"O:C={short_hash('c')} > >"),
        (
            StreamSource(
                name="O",
                subject_transforms=[SubjectTransformConfig("a", "b"), SubjectTransformConfig("c", "")],
            ),
            "O a\fc b\f>",
        ),
    ],
)
def test_what_tells_sources_apart(config: StreamSource, name: str) -> None:
    assert index_name(config) == name


def test_an_origin_that_is_listed_twice_gets_consumers_of_different_names() -> None:
    sources = [StreamSource(name="O"), StreamSource(name="O", filter_subject="a"), StreamSource(name="P")]
    names = {Origin(OriginKind.SOURCE, each, ASKER, sources).consumer_name for each in sources}
    assert len(names) == 3
    assert f"JS_SRC_{short_hash(short_hash('S A'))}" in names


@pytest.mark.parametrize("domain", ["", "hub"])
def test_a_mirror_is_called_after_who_asks(domain: str) -> None:
    asker = Asker("S", "A", domain)
    hashed = short_hash(f"S A {domain}".strip())
    assert make(StreamSource(name="O"), OriginKind.MIRROR, asker).consumer_name == f"JS_MIRROR_{hashed}"


@pytest.mark.parametrize(
    ("external", "api", "deliver"),
    [
        (None, "$JS.API.CONSUMER.CREATE.O", "$JS.S."),
        (ExternalStream("x.api"), "x.api.CONSUMER.CREATE.O", "$JS.S."),
        (ExternalStream("x.api.", "d."), "x.api.CONSUMER.CREATE.O", "d.S."),
        (ExternalStream("$JS.other.API"), "$JS.other.API.CONSUMER.CREATE.O", "$JS.S."),
        (ExternalStream("$JS.hub.API"), "$JS.API.CONSUMER.CREATE.O", "$JS.S."),
    ],
)
def test_where_it_asks_and_listens(external: ExternalStream | None, api: str, deliver: str) -> None:
    origin = make(StreamSource(name="O", external=external), asker=Asker("S", "A", "hub"))
    assert origin.request(OriginStart(), "d", Dialect.IDENTITY, "")[0] == api.encode()
    subject = origin.new_deliver_subject()
    assert subject.startswith(deliver)
    assert len(subject) == len(deliver) + 22


@pytest.mark.parametrize(
    ("start", "said"),
    [
        (OriginStart(), {"deliver_policy": "all"}),
        (OriginStart(7), {"deliver_policy": "by_start_sequence", "opt_start_seq": 7}),
        (
            OriginStart(0, Time(0)),
            {"deliver_policy": "by_start_time", "opt_start_time": "1970-01-01T00:00:00Z"},
        ),
    ],
)
def test_where_to_start(start: OriginStart, said: dict[str, object]) -> None:
    _, _, body = make(StreamSource(name="O")).request(start, "d", Dialect.IDENTITY, "")
    config = json.loads(body)["config"]
    assert {key: config[key] for key in config if key in ("deliver_policy", *said)} == said


@pytest.mark.parametrize(
    ("kind", "dialect", "block"),
    [
        (
            OriginKind.SOURCE,
            Dialect.IDENTITY,
            b"NATS/1.0\r\nNats-Required-Api-Level: 5\r\nNats-Stream-Identity: i\r\n\r\n",
        ),
        (OriginKind.SOURCE, Dialect.SOURCING, b"NATS/1.0\r\nNats-Required-Api-Level: 4\r\n\r\n"),
        (OriginKind.MIRROR, Dialect.SOURCING, b"NATS/1.0\r\nNats-Required-Api-Level: 4\r\n\r\n"),
        (OriginKind.MIRROR, Dialect.PLAIN, None),
    ],
)
def test_what_the_other_server_has_to_understand(
    kind: OriginKind, dialect: Dialect, block: bytes | None
) -> None:
    origin = make(StreamSource(name="O"), kind)
    _, said, body = origin.request(OriginStart(), "d", dialect, "i")
    assert said == block
    config = json.loads(body)["config"]
    assert config.get("sourcing", False) == (dialect is not Dialect.PLAIN)
    assert (config["name"] == origin.consumer_name) == (dialect is not Dialect.PLAIN)


def test_a_consumer_that_was_given_is_reset() -> None:
    origin = make(StreamSource(name="O", consumer=StreamConsumerSource("c", "d")))
    subject, _, body = origin.request(OriginStart(5), "x", Dialect.IDENTITY, "")
    assert (subject, body) == (b"$JS.API.CONSUMER.RESET.O.c", b"")
