"""Deleting, pausing, resetting and unpinning consumers by request."""

from typing import Any

import pytest

from tests.kits.conformance.clients import eventually
from tests.kits.conformance.consumers import FUTURE, NEVER, PAST, SECOND, Client, soon

PAUSE = "io.nats.jetstream.api.v1.consumer_pause_response"


def test_a_deleted_consumer_is_gone(js: Client) -> None:
    js.stream()
    js.create()
    assert js.answer("CONSUMER.DELETE.S.c").json == {
        "type": "io.nats.jetstream.api.v1.consumer_delete_response",
        "success": True,
    }
    assert js.ask("CONSUMER.NAMES.S")["consumers"] == []
    assert js.refusal("CONSUMER.DELETE.S.c") == (10014, "consumer not found")
    assert js.create(deliver_policy="new")["delivered"]["stream_seq"] == 0  # another of the same name


def test_who_waits_for_a_deleted_consumer_is_told(js: Client) -> None:
    js.stream()
    js.create()
    pulled = js.fetch(expires=60 * SECOND)
    eventually(lambda: js.info()["num_waiting"] == 1, "a request that waits")
    js.ask("CONSUMER.DELETE.S.c")
    assert pulled.next().block == b"NATS/1.0 409 Consumer Deleted\r\n\r\n"


@pytest.mark.parametrize("body", ["", "{}", "x", {"pause_until": None}, {"pause_until": NEVER}], ids=str)
def test_a_pause_ends_on_request(js: Client, body: Any) -> None:
    js.stream()
    js.create(pause_until=FUTURE)
    assert js.answer("CONSUMER.PAUSE.S.c", body).json == {
        "type": PAUSE,
        "paused": False,
        "pause_until": NEVER,
    }
    info = js.info()
    assert "paused" not in info
    assert "pause_until" not in info["config"]
    assert info["config"]["metadata"]["_nats.req.level"] == "0"


def test_a_pause_is_told_in_universal_time(js: Client) -> None:
    js.stream()
    js.create()
    told = js.ask("CONSUMER.PAUSE.S.c", {"pause_until": "2100-01-01T01:00:00+01:00"})
    assert list(told) == ["type", "paused", "pause_until", "pause_remaining"]
    assert told["paused"] is True
    assert told["pause_until"] == FUTURE
    info = js.info()
    assert info["paused"] is True
    assert told["pause_remaining"] - info["pause_remaining"] < 60 * SECOND
    assert info["config"]["pause_until"] == FUTURE
    assert info["config"]["metadata"]["_nats.req.level"] == "1"


def test_a_pause_that_is_over_is_none(js: Client) -> None:
    js.stream()
    js.create(pause_until=FUTURE)
    assert js.answer("CONSUMER.PAUSE.S.c", {"pause_until": PAST}).json == {
        "type": PAUSE,
        "paused": False,
        "pause_until": PAST,
    }
    info = js.info()
    assert "paused" not in info
    assert info["config"]["pause_until"] == PAST


def test_a_paused_consumer_delivers_nothing_until_it_is_resumed(js: Client) -> None:
    js.stream()
    js.create(pause_until=FUTURE)
    js.publish("s.1")
    pulled = js.fetch(expires=60 * SECOND)
    js.info()
    assert pulled.rest() == []
    js.ask("CONSUMER.PAUSE.S.c")
    js.fetch(expires=60 * SECOND)  # nats-server goes on when something happens
    assert pulled.next().subject == "s.1"


def test_a_pause_ends_by_itself(js: Client) -> None:
    js.stream()
    js.publish("s.1")
    until = soon(js.create()["ts"])
    assert js.ask("CONSUMER.PAUSE.S.c", {"pause_until": until})["paused"] is True
    assert js.fetch(expires=60 * SECOND).next().subject == "s.1"


# -- reset -----------------------------------------------------------------------------------------------


def test_a_reset_begins_anew_at_the_sequence(js: Client) -> None:
    js.stream()
    js.publish("s.1", "s.2", "s.3", "s.4")
    js.create(ack_policy="explicit")
    for _ in range(3):
        js.fetch().next()
    told = js.ask("CONSUMER.RESET.S.c", {"seq": 2})
    assert told["type"] == "io.nats.jetstream.api.v1.consumer_reset_response"
    assert list(told)[-1] == "reset_seq"
    assert told["reset_seq"] == 2
    # What was delivered before is forgotten.
    assert (told["delivered"]["consumer_seq"], told["delivered"]["stream_seq"]) == (0, 1)
    assert (told["ack_floor"]["consumer_seq"], told["ack_floor"]["stream_seq"]) == (0, 1)
    assert (told["num_ack_pending"], told["num_pending"]) == (0, 3)
    message = js.fetch().next()
    assert message.subject == "s.2"
    assert message.reply.split(".")[4:7] == ["1", "2", "1"]


