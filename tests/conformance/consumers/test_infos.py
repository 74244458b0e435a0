"""Documents about consumers: info, list, names, and the answer to create."""

import re
from typing import Any

import pytest

from tests.kits.conformance.clients import eventually
from tests.kits.conformance.consumers import FUTURE, SECOND, Client

FIELDS = [
    "stream_name",
    "name",
    "created",
    "config",
    "delivered",
    "ack_floor",
    "num_ack_pending",
    "num_redelivered",
    "num_waiting",
    "num_pending",
    "ts",
]
STORED = {"_nats.req.level": "0"}
SHOWN = {"_nats.level": "5", "_nats.req.level": "0", "_nats.ver": "2.15.1"}
TIME = re.compile(r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?Z")


def untimed(info: dict[str, Any]) -> dict[str, Any]:
    assert TIME.fullmatch(info["ts"])
    return {key: value for key, value in info.items() if key not in ("ts", "type")}


def test_a_new_consumer_has_all_fields_in_order(js: Client) -> None:
    js.stream()
    told = js.create()
    assert list(told) == ["type", *FIELDS]
    assert told["stream_name"] == "S"
    assert told["name"] == "c"
    assert TIME.fullmatch(told["created"])
    assert told["config"]["metadata"] == SHOWN
    assert told["delivered"] == told["ack_floor"] == {"consumer_seq": 0, "stream_seq": 0}
    assert [told[count] for count in FIELDS if count.startswith("num_")] == [0, 0, 0, 0]


def test_create_info_and_update_tell_the_same(js: Client) -> None:
    js.stream()
    js.publish("s.1", "s.2")
    created = untimed(js.create(ack_policy="explicit"))
    assert untimed(js.info()) == created
    assert untimed(js.create(ack_policy="explicit")) == created
    changed = untimed(js.create(ack_policy="explicit", description="new"))
    assert changed.pop("config") == {**created.pop("config"), "description": "new"}
    assert changed == created


def test_an_ephemeral_without_name_has_one_all_the_same(js: Client) -> None:
    js.stream()
    first, second = (js.ask("CONSUMER.CREATE.S", {"stream_name": "S", "config": {}}) for _ in range(2))
    assert re.fullmatch("[0-9A-Za-z]{8}", first["name"])
    assert first["name"] != second["name"]
    assert "name" not in first["config"]
    assert "name" not in js.info(first["name"])["config"]


def test_a_list_shows_only_the_metadata_that_is_stored(js: Client) -> None:
    js.stream()
    js.create("b", metadata={"k": "v"})
    js.create("a", description="first")
    told = js.ask("CONSUMER.LIST.S")
    assert [told[key] for key in ("total", "offset", "limit")] == [2, 0, 256]
    assert [each["name"] for each in told["consumers"]] == ["a", "b"]
    assert [each["config"]["metadata"] for each in told["consumers"]] == [STORED, {"k": "v", **STORED}]
    for each in told["consumers"]:
        shown = js.info(each["name"])
        shown["config"]["metadata"] = each["config"]["metadata"]
        assert untimed(each) == untimed(shown)


@pytest.mark.parametrize(
    ("body", "offset", "names"),
    [
        ("", 0, "abc"),
        ("x", 0, "abc"),
        ("{}", 0, "abc"),
        ('{"offset":1}', 1, "bc"),
        ('{"offset":3}', 3, ""),
        ('{"offset":9}', 3, ""),
        ('{"offset":-9}', 0, "abc"),
    ],
)
def test_pages(js: Client, body: str, offset: int, names: str) -> None:
    js.stream()
    for name in "bca":
        js.create(name)
    told = js.ask("CONSUMER.NAMES.S", body)
    assert told == {
        "type": "io.nats.jetstream.api.v1.consumer_names_response",
        "total": 3,
        "offset": offset,
        "limit": 1024,
        "consumers": list(names),
    }
    page = js.ask("CONSUMER.LIST.S", body)
    assert [each["name"] for each in page["consumers"]] == list(names)
    assert (page["total"], page["offset"], page["limit"]) == (3, offset, 256)


def test_a_page_has_so_many_and_no_more(js: Client) -> None:
    js.stream()
    for number in range(260):
        js.create(f"c{number:03}", mem_storage=True)
    names = [f"c{number:03}" for number in range(260)]
    assert js.ask("CONSUMER.NAMES.S")["consumers"] == names
    assert [each["name"] for each in js.ask("CONSUMER.LIST.S")["consumers"]] == names[:256]
    rest = js.ask("CONSUMER.LIST.S", {"offset": 256})
    assert [each["name"] for each in rest["consumers"]] == names[256:]
    assert rest["total"] == 260


def test_consumers_of_mirrors_are_not_listed_but_known(js: Client) -> None:
    js.stream()
    js.ask("CONSUMER.CREATE.S.m", {"stream_name": "S", "config": {"direct": True, "deliver_subject": "d"}})
    js.ask("CONSUMER.CREATE.S.n", {"stream_name": "S", "config": {"sourcing": True, "deliver_subject": "d"}})
    assert js.ask("CONSUMER.NAMES.S")["consumers"] == ["n"]
    assert [each["name"] for each in js.ask("CONSUMER.LIST.S")["consumers"]] == ["n"]
    assert js.info("m")["config"]["direct"] is True


def test_a_stream_and_an_account_count_their_consumers(js: Client) -> None:
    js.stream()
    js.stream("T")
    js.create("a")
    js.create("b")
    assert js.ask("STREAM.INFO.S")["state"]["consumer_count"] == 2
    assert js.ask("STREAM.INFO.T")["state"]["consumer_count"] == 0
    assert js.ask("INFO")["consumers"] == 2
    js.ask("CONSUMER.DELETE.S.a")
    assert js.ask("STREAM.INFO.S")["state"]["consumer_count"] == 1
    assert js.ask("INFO")["consumers"] == 1


@pytest.mark.parametrize(
    ("config", "before", "pending"),
    [
        ({}, 0, 5),
        ({"deliver_policy": "last"}, 4, 1),
        ({"deliver_policy": "new"}, 5, 0),
        ({"deliver_policy": "by_start_sequence", "opt_start_seq": 3}, 2, 3),
        ({"deliver_policy": "by_start_sequence", "opt_start_seq": 50}, 49, 0),
        ({"deliver_policy": "by_start_time", "opt_start_time": "2020-01-01T00:00:00Z"}, 0, 5),
        ({"deliver_policy": "by_start_time", "opt_start_time": FUTURE}, 5, 0),
        ({"filter_subject": "s.a"}, 0, 3),
        ({"filter_subjects": ["s.a", "s.c"]}, 0, 4),
        ({"deliver_policy": "last", "filter_subject": "s.a"}, 3, 1),
        ({"filter_subject": "s.nothing"}, 0, 0),
    ],
    ids=str,
)
def test_where_it_starts_and_how_much_is_pending(
    js: Client, config: dict[str, Any], before: int, pending: int
) -> None:
    js.stream()
    js.publish("s.a", "s.b", "s.a", "s.a", "s.c")
    told = js.create(**config)
    assert told["delivered"] == {"consumer_seq": 0, "stream_seq": before}
    assert told["num_pending"] == pending
    assert untimed(js.info()) == untimed(told)


def test_pause_and_groups_show(js: Client) -> None:
    js.stream()
    paused = js.create("p", pause_until=FUTURE)
    assert list(paused) == ["type", *FIELDS[:-1], "paused", "pause_remaining", "ts"]
    assert paused["paused"] is True
    assert paused["pause_remaining"] > 10**18
    grouped = js.create("g", priority_policy="pinned_client", priority_groups=["A", "B"])
    assert list(grouped) == ["type", *FIELDS, "priority_groups"]
    assert grouped["priority_groups"] == [{"group": "A", "pinned_ts": "0001-01-01T00:00:00Z"}]
    over = js.create("o", pause_until="2020-01-01T00:00:00Z")
    assert "paused" not in over


def test_whether_somebody_listens_shows(js: Client) -> None:
    js.stream()
    assert "push_bound" not in js.create(deliver_subject="d", idle_heartbeat=SECOND)
    js.listen("d")
    js.catch_up()
    assert js.create("e", deliver_subject="d")["push_bound"] is True
    assert list(js.info("e")) == ["type", *FIELDS[:-1], "push_bound", "ts"]
    assert "push_bound" not in js.create("p")
    assert "push_bound" not in js.create("g", deliver_subject="d", deliver_group="q")


def test_delivery_and_acks_show(js: Client) -> None:
    js.stream()
    js.publish("s.1", "s.2", "s.3")
    js.create(ack_policy="explicit")
    first = js.fetch().next()
    info = js.info()
    assert (info["delivered"]["consumer_seq"], info["delivered"]["stream_seq"]) == (1, 1)
    assert TIME.fullmatch(info["delivered"]["last_active"])
    assert info["ack_floor"] == {"consumer_seq": 0, "stream_seq": 0}
    assert (info["num_ack_pending"], info["num_pending"]) == (1, 2)
    js.request(first.reply, b"+ACK")
    info = js.info()
    assert (info["ack_floor"]["consumer_seq"], info["ack_floor"]["stream_seq"]) == (1, 1)
    assert TIME.fullmatch(info["ack_floor"]["last_active"])
    assert (info["num_ack_pending"], info["num_pending"]) == (0, 2)


def test_waiting_requests_show(js: Client) -> None:
    js.stream()
    js.create()
    js.fetch(expires=60 * SECOND)
    js.fetch(expires=60 * SECOND)
    eventually(lambda: js.info()["num_waiting"] == 2, "two requests that wait")
