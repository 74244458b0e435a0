"""Publishing one message: the body as it is, headers, conditions, core NATS, request and reply."""

import base64

import nats
import pytest

from tests.kits.gateway.v2 import Gateway
from tests.kits.patience import PATIENCE_S


async def test_the_body_is_stored_byte_for_byte(gateway: Gateway) -> None:
    await gateway.add_stream()
    body = bytes(range(256))
    answer = await gateway.http.post(
        f"/v2/subjects/{gateway.subject}.a", content=body, headers={"Content-Type": "application/json"}
    )
    assert (answer.status_code, answer.json()) == (200, {"stream": gateway.stream, "seq": 1})
    read = await gateway.http.get(
        f"{gateway.path}/messages/1", headers={"Accept": "application/octet-stream"}
    )
    assert read.content == body
    assert read.headers["Nats-Subject"] == f"{gateway.subject}.a"
    assert read.headers["Nats-Sequence"] == "1"


async def test_base64_is_decoded_only_when_asked_for(gateway: Gateway) -> None:
    await gateway.add_stream()
    text = base64.b64encode(b"\x00\xff")
    subject = f"/v2/subjects/{gateway.subject}.a"
    assert (await gateway.http.post(subject, content=text)).status_code == 200
    assert (await gateway.http.post(f"{subject}?encoding=base64", content=text)).status_code == 200
    assert (await gateway.http.post(f"{subject}?encoding=base64", content=b"!")).status_code == 400
    page = (await gateway.http.get(f"{gateway.path}/messages")).json()
    assert [message.get("data") or message["base64"] for message in page["messages"]] == [
        text.decode(),
        text.decode(),
    ]


@pytest.mark.parametrize(
    ("envelope", "body"),
    [
        ({"data": "grün"}, "grün".encode()),
        ({"json": {"a": [1, None]}}, b'{"a":[1,null]}'),
        ({"base64": "AP8="}, b"\x00\xff"),
        ({}, b""),
    ],
)
async def test_an_envelope_has_body_and_headers(
    gateway: Gateway, envelope: dict[str, object], body: bytes
) -> None:
    await gateway.add_stream()
    envelope = {**envelope, "headers": {"x-lower": "1", "Many": ["a", "b"]}}
    answer = await gateway.http.post(
        f"/v2/subjects/{gateway.subject}.a",
        json=envelope,
        headers={"Content-Type": "application/vnd.millstream.message+json"},
    )
    assert answer.status_code == 200, answer.text
    message = (await gateway.http.get(f"{gateway.path}/messages/1?payload=base64")).json()
    assert base64.b64decode(message["base64"]) == body
    assert message["headers"] == {"x-lower": "1", "Many": ["a", "b"]}


async def test_headers_of_http_become_headers_of_the_message(gateway: Gateway) -> None:
    await gateway.add_stream(allow_msg_ttl=True)
    answer = await gateway.http.post(
        f"/v2/subjects/{gateway.subject}.a",
        content=b"x",
        headers={
            "nats-ttl": "60s",
            "Idempotency-Key": "order-1",
            "millstream-header-trace-id": "abc",
            "X-Other": "stays here",
        },
    )
    assert answer.status_code == 200, answer.text
    message = (await gateway.http.get(f"{gateway.path}/messages/1")).json()
    assert message["headers"] == {"Nats-TTL": "60s", "Trace-Id": "abc", "Nats-Msg-Id": "order-1"}
    raw = await gateway.http.get(f"{gateway.path}/messages/1", headers={"Accept": "application/octet-stream"})
    assert raw.headers["Millstream-Header-Trace-Id"] == "abc"
    assert raw.headers["Nats-Msg-Id"] == "order-1"


async def test_a_repeated_key_is_stored_once(gateway: Gateway) -> None:
    await gateway.add_stream()
    answers = [
        (
            await gateway.http.post(
                f"/v2/subjects/{gateway.subject}.a", content=b"x", headers={"Idempotency-Key": "k"}
            )
        ).json()
        for _ in range(2)
    ]
    assert answers == [
        {"stream": gateway.stream, "seq": 1},
        {"stream": gateway.stream, "seq": 1, "duplicate": True},
    ]


async def test_two_different_keys_for_one_message_are_refused(gateway: Gateway) -> None:
    headers = {"Idempotency-Key": "k", "Nats-Msg-Id": "other"}
    answer = await gateway.http.post(f"/v2/subjects/{gateway.subject}.a", content=b"x", headers=headers)
    assert answer.status_code == 400


