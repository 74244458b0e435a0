"""Requests about streams and their messages; answers as recorded from nats-server 2.15.1."""

import base64
import json
from typing import Any

import pytest

from millstream.jetstream.options import AccountJetStreamOptions
from millstream.jetstream.resources import Resources
from millstream.store.errors import StoreError
from tests.kits.jetstream.stream import SECOND, Disk, Site, block

NOT_FOUND = (404, 10059, "stream not found")
NO_MESSAGE = (404, 10037, "no message found")
TYPES = "io.nats.jetstream.api.v1."


@pytest.fixture
def site() -> Site:
    site = Site()
    site.create()
    for subject in ("s.a", "s.b", "s.a", "s.c"):
        site.publish(subject, subject.encode(), X=subject)
    return site


# -- messages -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("request_", "seq"),
    [
        ({"seq": 2}, 2),
        ({"last_by_subj": "s.a"}, 3),
        ({"last_by_subj": "s.*"}, 4),
        ({"next_by_subj": "s.a"}, 1),
        ({"next_by_subj": "s.a", "seq": 2}, 3),
        ({"next_by_subj": "s.*", "seq": 4}, 4),
        ({"start_time": "2023-11-14T22:13:20Z"}, 1),
        ({"start_time": "2023-11-14T22:13:20Z", "next_by_subj": "s.c"}, 4),
    ],
)
def test_a_message_can_be_asked_for_in_many_ways(site: Site, request_: dict[str, Any], seq: int) -> None:
    assert site.ask("STREAM.MSG.GET.S", request_)["message"]["seq"] == seq


def test_a_message_comes_with_everything_it_has(site: Site) -> None:
    message = site.ask("STREAM.MSG.GET.S", {"seq": 1})["message"]
    assert message == {
        "subject": "s.a",
        "seq": 1,
        "hdrs": base64.b64encode(block(X="s.a")).decode(),
        "data": base64.b64encode(b"s.a").decode(),
        "time": "2023-11-14T22:13:20Z",
    }
    assert "hdrs" not in site.ask("STREAM.MSG.GET.S", {"seq": 1, "no_hdr": True})["message"]
    site.publish("s.empty")
    assert "data" not in site.ask("STREAM.MSG.GET.S", {"seq": 5})["message"]


@pytest.mark.parametrize(
    ("body", "refusal"),
    [
        (b"", (400, 10003, "bad request")),
        ({}, (400, 10003, "bad request")),
        ({"seq": 1, "last_by_subj": "s.a"}, (400, 10003, "bad request")),
        ({"seq": 1, "batch": 2}, (400, 10003, "bad request")),
        ({"seq": 9}, NO_MESSAGE),
        ({"last_by_subj": "s.zz"}, NO_MESSAGE),
        ({"next_by_subj": "s.a", "seq": 4}, NO_MESSAGE),
        ({"start_time": "2033-11-14T22:13:20Z"}, NO_MESSAGE),
        ({"sequence": 1}, (400, 10025, 'invalid JSON: json: unknown field "sequence"')),
    ],
)
def test_what_cannot_be_got_is_refused(site: Site, body: Any, refusal: tuple[int, int, str]) -> None:
    assert site.error("STREAM.MSG.GET.S", body) == refusal


def test_deleted_messages_are_gone_and_counted(site: Site) -> None:
    assert site.ask("STREAM.MSG.DELETE.S", {"seq": 2}) == {
        "type": TYPES + "stream_msg_delete_response",
        "success": True,
    }
    assert site.error("STREAM.MSG.GET.S", {"seq": 2}) == NO_MESSAGE
    state = site.state(deleted_details=True)
    assert (state["messages"], state["num_deleted"], state["deleted"]) == (3, 1, [2])
    site.ask("STREAM.MSG.DELETE.S", {"seq": 4, "no_erase": True})
    assert site.state(deleted_details=True)["deleted"] == [2, 4]
    again = site.restarted(orderly=False)
    assert again.state(deleted_details=True)["deleted"] == [2, 4]
    assert again.state()["last_seq"] == 4


def test_an_erased_message_is_not_on_disk_any_more(site: Site) -> None:
    secret = b"secret-that-must-go"
    site.publish("s.x", secret)

    def on_disk() -> bool:
        folder = "store/streams/S/log"
        return any(secret in site.disk.read_all(f"{folder}/{name}") for name in site.disk.list(folder))

    assert on_disk()
    site.ask("STREAM.MSG.DELETE.S", {"seq": 5})
    assert not on_disk()


