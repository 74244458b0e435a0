"""Subjects are filled as clients and servers expect them, and no two names are the same by mistake."""

import pytest

from millstream.jetstream.api import find_endpoint
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


# All of nats-server 2.15, below `$JS.API.`
API = """
INFO STREAM.CREATE.* STREAM.UPDATE.* STREAM.NAMES STREAM.LIST STREAM.INFO.* STREAM.DELETE.* STREAM.PURGE.*
STREAM.MSG.GET.* STREAM.MSG.DELETE.* STREAM.SNAPSHOT.* STREAM.RESTORE.* STREAM.LEADER.STEPDOWN.*
STREAM.PEER.REMOVE.* STREAM.PEER.EVACUATE.* STREAM.CANCEL_MOVE.* DIRECT.GET.* DIRECT.GET.*.>
CONSUMER.CREATE.* CONSUMER.CREATE.*.> CONSUMER.DURABLE.CREATE.*.* CONSUMER.NAMES.* CONSUMER.LIST.*
CONSUMER.INFO.*.* CONSUMER.DELETE.*.* CONSUMER.PAUSE.*.* CONSUMER.RESET.*.* CONSUMER.UNPIN.*.*
CONSUMER.MSG.NEXT.*.* CONSUMER.LEADER.STEPDOWN.*.* CONSUMER.PEER.REMOVE.*.* CONSUMER.PEER.EVACUATE.*.*
META.LEADER.STEPDOWN META.RESCUE SERVER.REMOVE SERVER.EVACUATE ACCOUNT.PURGE.* ACCOUNT.STREAM.MOVE.*.*
ACCOUNT.STREAM.CANCEL_MOVE.*.*
"""
OTHERWISE = ("DIRECT.", "CONSUMER.MSG.NEXT.", "META.", "SERVER.", "ACCOUNT.")  # handled by other modules


def test_no_request_of_the_api_is_missing() -> None:
    ours = {
        value for value in vars(names).values() if isinstance(value, str) and value.startswith("$JS.API.")
    }
    assert ours - {names.API_ALL, names.DIRECT_GET_PREFIX} == {f"$JS.API.{each}" for each in API.split()}
    asked = [each for each in API.split() if not each.startswith(OTHERWISE)]
    for pattern in asked:
        subject = f"$JS.API.{pattern}".replace("*", "X").replace(">", "X")
        assert find_endpoint(subject.encode())[0], pattern


def test_types_are_spelt_as_the_schemas_are() -> None:
    assert names.response_type("stream_info") == "io.nats.jetstream.api.v1.stream_info_response"
    assert names.advisory_type("nak") == "io.nats.jetstream.advisory.v1.nak"
    assert names.metric_type("consumer_ack") == "io.nats.jetstream.metric.v1.consumer_ack"
