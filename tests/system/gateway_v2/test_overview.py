"""Routes for a dashboard: the caller, the account at a glance, lists in lines, connections."""

import asyncio
import base64
import json
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from millstream.gateway.server import GatewayServer
from millstream.gateway.settings import Listener, Nats, Settings
from millstream.gateway.v2 import traffic
from millstream.gateway.v2.snapshot import SharedLists
from tests.kits.gateway.v2 import Gateway, eventually
from tests.kits.link import Operator
from tests.kits.patience import PATIENCE_S
from tests.kits.reference import ServerKind, ServerProcess


async def events(gateway: Gateway, path: str, count: int) -> list[tuple[str, Any]]:
    """Return the first events of a live resource, each with its name."""
    found: list[tuple[str, Any]] = []
    name = "message"
    headers = {"Accept": "text/event-stream"}
    async with gateway.http.stream("GET", path, headers=headers, timeout=PATIENCE_S) as answer:
        assert answer.status_code == 200, await answer.aread()
        assert answer.headers["Content-Type"] == "text/event-stream"
        async for line in answer.aiter_lines():
            if line.startswith("event: "):
                name = line.removeprefix("event: ")
            elif line.startswith("data: "):
                found.append((name, json.loads(line.removeprefix("data: "))))
                if len(found) == count:
                    break
    return found


async def test_a_caller_learns_who_he_is(gateway: Gateway, server_kind: ServerKind) -> None:
    me = (await gateway.http.get("/v2/whoami")).json()
    assert (me["account"], me["is_system"], me["read_only"], me["jetstream"]) == ("$G", False, False, True)
    assert me["server"]["is_millstream"] == (server_kind is ServerKind.MILLSTREAM)
    assert me["server"]["id"]
    assert me["server"]["max_payload"] == 1024 * 1024


async def test_an_overview_has_totals_and_says_what_needs_attention(gateway: Gateway) -> None:
    await gateway.add_stream()
    await gateway.publish(b"1", b"2")
    await gateway.add_consumer("stuck", deliver_subject=f"{gateway.subject}-out")
    found: dict[str, Any] = {}

    async def is_scanned() -> bool:
        nonlocal found
        found = (await gateway.http.get("/v2/overview")).json()
        return any(item.get("stream") == gateway.stream for item in found["attention"])

    await eventually(is_scanned)
    assert found["totals"]["messages"] >= 2
    assert found["totals"]["streams"] >= 1
    assert found["account"]["streams"] >= 1
    assert found["health"]["status"] == "ok"
    assert found["connections"]["connections"] >= 1
    own = [item for item in found["attention"] if item.get("stream") == gateway.stream]
    assert [(item["kind"], item["consumer"], item["severity"]) for item in own] == [
        ("no_interest", "stuck", "warning")
    ]
    assert found["scanned"]["streams"] <= found["scanned"]["of"]


async def test_rates_come_with_the_second_look(gateway: Gateway) -> None:
    first, second = await events(gateway, "/v2/overview/live?every=0.6", 2)
    assert (first[0], second[0]) == ("overview", "overview")
    assert second[1]["rates"].keys() == {"in_msgs", "in_bytes", "out_msgs", "out_bytes"}


