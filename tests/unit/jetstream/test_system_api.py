"""Answers about the API to the system account, for every spelling of the request."""

import json

import pytest

from millstream.jetstream.system_api import SystemApi
from millstream.protocol import headers
from tests.kits.fake_world import FakeWorld

TYPES = "io.nats.jetstream.api.v1."


@pytest.fixture
def purged() -> list[str]:
    return []


@pytest.fixture
def world(purged: list[str]) -> FakeWorld:
    world = FakeWorld()
    SystemApi(world, purged.append).start()
    return world


@pytest.mark.parametrize("verb", ["STREAM.NAMES", "UNKNOWN", "DIRECT.GET.S", "CONSUMER.MSG.NEXT.S.C"])
def test_everything_is_refused(world: FakeWorld, verb: str) -> None:
    answer = json.loads(world.request(f"$JS.API.{verb}".encode()))
    assert (answer["type"], answer["error"]["err_code"]) == (TYPES + "system_response", 10039)


def test_info_is_refused_under_its_own_type(world: FakeWorld) -> None:
    answer = json.loads(world.request(b"$JS.API.INFO"))
    assert (answer["type"], answer["error"]["err_code"]) == (TYPES + "account_info_response", 10039)


@pytest.mark.parametrize(
    "verb", ["META.LEADER.STEPDOWN", "SERVER.REMOVE", "ACCOUNT.STREAM.MOVE.A.S", "ACCOUNT.PURGE", "ACCOUNT.x"]
)
def test_what_only_a_cluster_hears_is_met_with_silence(world: FakeWorld, verb: str) -> None:
    world.send(f"$JS.API.{verb}".encode(), reply=b"me")
    assert world.published == []


def test_an_account_is_purged_on_request(world: FakeWorld, purged: list[str]) -> None:
    answer = json.loads(world.request(b"$JS.API.ACCOUNT.PURGE.A"))
    assert answer == {"type": TYPES + "account_purge_response", "initiated": True}
    assert purged == ["A"]


def test_nothing_is_purged_by_a_request_for_a_later_server(world: FakeWorld, purged: list[str]) -> None:
    level = headers.make((b"Nats-Required-Api-Level", b"9"))
    world.send(b"$JS.API.ACCOUNT.PURGE.A", reply=b"me", headers=level)
    assert (world.published, purged) == ([], [])