def test_what_is_not_there_cannot_be_deleted(site: Site) -> None:
    site.ask("STREAM.MSG.DELETE.S", {"seq": 1})
    site.ask("STREAM.MSG.DELETE.S", {"seq": 3})
    refused = {
        0: (500, 10057, "no message found"),
        1: (500, 10057, "no message found"),
        3: (400, 10043, "sequence 3 not found"),
        99: (500, 10057, "stream store EOF"),
    }
    for seq, refusal in refused.items():
        assert site.error("STREAM.MSG.DELETE.S", {"seq": seq}) == refusal
    assert site.error("STREAM.MSG.DELETE.S") == (400, 10003, "bad request")
    assert site.error("STREAM.MSG.DELETE.NO", {"seq": 1}) == NOT_FOUND


def test_memory_has_one_word_for_all_that_is_not_there() -> None:
    site = Site()
    site.create(storage="memory")
    site.publish("s.a")
    for seq in (0, 2, 99):
        refused = (400, 10043, f"sequence {seq} not found")
        assert site.error("STREAM.MSG.DELETE.S", {"seq": seq}) == refused


def test_deleting_can_be_forbidden() -> None:
    site = Site()
    site.create(deny_delete=True)
    site.publish("s.a")
    forbidden = (500, 10057, "message delete not permitted")
    assert site.error("STREAM.MSG.DELETE.S", {"seq": 1}) == forbidden
    site.update(deny_delete=True, sealed=True)
    sealed = (400, 10109, "invalid operation on sealed stream")
    assert site.error("STREAM.MSG.DELETE.S", {"seq": 1}) == sealed
    assert site.error("STREAM.PURGE.S") == sealed


# -- streams ------------------------------------------------------------------------------------------


def test_creating_the_same_stream_again_gives_that_stream(site: Site) -> None:
    again = site.ask("STREAM.CREATE.S", {"name": "S", "subjects": ["s.>"]})
    assert again["did_create"]
    assert again["state"]["messages"] == 4
    taken = (400, 10058, "stream name already in use with a different configuration")
    assert site.error("STREAM.CREATE.S", {"name": "S", "subjects": ["t.>"]}) == taken


def test_an_update_is_in_force_and_on_disk(site: Site) -> None:
    answer = site.update(subjects=["t.>"], description="new")
    assert answer["config"]["description"] == "new"
    assert site.world.published
    assert site.publish("t.a")["seq"] == 5
    with pytest.raises(AssertionError, match="0 answers"):
        site.publish("s.a")
    assert site.restarted().ask("STREAM.INFO.S")["config"]["subjects"] == ["t.>"]


def test_lower_limits_remove_nothing_where_new_messages_are_discarded(site: Site) -> None:
    site.update(max_msgs=1, max_bytes=1, discard="new")
    assert site.state()["messages"] == 4
    assert site.refusal("s.a")[1] == 10077
    site.update(max_msgs=1)
    assert site.state()["messages"] == 1


def test_an_update_that_cannot_be_written_changes_nothing(site: Site) -> None:
    site.disk.full = True
    assert site.update(max_msgs=1)["error"]["err_code"] == 10077
    assert site.state()["messages"] == 4
    assert site.ask("STREAM.INFO.S")["config"]["max_msgs"] == -1


def test_a_stream_that_cannot_be_written_does_not_exist() -> None:
    site = Site()
    site.disk.full = True
    assert site.error("STREAM.CREATE.S", {"name": "S"})[1] == 10077
    site.disk.full = False
    assert site.error("STREAM.INFO.S") == NOT_FOUND
    assert site.disk.list("store/streams") == []


@pytest.mark.parametrize("body", [b"", b"{}", b" { } "])
def test_a_deleted_stream_is_gone_for_good(site: Site, body: bytes) -> None:
    assert site.ask("STREAM.DELETE.S", body)["success"]
    assert site.error("STREAM.DELETE.S") == NOT_FOUND
    assert site.restarted().ask("STREAM.NAMES")["streams"] is None
    site.create()
    assert site.state()["messages"] == 0


@pytest.mark.parametrize("body", [b"x", b" ", b'{"a":1}', b"[]"])
def test_deleting_takes_no_arguments(site: Site, body: bytes) -> None:
    refused = (400, 10038, "expected an empty request payload")
    assert site.error("STREAM.DELETE.S", body) == refused


def test_what_needs_two_answers_still_has_the_fields_of_one(site: Site) -> None:
    assert site.ask("STREAM.INFO.NO") == {
        "type": TYPES + "stream_info_response",
        "error": {"code": 404, "err_code": 10059, "description": "stream not found"},
        "total": 0,
        "offset": 0,
        "limit": 0,
    }


