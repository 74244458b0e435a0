"""Dead letters over HTTP: found, read, edited, put back once, and never lost."""

import asyncio
import json
from typing import Any

import pytest

from millstream.base.ids import nuid
from tests.kits.gateway.v2 import Gateway


@pytest.fixture
async def letters(gateway: Gateway) -> str:
    """The name of a stream for letters, beside the stream that they come from."""
    await gateway.add_stream()
    name = f"DLQ{nuid()}"
    config = {"name": name, "subjects": [f"dlq.{gateway.subject}.>"]}
    assert (await gateway.http.post("/v2/streams", json=config)).status_code == 201
    return name


async def write(gateway: Gateway, body: str = "body", **headers: str) -> int:
    """Store a letter as the pipelines do; returns its sequence."""
    own = {
        "Millstream-Dlq-Reason": "max_deliver",
        "Millstream-Dlq-Consumer": "c",
        "Millstream-Dlq-Deliveries": "5",
        "Millstream-Orig-Subject": f"{gateway.subject}.back",
        "Millstream-Orig-Stream": gateway.stream,
        "Millstream-Orig-Seq": "7",
        "Trace": "abc",
        **{name.replace("_", "-"): value for name, value in headers.items()},
    }
    line = {"subject": f"dlq.{gateway.subject}.c", "headers": own, "data": body}
    answer = await gateway.http.post(
        "/v2/messages", content=json.dumps(line), headers={"Content-Type": "application/x-ndjson"}
    )
    return int(json.loads(answer.text)["seq"])


async def messages(gateway: Gateway) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = (await gateway.http.get(f"{gateway.path}/messages")).json()["messages"]
    return found


async def test_letters_are_found_and_read(gateway: Gateway, letters: str) -> None:
    seq = await write(gateway)
    streams = (await gateway.http.get("/v2/dead-letters")).json()["streams"]
    assert [each["messages"] for each in streams if each["stream"] == letters] == [1]
    assert gateway.stream not in [each["stream"] for each in streams]
    page = (await gateway.http.get(f"/v2/dead-letters/{letters}")).json()
    (letter,) = page["letters"]
    assert (letter["reason"], letter["deliveries"], letter["consumer"]) == ("max_deliver", 5, "c")
    assert letter["origin"] == {"subject": f"{gateway.subject}.back", "stream": gateway.stream, "seq": 7}
    assert (letter["data"], letter["headers"], letter["can_be_redriven"]) == ("body", {"Trace": "abc"}, True)
    assert (await gateway.http.get(f"/v2/dead-letters/{letters}/{seq}")).json() == letter
    assert (await gateway.http.get(f"/v2/dead-letters/{letters}/99")).status_code == 404
    assert (await gateway.http.get("/v2/dead-letters/NONE")).status_code == 404


async def test_letters_come_in_pages(gateway: Gateway, letters: str) -> None:
    for number in range(5):
        await write(gateway, str(number))
    found, start = [], 1
    while start:
        params = {"start": start, "limit": 2}
        page = (await gateway.http.get(f"/v2/dead-letters/{letters}", params=params)).json()
        found += [letter["data"] for letter in page["letters"]]
        start = page.get("next")
    assert found == ["0", "1", "2", "3", "4"]


async def test_a_letter_goes_back_once(gateway: Gateway, letters: str) -> None:
    seq = await write(gateway)
    path = f"/v2/dead-letters/{letters}/redrive"
    (result,) = (await gateway.http.post(path, json={"seqs": [seq]})).json()["results"]
    assert (result["outcome"], result["stream"], result["stored_seq"]) == ("redriven", gateway.stream, 1)
    (message,) = await messages(gateway)
    assert (message["subject"], message["data"]) == (f"{gateway.subject}.back", "body")
    assert message["headers"] == {"Trace": "abc", "Nats-Msg-Id": f"redrive:{letters}:{seq}"}
    (result,) = (await gateway.http.post(path, json={"seqs": [seq]})).json()["results"]
    assert result["outcome"] == "not_found"
    assert len(await messages(gateway)) == 1


async def test_a_letter_that_was_cut_off_before_it_was_deleted_is_not_stored_twice(
    gateway: Gateway, letters: str
) -> None:
    seq = await write(gateway)
    sent = await gateway.http.post(  # what a redrive does before it is cut off
        f"/v2/subjects/{gateway.subject}.back",
        content=b"body",
        headers={"Nats-Msg-Id": f"redrive:{letters}:{seq}"},
    )
    assert sent.status_code == 200
    path = f"/v2/dead-letters/{letters}/redrive"
    edited = (await gateway.http.post(path, json={"seqs": [seq], "data": "edited"})).json()["results"]
    assert (edited[0]["outcome"], "already" in edited[0]["error"]) == ("refused", True)
    (result,) = (await gateway.http.post(path, json={"all": True})).json()["results"]
    assert result["outcome"] == "duplicate"
    assert len(await messages(gateway)) == 1
    assert (await gateway.http.get(f"/v2/dead-letters/{letters}")).json()["letters"] == []


async def test_all_letters_go_back_in_order_and_at_the_same_time_once(gateway: Gateway, letters: str) -> None:
    for number in range(8):
        await write(gateway, str(number))
    path = f"/v2/dead-letters/{letters}/redrive"
    first = (await gateway.http.post(path, json={"all": True, "limit": 3})).json()
    assert (len(first["results"]), bool(first["next"])) == (3, True)
    await asyncio.gather(*(gateway.http.post(path, json={"all": True}) for _ in range(3)))
    assert [each["data"] for each in await messages(gateway)] == [str(number) for number in range(8)]