@pytest.mark.parametrize(
    ("header", "value", "err_code"),
    [
        ("Nats-Expected-Last-Sequence", "7", 10071),
        ("Nats-Expected-Last-Subject-Sequence", "7", 10071),
        ("Nats-Expected-Stream", "OTHER", 10060),
        ("Nats-Expected-Last-Msg-Id", "other", 10070),
    ],
)
async def test_a_condition_that_does_not_hold_is_412(
    gateway: Gateway, header: str, value: str, err_code: int
) -> None:
    await gateway.add_stream()
    answer = await gateway.http.post(
        f"/v2/subjects/{gateway.subject}.a", content=b"x", headers={header: value}
    )
    assert (answer.status_code, answer.json()["err_code"]) == (412, err_code)
    assert answer.headers["Content-Type"] == "application/problem+json"


async def test_a_subject_that_no_stream_stores_is_404(gateway: Gateway) -> None:
    answer = await gateway.http.post(f"/v2/subjects/{gateway.subject}", content=b"x")
    assert answer.status_code == 404
    assert gateway.subject in answer.json()["detail"]


async def test_a_message_that_is_too_big_is_413(gateway: Gateway) -> None:
    await gateway.add_stream(max_msg_size=10)
    answer = await gateway.http.post(f"/v2/subjects/{gateway.subject}.a", content=b"x" * 11)
    assert (answer.status_code, answer.json()["err_code"]) == (413, 10054)
    answer = await gateway.http.post(f"/v2/subjects/{gateway.subject}.a", content=b"x" * (2**20 + 1))
    assert answer.status_code == 413


async def test_a_body_beyond_the_limit_is_413(gateway: Gateway) -> None:
    most = gateway.server.core.settings.limits.max_body
    answer = await gateway.http.post(f"/v2/subjects/{gateway.subject}.a", content=b"x" * (most + 1))
    assert answer.status_code == 413


async def test_without_ack_it_is_sent_to_whoever_listens(gateway: Gateway) -> None:
    connection = await nats.connect(gateway.nats.client_url)
    try:
        subscription = await connection.subscribe(gateway.subject)
        await connection.flush()
        answer = await gateway.http.post(
            f"/v2/subjects/{gateway.subject}?ack=none", content=b"x", headers={"Millstream-Header-A": "b"}
        )
        assert (answer.status_code, answer.content) == (202, b"")
        message = await subscription.next_msg(timeout=PATIENCE_S)
        assert (message.data, message.headers) == (b"x", {"A": "b"})
    finally:
        await connection.close()


async def test_a_request_gets_its_answer(gateway: Gateway) -> None:
    connection = await nats.connect(gateway.nats.client_url)

    async def respond(message: nats.aio.msg.Msg) -> None:
        await connection.publish(
            message.reply, b"<" + message.data + b">", headers={"Content-Type": "text/csv", "A": "1"}
        )

    try:
        await connection.subscribe(gateway.subject, cb=respond)
        await connection.flush()
        answer = await gateway.http.post(f"/v2/requests/{gateway.subject}", content=b"hi")
        assert (answer.status_code, answer.content) == (200, b"<hi>")
        assert answer.headers["Content-Type"] == "text/csv"
        assert answer.headers["Millstream-Header-A"] == "1"
    finally:
        await connection.close()


async def test_a_request_that_nobody_hears_is_404_and_one_that_nobody_answers_504(gateway: Gateway) -> None:
    answer = await gateway.http.post(f"/v2/requests/{gateway.subject}", content=b"hi")
    assert answer.status_code == 404
    connection = await nats.connect(gateway.nats.client_url)
    try:
        await connection.subscribe(gateway.subject)
        await connection.flush()
        for _ in range(20):  # nats-server may need a moment to know it for other connections
            answer = await gateway.http.post(f"/v2/requests/{gateway.subject}?timeout=0.1", content=b"hi")
            if answer.status_code != 404:
                break
        assert answer.status_code == 504
    finally:
        await connection.close()


async def test_a_subject_may_have_slashes_and_any_letter(gateway: Gateway) -> None:
    await gateway.add_stream(subjects=[f"{gateway.subject}.>"])
    for token in ("a/b", "a%2Fb", "grün", "a$b", "a/"):
        answer = await gateway.http.post(f"/v2/subjects/{gateway.subject}.{token}", content=b"x")
        assert answer.status_code == 200, answer.text
    subjects = (await gateway.http.get(f"{gateway.path}/subjects")).json()["subjects"]
    tokens = {subject.removeprefix(f"{gateway.subject}."): count for subject, count in subjects.items()}
    assert tokens == {"a/b": 2, "grün": 1, "a$b": 1, "a/": 1}
