"""The caller's NATS identity, and the server that it is connected to."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from millstream.gateway.v2 import system
from millstream.gateway.v2.calls import Call, Reply, answer
from millstream.gateway.v2.operations import Section, Tag, json_answer
from millstream.link.errors import LinkError

section: Final = Section(Tag.ACCOUNT)


class ServerFacts(msgspec.Struct, frozen=True):
    """The server to which the gateway is connected with these credentials."""

    name: str
    id: str
    version: str
    cluster: str
    domain: str
    max_payload: int
    is_millstream: bool


class Me(msgspec.Struct, frozen=True):
    """The caller; `permissions` is null if everything is permitted, or the server does not report them."""

    server: ServerFacts
    account: str | None
    user: str | None
    permissions: dict[str, Any] | None
    is_system: bool
    read_only: bool
    jetstream: bool


@section.get(
    "/whoami",
    "Who the caller is",
    answers=(json_answer(200, "the caller and the server", Me),),
)
async def read_whoami(call: Call) -> Reply:
    """Account, user and permissions of the caller, and facts about the server. The account is null if the
    server does not report it."""
    link = call.link
    await link.until_up(0.0)
    try:
        said = await system.ask(link, system.USER_INFO)
    except system.NotPermitted:
        said = {}
    info = link.dialogue.info
    try:
        await link.api("INFO")
        jetstream = True
    except LinkError:
        jetstream = False
    account = said.get("account_name") or said.get("account") or info.remote_account or None
    return answer(
        Me(
            ServerFacts(
                info.server_name,
                info.server_id,
                info.version,
                info.cluster,
                info.domain,
                info.max_payload,
                info.is_millstream,
            ),
            account,
            said.get("user") or None,
            said.get("permissions") or None,
            await system.is_system(link),
            call.settings.read_only,
            jetstream,
        )
    )
