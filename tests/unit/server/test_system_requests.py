"""Requests to the server itself, asked by nats-py; what is expected was seen on nats-server 2.15."""

import asyncio
import gzip
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from nats.errors import NoRespondersError

from millstream.broker.close_reason import CloseReason
from tests.kits.server.system import CONFIG, PATIENCE_S, System, ask, running


@pytest_asyncio.fixture
async def system(tmp_path: Path) -> AsyncIterator[System]:
    async with running(tmp_path) as started:
        yield started


async def test_answers_are_signed_and_numbered(system: System) -> None:
    operator = await system.join("sys")
    first = await ask(operator, "$SYS.REQ.SERVER.PING.HEALTHZ")
    second = await ask(operator, system.subject("HEALTHZ"))
    broker = system.server.broker
    assert first["data"] == second["data"] == {"status": "ok", "status_code": 200}
    expected = {
        "name": "probe",
        "host": "127.0.0.1",
        "id": broker.identity.server_id,
        "ver": "2.15.1",
        "tags": ["a:b"],
    }
    assert {key: first["server"][key] for key in expected} == expected
    assert first["server"]["seq"] < second["server"]["seq"]


async def test_statistics_count_messages(system: System) -> None:
    operator, client = await system.join("sys"), await system.join("a")
    before = (await ask(operator, "$SYS.REQ.SERVER.PING"))["statsz"]
    await client.publish("x", b"12345")
    await client.flush()
    after = (await ask(operator, "$SYS.REQ.SERVER.PING.STATSZ"))["statsz"]
    # Besides the five bytes there is the request itself, which has none.
    assert after["received"]["bytes"] - before["received"]["bytes"] == 5
    assert (after["connections"], after["active_accounts"]) == (2, 2)


async def test_user_learns_who_it_is(system: System) -> None:
    answer = await ask(await system.join("limited"), "$SYS.REQ.USER.INFO")
    assert answer["data"] == {
        "user": "limited",
        "account": "A",
        "account_name": "A",
        "permissions": {
            "publish": {"allow": ["$SYS.>"], "deny": ["y"]},
            "subscribe": {"allow": ["z q", "_INBOX.>"]},
            "responses": {"max": 3, "ttl": 60_000_000_000},
        },
    }


@pytest.mark.parametrize(
    "subject",
    [
        "$SYS.REQ.SERVER.PING",
        "$SYS.REQ.SERVER.PING.VARZ",
        "$SYS.REQ.ACCOUNT.A.CONNZ",
        "$SYS.DEBUG.SUBSCRIBERS",
    ],
)
async def test_other_accounts_cannot_ask_about_the_server(system: System, subject: str) -> None:
    client = await system.join("a")
    with pytest.raises(NoRespondersError):
        await client.request(subject, b"", timeout=PATIENCE_S)


@pytest.mark.parametrize("subject", ["$SYS.REQ.ACCOUNT.PING.CONNZ", "$SYS.REQ.SERVER.PING.CONNZ"])
@pytest.mark.parametrize("body", [{}, {"acc": "A"}, {"state": 2}, {"user": "b", "auth": True}])
async def test_account_sees_only_its_own_connections(system: System, subject: str, body: Any) -> None:
    await system.join("a", name="stranger")
    answer = await ask(await system.join("b", name="me"), subject, body)
    assert [each["name"] for each in answer["data"]["connections"]] == ["me"]


async def test_number_of_a_connection_does_not_open_another_account(system: System) -> None:
    stranger = await system.join("a", name="stranger")
    cid = stranger._client_id
    asker = await system.join("b")
    for body in ({"cid": cid}, {"cid": cid, "state": 2}, {"cid": cid, "acc": "A", "auth": True}):
        answer = await ask(asker, "$SYS.REQ.ACCOUNT.PING.CONNZ", body)
        assert (answer["data"]["num_connections"], answer["data"]["connections"]) == (0, [])
    answer = await ask(await system.join("sys"), "$SYS.REQ.SERVER.PING.CONNZ", {"cid": cid})
    assert [each["name"] for each in answer["data"]["connections"]] == ["stranger"]


async def test_account_statistics_are_of_the_account_that_asks(system: System) -> None:
    await system.join("a")
    answer = await ask(await system.join("b"), "$SYS.REQ.ACCOUNT.PING.STATZ", {"accounts": ["A"]})
    assert [each["acc"] for each in answer["data"]["account_statz"]] == ["B"]
    answer = await ask(await system.join("sys"), "$SYS.REQ.ACCOUNT.PING.STATZ", {"accounts": ["A", "NONE"]})
    assert [each["acc"] for each in answer["data"]["account_statz"]] == ["A"]


@pytest.mark.parametrize(
    ("name", "body", "error"),
    [
        ("SERVER.PING.CONNZ", {"sort": "foo"}, "invalid sorting option: foo"),
        (
            "SERVER.PING.SUBSZ",
            {"test": "foo.*"},
            "invalid test subject, must be valid publish subject: foo.*",
        ),
        ("SERVER.PING.ACCOUNTZ", {"account": "NOPE"}, "Account NOPE does not exist"),
        ("ACCOUNT.NOPE.INFO", {}, "Account NOPE does not exist"),
        ("ACCOUNT.A.JSZ", {}, "jetstream not enabled"),
    ],
)
async def test_document_that_cannot_be_made_is_null(system: System, name: str, body: Any, error: str) -> None:
    answer = await ask(await system.join("sys"), f"$SYS.REQ.{name}", body)
    assert answer["data"] is None
    assert answer["error"] == {"code": 500, "description": error}


