"""The API: from a subject under `$JS.API.` to an answer and its advisory."""

import json
from typing import Any

import pytest

from millstream.jetstream.advisories import Advisories
from millstream.jetstream.api import AccountApi, DisabledApi, find_endpoint
from millstream.jsapi.enums import BatchAbandonReason
from tests.kits.fake_world import FakeWorld
from tests.kits.jetstream.stream import Site, block, parts

TYPES = "io.nats.jetstream.api.v1."
NEEDS_CLUSTER = (503, 10010, "JetStream clustering support required")
NOT_ENABLED = (503, 10039, "JetStream not enabled for account")
OF_CLUSTERS = {
    "STREAM.LEADER.STEPDOWN.S": "stream_leader_stepdown_response",
    "STREAM.PEER.REMOVE.S": "stream_remove_peer_response",
    "STREAM.PEER.EVACUATE.S": "stream_evacuate_peer_response",
    "STREAM.CANCEL_MOVE.S": "stream_cancel_move_response",
    "CONSUMER.LEADER.STEPDOWN.S.C": "consumer_leader_stepdown_response",
    "CONSUMER.PEER.REMOVE.S.C": "consumer_remove_peer_response",
    "CONSUMER.PEER.EVACUATE.S.C": "consumer_evacuate_peer_response",
}
OF_ALL = {
    "INFO": "account_info_response",
    "STREAM.CREATE.S": "stream_create_response",
    "STREAM.UPDATE.S": "stream_update_response",
    "STREAM.NAMES": "stream_names_response",
    "STREAM.LIST": "stream_list_response",
    "STREAM.INFO.S": "stream_info_response",
    "STREAM.DELETE.S": "stream_delete_response",
    "STREAM.PURGE.S": "stream_purge_response",
    "STREAM.MSG.GET.S": "stream_msg_get_response",
    "STREAM.MSG.DELETE.S": "stream_msg_delete_response",
    "STREAM.SNAPSHOT.S": "stream_snapshot_response",
    "STREAM.RESTORE.S": "stream_restore_response",
    "CONSUMER.CREATE.S": "consumer_create_response",
    "CONSUMER.CREATE.S.C": "consumer_create_response",
    "CONSUMER.CREATE.S.C.a.b": "consumer_create_response",
    "CONSUMER.DURABLE.CREATE.S.C": "consumer_create_response",
    "CONSUMER.NAMES.S": "consumer_names_response",
    "CONSUMER.LIST.S": "consumer_list_response",
    "CONSUMER.INFO.S.C": "consumer_info_response",
    "CONSUMER.DELETE.S.C": "consumer_delete_response",
}


@pytest.mark.parametrize(("endpoint", "kind"), OF_CLUSTERS.items())
def test_what_needs_a_cluster_is_refused_under_its_own_type(endpoint: str, kind: str) -> None:
    answer = Site().ask(endpoint)
    assert answer == {"type": TYPES + kind, "error": answer["error"]}
    assert parts(answer["error"]) == NEEDS_CLUSTER


@pytest.mark.parametrize(("endpoint", "kind"), (OF_ALL | OF_CLUSTERS).items())
def test_an_account_without_jetstream_is_told_so_under_the_type_it_asked_for(
    endpoint: str, kind: str
) -> None:
    world = FakeWorld()
    api = DisabledApi(world, Advisories(world, account="B"))
    api.start()
    answer = json.loads(world.request(f"$JS.API.{endpoint}".encode(), b"{"))
    assert answer["type"] == TYPES + kind
    assert parts(answer["error"]) == (NEEDS_CLUSTER if endpoint in OF_CLUSTERS else NOT_ENABLED)
    api.stop()
    with pytest.raises(AssertionError, match="0 answers"):
        world.request(f"$JS.API.{endpoint}".encode())


@pytest.mark.parametrize(
    "subject",
    ["STREAM.TEMPLATE.CREATE.x", "STREAM.INFO.a.b", "STREAM.INFO", "META.LEADER.STEPDOWN", "STREAM.NAMES.x"],
)
def test_a_subject_that_is_no_endpoint_gets_no_answer(subject: str) -> None:
    site = Site()
    with pytest.raises(AssertionError, match="0 answers"):
        site.ask(subject)
    assert find_endpoint(f"$JS.API.{subject}".encode())[0] == ""


def test_a_request_without_a_reply_is_done_all_the_same() -> None:
    site = Site()
    site.world.send(b"$JS.API.STREAM.CREATE.S", b'{"name":"S"}')
    assert "S" in site.account.streams
    assert site.world.published == []


@pytest.mark.parametrize("level", ["6", "x", "1.0", "9" * 5000])
def test_a_level_that_this_server_does_not_have_is_refused(level: str) -> None:
    refused = (412, 10185, "JetStream minimum api level required")
    assert Site().error("INFO", headers=block(Nats_Required_Api_Level=level)) == refused


