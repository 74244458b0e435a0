"""Consumers in `/jsz` and `/healthz`."""

from typing import Any

import pytest

from tests.kits.conformance.clients import http_get, monitor
from tests.kits.conformance.consumers import Client
from tests.kits.reference import ServerProcess


def filled(js: Client) -> None:
    js.stream()
    js.stream("T")
    js.publish("s.1")
    js.create("c", description="second by name")
    js.create("a")
    js.ask("CONSUMER.CREATE.S.m", {"stream_name": "S", "config": {"direct": True, "deliver_subject": "d"}})


def details(account: tuple[ServerProcess, str], query: str) -> dict[str, Any]:
    server, name = account
    (told,) = monitor(server, f"/jsz?acc={name}&{query}")["account_details"]
    return {each["name"]: each for each in told["stream_detail"]}


def test_consumers_are_shown_in_the_order_of_their_creation(
    account: tuple[ServerProcess, str], js: Client
) -> None:
    filled(js)
    shown = details(account, "consumers=1")
    assert [each["name"] for each in shown["S"]["consumer_detail"]] == ["c", "a"]
    assert "direct_consumer_detail" not in shown["S"]
    assert "consumer_detail" not in shown["T"]
    for each in shown["S"]["consumer_detail"]:
        info = js.info(each["name"])
        del info["type"], info["config"]  # it is only there if it is asked for
        assert list(each) == list(info)
        assert {**each, "ts": ""} == {**info, "ts": ""}


def test_configurations_are_shown_as_they_are_stored(account: tuple[ServerProcess, str], js: Client) -> None:
    filled(js)
    (first, _) = details(account, "consumers=1&config=1")["S"]["consumer_detail"]
    assert first["config"]["description"] == "second by name"
    assert first["config"]["metadata"] == {"_nats.req.level": "0"}


def test_consumers_of_mirrors_are_shown_apart(account: tuple[ServerProcess, str], js: Client) -> None:
    filled(js)
    shown = details(account, "consumers=1&direct-consumers=1")["S"]
    assert [each["name"] for each in shown["direct_consumer_detail"]] == ["m"]
    assert [each["name"] for each in shown["consumer_detail"]] == ["c", "a"]
    assert "consumer_detail" not in details(account, "streams=1&direct-consumers=1")["S"]


@pytest.mark.parametrize(("consumer", "status"), [("c", 200), ("m", 200), ("nobody", 404)])
def test_the_health_of_a_consumer(
    account: tuple[ServerProcess, str], js: Client, consumer: str, status: int
) -> None:
    filled(js)
    server, name = account
    found, _, told = http_get(f"{server.monitor_url}/healthz?account={name}&stream=S&consumer={consumer}")
    assert found == status, told
