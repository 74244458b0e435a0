"""Reading what a stream holds, without a consumer."""

import pytest

from tests.kits.gateway.v2 import Gateway


async def test_a_message_is_read_by_its_sequence(gateway: Gateway) -> None:
    await gateway.add_stream()
    await gateway.publish("one", "two")
    message = (await gateway.http.get(f"{gateway.path}/messages/2")).json()
    assert message.pop("time").endswith("Z")
    assert message == {"stream": gateway.stream, "seq": 2, "subject": f"{gateway.subject}.a", "data": "two"}
    missing = await gateway.http.get(f"{gateway.path}/messages/3")
    assert (missing.status_code, missing.json()["err_code"]) == (404, 10037)
    for wrong in ("0", "-1", "x", "1.5", "99999999999999999999"):
        assert (await gateway.http.get(f"{gateway.path}/messages/{wrong}")).status_code == 400


@pytest.mark.parametrize(
    ("form", "shown"),
    [
        ("auto", [{"data": '{"a":1}'}, {"base64": "/w=="}, {"data": "x"}]),
        ("json", [{"json": {"a": 1}}, {"base64": "/w=="}, {"data": "x"}]),
        ("text", [{"data": '{"a":1}'}, {"data": "�"}, {"data": "x"}]),
        ("base64", [{"base64": "eyJhIjoxfQ=="}, {"base64": "/w=="}, {"base64": "eA=="}]),
        ("none", [{}, {}, {}]),
    ],
)
async def test_bodies_are_shown_as_asked_for(gateway: Gateway, form: str, shown: list[object]) -> None:
    await gateway.add_stream()
    await gateway.publish(b'{"a":1}', b"\xff", b"x")
    page = (await gateway.http.get(f"{gateway.path}/messages?payload={form}")).json()["messages"]
    kept = [{key: message[key] for key in ("data", "json", "base64") if key in message} for message in page]
    assert kept == shown


async def test_the_last_and_the_next_of_a_subject(gateway: Gateway) -> None:
    await gateway.add_stream()
    await gateway.publish("1", token="a")
    await gateway.publish("2", token="b")
    await gateway.publish("3", token="a")
    last, following = f"{gateway.path}/last", f"{gateway.path}/next"
    assert (await gateway.http.get(last)).json()["seq"] == 3
    assert (await gateway.http.get(f"{last}?subject={gateway.subject}.b")).json()["seq"] == 2
    assert (await gateway.http.get(f"{following}?subject={gateway.subject}.a&seq=2")).json()["seq"] == 3
    assert (await gateway.http.get(f"{following}?subject={gateway.subject}.b&seq=3")).status_code == 404
    assert (await gateway.http.get(f"{last}?subject=a%20b")).status_code == 400


async def test_a_page_begins_where_it_is_told_and_says_where_to_go_on(gateway: Gateway) -> None:
    await gateway.add_stream()
    await gateway.publish("1", "2", token="a")
    await gateway.publish("3", token="b")
    await gateway.publish("4", "5", token="a")
    path = f"{gateway.path}/messages"
    first = (await gateway.http.get(f"{path}?limit=3&subject={gateway.subject}.a")).json()
    assert ([message["data"] for message in first["messages"]], first["next_seq"]) == (["1", "2", "4"], 5)
    second = (await gateway.http.get(f"{path}?seq=5&subject={gateway.subject}.a")).json()
    assert [message["data"] for message in second["messages"]] == ["5"]
    assert "next_seq" not in second
    time = first["messages"][2]["time"]
    since = (await gateway.http.get(path, params={"since": time})).json()["messages"]
    assert [message["data"] for message in since] == ["4", "5"]
    assert (await gateway.http.get(path, params={"since": time, "seq": "1"})).status_code == 400
    assert (await gateway.http.get(path, params={"since": "yesterday"})).status_code == 400


async def test_a_deleted_message_is_gone(gateway: Gateway) -> None:
    await gateway.add_stream()
    await gateway.publish("1", "2")
    assert (await gateway.http.delete(f"{gateway.path}/messages/1")).status_code == 204
    assert (await gateway.http.delete(f"{gateway.path}/messages/2?erase=false")).status_code == 204
    assert (await gateway.http.get(f"{gateway.path}/messages/1")).status_code == 404
    assert (await gateway.http.delete(f"{gateway.path}/messages/1")).status_code == 404


async def test_an_answer_that_nobody_offers_is_406(gateway: Gateway) -> None:
    await gateway.add_stream()
    await gateway.publish("1")
    for path in (f"{gateway.path}/messages/1", f"{gateway.path}/live"):
        answer = await gateway.http.get(path, headers={"Accept": "image/png"})
        assert answer.status_code == 406
