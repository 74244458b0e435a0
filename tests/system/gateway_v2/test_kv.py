"""Key-value buckets over HTTP, and the same buckets through nats-py."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import nats
import pytest
from nats.js.client import JetStreamContext

from millstream.base.ids import nuid
from tests.kits.gateway.v2 import Gateway
from tests.kits.patience import PATIENCE_S


@pytest.fixture
async def bucket(gateway: Gateway) -> str:
    """The path of a new bucket that keeps five revisions."""
    name = f"B{nuid()}"
    made = await gateway.http.post("/v2/kv", json={"bucket": name, "history": 5})
    assert (made.status_code, made.headers["Location"]) == (201, f"/v2/kv/{name}"), made.text
    return f"/v2/kv/{name}"


@asynccontextmanager
async def jetstream(gateway: Gateway) -> AsyncIterator[JetStreamContext]:
    connection = await nats.connect(gateway.nats.client_url)
    try:
        yield connection.jetstream()
    finally:
        await connection.close()


async def test_a_bucket_is_created_read_listed_and_deleted(gateway: Gateway, bucket: str) -> None:
    status = (await gateway.http.get(bucket)).json()
    assert (status["history"], status["values"], status["key_ttl"]) == (5, 0, True)
    again = await gateway.http.post("/v2/kv", json={"bucket": status["bucket"], "history": 5})
    assert again.status_code == 201
    other = await gateway.http.post("/v2/kv", json={"bucket": status["bucket"], "history": 6})
    assert other.status_code == 409
    offset, found = 0, []
    while True:
        page = (await gateway.http.get("/v2/kv", params={"offset": offset})).json()
        found += [each["bucket"] for each in page["buckets"]]
        offset = page.get("next_offset")
        if not offset:
            break
    assert status["bucket"] in found
    assert (await gateway.http.delete(bucket)).status_code == 204
    assert (await gateway.http.get(bucket)).status_code == 404
    assert (await gateway.http.delete(bucket)).status_code == 404
    assert (await gateway.http.get(f"{bucket}/a")).status_code == 404


async def test_a_key_is_written_read_and_deleted(gateway: Gateway, bucket: str) -> None:
    written = await gateway.http.put(f"{bucket}/users/alice.email", content=b"a@b\xff")
    assert (written.status_code, written.headers["ETag"]) == (200, '"1"')
    assert written.json() == {"bucket": bucket.rpartition("/")[2], "key": "users/alice.email", "revision": 1}
    read = await gateway.http.get(f"{bucket}/users/alice.email")
    assert (read.content, read.headers["ETag"], read.headers["Nats-Sequence"]) == (b"a@b\xff", '"1"', "1")
    head = await gateway.http.head(f"{bucket}/users/alice.email")
    assert (head.status_code, head.headers["ETag"], head.headers["Content-Length"]) == (200, '"1"', "4")
    as_json = await gateway.http.get(f"{bucket}/users/alice.email", headers={"Accept": "application/json"})
    assert (as_json.json()["base64"], as_json.json()["operation"]) == ("YUBi/w==", "put")
    known = await gateway.http.get(f"{bucket}/users/alice.email", headers={"If-None-Match": '"1"'})
    assert (known.status_code, known.content) == (304, b"")

    assert (await gateway.http.delete(f"{bucket}/users/alice.email")).status_code == 204
    gone = await gateway.http.get(f"{bucket}/users/alice.email")
    assert (gone.status_code, "revision 2" in gone.json()["detail"]) == (404, True)
    assert (await gateway.http.delete(f"{bucket}/users/alice.email")).status_code == 404
    old = await gateway.http.get(f"{bucket}/users/alice.email", params={"revision": 1})
    assert old.content == b"a@b\xff"
    revisions = (await gateway.http.get(f"{bucket}/users/alice.email", params={"history": True})).json()
    assert [(each["revision"], each["operation"]) for each in revisions["entries"]] == [
        (1, "put"),
        (2, "delete"),
    ]
    purged = await gateway.http.delete(f"{bucket}/users/alice.email", params={"purge": True})
    assert purged.status_code == 204
    revisions = (await gateway.http.get(f"{bucket}/users/alice.email", params={"history": True})).json()
    assert [each["operation"] for each in revisions["entries"]] == ["purge"]


async def test_of_two_writers_with_the_same_revision_one_gets_412(gateway: Gateway, bucket: str) -> None:
    path = f"{bucket}/k"
    created = await gateway.http.put(path, content=b"0", headers={"If-None-Match": "*"})
    assert (created.status_code, created.headers["ETag"]) == (201, '"1"')
    assert (await gateway.http.put(path, content=b"x", headers={"If-None-Match": "*"})).status_code == 412
    answers = await asyncio.gather(
        *(gateway.http.put(path, content=b"%d" % n, headers={"If-Match": '"1"'}) for n in range(8))
    )
    assert sorted(answer.status_code for answer in answers) == [200] + [412] * 7
    assert (await gateway.http.put(path, content=b"y", headers={"If-Match": "*"})).status_code == 200
    assert (await gateway.http.delete(path, headers={"If-Match": '"1"'})).status_code == 412
    assert (await gateway.http.delete(path, headers={"If-Match": '"7", "3"'})).status_code == 204
    again = await gateway.http.put(path, content=b"z", headers={"If-None-Match": "*"})
    assert again.status_code == 201  # it was deleted, so it does not exist
    assert (
        await gateway.http.put(f"{bucket}/none", content=b"", headers={"If-Match": "*"})
    ).status_code == 412


async def test_a_value_with_a_time_to_live_goes(gateway: Gateway, bucket: str) -> None:
    for number, options in enumerate(({"params": {"ttl": 1}}, {"headers": {"Nats-TTL": "1s"}})):
        path = f"{bucket}/short{number}"
        written = await gateway.http.put(path, content=b"x", **options)  # type: ignore[arg-type]
        assert written.status_code == 200, written.text
        async with asyncio.timeout(PATIENCE_S):
            while (await gateway.http.get(path)).status_code == 200:  # noqa: ASYNC110 - the server has no event
                await asyncio.sleep(0.1)
    assert (await gateway.http.put(f"{bucket}/a", params={"ttl": 0.5})).status_code == 400
    twice = await gateway.http.put(f"{bucket}/a", params={"ttl": 5}, headers={"Nats-TTL": "5s"})
    assert twice.status_code == 400


async def test_keys_come_in_pages_by_prefix_without_deleted_ones(gateway: Gateway, bucket: str) -> None:
    for number in range(30):
        await gateway.http.put(f"{bucket}/user.{number % 10}.{'ab'[number % 2]}", content=b"%d" % number)
    await gateway.http.put(f"{bucket}/users", content=b"")
    await gateway.http.put(f"{bucket}/other", content=b"")
    await gateway.http.delete(f"{bucket}/user.3.b")

    async def keys(prefix: str, limit: int) -> list[str]:
        found: list[str] = []
        after = 0
        while True:
            params: dict[str, Any] = {"prefix": prefix, "limit": limit, "after": after}
            page = (await gateway.http.get(f"{bucket}/keys", params=params)).json()
            assert len(page["keys"]) <= limit
            found += [line["key"] for line in page["keys"]]
            after = page.get("next")
            if not after:
                return found

    wanted = {f"user.{number}.{'ab'[number % 2]}" for number in range(10)} - {"user.3.b"}
    for limit in (1, 3, 100):
        assert set(await keys("user.", limit)) == wanted
        assert len(await keys("user.", limit)) == len(wanted)
    assert set(await keys("user", 2)) == wanted | {"users"}
    assert set(await keys("", 7)) == wanted | {"users", "other"}
    assert await keys("user.4.", 5) == ["user.4.a"]
    assert await keys("nothing", 5) == []


async def test_watchers_see_what_is_there_and_what_changes_and_come_back(
    gateway: Gateway, bucket: str
) -> None:
    await gateway.http.put(f"{bucket}/a.1", content=b"old")
    await gateway.http.put(f"{bucket}/a.1", content=b"1")
    await gateway.http.put(f"{bucket}/b", content=b"2")
    async with _watch(gateway, f"{bucket}/watch") as events:
        first, second, caught_up = await _take(events, 3)
        assert (first["id"], first["data"]["key"], first["data"]["data"]) == ("2", "a.1", "1")
        assert second["data"]["key"] == "b"
        assert (caught_up["event"], caught_up["data"]) == ("caught_up", {"revision": 3})
        await gateway.http.delete(f"{bucket}/b")
        (deleted,) = await _take(events, 1)
        assert (deleted["id"], deleted["data"]["operation"]) == ("4", "delete")
    await gateway.http.put(f"{bucket}/b", content=b"5")
    async with _watch(gateway, f"{bucket}/watch", **{"Last-Event-ID": "3"}) as events:
        assert [each["id"] for each in await _take(events, 2)] == ["4", "5"]
    async with _watch(gateway, f"{bucket}/watch?key=a.*&history=true&payload=none") as events:
        old, new, _ = await _take(events, 3)
        assert (old["id"], new["id"], "data" in new["data"]) == ("1", "2", False)
    async with _watch(gateway, f"{bucket}/watch?new=true") as events:
        (caught_up,) = await _take(events, 1)
        assert caught_up["event"] == "caught_up"
    for query in ("key=a%0ab", "key=a..b", "new=true&history=true"):
        assert (await gateway.http.get(f"{bucket}/watch?{query}")).status_code == 400


async def test_nats_py_and_http_see_the_same(gateway: Gateway, bucket: str) -> None:
    name = bucket.rpartition("/")[2]
    async with jetstream(gateway) as js:
        kv = await js.key_value(name)
        await gateway.http.put(f"{bucket}/a.b", content=b"1")
        entry = await kv.get("a.b")
        assert (entry.value, entry.revision) == (b"1", 1)
        assert await kv.update("a.b", b"2", last=1) == 2
        assert (await gateway.http.get(f"{bucket}/a.b")).content == b"2"
        await kv.delete("a.b")
        assert (await gateway.http.get(f"{bucket}/a.b")).status_code == 404
        await gateway.http.put(f"{bucket}/c", content=b"3")
        await gateway.http.delete(f"{bucket}/c", params={"purge": True})
        with pytest.raises(nats.js.errors.KeyNotFoundError):
            await kv.get("c")
        own = await js.create_key_value(bucket=f"P{nuid()}")
        await own.put("x", b"y")
        path = f"/v2/kv/{own._name}"
        assert (await gateway.http.get(f"{path}/x")).content == b"y"
        assert (await gateway.http.get(f"{path}/keys")).json()["keys"][0]["key"] == "x"
        assert [entry.key for entry in await kv.history("a.b")] == ["a.b"] * 3


@pytest.mark.parametrize("key", ["a%0d%0aX", "a%20b", "a%00", ".a", "a.", "a..b", "*", "a.%3E", "%C3%A9"])
async def test_what_can_be_no_key_is_400(gateway: Gateway, bucket: str, key: str) -> None:
    for method in ("GET", "PUT", "DELETE"):
        answer = await gateway.http.request(method, f"{bucket}/{key}", content=b"")
        assert answer.status_code == 400, (method, answer.text)


async def test_a_key_may_be_called_like_a_resource(gateway: Gateway, bucket: str) -> None:
    assert (await gateway.http.put(f"{bucket}/%6Beys", content=b"1")).status_code == 200
    assert (await gateway.http.get(f"{bucket}/%6beys")).content == b"1"


async def test_values_with_lines_break_no_event(gateway: Gateway, bucket: str) -> None:
    evil = "x\n\nevent: fake\ndata: {}\r\n\r\n\u2028"
    await gateway.http.put(f"{bucket}/k", content=evil.encode(), headers={"Millstream-Header-Note": "id: 7"})
    async with _watch(gateway, f"{bucket}/watch") as events:
        entry, caught_up = await _take(events, 2)
        assert (entry["event"], entry["data"]["data"], caught_up["event"]) == ("entry", evil, "caught_up")


@asynccontextmanager
async def _watch(gateway: Gateway, path: str, **headers: str) -> AsyncIterator[AsyncIterator[dict[str, Any]]]:
    async with gateway.http.stream("GET", path, headers=headers, timeout=PATIENCE_S) as answer:
        assert answer.status_code == 200, await answer.aread()

        async def events() -> AsyncIterator[dict[str, Any]]:
            event: dict[str, Any] = {}
            async for line in _lines(answer):
                name, _, value = line.partition(": ")
                if not line and "data" in event:
                    yield event
                    event = {}
                elif name == "data":
                    event["data"] = json.loads(value)
                elif line and name in ("id", "event"):
                    event[name] = value

        yield events()


async def _lines(answer: httpx.Response) -> AsyncIterator[str]:
    """Yield lines as SSE has them: other characters that Python takes for line ends are none there."""
    held = b""
    async for piece in answer.aiter_bytes():
        *lines, held = (held + piece).split(b"\n")
        for line in lines:
            yield line.decode()


async def _take(events: AsyncIterator[dict[str, Any]], count: int) -> list[dict[str, Any]]:
    async with asyncio.timeout(PATIENCE_S):
        return [await anext(events) for _ in range(count)]
