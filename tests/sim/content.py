"""Read a stream to its end: one message after another, or in batches where the stream allows direct gets."""

from __future__ import annotations

import base64
import json
from typing import Any

from tests.sim.actors import PATIENCE_S, uid_of
from tests.sim.client import Message, SimClient, _headers
from tests.sim.history import Final, Stored

AT_ONCE = 100  # messages of one batch

# Headers that a direct get adds.
_ADDED = (
    "Nats-Stream",
    "Nats-Subject",
    "Nats-Sequence",
    "Nats-Time-Stamp",
    "Nats-Num-Pending",
    "Nats-Last-Sequence",
)


async def read_content(client: SimClient, name: str, *, direct: bool) -> Final:
    """Return all messages and the state; read again if something was removed meanwhile."""
    while True:
        info = await client.api(f"STREAM.INFO.{name}")
        if info is None:
            await client.loop.sleep(0.1)
            continue
        if "error" in info:
            return Final([], {}, complete=False)
        first = info["state"]["first_seq"]
        content = await (_read_batches if direct else _read_each)(client, name, first)
        after = await client.api(f"STREAM.INFO.{name}")
        if after is not None and after.get("state") == info["state"]:
            return Final(content, info["state"], config=info["config"])


async def _read_each(client: SimClient, name: str, seq: int) -> list[Stored]:
    content: list[Stored] = []
    while True:
        found = await client.api(f"STREAM.MSG.GET.{name}", {"seq": seq, "next_by_subj": ">"})
        if found is None:
            continue
        if "error" in found:
            return content
        message = found["message"]
        data = base64.b64decode(message.get("data", ""))
        headers = _headers(base64.b64decode(message["hdrs"])) if "hdrs" in message else {}
        content.append(Stored(message["seq"], message["subject"], uid_of(data), message["time"], headers))
        seq = message["seq"] + 1


async def _read_batches(client: SimClient, name: str, seq: int) -> list[Stored]:
    content: list[Stored] = []
    while True:
        messages = await _batch(client, name, {"seq": seq, "next_by_subj": ">", "batch": AT_ONCE})
        for message in messages:
            if "Status" not in message.headers:
                content.append(_stored(message))
                seq = content[-1].seq + 1
        if messages and messages[-1].headers.get("Status", "").startswith("404"):
            return content


async def _batch(client: SimClient, name: str, request: dict[str, Any]) -> list[Message]:
    """Return the answers to one request; their last is a status, unless the connection was lost."""
    await client.online()
    inbox, ended = client.inbox() + ".batch", client.loop.future()
    answers: list[Message] = []

    def take(message: Message) -> None:
        answers.append(message)
        if "Status" in message.headers:
            ended.set(None)

    sid = client.subscribe(inbox, take)
    client.publish(f"$JS.API.DIRECT.GET.{name}", json.dumps(request).encode(), inbox)
    client.loop.after(client.loop.clients, PATIENCE_S, ended.set, None)
    await ended
    client.unsubscribe(sid)
    return answers


def _stored(message: Message) -> Stored:
    headers = message.headers
    own = {key: value for key, value in headers.items() if key not in _ADDED}
    return Stored(
        int(headers["Nats-Sequence"]),
        headers["Nats-Subject"],
        uid_of(message.payload),
        headers["Nats-Time-Stamp"],
        own,
    )