async def test_unreadable_request_has_no_data(system: System) -> None:
    answer = await ask(await system.join("sys"), "$SYS.REQ.SERVER.PING.VARZ", b"{bad")
    complaint = "invalid character 'b' looking for beginning of object key string"
    assert answer["error"] == {"code": 400, "description": complaint}
    assert "data" not in answer


@pytest.mark.parametrize(
    ("subject", "body"),
    [
        ("$SYS.REQ.SERVER.PING.HEALTHZ", {"server_name": "other"}),
        ("$SYS.REQ.SERVER.PING", {"tags": ["c"]}),
        ("$SYS.REQ.ACCOUNT.B.STATZ", {}),  # has no client
        ("$SYS.REQ.ACCOUNT.B.CONNS", {}),
        ("$SYS.REQ.ACCOUNT.SYS.CONNS", {"acc": "B"}),  # not the one in the subject
    ],
)
async def test_request_for_somebody_else_is_met_with_silence(system: System, subject: str, body: Any) -> None:
    operator = await system.join("sys")
    inbox = await operator.subscribe("answers")
    await operator.publish(subject, json.dumps(body).encode(), reply="answers")
    await operator.publish("$SYS.REQ.SERVER.PING.IDZ", b"", reply="answers")
    # Requests are answered in order, so the first answer is the second one's.
    answer = json.loads((await inbox.next_msg(timeout=PATIENCE_S)).data)
    assert answer == {"name": "probe", "host": "127.0.0.1", "id": system.server.broker.identity.server_id}


async def test_answer_is_compressed_on_demand(system: System) -> None:
    operator = await system.join("sys")
    for wanted, used in (("gzip", "gzip"), ("snappy, gzip", "gzip"), ("snappy", "identity")):
        answer = await operator.request(
            "$SYS.REQ.SERVER.PING.HEALTHZ", b"", timeout=PATIENCE_S, headers={"Accept-Encoding": wanted}
        )
        assert answer.headers == {"Content-Encoding": used}
        text = gzip.decompress(answer.data) if used == "gzip" else answer.data
        assert json.loads(text)["data"]["status"] == "ok"


@pytest.mark.parametrize(
    ("question", "count"), [("foo", 2), ("foo q", 1), ("foo other", 0), ("bar.1", 1), ("bar.>", 1), ("", 0)]
)
async def test_subscribers_are_counted(system: System, question: str, count: int) -> None:
    operator = await system.join("sys")
    await operator.subscribe("foo")
    await operator.subscribe("foo", queue="q")
    await operator.subscribe("bar.*")
    assert await ask(operator, "$SYS.DEBUG.SUBSCRIBERS", question.encode()) == count


# -- commands -----------------------------------------------------------------------------------------


async def test_kick_closes_one_client(system: System) -> None:
    closed = asyncio.Event()

    async def note() -> None:
        closed.set()

    operator = await system.join("sys")
    client, other = await system.join("a", closed_cb=note), await system.join("a")
    answer = await ask(operator, system.subject("KICK"), {"cid": client._client_id})
    assert answer.keys() == {"server"}
    await asyncio.wait_for(closed.wait(), PATIENCE_S)
    await other.flush()
    assert system.server.broker.closed[-1].session.reason is CloseReason.KICKED


async def test_operator_can_kick_itself(system: System) -> None:
    closed = asyncio.Event()

    async def note() -> None:
        closed.set()

    operator = await system.join("sys", closed_cb=note)
    body = json.dumps({"cid": operator._client_id}).encode()
    await operator.publish(system.subject("KICK"), body, reply="nobody")
    await asyncio.wait_for(closed.wait(), PATIENCE_S)


@pytest.mark.parametrize(
    ("command", "complaint"), [("KICK", "no such client or leafnode id"), ("LDM", "no such client id")]
)
async def test_command_to_an_unknown_client_fails(system: System, command: str, complaint: str) -> None:
    answer = await ask(await system.join("sys"), system.subject(command), {"cid": 99999})
    assert answer["error"] == {"code": 500, "description": complaint}


async def test_command_without_a_client_is_not_answered(
    system: System, caplog: pytest.LogCaptureFixture
) -> None:
    operator = await system.join("sys")
    inbox = await operator.subscribe("answers")
    await operator.publish(system.subject("KICK"), b'{"cid":-1}', reply="answers")
    await operator.publish("$SYS.REQ.SERVER.PING.IDZ", b"", reply="answers")
    assert json.loads((await inbox.next_msg(timeout=PATIENCE_S)).data)["name"] == "probe"
    assert "cannot unmarshal number -1" in caplog.text


async def test_reload_opens_a_new_account_to_requests(system: System) -> None:
    operator = await system.join("sys")
    system.config.write_text(CONFIG.replace("  B {", "  C { users: [ { user: c, password: p } ] }\n  B {"))
    assert (await ask(operator, system.subject("RELOAD"))).keys() == {"server"}
    answer = await ask(await system.join("c"), "$SYS.REQ.USER.INFO")
    assert answer["data"]["account"] == "C"
    assert (await ask(operator, "$SYS.REQ.SERVER.PING.HEALTHZ"))["data"]["status"] == "ok"


async def test_failed_reload_says_why(system: System) -> None:
    operator = await system.join("sys")
    system.config.write_text(CONFIG + "\nmax_payload: wombat")
    answer = await ask(operator, system.subject("RELOAD"))
    assert answer["error"]["code"] == 500
    assert "max_payload" in answer["error"]["description"]