@pytest.mark.parametrize("body", ["", "{}", "null", '{"seq":0}', '{"z":1}'])
def test_a_reset_without_sequence_goes_back_to_the_floor(js: Client, body: str) -> None:
    js.stream()
    js.publish("s.1", "s.2", "s.3")
    js.create(ack_policy="explicit")
    js.request(js.fetch().next().reply, b"+ACK")
    js.fetch().next()
    assert js.ask("CONSUMER.RESET.S.c", body)["reset_seq"] == 2
    assert js.fetch().next().subject == "s.2"


@pytest.mark.parametrize(
    ("config", "seq", "refusal"),
    [
        ({"deliver_policy": "all"}, 1, None),
        ({"deliver_policy": "all"}, 100, None),
        ({"deliver_policy": "by_start_sequence", "opt_start_seq": 2}, 2, None),
        ({"deliver_policy": "by_start_sequence", "opt_start_seq": 2}, 1, "below start seq"),
        ({"deliver_policy": "by_start_time", "opt_start_time": PAST}, 1, None),
        ({"deliver_policy": "by_start_time", "opt_start_time": FUTURE}, 1, "below start time"),
        ({"deliver_policy": "new"}, 1, "not allowed"),
        ({"deliver_policy": "last"}, 1, "not allowed"),
        ({"deliver_policy": "last_per_subject", "filter_subject": "s.>"}, 1, "not allowed"),
    ],
    ids=str,
)
def test_where_a_reset_may_go(js: Client, config: dict[str, Any], seq: int, refusal: str | None) -> None:
    js.stream()
    js.publish("s.1", "s.2", "s.3")
    js.create(**config)
    if refusal is None:
        assert js.ask("CONSUMER.RESET.S.c", {"seq": seq})["reset_seq"] == seq
        return
    told = js.answer("CONSUMER.RESET.S.c", {"seq": seq}).json
    assert told == {
        "type": "io.nats.jetstream.api.v1.consumer_reset_response",
        "error": {"code": 400, "err_code": 10204, "description": f"invalid reset: {refusal}"},
        "reset_seq": 0,
    }
    assert "error" not in js.answer("CONSUMER.RESET.S.c").json


# -- unpin -----------------------------------------------------------------------------------------------


def test_unpinning_lets_another_client_have_it(js: Client) -> None:
    js.stream()
    js.publish("s.1", "s.2", "s.3")
    js.create(priority_policy="pinned_client", priority_groups=["A"], ack_policy="explicit")
    first = js.fetch(group="A").next().headers["Nats-Pin-Id"]
    state = js.info()["priority_groups"]
    assert [(each["group"], each["pinned_client_id"]) for each in state] == [("A", first)]
    standby = js.fetch(group="A", expires=60 * SECOND)
    js.info()
    assert standby.rest() == []
    assert js.answer("CONSUMER.UNPIN.S.c", {"group": "A", "z": 1}).json == {
        "type": "io.nats.jetstream.api.v1.consumer_unpin_response"
    }
    assert standby.next().headers["Nats-Pin-Id"] not in ("", first)


@pytest.mark.parametrize(
    ("config", "group", "refusal"),
    [
        ({"priority_policy": "overflow", "priority_groups": ["A"]}, "A", None),
        ({"priority_policy": "pinned_client", "priority_groups": ["A", "B"]}, "B", None),
        (
            {"priority_policy": "pinned_client", "priority_groups": ["A"]},
            "B",
            (10160, "Provided priority group does not exist for this consumer"),
        ),
        ({}, "A", (10160, "Provided priority group does not exist for this consumer")),
        (
            {},
            "a b",
            (
                10162,
                "Valid priority group name must match A-Z, a-z, 0-9, -_/=)+ and may not exceed 16 characters",
            ),
        ),
    ],
    ids=str,
)
def test_which_groups_can_be_unpinned(
    js: Client, config: dict[str, Any], group: str, refusal: tuple[int, str] | None
) -> None:
    js.stream()
    js.create(**config)
    if refusal is None:
        js.ask("CONSUMER.UNPIN.S.c", {"group": group})
    else:
        assert js.refusal("CONSUMER.UNPIN.S.c", {"group": group}) == refusal
