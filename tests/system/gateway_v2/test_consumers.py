"""Administration of consumers."""

from tests.kits.gateway.v2 import Gateway


async def test_a_consumer_is_created_read_changed_and_deleted(gateway: Gateway) -> None:
    await gateway.add_stream()
    consumer = await gateway.add_consumer("c", max_ack_pending=7)
    read = (await gateway.http.get(consumer)).json()
    assert (read["name"], read["config"]["max_ack_pending"]) == ("c", 7)
    got = await gateway.http.get(f"{consumer}/config")
    changed = await gateway.http.put(
        f"{consumer}/config",
        json={**got.json(), "max_ack_pending": 8},
        headers={"If-Match": got.headers["ETag"]},
    )
    assert (changed.status_code, changed.json()["max_ack_pending"]) == (200, 8), changed.text
    stale = await gateway.http.put(
        f"{consumer}/config",
        json={**got.json(), "max_ack_pending": 9},
        headers={"If-Match": got.headers["ETag"]},
    )
    assert stale.status_code == 412
    assert (await gateway.http.delete(consumer)).status_code == 204
    gone = await gateway.http.delete(consumer)
    assert (gone.status_code, gone.json()["err_code"]) == (404, 10014)


async def test_a_consumer_without_a_name_gets_one(gateway: Gateway) -> None:
    await gateway.add_stream()
    made = await gateway.http.post(f"{gateway.path}/consumers", json={"ack_policy": "explicit"})
    assert made.status_code == 201
    assert (await gateway.http.get(made.headers["Location"])).json()["name"] == made.json()["name"]


async def test_the_same_again_is_fine_and_another_one_of_that_name_is_409(gateway: Gateway) -> None:
    await gateway.add_stream()
    await gateway.add_consumer("c")
    await gateway.add_consumer("c")
    answer = await gateway.http.post(
        f"{gateway.path}/consumers",
        json={"durable_name": "c", "ack_policy": "explicit", "max_deliver": 3},
    )
    assert (answer.status_code, answer.json()["err_code"]) == (409, 10148)


async def test_changing_a_consumer_that_is_not_there_is_404(gateway: Gateway) -> None:
    await gateway.add_stream()
    answer = await gateway.http.put(f"{gateway.path}/consumers/c/config", json={"durable_name": "c"})
    assert (answer.status_code, answer.json()["err_code"]) == (404, 10149)


async def test_consumers_are_listed_in_pages(gateway: Gateway) -> None:
    await gateway.add_stream()
    for name in ("a", "b", "c"):
        await gateway.add_consumer(name)
    first = (await gateway.http.get(f"{gateway.path}/consumers?limit=2")).json()
    assert ([each["name"] for each in first["consumers"]], first["next_offset"]) == (["a", "b"], 2)
    second = (await gateway.http.get(f"{gateway.path}/consumers?offset=2")).json()
    assert ([each["name"] for each in second["consumers"]], second["total"]) == (["c"], 3)
    assert "next_offset" not in second
    unknown = await gateway.http.get(f"{gateway.path}nope/consumers")
    assert unknown.status_code == 404


async def test_a_paused_consumer_delivers_when_it_is_resumed(gateway: Gateway) -> None:
    await gateway.add_stream()
    consumer = await gateway.add_consumer()
    await gateway.publish("1")
    paused = (await gateway.http.post(f"{consumer}/pause", json={"seconds": 1000})).json()
    assert paused["paused"] is True
    assert (await gateway.http.get(consumer)).json()["paused"] is True
    assert await gateway.fetch(consumer, batch=1, expires=0.3) == []
    assert (await gateway.http.post(f"{consumer}/resume")).json()["paused"] is False
    assert [message["data"] for message in await gateway.fetch(consumer, batch=1)] == ["1"]
    until = await gateway.http.post(f"{consumer}/pause", json={"until": "2999-01-01T00:00:00Z"})
    assert until.json()["pause_until"] == "2999-01-01T00:00:00Z"
    for wrong in ({}, {"seconds": 1, "until": "2999-01-01T00:00:00Z"}, {"until": "tomorrow"}, {"seconds": 0}):
        assert (await gateway.http.post(f"{consumer}/pause", json=wrong)).status_code == 400


async def test_a_reset_consumer_delivers_again(gateway: Gateway) -> None:
    await gateway.add_stream()
    consumer = await gateway.add_consumer()
    await gateway.publish("1", "2", "3")
    acks = [{"ack_id": message["ack_id"]} for message in await gateway.fetch(consumer, batch=3)]
    assert (await gateway.http.post(f"{consumer}/acks", json={"acks": acks})).json()["ok"] is True
    reset = (await gateway.http.post(f"{consumer}/reset", json={"seq": 2})).json()
    assert reset["reset_seq"] == 2
    assert [message["data"] for message in await gateway.fetch(consumer, batch=2)] == ["2", "3"]
    missing = await gateway.http.post(f"{gateway.path}/consumers/none/reset")
    assert (missing.status_code, missing.json()["err_code"]) == (404, 10014)
