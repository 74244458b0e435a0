"""Callers without credentials share one connection to NATS: no request makes the server close it."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.kits.gateway.v2 import Gateway

_DIGITS = "9" * 5000
_BIG = "9" * 25

Probe = tuple[str, str, dict[str, Any]]


def _json(text: str) -> dict[str, Any]:
    return {"content": text.encode(), "headers": {"Content-Type": "application/json"}}


def _numbers(gateway: Gateway, consumer: str) -> list[Probe]:
    """Numbers of thousands of digits, or that are none, wherever a number may stand."""
    publish = f"/v2/subjects/{gateway.subject}.a"
    probes: list[Probe] = []
    for number in (_DIGITS, _BIG, "-" + _DIGITS, "1e99999", "٣" * 3, "0x" + _DIGITS):
        for path in (
            f"{gateway.path}/messages/{number}",
            f"{gateway.path}/messages?seq={number}",
            f"{gateway.path}/messages?limit={number}",
            f"{gateway.path}/next?seq={number}",
            f"{gateway.path}/live?seq={number}",
            f"{gateway.path}/live?heartbeat={number}",
            f"{consumer}/live?window={number}",
            f"/v2/streams?offset={number}",
            f"{gateway.path}/subjects?offset={number}",
            f"/v1/data/stream/{gateway.stream}/consumer/c?subject_name=a&max_msg_inflight={number}",
        ):
            probes.append(("GET", path, {}))
        probes.append(("DELETE", f"{gateway.path}/messages/{number}", {}))
        probes.append(("POST", f"{publish}?timeout={number}", {"content": b"x"}))
        if number.isascii():
            probes.append(("GET", f"{gateway.path}/live", {"headers": {"Last-Event-ID": number}}))
            for name in (
                "Nats-TTL",
                "Nats-Expected-Last-Sequence",
                "Nats-Expected-Last-Subject-Sequence",
                "Nats-Rollup",
            ):
                probes.append(("POST", publish, {"content": b"x", "headers": {name: number}}))
        for field in ("batch", "max_bytes", "expires"):
            probes.append(("POST", f"{consumer}/fetch", _json(f'{{"{field}":{number}}}')))
        for field in ("seq", "keep"):
            probes.append(("POST", f"{gateway.path}/purge", _json(f'{{"{field}":{number}}}')))
        for field in ("max_msgs", "max_age", "max_bytes", "num_replicas", "max_msg_size"):
            body = f'{{"name":"X{gateway.stream}","subjects":["x{gateway.subject}"],"{field}":{number}}}'
            probes.append(("POST", "/v2/streams", _json(body)))
        probes.append(("POST", f"{consumer}/reset", _json(f'{{"seq":{number}}}')))
        probes.append(("POST", f"{consumer}/acks", _json(f'{{"acks":[{{"ack_id":"1","delay":{number}}}]}}')))
        ack = f"/v1/data/stream/{gateway.stream}/consumer/c/ack"
        probes.append(("POST", ack, _json(f'{{"stream":{number},"consumer":1}}')))
        limit = f"/v1/admin/stream/{gateway.stream}/limit"
        probes.append(("PUT", limit, _json(f'{{"max_age":{number}}}')))
    for path in (f"{publish}?timeout=nan", f"{publish}?timeout=inf", f"{publish}?timeout=-inf"):
        probes.append(("POST", path, {"content": b"x"}))
    probes.append(("GET", f"{gateway.path}/live?heartbeat=nan", {}))
    return probes


def _lengths(gateway: Gateway, consumer: str) -> list[Probe]:
    """Names, subjects, headers and bodies that are too long for a line or a message."""
    publish = f"/v2/subjects/{gateway.subject}.a"
    almost = b"x" * (1024 * 1024 - 100)
    headers = {"Millstream-Header-Long": "h" * 1000}
    probes: list[Probe] = [
        ("POST", publish, {"content": almost, "headers": headers}),
        ("POST", f"{publish}?ack=none", {"content": almost, "headers": headers}),
        ("POST", f"/v2/requests/{gateway.subject}.a", {"content": almost, "headers": headers}),
        ("POST", f"{publish}?ack=none", {"content": b"x" * (1024 * 1024 + 1)}),
    ]
    for long in ("a" * 5000, "a." * 2000 + "a", "€" * 1020, "%F0%9F%92%A5" * 1020, "a" * 40_000):
        probes += [
            ("POST", f"/v2/subjects/{long}", {"content": b"x"}),
            ("POST", f"/v2/subjects/{long}?ack=none", {"content": b"x"}),
            ("POST", f"/v2/requests/{long}", {"content": b"x"}),
            ("GET", f"{gateway.path}/last?subject={long}", {}),
            ("GET", f"/v2/streams/{long.replace('.', '')}", {}),
            ("GET", f"{gateway.path}/consumers/{long.replace('.', '')}", {}),
            ("POST", f"/v1/data/subject/{long}", {"content": b"eA=="}),
        ]
    for long in ("a" * 5000, "a" * 30_000):
        probes += [
            ("GET", f"/v1/admin/stream/{long}", {}),
            ("DELETE", f"/v1/admin/stream/{long}", {}),
            ("POST", "/v1/admin/stream", _json(json.dumps({"name": long}))),
            ("GET", f"/v1/admin/stream/{gateway.stream}/consumer/{long}", {}),
            ("GET", f"/v1/data/stream/{long}/consumer/{long}?subject_name=a", {}),
            ("POST", f"/v1/data/stream/{long}/consumer/c/ack", _json('{"stream":1,"consumer":1}')),
        ]
    return probes


@pytest.mark.parametrize("probes", [_numbers, _lengths])
async def test_no_request_of_one_caller_ends_the_connection_of_all(
    gateway: Gateway, probes: Callable[[Gateway, str], list[Probe]]
) -> None:
    await gateway.add_stream(allow_msg_ttl=True)
    consumer = await gateway.add_consumer()
    link = gateway.server.core.links.own
    generation = link.generation
    wrong: list[tuple[object, ...]] = []
    for method, path, more in probes(gateway, consumer):
        answer = await gateway.http.request(method, path, **more)
        envelope = path.startswith("/v1/") and answer.json().get("error", {}).get("code") == 500
        if answer.status_code >= 500 and not envelope:  # httpmq says 500 to names that are not there
            wrong.append((method, path[:80], str(more)[:80], answer.status_code, answer.text[:200]))
        if not link.is_up or link.generation != generation:
            wrong.append((method, path[:80], str(more)[:80], "the link was lost"))
            break
    assert not wrong
    await gateway.publish("still there")
    assert link.generation == generation


async def test_no_line_of_a_batch_ends_the_connection_of_all(gateway: Gateway) -> None:
    await gateway.add_stream()
    link = gateway.server.core.links.own
    generation = link.generation
    lines = [
        {"subject": "a" * 5000, "data": "x"},
        {"subject": f"{gateway.subject}." + "a." * 3000 + "a", "data": "x"},
        {"subject": f"{gateway.subject}." + "€" * 2000, "data": "x", "headers": {"A": "b"}},
        {"subject": f"{gateway.subject}.a", "data": "x" * (1024 * 1024 - 10), "headers": {"A": "b" * 100}},
        {"subject": f"{gateway.subject}.a", "data": "fine"},
    ]
    body = "".join(json.dumps(line) + "\n" for line in lines)
    answer = await gateway.http.post("/v2/messages", content=body)
    told = [json.loads(line) for line in answer.text.splitlines()]
    assert [each["ok"] for each in told] == [False, False, False, False, True], told
    assert [each["error"]["status"] for each in told[:4]] == [400, 400, 400, 413]
    assert link.is_up
    assert link.generation == generation


_RESERVED = ("$MILLSTREAM.ARROW.INFO", "$MILLSTREAM", "$NRG.x", "$JSC.x", "_INBOX.abc.1", "_INBOX")


@pytest.mark.parametrize("subject", _RESERVED)
async def test_subjects_of_the_server_are_not_for_callers(gateway: Gateway, subject: str) -> None:
    await gateway.add_stream()
    http = gateway.http
    publish = f"/v2/subjects/{gateway.subject}.a"
    trace = {"Nats-Trace-Dest": subject}
    envelope = json.dumps({"data": "x", "headers": {"nats-trace-dest": subject}})
    kind = {"Content-Type": "application/vnd.millstream.message+json"}
    for answer in (
        await http.post(f"/v2/requests/{subject}"),
        await http.post(f"/v2/requests/{subject.replace('$', '%24').replace('.', '%2E')}"),
        await http.post(f"/v2/subjects/{subject}"),
        await http.post(f"/v2/subjects/{subject}?ack=none"),
        await http.post(f"/v2/messages?subject={subject}", content=b'{"data":"x"}\n'),
        await http.post(publish, headers=trace),
        await http.post(f"{publish}?ack=none", headers=trace),
        await http.post(f"/v2/requests/{gateway.subject}.a", headers=trace),
        await http.post(publish, content=envelope, headers=kind),
    ):
        assert answer.status_code == 403, (str(answer.request.url), answer.text)
    lines = [
        {"subject": subject, "data": "x"},
        {"subject": subject, "json": 1},
        {"subject": f"{gateway.subject}.a", "headers": {"Nats-Trace-Dest": [subject]}},
    ]
    answer = await http.post("/v2/messages", content="".join(json.dumps(line) + "\n" for line in lines))
    assert [json.loads(line)["error"]["status"] for line in answer.text.splitlines()] == [403, 403, 403]
    assert (await http.post(f"/v1/data/subject/{subject}", content="eA==")).status_code == 400
