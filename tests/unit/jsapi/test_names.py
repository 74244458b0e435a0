"""Subjects are filled as clients and servers expect them, and no two names are the same by mistake."""

import pytest

from millstream.jsapi import headers, names


@pytest.mark.parametrize(
    ("pattern", "tokens", "subject"),
    [
        (names.ACCOUNT_INFO, (), "$JS.API.INFO"),
        (names.STREAM_CREATE, ("S",), "$JS.API.STREAM.CREATE.S"),
        (names.CONSUMER_INFO, ("S", "c"), "$JS.API.CONSUMER.INFO.S.c"),
        (names.CONSUMER_CREATE_FILTERED, ("S", "c"), "$JS.API.CONSUMER.CREATE.S.c"),
        (names.CONSUMER_CREATE_FILTERED, ("S", "c", "a.*.>"), "$JS.API.CONSUMER.CREATE.S.c.a.*.>"),
        (names.DIRECT_GET_LAST, ("S", "a.b"), "$JS.API.DIRECT.GET.S.a.b"),
        (names.ADVISORY_STREAM_CREATED, ("S",), "$JS.EVENT.ADVISORY.STREAM.CREATED.S"),
    ],
)
def test_wildcards_are_replaced_in_turn(pattern: str, tokens: tuple[str, ...], subject: str) -> None:
    assert names.fill(pattern, *tokens) == subject


@pytest.mark.parametrize("tokens", [("S", "c"), ("",)])
def test_wrong_tokens_are_refused(tokens: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match="can not be filled"):
        names.fill(names.STREAM_CREATE, *tokens)


def test_missing_token_is_refused() -> None:
    with pytest.raises(IndexError):
        names.fill(names.STREAM_CREATE)


def test_subjects_of_a_domain_stand_for_plain_ones() -> None:
    mappings = names.domain_mappings("hub")
    assert mappings["$JS.hub.API.INFO"] == "$JS.API.INFO"
    assert mappings["$JS.hub.API.STREAM.>"] == "$JS.API.STREAM.>"
    assert mappings["$JS.hub.API.$KV.>"] == "$KV.>"
    assert len(mappings) == 9


@pytest.mark.parametrize("module", [names, headers])
def test_names_are_distinct(module: object) -> None:
    # Rollups, markers and batches have values that may coincide with others; names of things may not.
    constants = [
        value
        for name, value in vars(module).items()
        if name.isupper() and isinstance(value, str) and value.startswith(("$JS", "Nats-", "_nats"))
    ]
    allowed = {headers.SCHEDULE}  # is the prefix of its family, too
    repeated = {value for value in constants if constants.count(value) > 1}
    assert repeated <= allowed


def test_types_are_spelt_as_the_schemas_are() -> None:
    assert names.response_type("stream_info") == "io.nats.jetstream.api.v1.stream_info_response"
    assert names.advisory_type("nak") == "io.nats.jetstream.advisory.v1.nak"
    assert names.metric_type("consumer_ack") == "io.nats.jetstream.metric.v1.consumer_ack"