def test_info_lists_subjects_page_by_page(site: Site) -> None:
    def page(**request: Any) -> tuple[int, int, int, dict[str, int] | None]:
        answer = site.ask("STREAM.INFO.S", request)
        return answer["total"], answer["offset"], answer["limit"], answer["state"].get("subjects")

    assert page(subjects_filter="s.*") == (3, 0, 100_000, {"s.a": 2, "s.b": 1, "s.c": 1})
    assert page(subjects_filter="s.*", offset=2) == (3, 2, 100_000, {"s.c": 1})
    assert page(subjects_filter="s.*", offset=9) == (3, 9, 100_000, None)
    assert page(subjects_filter="s.*", offset=-3)[:2] == (3, 0)
    assert page(subjects_filter="s.b")[3] == {"s.b": 1}
    assert page(subjects_filter="nope") == (0, 0, 0, None)


def test_optional_bodies_that_are_not_json_are_ignored(site: Site) -> None:
    assert site.ask("STREAM.INFO.S", b"nonsense")["state"]["messages"] == 4
    refused = "invalid JSON: json: cannot unmarshal array into Go value of type server.JSApiStreamInfoRequest"
    assert site.error("STREAM.INFO.S", b"[]") == (400, 10025, refused)


def test_names_and_lists_are_sorted_and_paged() -> None:
    site = Site()
    for number in range(300):
        site.create(f"N{number:03d}", storage="memory")
    names = site.ask("STREAM.NAMES", {"offset": 298})
    assert (names["total"], names["offset"], names["limit"]) == (300, 298, 1024)
    assert names["streams"] == ["N298", "N299"]
    page = site.ask("STREAM.LIST", {"offset": 100})
    assert (page["total"], page["offset"], page["limit"], len(page["streams"])) == (300, 100, 256, 200)
    assert "_nats.ver" not in page["streams"][0]["config"]["metadata"]
    assert len(site.ask("STREAM.LIST")["streams"]) == 256
    assert site.ask("STREAM.NAMES", {"offset": 999})["offset"] == 300
    assert site.ask("STREAM.NAMES", {"subject": "n007.x"})["streams"] == ["N007"]
    assert site.ask("STREAM.NAMES", {"subject": "n007.>"})["streams"] == ["N007"]
    assert site.ask("STREAM.NAMES", {"subject": "*.x"})["total"] == 300
    assert site.ask("STREAM.NAMES", {"subject": "*.x", "offset": 299})["streams"] == ["N299"]
    assert site.ask("STREAM.NAMES", {"subject": "zz"})["streams"] is None
    assert site.ask("STREAM.LIST", {"subject": "zz"})["streams"] == []


def test_a_server_that_is_not_strict_ignores_what_it_does_not_know() -> None:
    body = {"name": "S", "colour": "red"}
    refused = (400, 10025, 'invalid JSON: json: unknown field "colour"')
    assert Site().error("STREAM.CREATE.S", body) == refused
    assert Site(strict=False).ask("STREAM.CREATE.S", body)["did_create"]
    broken = (400, 10025, "invalid JSON: unexpected end of JSON input")
    assert Site(strict=False).error("STREAM.CREATE.S", b"{") == broken


# -- limits -------------------------------------------------------------------------------------------


def test_streams_reserve_what_they_may_grow_to() -> None:
    options = AccountJetStreamOptions(max_store=1000, max_memory=500, max_streams=2)
    site = Site(options=options)
    no_storage = (500, 10047, "insufficient storage resources available")
    no_memory = (500, 10028, "insufficient memory resources available")
    assert site.error("STREAM.CREATE.S", {"name": "S", "max_bytes": 1001}) == no_storage
    memory = {"name": "S", "max_bytes": 501, "storage": "memory"}
    assert site.error("STREAM.CREATE.S", memory) == no_memory
    site.create(max_bytes=600)
    assert site.error("STREAM.CREATE.T", {"name": "T", "max_bytes": 401}) == no_storage
    site.create("T", max_bytes=400)
    assert site.ask("INFO")["reserved_storage"] == 1000
    most = (400, 10027, "maximum number of streams reached")
    assert site.error("STREAM.CREATE.U", {"name": "U"}) == most