@pytest.mark.parametrize("level", ["", "0", "5", "+5", "-1"])
def test_a_level_that_this_server_has_is_fine(level: str) -> None:
    assert "error" not in Site().ask("INFO", headers=block(Nats_Required_Api_Level=level))


def test_a_stopped_api_answers_nobody() -> None:
    site = Site()
    site.api.stop()
    with pytest.raises(AssertionError, match="0 answers"):
        site.ask("INFO")


# -- advisories ---------------------------------------------------------------------------------------


def heard(site: Site, subject: bytes) -> list[dict[str, Any]]:
    """Advisories on `subject`, without what is different each time."""
    found = [json.loads(each.payload) for each in site.sent(subject)]
    for each in found:
        assert len(each.pop("id")) == 22
        assert each.pop("timestamp") == "2023-11-14T22:13:20Z"
    return found


def test_nobody_listens_so_nothing_is_told() -> None:
    site = Site()
    site.create()
    assert [each for each in site.world.published if each.subject.startswith(b"$JS.EVENT")] == []


def test_creating_changing_and_deleting_streams_is_told() -> None:
    site = Site(domain="hub")
    site.world.heard.append(b"$JS.EVENT.ADVISORY.STREAM.>")
    site.create()
    site.create()  # was there already
    site.update(description="x")
    site.ask("STREAM.DELETE.S")
    start = {"type": "io.nats.jetstream.advisory.v1.stream_action", "stream": "S"}
    for name, action in (("CREATED", "create"), ("UPDATED", "modify"), ("DELETED", "delete")):
        told = heard(site, f"$JS.EVENT.ADVISORY.STREAM.{name}.S".encode())
        assert told == [start | {"action": action, "domain": "hub"}]


def test_every_request_is_audited_but_reading_a_message() -> None:
    site = Site()
    site.create()
    site.publish("s.a")
    site.world.heard.append(b"$JS.EVENT.ADVISORY.API")
    site.ask("STREAM.MSG.GET.S", {"seq": 1})
    answer = site.world.request(b"$JS.API.STREAM.MSG.GET.S", b'{"seq":2}')
    site.ask("INFO")
    missing, info = heard(site, b"$JS.EVENT.ADVISORY.API")
    assert missing == {
        "type": "io.nats.jetstream.advisory.v1.api_audit",
        "server": "",
        "client": {"kind": "Client"},
        "subject": "$JS.API.STREAM.MSG.GET.S",
        "request": '{"seq":2}',
        "response": answer.decode(),
    }
    assert "request" not in info


def test_an_abandoned_batch_is_told() -> None:
    site = Site()
    site.world.heard.append(b"$JS.EVENT.ADVISORY.STREAM.BATCH_ABANDONED.*")
    site.account.advisories.batch_abandoned("S", "uuid", BatchAbandonReason.TIMEOUT)
    assert heard(site, b"$JS.EVENT.ADVISORY.STREAM.BATCH_ABANDONED.S") == [
        {
            "type": "io.nats.jetstream.advisory.v1.stream_batch_abandoned",
            "stream": "S",
            "batch": "uuid",
            "reason": "timeout",
        }
    ]


def test_a_full_disk_is_told_to_the_system_account_once() -> None:
    site = Site()
    system = FakeWorld()
    system.heard.append(b"$JS.EVENT.ADVISORY.SERVER.OUT_OF_STORAGE")
    site.account.advisories = Advisories(
        site.world, account="$G", server_name="server", server_id="ID", system=system
    )
    site.create()
    site.disk.full = True
    site.refusal("s.a")
    site.world.advance(10)
    (event,) = (json.loads(each.payload) for each in system.published)
    assert event["type"] == "io.nats.jetstream.advisory.v1.server_out_of_space"
    assert (event["server"], event["server_id"], event["stream"]) == ("server", "ID", "S")


def test_only_so_many_requests_wait_and_the_system_account_hears_of_the_rest() -> None:
    site = Site()
    site.create()
    site.api.stop()
    system = FakeWorld()
    system.heard.append(b"$JS.EVENT.ADVISORY.API.LIMIT_REACHED")
    site.account.advisories = Advisories(site.world, account="$G", server_name="server", system=system)
    AccountApi(site.account, "server", "2.15.1", request_queue_limit=1, info_queue_limit=2).start()
    site.world.send(b"s.a")
    for number in range(3):
        site.world.send(b"$JS.API.STREAM.INFO.S", reply=b"info-%d" % number)
        site.world.send(b"$JS.API.STREAM.MSG.GET.S", b'{"seq":1}', reply=b"get-%d" % number)
    site.world.settle()
    answered = {each.subject for each in site.world.published}
    assert answered >= {b"info-0", b"info-1", b"get-0"}
    assert answered.isdisjoint({b"info-2", b"get-1", b"get-2"})
    events = [json.loads(each.payload) for each in system.published]
    assert [event["dropped"] for event in events] == [1, 1, 1]
    assert events[0]["type"] == "io.nats.jetstream.advisory.v1.api_limit_reached"
    assert "error" not in site.ask("STREAM.INFO.S")  # it goes on when there is room again
