"""Requests to servers about themselves and the caller's account, as far as these credentials may ask.

Every server of a cluster answers for itself, and their number is not known, so answers are collected until
none comes for a moment.  A server without a cluster is alone, and its first answer is the only one.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final

import msgspec

from millstream.base.errors import UNREADABLE_JSON
from millstream.link.errors import LinkError, RequestTimeout
from millstream.link.link import Link

USER_INFO: Final = "$SYS.REQ.USER.INFO"
ACCOUNT_STATZ: Final = "$SYS.REQ.ACCOUNT.PING.STATZ"
ACCOUNT_CONNZ: Final = "$SYS.REQ.ACCOUNT.PING.CONNZ"
SERVER_CONNZ: Final = "$SYS.REQ.SERVER.PING.CONNZ"
SERVER_VARZ: Final = "$SYS.REQ.SERVER.PING.VARZ"
SERVER_HEALTHZ: Final = "$SYS.REQ.SERVER.PING.HEALTHZ"
SERVER_IDZ: Final = "$SYS.REQ.SERVER.PING.IDZ"
MILLSTREAM_SERVER: Final = "$MILLSTREAM.INSIGHT.SERVER"
_QUIET_S: Final = 0.2  # seconds between the answers of two servers
_WAIT_S: Final = 2.0
_NO_RESPONDERS: Final = 503
_MOST_ANSWERS: Final = 256


class NotPermitted(Exception):
    """Raised if these credentials may not ask, or no server answers in their account."""


async def ask(link: Link, subject: str, body: bytes = b"") -> dict[str, Any]:
    """Return the document in the first answer; raises NotPermitted if there is none."""
    try:
        answer = await link.request(subject, body, timeout_s=_WAIT_S)
    except LinkError as error:
        raise NotPermitted(str(error)) from None
    return _document(answer.payload)


async def ask_all(link: Link, subject: str, body: bytes = b"") -> list[dict[str, Any]]:
    """Return the documents of all servers; raises NotPermitted if there is none."""
    if not link.dialogue.info.cluster:
        return [await ask(link, subject, body)]
    found: list[dict[str, Any]] = []
    try:
        async with link.subscribe(inbox := link.new_inbox(), buffer=_MOST_ANSWERS) as answers:
            link.publish(subject, body, reply=inbox)
            while len(found) < _MOST_ANSWERS:
                message = await answers.next(_QUIET_S if found else _WAIT_S)
                if message.status == _NO_RESPONDERS:
                    break
                found.append(_document(message.payload))
    except (TimeoutError, StopAsyncIteration):
        pass
    except LinkError as error:
        raise NotPermitted(str(error)) from None
    if not found:
        raise NotPermitted(f"nobody answers {subject}")
    return found


def _document(payload: bytes) -> dict[str, Any]:
    try:
        answer = msgspec.json.decode(payload)
    except UNREADABLE_JSON:
        answer = None
    if not isinstance(answer, dict) or answer.get("error"):
        raise NotPermitted("the server refused to answer")
    data = answer.get("data", answer)
    server = answer.get("server")
    if not isinstance(data, dict):
        raise NotPermitted("the server's answer can not be read")
    return {**data, "_server": server if isinstance(server, dict) else {}}


async def is_system(link: Link) -> bool:
    """Return whether the credentials belong to the system account."""
    info = link.dialogue.info
    if info.connect_info or info.acc_is_sys:
        return info.acc_is_sys
    try:
        await ask(link, SERVER_IDZ)
    except NotPermitted:
        return False
    return True


async def permitted(work: Callable[[], Awaitable[Any]], name: str, missing: list[str]) -> Any:
    """Return the result of `work`; None, with `name` added to `missing`, if it is not permitted."""
    try:
        return await work()
    except (TimeoutError, NotPermitted, RequestTimeout):
        missing.append(name)
        return None