def test_a_server_has_only_so_much_for_all_accounts() -> None:
    resources = Resources(max_store=1000)
    one, other = Site(resources=resources), Site(resources=resources)
    one.create(max_bytes=600)
    refused = (500, 10047, "insufficient storage resources available")
    assert other.error("STREAM.CREATE.S", {"name": "S", "max_bytes": 500}) == refused
    other.create(max_bytes=400)


def test_the_account_knows_what_it_uses_and_how_often_it_asked(site: Site) -> None:
    before = site.ask("INFO")
    site.error("STREAM.INFO.NO")
    after = site.ask("INFO")
    assert before["storage"] == site.state()["bytes"]
    assert after["api"]["total"] - before["api"]["total"] == 2
    assert after["api"]["errors"] - before["api"]["errors"] == 1
    assert after["streams"] == 1
    site.error("STREAM.MSG.DELETE.S", {"seq": 99})
    assert site.ask("INFO")["api"]["errors"] == after["api"]["errors"]  # nothing to delete is no error


# -- starting again -----------------------------------------------------------------------------------


def test_streams_are_as_they_were_after_a_restart(site: Site) -> None:
    site.create("M", storage="memory")
    before = site.ask("STREAM.INFO.S")
    again = site.restarted()
    assert again.ask("STREAM.INFO.S") == before
    assert again.ask("STREAM.NAMES")["streams"] == ["S"]  # what was in memory is gone
    assert again.publish("s.a")["seq"] == 5


def flip(disk: Disk, path: str) -> None:
    data = bytearray(disk.read_all(path))
    data[len(data) // 2] ^= 1
    disk.replace(path, bytes(data))


def test_damage_in_the_configuration_costs_nothing(site: Site) -> None:
    before = site.ask("STREAM.INFO.S")["config"]
    flip(site.disk, "store/streams/S/meta.json")
    assert site.restarted().ask("STREAM.INFO.S")["config"] == before


def test_a_stream_whose_configuration_is_lost_is_left_alone(site: Site) -> None:
    site.create("T")
    path = "store/streams/S/meta.json"
    site.disk.replace(path, site.disk.read_all(path)[:50])
    again = site.restarted()
    assert again.ask("STREAM.NAMES")["streams"] == ["T"]
    assert again.disk.list("store/streams/S/log")


def test_a_deletion_that_a_crash_interrupted_is_finished_at_the_start(site: Site) -> None:
    site.account.stop()
    site.disk.rename("store/streams/S", "store/deleted/S.x")
    again = site.restarted(orderly=False)
    assert again.ask("STREAM.NAMES")["streams"] is None
    assert again.disk.list("store/deleted") == []


def test_a_deletion_that_cannot_be_made_durable_does_not_happen(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(path: str) -> None:
        raise StoreError("sync", path, "Input/output error")

    site = Site()
    site.create()
    site.publish("s.a")
    with monkeypatch.context() as patch:
        patch.setattr(site.disk, "sync_folder", fail)
        assert site.error("STREAM.DELETE.S")[:2] == (503, 10077)
    site.world.advance(1)  # its place is tried again, and nothing is committed before that
    assert "error" not in site.publish("s.a")
    assert site.restarted(orderly=False).state()["messages"] == 2


def test_a_damaged_configuration_is_written_again_from_its_copy(
    site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    path = "store/streams/S/meta.json"
    whole = site.disk.read_all(path)
    site.disk.replace(path, whole[:-2])
    again = site.restarted()
    assert again.ask("STREAM.INFO.S")["config"]["name"] == "S"
    assert "meta.json" in caplog.text
    assert again.disk.read_all(path) == whole


def test_a_damaged_message_is_told_and_the_others_are_read() -> None:
    site = Site()
    site.world.heard.append(b"$JS.EVENT.ADVISORY.STREAM.DAMAGED.*")
    site.create(duplicate_window=SECOND)
    for number in range(3):
        site.publish("s.a", b"payload-%d" % number)
    folder = "store/streams/S/log"
    (name,) = (name for name in site.disk.list(folder) if name.endswith(".log"))
    file = site.disk.open(f"{folder}/{name}", create=False)
    at = file.read(0, file.size()).index(b"payload-1")
    file.overwrite(at, b"Q")
    assert site.error("STREAM.MSG.GET.S", {"seq": 2}) == NO_MESSAGE
    assert site.ask("STREAM.MSG.GET.S", {"seq": 3})["message"]["seq"] == 3
    assert site.state()["lost"]["bytes"] > 0
    (advisory,) = site.sent(b"$JS.EVENT.ADVISORY.STREAM.DAMAGED.S")
    assert json.loads(advisory.payload)["messages"] == 1
