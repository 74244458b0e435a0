"""Connections of the account, or of all accounts for the system account: list and close."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

import msgspec

from millstream.gateway.errors import BadRequest, NotFound, PermissionDenied
from millstream.gateway.v2 import system
from millstream.gateway.v2.calls import Call, Reply, answer, nothing
from millstream.gateway.v2.operations import Answer, Section, Tag, json_answer
from millstream.gateway.v2.streams import Offset
from millstream.gateway.v2.summaries import Order, Search, page_of
from millstream.link.verbs import request_body

section: Final = Section(Tag.ACCOUNT)

_MOST: Final = 10_000
_MOST_DIGITS: Final = 19

Sort = Literal[
    "cid", "name", "start", "subs", "in_msgs", "out_msgs", "in_bytes", "out_bytes", "pending", "idle"
]
_KEYS: Final[dict[str, str]] = {
    "subs": "subscriptions",
    "pending": "pending_bytes",
    "idle": "last_activity",
}


class ConnectionsQuery(msgspec.Struct, frozen=True):
    search: Search = ""
    sort: Sort = "cid"
    order: Order = "asc"
    offset: Offset = 0
    limit: Annotated[int, msgspec.Meta(ge=1, le=1000, description="how many at most")] = 100
    subscriptions: Annotated[bool, msgspec.Meta(description="with the subjects of each connection")] = False


class ConnectionPage(msgspec.Struct):
    """Rows of the servers' CONNZ, with `server_id` and `server_name`."""

    connections: list[dict[str, Any]]
    total: int
    offset: int
    limit: int


@section.get(
    "/connections",
    "List connections",
    query=ConnectionsQuery,
    answers=(json_answer(200, "a page of connections", ConnectionPage),),
)
async def list_connections(call: Call) -> Reply:
    """Connections of the caller's account, or of all accounts for the system account. At most 10,000 of each
    server are considered."""
    query: ConnectionsQuery = call.query
    is_system = await system.is_system(call.link)
    body: dict[str, Any] = {"limit": _MOST, "auth": True}
    if query.subscriptions:
        body["subscriptions"] = True
    subject = system.SERVER_CONNZ if is_system else system.ACCOUNT_CONNZ
    try:
        documents = await system.ask_all(call.link, subject, request_body(body))
    except system.NotPermitted as error:
        raise PermissionDenied(f"these credentials may not ask for connections: {error}") from None
    rows = [_row(row, document) for document in documents for row in document.get("connections") or ()]
    if query.search:
        wanted = query.search.lower()
        rows = [row for row in rows if _matches(row, wanted)]
    key = _KEYS.get(query.sort, query.sort)
    rows.sort(key=lambda row: _sort_key(row.get(key)), reverse=query.order == "desc")
    return answer(page_of("connections", rows, query.offset, query.limit))


def _row(row: dict[str, Any], document: dict[str, Any]) -> dict[str, Any]:
    server = document["_server"]
    return {
        **row,
        "server_id": str(server.get("id") or document.get("server_id") or ""),
        "server_name": str(server.get("name") or ""),
    }


def _matches(row: dict[str, Any], wanted: str) -> bool:
    fields = ("name", "ip", "account", "authorized_user", "lang", "kind", "type", "cid", "server_name")
    return any(wanted in str(row.get(field) or "").lower() for field in fields)


def _sort_key(value: Any) -> tuple[int, Any]:
    """Return a key that sorts numbers before texts, and missing values first."""
    return (0, value) if isinstance(value, int | float) else (1, str(value or ""))


@section.delete(
    "/connections/{server_id}/{cid}",
    "Close a connection",
    answers=(Answer(204, "the server has closed it"),),
    problems=(404,),
)
async def kick_connection(call: Call) -> Reply:
    """Needs the system account. The client may reconnect."""
    server, cid = call.path["server_id"], call.path["cid"]
    if not server.isalnum() or not server.isascii():
        raise BadRequest(f"{server!r} is no id of a server")
    if not (cid.isascii() and cid.isdigit() and len(cid) <= _MOST_DIGITS):
        raise BadRequest(f"{cid!r} is no id of a connection")
    if not await system.is_system(call.link):
        raise PermissionDenied("only the system account may close connections")
    try:
        await system.ask(call.link, f"$SYS.REQ.SERVER.{server}.KICK", request_body({"cid": int(cid)}))
    except system.NotPermitted:
        raise NotFound(f"there is no server {server}, or it has no connection {cid}") from None
    return nothing()