async def test_an_edited_letter_goes_back_as_it_was_edited(gateway: Gateway, letters: str) -> None:
    seq = await write(gateway)
    path = f"/v2/dead-letters/{letters}/redrive"
    body = {"seqs": [seq], "json": {"fixed": True}, "headers": {"Why": "by hand", "Nats-Rollup": "all"}}
    (result,) = (await gateway.http.post(path, json=body)).json()["results"]
    assert result["outcome"] == "redriven"
    (message,) = await messages(gateway)
    assert (message["data"], message["headers"]["Why"]) == ('{"fixed":true}', "by hand")
    assert "Nats-Rollup" not in message["headers"]


@pytest.mark.parametrize(
    "subject", ["$JS.API.STREAM.DELETE.{stream}", "_INBOX.x", "a b", "a.*", "", "$SYS.X"]
)
async def test_a_letter_can_not_be_sent_to_the_server_itself(
    gateway: Gateway, letters: str, subject: str
) -> None:
    subject = subject.replace("{stream}", gateway.stream)
    seq = await write(gateway, Millstream_Orig_Subject=subject)
    path = f"/v2/dead-letters/{letters}/redrive"
    (result,) = (await gateway.http.post(path, json={"seqs": [seq]})).json()["results"]
    assert result["outcome"] == "refused"
    assert (await gateway.http.get(gateway.path)).status_code == 200
    assert (await gateway.http.get(f"/v2/dead-letters/{letters}/{seq}")).status_code == 200


async def test_a_letter_that_no_stream_takes_stays(gateway: Gateway, letters: str) -> None:
    seq = await write(gateway, Millstream_Orig_Subject=f"nobody.{gateway.subject}")
    other = await write(gateway, "later")
    path = f"/v2/dead-letters/{letters}/redrive"
    stopped = (await gateway.http.post(path, json={"all": True})).json()
    assert ([each["outcome"] for each in stopped["results"]], stopped["next"]) == (["failed"], seq)
    found = (await gateway.http.get(f"/v2/dead-letters/{letters}")).json()["letters"]
    assert [letter["seq"] for letter in found] == [seq, other]


async def test_a_letter_without_its_message_stays_unless_one_is_given(gateway: Gateway, letters: str) -> None:
    seq = await write(gateway, "", Millstream_Dlq_Gone="true")
    path = f"/v2/dead-letters/{letters}/redrive"
    (result,) = (await gateway.http.post(path, json={"seqs": [seq]})).json()["results"]
    assert result["outcome"] == "refused"
    (result,) = (await gateway.http.post(path, json={"seqs": [seq], "data": "new"})).json()["results"]
    assert result["outcome"] == "redriven"


async def test_the_original_leaves_its_work_queue_only_if_it_is_that_message(gateway: Gateway) -> None:
    await gateway.add_stream(retention="workqueue")
    name = f"DLQ{nuid()}"
    config = {"name": name, "subjects": [f"dlq.{gateway.subject}.>"]}
    assert (await gateway.http.post("/v2/streams", json=config)).status_code == 201
    await gateway.publish(b"original", b"another", token="back")
    original = (await gateway.http.get(f"{gateway.path}/messages/1")).json()
    time = original["time"][:26].rstrip("Z") + "Z"
    right = await write(gateway, Millstream_Orig_Seq="1", Millstream_Orig_Time=time)
    wrong = await write(gateway, Millstream_Orig_Seq="2", Millstream_Orig_Time="2020-01-01T00:00:00Z")
    path = f"/v2/dead-letters/{name}/redrive"
    results = (await gateway.http.post(path, json={"seqs": [right, wrong]})).json()["results"]
    assert [each["outcome"] for each in results] == ["redriven", "redriven"]
    assert [each["seq"] for each in await messages(gateway)] == [2, 3, 4]


@pytest.mark.parametrize(
    "body", [{}, {"seqs": [1], "all": True}, {"seqs": [1, 2], "data": "x"}, {"all": True, "data": "x"}]
)
async def test_a_redrive_says_what_it_is_about(gateway: Gateway, letters: str, body: dict[str, Any]) -> None:
    answer = await gateway.http.post(f"/v2/dead-letters/{letters}/redrive", json=body)
    assert answer.status_code == 400


async def test_pipelines_are_shown_as_they_report(gateway: Gateway) -> None:
    subject = f"{gateway.subject}.progress"
    first = (await gateway.http.get("/v2/pipelines", params={"subject": subject})).json()
    assert (first["subject"], first["jobs"]) == (subject, [])
    report = {
        "job": "archive",
        "kind": "archive",
        "state": "running",
        "rows": 7,
        "rate": 1.5,
        "lag": {"S": 2},
    }
    for body in (json.dumps(report), "no report", json.dumps({**report, "rows": 9})):
        await gateway.http.post(f"/v2/subjects/{subject}", params={"ack": "none"}, content=body)
    found: list[Any] = []
    while not found or found[0]["rows"] != 9:
        found = (await gateway.http.get("/v2/pipelines", params={"subject": subject})).json()["jobs"]
    assert (found[0]["job"], found[0]["lag"], found[0]["subject"]) == ("archive", {"S": 2}, subject)
    for refused, status in (("$JS.API.>", 403), (">", 400), ("a b", 400)):
        answer = await gateway.http.get("/v2/pipelines", params={"subject": refused})
        assert answer.status_code in (status, 400), answer.text
