"""Administration of streams and consumers."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.kits.gateway.v2 import Gateway
from tests.kits.reference import ServerProcess

_NANOSECONDS = 1_000_000_000


async def test_a_stream_is_created_read_changed_and_deleted(gateway: Gateway) -> None:
    config = {"name": gateway.stream, "subjects": [f"{gateway.subject}.>"], "max_age": 60 * _NANOSECONDS}
    made = await gateway.http.post("/v2/streams", json=config)
    assert made.status_code == 201
    assert made.headers["Location"] == gateway.path
    assert made.json()["config"]["max_age"] == 60 * _NANOSECONDS
    assert (await gateway.http.post("/v2/streams", json=config)).status_code == 201  # the same once more
    read = (await gateway.http.get(gateway.path)).json()
    assert (read["config"]["name"], read["state"]["messages"]) == (gateway.stream, 0)
    assert "type" not in read

    got = await gateway.http.get(f"{gateway.path}/config")
    assert got.headers["ETag"] == made.headers["ETag"]
    changed = await gateway.http.put(
        f"{gateway.path}/config",
        json={**got.json(), "description": "changed"},
        headers={"If-Match": got.headers["ETag"]},
    )
    assert (changed.status_code, changed.json()["description"]) == (200, "changed")
    assert changed.headers["ETag"] != got.headers["ETag"]

    assert (await gateway.http.delete(gateway.path)).status_code == 204
    gone = await gateway.http.get(gateway.path)
    assert (gone.status_code, gone.json()["err_code"]) == (404, 10059)


async def test_a_change_of_what_somebody_else_changed_is_412(gateway: Gateway) -> None:
    await gateway.add_stream()
    got = await gateway.http.get(f"{gateway.path}/config")
    config, old = got.json(), {"If-Match": got.headers["ETag"]}
    first = await gateway.http.put(f"{gateway.path}/config", json={**config, "description": "1"}, headers=old)
    second = await gateway.http.put(
        f"{gateway.path}/config", json={**config, "description": "2"}, headers=old
    )
    assert (first.status_code, second.status_code) == (200, 412)
    assert (await gateway.http.get(f"{gateway.path}/config")).json()["description"] == "1"


async def test_a_configuration_that_is_known_is_304_whatever_was_published(gateway: Gateway) -> None:
    await gateway.add_stream()
    got = await gateway.http.get(f"{gateway.path}/config")
    await gateway.publish(b"x")
    again = await gateway.http.get(
        f"{gateway.path}/config", headers={"If-None-Match": f'"other", {got.headers["ETag"]}'}
    )
    assert (again.status_code, again.content) == (304, b"")


@pytest.mark.parametrize(
    ("config", "status", "err_code"),
    [
        ({"no_such_field": 1}, 422, 10025),
        ({"subjects": "not a list"}, 422, 10025),
        ({"retention": "never"}, 422, 10025),
        ({"max_age": -5}, 422, 10052),
        ({"num_replicas": 3}, 422, 10074),
    ],
)
async def test_what_jetstream_does_not_accept_is_422_with_its_code(
    gateway: Gateway, config: dict[str, object], status: int, err_code: int
) -> None:
    answer = await gateway.http.post("/v2/streams", json={"name": gateway.stream, **config})
    assert (answer.status_code, answer.json().get("err_code")) == (status, err_code), answer.text


async def test_what_does_not_go_with_what_is_there_is_409(gateway: Gateway) -> None:
    await gateway.add_stream()
    other = {"name": f"{gateway.stream}b", "subjects": [f"{gateway.subject}.a"]}
    overlapping = await gateway.http.post("/v2/streams", json=other)
    assert (overlapping.status_code, overlapping.json()["err_code"]) == (409, 10065)
    same_name = await gateway.http.post("/v2/streams", json={"name": gateway.stream, "storage": "memory"})
    assert (same_name.status_code, same_name.json()["err_code"]) == (409, 10058)


async def test_a_name_in_the_body_must_be_that_of_the_path(gateway: Gateway) -> None:
    await gateway.add_stream()
    answer = await gateway.http.put(f"{gateway.path}/config", json={"name": "other"})
    assert answer.status_code == 400


async def test_streams_are_listed_in_pages(gateway: Gateway) -> None:
    names = [f"{gateway.stream}x{number}" for number in range(3)]
    for name in names:
        made = await gateway.http.post(
            "/v2/streams", json={"name": name, "subjects": [f"{gateway.subject}.{name}"]}
        )
        assert made.status_code == 201
    found: list[str] = []
    offset: int | None = 0
    while offset is not None:
        query = {"offset": str(offset), "limit": "2", "subject": f"{gateway.subject}.>"}
        page = (await gateway.http.get("/v2/streams", params=query)).json()
        assert page["total"] == 3
        found += [stream["config"]["name"] for stream in page["streams"]]
        offset = page.get("next_offset")
    assert found == names


async def test_messages_are_purged_by_subject_sequence_and_number(gateway: Gateway) -> None:
    await gateway.add_stream()
    await gateway.publish("1", "2", "3", token="a")
    await gateway.publish("4", "5", token="b")
    purge = f"{gateway.path}/purge"
    keep = {"subject": f"{gateway.subject}.a", "keep": 1}
    assert (await gateway.http.post(purge, json=keep)).json() == {"purged": 2}
    assert (await gateway.http.post(purge, json={"seq": 5})).json() == {"purged": 2}
    assert (await gateway.http.post(purge)).json() == {"purged": 1}
    assert (await gateway.http.post(purge, json={"filter": "x"})).status_code == 400
    wrong = await gateway.http.post(purge, content=b"{}", headers={"Content-Type": "text/plain"})
    assert wrong.status_code == 415


async def test_a_sealed_stream_refuses_with_409(gateway: Gateway) -> None:
    await gateway.add_stream()
    await gateway.publish("1")
    config = (await gateway.http.get(f"{gateway.path}/config")).json()
    sealed = await gateway.http.put(f"{gateway.path}/config", json={**config, "sealed": True})
    assert sealed.json()["sealed"] is True
    answer = await gateway.http.post(f"/v2/subjects/{gateway.subject}.a", content=b"x")
    assert (answer.status_code, answer.json()["err_code"]) == (409, 10109)


async def test_the_account_is_told(gateway: Gateway) -> None:
    account = (await gateway.http.get("/v2/account")).json()
    assert {"memory", "storage", "streams", "limits", "api"} <= set(account)


async def test_unknown_paths_methods_and_parameters_are_problems(gateway: Gateway) -> None:
    for method, path, status in (
        ("GET", "/v2/nothing", 404),
        ("GET", "/v2/streams/a/b/c/d", 404),
        ("GET", "/v2/streams/", 404),
        ("PATCH", "/v2/streams", 405),
        ("GET", "/v2/streams?unknown=1", 400),
        ("GET", "/v2/streams?limit=0", 400),
        ("GET", "/v2/streams?limit=1&limit=2", 400),
        ("GET", "/v2/streams?offset=x", 400),
    ):
        answer = await gateway.http.request(method, path)
        assert (answer.status_code, answer.json()["status"]) == (status, status), path
        assert answer.headers["Content-Type"] == "application/problem+json"
    allowed = await gateway.http.request("PATCH", "/v2/streams")
    assert allowed.headers["Allow"] == "GET, HEAD, POST"


async def test_a_prefix_of_the_listener_is_in_the_paths_that_are_told(
    start_gateway: Any, shared_server: Callable[..., ServerProcess]
) -> None:
    gateway: Gateway = await start_gateway(shared_server(jetstream=True), prefix="/mq")
    made = await gateway.http.post("/mq/v2/streams", json={"name": gateway.stream})
    assert made.headers["Location"] == f"/mq/v2/streams/{gateway.stream}"
    assert (await gateway.http.get(made.headers["Location"])).status_code == 200
    assert (await gateway.http.get("/v2/streams")).status_code == 404


async def test_metrics_tell_the_routes_and_not_the_names(gateway: Gateway) -> None:
    await gateway.add_stream()
    await gateway.publish("1")
    await gateway.http.get(f"{gateway.path}nope")
    metrics = (await gateway.http.get("/metrics")).text
    assert 'route="/v2/streams/{stream}",status="404"' in metrics
    assert 'millstream_gateway_messages_published_total{api="v2"} 1.0' in metrics
    assert gateway.stream not in metrics
