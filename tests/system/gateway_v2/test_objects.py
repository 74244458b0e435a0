"""Object stores over HTTP, and the same stores through nats-py."""

import asyncio
import base64
import hashlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import quote

import nats
import pytest
from nats.js.client import JetStreamContext

from millstream.base.ids import nuid
from tests.kits.gateway.v2 import Gateway, eventually
from tests.kits.patience import PATIENCE_S

_CHUNK = 128 * 1024


@pytest.fixture
async def store(gateway: Gateway) -> str:
    """The path of a new store."""
    name = f"B{nuid()}"
    made = await gateway.http.post("/v2/objects", json={"bucket": name})
    assert (made.status_code, made.headers["Location"]) == (201, f"/v2/objects/{name}"), made.text
    return f"/v2/objects/{name}"


@asynccontextmanager
async def jetstream(gateway: Gateway) -> AsyncIterator[JetStreamContext]:
    connection = await nats.connect(gateway.nats.client_url)
    try:
        yield connection.jetstream()
    finally:
        await connection.close()


def content_of(size: int) -> bytes:
    """Bytes of which no two chunks are the same."""
    return b"".join(hashlib.sha256(b"%d" % number).digest() for number in range(size // 32 + 1))[:size]


async def subjects_of(gateway: Gateway, store: str) -> dict[str, int]:
    """The chunk subjects of a store with their number of chunks."""
    path = f"/v2/streams/OBJ_{store.rpartition('/')[2]}/subjects"
    found: dict[str, int] = (await gateway.http.get(path)).json()["subjects"]
    return {subject: count for subject, count in found.items() if ".C." in subject}


@pytest.mark.parametrize("size", [0, 1, _CHUNK - 1, _CHUNK, _CHUNK + 1, 5 * _CHUNK + 17])
async def test_an_object_comes_back_as_it_was(gateway: Gateway, store: str, size: int) -> None:
    content = content_of(size)
    digest = hashlib.sha256(content)
    put = await gateway.http.put(
        f"{store}/a/b%20c.txt", content=content, headers={"Content-Type": "text/plain"}
    )
    assert put.status_code == 201, put.text
    info = put.json()
    assert (info["name"], info.get("size", 0)) == ("a/b c.txt", size)
    assert put.headers["ETag"] == f'"{digest.hexdigest()}"'
    got = await gateway.http.get(f"{store}/a/b%20c.txt")
    assert got.content == content
    assert got.headers["ETag"] == put.headers["ETag"]
    assert got.headers["Content-Type"] == "text/plain"
    assert got.headers["Content-Length"] == str(size)
    assert got.headers["Content-Disposition"] == "attachment; filename*=UTF-8''b%20c.txt"
    assert got.headers["Repr-Digest"] == f"sha-256=:{base64.b64encode(digest.digest()).decode()}:"
    head = await gateway.http.head(f"{store}/a/b%20c.txt")
    assert (head.status_code, head.content) == (200, b"")
    assert head.headers["Content-Length"] == str(size)
    known = await gateway.http.get(f"{store}/a/b%20c.txt", headers={"If-None-Match": got.headers["ETag"]})
    assert (known.status_code, known.content) == (304, b"")


@pytest.mark.parametrize(
    ("wanted", "first", "end"),
    [
        ("bytes=0-0", 0, 1),
        ("bytes=10-19", 10, 20),
        (f"bytes={_CHUNK - 1}-{_CHUNK}", _CHUNK - 1, _CHUNK + 1),
        (f"bytes={2 * _CHUNK}-", 2 * _CHUNK, 3 * _CHUNK + 5),
        ("bytes=-7", 3 * _CHUNK - 2, 3 * _CHUNK + 5),
        (f"bytes=3-{10**12}", 3, 3 * _CHUNK + 5),
        ("bytes=-999999999", 0, 3 * _CHUNK + 5),
    ],
)
async def test_a_range_is_answered_with_206(
    gateway: Gateway, store: str, wanted: str, first: int, end: int
) -> None:
    content = content_of(3 * _CHUNK + 5)
    await gateway.http.put(f"{store}/o", content=content)
    got = await gateway.http.get(f"{store}/o", headers={"Range": wanted})
    assert (got.status_code, got.headers["Content-Range"]) == (206, f"bytes {first}-{end - 1}/{len(content)}")
    assert got.content == content[first:end]


async def test_ranges_that_are_none_or_several_are_answered_as_http_says(
    gateway: Gateway, store: str
) -> None:
    put = await gateway.http.put(f"{store}/o", content=b"0123456789")
    for wanted in ("bytes=0-1,4-5", "lines=1-2", "bytes=5-2", "bytes=x-"):
        whole = await gateway.http.get(f"{store}/o", headers={"Range": wanted})
        assert (whole.status_code, whole.content) == (200, b"0123456789")
    beyond = await gateway.http.get(f"{store}/o", headers={"Range": "bytes=10-"})
    assert (beyond.status_code, beyond.headers["Content-Range"]) == (416, "bytes */10")
    other = await gateway.http.get(f"{store}/o", headers={"Range": "bytes=0-1", "If-Range": '"other"'})
    assert other.status_code == 200
    same = await gateway.http.get(
        f"{store}/o", headers={"Range": "bytes=0-1", "If-Range": put.headers["ETag"]}
    )
    assert (same.status_code, same.content) == (206, b"01")


async def test_objects_are_listed_replaced_and_deleted(gateway: Gateway, store: str) -> None:
    for name in ("a", "b", "c"):
        assert (await gateway.http.put(f"{store}/{name}", content=name)).status_code == 201
    first = (await gateway.http.get(store, params={"limit": 2})).json()
    rest = (await gateway.http.get(store, params={"limit": 2, "after": first["next"]})).json()
    assert [each["name"] for each in first["objects"] + rest["objects"]] == ["a", "b", "c"]
    assert "next" not in rest
    assert first["store"]["sealed"] is False
    replaced = await gateway.http.put(f"{store}/a", content=content_of(300_000))
    assert replaced.status_code == 200
    assert sorted((await subjects_of(gateway, store)).values()) == [1, 1, 3]
    assert (await gateway.http.delete(f"{store}/a")).status_code == 204
    assert (await gateway.http.get(f"{store}/a")).status_code == 404
    assert (await gateway.http.delete(f"{store}/a")).status_code == 404
    assert sorted((await subjects_of(gateway, store)).values()) == [1, 1]
    assert (await gateway.http.put(f"{store}/a", content=b"again")).status_code == 201


async def test_conditions_hold_for_uploads(gateway: Gateway, store: str) -> None:
    path = f"{store}/o"
    put = await gateway.http.put(path, content=b"1", headers={"If-None-Match": "*"})
    assert put.status_code == 201
    assert (await gateway.http.put(path, content=b"2", headers={"If-None-Match": "*"})).status_code == 412
    answers = await asyncio.gather(
        *(
            gateway.http.put(path, content=b"%d" % n, headers={"If-Match": put.headers["ETag"]})
            for n in range(2, 8)
        )
    )
    assert sorted(answer.status_code for answer in answers) == [200] + [412] * 5
    assert (await gateway.http.delete(path, headers={"If-Match": put.headers["ETag"]})).status_code == 412

    async def one_chunk_is_left() -> bool:
        return sum((await subjects_of(gateway, store)).values()) == 1

    await eventually(one_chunk_is_left)
    wrong = base64.b64encode(hashlib.sha256(b"other").digest()).decode()
    refused = await gateway.http.put(path, content=b"bytes", headers={"Repr-Digest": f"sha-256=:{wrong}:"})
    assert refused.status_code == 400, refused.text
    await eventually(one_chunk_is_left)


async def test_an_upload_that_is_cut_leaves_nothing(gateway: Gateway, store: str) -> None:
    host, port = gateway.address
    reader, writer = await asyncio.open_connection(host, port)
    head = f"PUT {store}/cut HTTP/1.1\r\nHost: {host}:{port}\r\nContent-Length: 10000000\r\n\r\n"
    writer.write(head.encode() + b"x" * 3_000_000)
    await writer.drain()

    async def chunks_arrive() -> bool:
        return bool(await subjects_of(gateway, store))

    await eventually(chunks_arrive)
    writer.close()

    async def nothing_is_left() -> bool:
        return not await subjects_of(gateway, store)

    await eventually(nothing_is_left)
    assert (await gateway.http.get(f"{store}/cut")).status_code == 404
    assert (await gateway.http.get(store)).json()["objects"] == []
    del reader


async def test_concurrent_uploads_of_one_name_leave_one_object(gateway: Gateway, store: str) -> None:
    contents = [content_of(200_000 + number) for number in range(5)]
    answers = await asyncio.gather(*(gateway.http.put(f"{store}/o", content=each) for each in contents))
    assert {answer.status_code for answer in answers} <= {200, 201}
    assert (await gateway.http.get(f"{store}/o")).content in contents

    async def one_is_left() -> bool:
        return len(await subjects_of(gateway, store)) == 1

    await eventually(one_is_left)


async def test_links_lead_to_objects(gateway: Gateway, store: str) -> None:
    name = store.rpartition("/")[2]
    await gateway.http.put(f"{store}/target", content=b"bytes")
    params = {"link_bucket": name, "link_name": "target"}
    made = await gateway.http.put(f"{store}/link", params=params)
    assert made.status_code == 201, made.text
    assert (await gateway.http.get(f"{store}/link")).content == b"bytes"
    info = (await gateway.http.get(f"{store}/link", params={"info": True})).json()
    assert info["options"]["link"] == {"bucket": name, "name": "target"}
    assert (
        await gateway.http.put(f"{store}/link2", params={**params, "link_name": "link"})
    ).status_code == 409
    assert (await gateway.http.put(f"{store}/target", params=params)).status_code == 409
    whole = await gateway.http.put(f"{store}/whole", params={"link_bucket": name})
    assert whole.status_code == 201
    assert (await gateway.http.get(f"{store}/whole")).status_code == 404
    await gateway.http.delete(f"{store}/target")
    assert (await gateway.http.get(f"{store}/link")).status_code == 404
    missing = await gateway.http.put(f"{store}/link3", params={**params, "link_name": "none"})
    assert missing.status_code == 404


async def test_a_sealed_store_takes_nothing(gateway: Gateway, store: str) -> None:
    await gateway.http.put(f"{store}/o", content=b"1")
    assert (await gateway.http.post(store, json={"sealed": False})).status_code == 400
    sealed = await gateway.http.post(store, json={"sealed": True})
    assert (sealed.status_code, sealed.json()["sealed"]) == (200, True)
    refused = await gateway.http.put(f"{store}/p", content=b"2")
    assert refused.status_code in (409, 422, 503), refused.text
    assert (await gateway.http.get(f"{store}/o")).content == b"1"


async def test_nats_py_and_http_see_the_same(gateway: Gateway, store: str) -> None:
    content = content_of(700_000)
    async with jetstream(gateway) as js:
        objects = await js.object_store(store.rpartition("/")[2])
        await gateway.http.put(f"{store}/ours", content=content)
        await gateway.http.put(f"{store}/empty", content=b"")
        assert (await objects.get("ours")).data == content
        async with asyncio.timeout(PATIENCE_S):
            assert (await objects.get("empty")).data == b""
        await objects.put("theirs", content[:-1])
        got = await gateway.http.get(f"{store}/theirs")
        assert got.content == content[:-1]
        part = await gateway.http.get(f"{store}/theirs", headers={"Range": "bytes=400000-400009"})
        assert part.content == content[400_000:400_010]
        assert {info.name for info in await objects.list()} == {"ours", "empty", "theirs"}
        await objects.delete("theirs")
        assert (await gateway.http.get(f"{store}/theirs")).status_code == 404
        await gateway.http.delete(f"{store}/ours")
        with pytest.raises(nats.js.errors.ObjectNotFoundError):
            await objects.get("ours")


async def test_chunks_of_writers_that_took_turns_are_found(gateway: Gateway, store: str) -> None:
    """Two writers at once: the chunks of neither follow each other in the stream."""

    async def slowly(content: bytes) -> AsyncIterator[bytes]:
        for start in range(0, len(content), _CHUNK):
            yield content[start : start + _CHUNK]
            await asyncio.sleep(0.02)

    first, second = content_of(5 * _CHUNK + 9), content_of(5 * _CHUNK + 10)[::-1]
    await asyncio.gather(
        gateway.http.put(f"{store}/first", content=slowly(first)),
        gateway.http.put(f"{store}/second", content=slowly(second)),
    )
    assert (await gateway.http.get(f"{store}/first")).content == first
    assert (await gateway.http.get(f"{store}/second")).content == second
    wanted = {"Range": f"bytes={3 * _CHUNK - 5}-{4 * _CHUNK + 5}"}
    part = await gateway.http.get(f"{store}/second", headers=wanted)
    assert part.content == second[3 * _CHUNK - 5 : 4 * _CHUNK + 6]


@pytest.mark.parametrize(
    "name", ["<script>.txt", "a\r\nSet-Cookie: x=1", '"; filename="x.exe', "é/ü", "a\x1b[2J"]
)
async def test_no_name_breaks_a_header(gateway: Gateway, store: str, name: str) -> None:
    path = f"{store}/{quote(name, safe='')}"
    put = await gateway.http.put(path, content=b"x", headers={"Content-Type": "text/html"})
    assert (put.status_code, put.json()["name"]) == (201, name), put.text
    got = await gateway.http.get(path)
    assert (got.content, got.headers["Content-Type"]) == (b"x", "application/octet-stream")
    assert "Set-Cookie" not in got.headers
    assert got.headers["Content-Disposition"].isascii()
    listed: dict[str, Any] = (await gateway.http.get(store)).json()
    assert [each["name"] for each in listed["objects"]] == [name]


async def test_an_object_whose_chunks_are_gone_is_not_taken_for_whole(gateway: Gateway, store: str) -> None:
    await gateway.http.put(f"{store}/o", content=content_of(3 * _CHUNK))
    stream = f"/v2/streams/OBJ_{store.rpartition('/')[2]}"
    assert (await gateway.http.delete(f"{stream}/messages/2")).status_code == 204
    with pytest.raises(Exception, match=r"closed|incomplete|disconnected|ended|peer"):
        await gateway.http.get(f"{store}/o")
    assert (await gateway.http.delete(f"{stream}/messages/1")).status_code == 204
    assert (await gateway.http.delete(f"{stream}/messages/3")).status_code == 204
    assert (await gateway.http.get(f"{store}/o")).status_code == 409
