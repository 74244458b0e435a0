"""Refusals of the broker are answered at once, for single messages and for lines of a batch."""

import base64
import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.kits.gateway.v2 import Gateway
from tests.kits.reference import ServerProcess

CONFIG = """
authorization {
  default_permissions: {publish: ">", subscribe: ">"}
  users = [
    {user: own, password: own-password}
    {user: alice, password: alice-password, permissions: {
      publish: ["open.>", "$JS.API.>"], subscribe: ["_INBOX.>"]}}
  ]
}
no_auth_user: own
"""
ALICE = {"Authorization": "Basic " + base64.b64encode(b"alice:alice-password").decode()}


@pytest.fixture
async def guarded(start_gateway: Any, shared_server: Callable[..., ServerProcess]) -> Gateway:
    gateway: Gateway = await start_gateway(shared_server(jetstream=True, config=CONFIG))
    await gateway.add_stream(subjects=[f"open.{gateway.subject}.*", f"closed.{gateway.subject}.*"])
    return gateway


async def test_a_message_that_is_not_permitted_is_403(guarded: Gateway) -> None:
    allowed = f"/v2/subjects/open.{guarded.subject}.a"
    denied = f"/v2/subjects/closed.{guarded.subject}.a"
    assert (await guarded.http.post(allowed, content=b"1", headers=ALICE)).status_code == 200
    answer = await guarded.http.post(denied, content=b"2", headers=ALICE)
    assert (answer.status_code, answer.json()["status"]) == (403, 403)
    assert (await guarded.http.post(denied, content=b"3")).status_code == 200  # the gateway itself may


async def test_lines_that_are_not_permitted_are_403_and_the_others_are_stored(guarded: Gateway) -> None:
    lines = [
        json.dumps({"subject": f"{place}.{guarded.subject}.{token}", "data": "x"})
        for token in ("a", "b", "A")
        for place in ("open", "closed", "closed")
    ]
    answer = await guarded.http.post(
        "/v2/messages",
        content="\n".join(lines),
        headers={**ALICE, "Content-Type": "application/x-ndjson"},
    )
    told = [json.loads(line) for line in answer.text.splitlines()]
    assert [line.get("seq") for line in told] == [1, None, None, 2, None, None, 3, None, None]
    refused = [line["error"] for line in told if not line["ok"]]
    assert {error["status"] for error in refused} == {403}
    assert all("closed." in error["detail"] for error in refused)