async def test_the_last_hour_is_there_for_who_comes_later(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(traffic, "EVERY_S", 0.6)
    path = "/v2/overview/history"
    assert (await gateway.http.get(path)).json().keys() == {
        "every", "time", "in_msgs", "in_bytes", "out_msgs", "out_bytes"
    }  # fmt: skip
    found: dict[str, list[Any]] = {}

    async def has_points() -> bool:
        found.update((await gateway.http.get(path)).json())
        return len(found["time"]) >= 2

    await eventually(has_points)
    assert found["time"] == sorted(found["time"])
    assert {len(found[name]) for name in ("time", "in_msgs", "in_bytes", "out_msgs", "out_bytes")} == {
        len(found["time"])
    }


async def test_a_long_scan_of_consumers_delays_nobody(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    await gateway.add_stream()
    await gateway.add_consumer("idle")
    never = asyncio.Event()

    async def hang(self: SharedLists, stream: str) -> Any:
        await never.wait()

    monkeypatch.setattr(SharedLists, "consumers", hang)
    found = (await gateway.http.get("/v2/overview")).json()
    assert found["scanned"]["streams"] == 0 < found["scanned"]["of"]


async def test_the_system_account_sees_the_servers(
    start_gateway: Callable[..., Any], shared_server: Callable[..., ServerProcess]
) -> None:
    nats = shared_server(config=_ACCOUNTS, jetstream=True)
    gateway: Gateway = await start_gateway(nats)
    root, user = httpx.BasicAuth("root", "pw"), httpx.BasicAuth("joe", "pw")
    me = (await gateway.http.get("/v2/whoami", auth=root)).json()
    assert (me["account"], me["user"], me["is_system"]) == ("SYS", "root", True)
    found = (await gateway.http.get("/v2/overview", auth=root)).json()
    assert found["server"]["connections"] >= 1
    assert found["server"]["uptime"]
    assert found["account"] is None
    assert "account" in found["not_permitted"]
    seen = (await gateway.http.get("/v2/overview", auth=user)).json()
    assert seen["server"] is None
    assert "server" in seen["not_permitted"]

    rows = (await gateway.http.get("/v2/connections", params={"search": "joe"}, auth=root)).json()
    assert [row["authorized_user"] for row in rows["connections"]] == ["joe"]
    row = rows["connections"][0]
    place = f"/v2/connections/{row['server_id']}/{row['cid']}"
    assert (await gateway.http.delete(place, auth=user)).status_code == 403
    assert (await gateway.http.delete(place, auth=root)).status_code == 204
    assert (await gateway.http.delete(place, auth=root)).status_code == 404


_ACCOUNTS = """
accounts: {
  SYS: {users: [{user: root, password: pw}]}
  APP: {jetstream: enabled, users: [{user: app, password: pw}, {user: joe, password: pw}]}
}
system_account: SYS
no_auth_user: app
"""


@pytest.mark.oracle
async def test_a_credentials_file_logs_in() -> None:
    """Only nats-server has operators; the gateway itself has no credentials there."""
    operator = Operator()
    with ServerProcess(ServerKind.NATS_SERVER, config=operator.config) as nats:
        settings = Settings(nats=Nats.at(nats.client_url), listeners=(Listener(port=0),))
        async with GatewayServer(settings) as server:
            host, port = server.addresses[0]
            async with httpx.AsyncClient(base_url=f"http://{host}:{port}", timeout=PATIENCE_S) as http:
                creds = base64.b64encode(operator.credentials.encode()).decode()
                me = await http.get("/v2/whoami", headers={"Authorization": f"Creds {creds}"})
                assert (me.status_code, bool(me.json()["account"])) == (200, True), me.text
                wrong = base64.b64encode(operator.credentials.replace("ey", "eY", 1).encode()).decode()
                refused = await http.get("/v2/whoami", headers={"Authorization": f"Creds {wrong}"})
                assert refused.status_code == 401


async def test_permissions_are_shown_and_what_may_not_be_asked_is_null(
    start_gateway: Callable[..., Any], shared_server: Callable[..., ServerProcess]
) -> None:
    nats = shared_server(
        config="""
authorization: {users: [
  {user: own, password: pw}
  {user: little, password: pw, permissions: {publish: ["$SYS.REQ.USER.INFO"], subscribe: ["_INBOX.>"]}}
]}
no_auth_user: own
""",
        jetstream=True,
    )
    gateway: Gateway = await start_gateway(nats)
    auth = httpx.BasicAuth("little", "pw")
    me = (await gateway.http.get("/v2/whoami", auth=auth)).json()
    assert me["permissions"]["publish"]["allow"] == ["$SYS.REQ.USER.INFO"]
    assert (me["user"], me["jetstream"]) == ("little", False)
    found = (await gateway.http.get("/v2/overview", auth=auth)).json()
    assert (found["account"], found["totals"], found["rates"], found["server"]) == (None, None, None, None)
    assert set(found["not_permitted"]) == {"account", "rates", "server", "streams"}
    refused = await gateway.http.get("/v2/connections", auth=auth)
    assert refused.status_code == 403


async def test_streams_are_listed_in_lines_by_search_sort_and_page(gateway: Gateway) -> None:
    names = [f"{gateway.stream}-{letter}" for letter in "cab"]
    for number, name in enumerate(names):
        config = {"name": name, "subjects": [f"{gateway.subject}.{number}.>"]}
        assert (await gateway.http.post("/v2/streams", json=config)).status_code == 201
        for _ in range(number):
            await gateway.http.post(f"/v2/subjects/{gateway.subject}.{number}.x", content=b"x")
    mine: dict[str, Any] = {"summary": True, "search": gateway.stream.lower()}
    listed = (await gateway.http.get("/v2/streams", params=mine)).json()
    assert [each["name"] for each in listed["streams"]] == sorted(names)
    assert (listed["total"], listed["offset"]) == (3, 0)
    by_messages = {**mine, "sort": "messages", "order": "desc", "limit": 2}
    listed = (await gateway.http.get("/v2/streams", params=by_messages)).json()
    assert [(each["name"], each["messages"]) for each in listed["streams"]] == [(names[2], 2), (names[1], 1)]
    listed = (await gateway.http.get("/v2/streams", params={**by_messages, "offset": 2})).json()
    assert [(each["messages"], each["kind"], each["last_time"]) for each in listed["streams"]] == [
        (0, "stream", None)
    ]
    assert (await gateway.http.delete(f"/v2/streams/{names[0]}")).status_code == 204
    listed = (await gateway.http.get("/v2/streams", params=mine)).json()
    assert listed["total"] == 2  # what was changed here is seen at once


@pytest.mark.parametrize("query", ["search=x", "sort=name", "order=desc", "kind=kv"])
async def test_what_only_summaries_know_is_refused_without_them(gateway: Gateway, query: str) -> None:
    answer = await gateway.http.get(f"/v2/streams?{query}")
    assert (answer.status_code, "summary=true" in answer.json()["detail"]) == (400, True)


async def test_consumers_are_listed_in_lines(gateway: Gateway) -> None:
    await gateway.add_stream()
    await gateway.publish(b"1", b"2")
    await gateway.add_consumer("b", filter_subject=f"{gateway.subject}.none")
    await gateway.add_consumer("a")
    params: dict[str, Any] = {"summary": True, "sort": "pending", "order": "desc"}
    listed = (await gateway.http.get(f"{gateway.path}/consumers", params=params)).json()
    assert [(each["name"], each["kind"], each["pending"]) for each in listed["consumers"]] == [
        ("a", "pull", 2),
        ("b", "pull", 0),
    ]
    missing = await gateway.http.get("/v2/streams/NONE/consumers", params={"summary": True})
    assert (missing.status_code, missing.json()["err_code"]) == (404, 10059)


async def test_subjects_are_a_tree(gateway: Gateway) -> None:
    await gateway.add_stream()
    for token in ("eu.de.a", "eu.de.b", "eu.fr", "us", "eu.fr"):
        await gateway.publish(b"x", token=token)
    params: dict[str, Any] = {"depth": 1, "prefix": gateway.subject}
    level = (await gateway.http.get(f"{gateway.path}/subjects", params=params)).json()
    assert level["subjects"] == [
        {"token": "eu", "subject": f"{gateway.subject}.eu", "messages": 4, "children": 3},
        {"token": "us", "subject": f"{gateway.subject}.us", "messages": 1, "children": 0},
    ]
    assert (level["total"], level["complete"]) == (2, True)
    level = (
        await gateway.http.get(
            f"{gateway.path}/subjects", params={"depth": 2, "prefix": f"{gateway.subject}.eu", "limit": 1}
        )
    ).json()
    assert (level["subjects"][0]["token"], level["subjects"][0]["messages"], level["total"]) == ("fr", 2, 3)
    root = (await gateway.http.get(f"{gateway.path}/subjects", params={"depth": 1})).json()
    assert [node["token"] for node in root["subjects"]] == [gateway.subject]


async def test_messages_are_found_by_text_in_subject_headers_and_body(gateway: Gateway) -> None:
    await gateway.add_stream()
    await gateway.publish(b"a needle here", b"nothing")
    await gateway.publish(b"x", token="NEEDLE")
    await gateway.http.post(
        f"/v2/subjects/{gateway.subject}.a", content=b"y", headers={"Nats-Header-X-Tag": "the Needle"}
    )
    path = f"{gateway.path}/messages"
    found = (await gateway.http.get(path, params={"search": "needle"})).json()
    assert [each["seq"] for each in found["messages"]][:2] == [1, 3]
    assert "next" not in found
    found = (await gateway.http.get(path, params={"search": "needle", "limit": 1})).json()
    assert ([each["seq"] for each in found["messages"]], found["next"]) == ([1], 2)
    found = (await gateway.http.get(path, params={"search": "needle", "seq": 2, "limit": 1})).json()
    assert [each["seq"] for each in found["messages"]] == [3]


async def test_states_come_as_events(gateway: Gateway) -> None:
    await gateway.add_stream()
    await gateway.publish(b"1")
    consumer = await gateway.add_consumer("c", sample_freq="100%")
    (name, state), (_, again) = await events(gateway, f"{gateway.path}/state/live?every=0.5", 2)
    assert (name, state["messages"], state["rates"]) == ("state", 1, None)
    assert again["rates"] == {"in_msgs": 0.0, "messages": 0.0, "bytes": 0.0}
    ((name, info),) = await events(gateway, f"{consumer}/state/live?every=0.5", 1)
    assert (name, info["name"], info["num_pending"], info["latency"]) == ("state", "c", 1, None)
    missing = await gateway.http.get(f"{gateway.path}/consumers/none/state/live")
    assert missing.status_code == 404


async def test_a_stream_is_sealed(gateway: Gateway) -> None:
    await gateway.add_stream()
    sealed = await gateway.http.post(f"{gateway.path}/seal")
    assert (sealed.status_code, sealed.json()["config"]["sealed"]) == (200, True)
    refused = await gateway.http.post(f"{gateway.path}/purge")
    assert refused.status_code in (409, 422), refused.text


async def test_a_consumer_is_reset_to_a_time(gateway: Gateway) -> None:
    await gateway.add_stream()
    await gateway.publish(b"1", b"2", b"3")
    consumer = await gateway.add_consumer()
    for message in await gateway.fetch(consumer, batch=3):
        await gateway.http.post(f"{consumer}/acks", json={"acks": [{"ack_id": message["ack_id"]}]})
    stored = (await gateway.http.get(f"{gateway.path}/messages/2")).json()
    reset = await gateway.http.post(f"{consumer}/reset", json={"time": stored["time"]})
    assert (reset.status_code, reset.json()["num_pending"]) == (200, 2), reset.text
    late = await gateway.http.post(f"{consumer}/reset", json={"time": "2200-01-01T00:00:00Z"})
    assert (late.status_code, late.json()["num_pending"]) == (200, 0), late.text
    both = await gateway.http.post(f"{consumer}/reset", json={"time": stored["time"], "seq": 1})
    assert both.status_code == 400


async def test_a_read_only_gateway_changes_nothing(
    start_gateway: Callable[..., Any], shared_server: Callable[..., ServerProcess]
) -> None:
    gateway: Gateway = await start_gateway(shared_server(jetstream=True), read_only=True)
    assert (await gateway.http.get("/v2/whoami")).json()["read_only"] is True
    for method, path in (
        ("POST", "/v2/streams"),
        ("POST", "/v2/subjects/a.b"),
        ("DELETE", "/v2/streams/S"),
        ("PUT", "/v2/streams/S/config"),
        ("POST", "/v2/streams/S/consumers/C/fetch"),
        ("GET", "/v2/streams/S/consumers/C/live"),
        ("POST", "/v1/admin/stream"),
        ("POST", "/v1/data/subject/a.b"),
        ("GET", "/v1/data/stream/S/consumer/C?subject_name=a&max_msg_inflight=1"),
    ):
        answer = await gateway.http.request(method, path, content=b"{}")
        assert (answer.status_code, "read-only" in answer.text) == (403, True), (method, path, answer.text)
    assert (await gateway.http.get("/v2/streams")).status_code == 200
