"""Read a stream to its end: one message after another, or in batches where the stream allows direct gets."""

from __future__ import annotations

import base64
import itertools
import json
from typing import Any

from tests.sim.clients.actors import PATIENCE_S, uid_of
from tests.sim.clients.client import Message, SimClient, parse_headers
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


async def read_content(client: SimClient, name: str, *, direct: bool, compared: bool = False) -> Final:
    """Return all messages and the state; read again if something was removed meanwhile.

    `compared`: read some of them in all other ways, too, and tell what differs.
    """
    details = {"subjects_filter": ">", "deleted_details": True}
    while True:
        info = await client.api(f"STREAM.INFO.{name}", details)
        if info is None:
            await client.loop.sleep(0.1)
            continue
        if "error" in info:
            return Final([], {}, complete=False)
        first = info["state"]["first_seq"]
        content = await (_read_batches if direct else _read_each)(client, name, first)
        problems: list[str] = []
        if compared and content:
            problems = await differences(client, name, content, direct=direct)
        after = await client.api(f"STREAM.INFO.{name}", details)
        if after is not None and after.get("state") == info["state"]:
            return Final(content, info["state"], config=info["config"], problems=problems)


async def _read_each(client: SimClient, name: str, seq: int) -> list[Stored]:
    content: list[Stored] = []
    while True:
        found = await client.api(f"STREAM.MSG.GET.{name}", {"seq": seq, "next_by_subj": ">"})
        if found is None:
            continue
        if "error" in found:
            return content
        content.append(stored_message(found["message"]))
        seq = content[-1].seq + 1


async def _read_batches(client: SimClient, name: str, seq: int) -> list[Stored]:
    content: list[Stored] = []
    while True:
        messages = await direct_batch(client, name, {"seq": seq, "next_by_subj": ">", "batch": AT_ONCE})
        for message in messages:
            if "Status" not in message.headers:
                content.append(stored_directly(message))
                seq = content[-1].seq + 1
        if messages and messages[-1].headers.get("Status", "").startswith("404"):
            return content


async def direct_batch(client: SimClient, name: str, request: dict[str, Any]) -> list[Message]:
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


async def differences(client: SimClient, name: str, content: list[Stored], *, direct: bool) -> list[str]:
    """Return what other ways to read give that is not in the content."""
    problems: list[str] = []
    middle = content[len(content) // 2]
    lasts = {each.subject: each for each in content}
    asked: list[tuple[dict[str, Any], Stored | None]] = [
        ({"seq": middle.seq}, middle),
        ({"seq": content[-1].seq + 1, "next_by_subj": ">"}, None),
        ({"last_by_subj": ">"}, content[-1]),
    ]
    asked += [({"last_by_subj": subject}, last) for subject, last in list(lasts.items())[:2]]
    of_subject = [each for each in content if each.subject == middle.subject]
    asked.append(({"seq": of_subject[0].seq + 1, "next_by_subj": middle.subject}, [*of_subject, None][1]))
    since = next(each for each in content if each.time >= middle.time)
    if all(one.time <= two.time for one, two in itertools.pairwise(content)):
        asked.append(({"start_time": middle.time, "next_by_subj": ">"}, since))
    for request, wanted in asked:
        answer = await client.api(f"STREAM.MSG.GET.{name}", request)
        if answer is not None:
            found = stored_message(answer["message"]) if "message" in answer else None
            problems += _difference(f"{request}", found, wanted)
        if direct:
            message = await client.request(f"$JS.API.DIRECT.GET.{name}", json.dumps(request).encode())
            if message is not None and message.headers.get("Status", "404").startswith("404"):
                found = None if "Status" in message.headers else stored_directly(message)
                problems += _difference(f"direct {request}", found, wanted)
    if direct:
        several = {"multi_last": [">"], "batch": AT_ONCE}
        answers = await direct_batch(client, name, several)
        if answers and answers[-1].headers.get("Status", "").startswith("204"):
            seqs = [stored_directly(each).seq for each in answers[:-1]]
            wanted_seqs = sorted(each.seq for each in lasts.values())
            if seqs != wanted_seqs:
                problems.append(f"{several} gives {seqs}, not {wanted_seqs}")
    return problems


def _difference(request: str, found: Stored | None, wanted: Stored | None) -> list[str]:
    return [] if found == wanted else [f"{request} gives {found}, not {wanted}"]


def stored_directly(message: Message) -> Stored:
    """Return the message in an answer to a direct get."""
    headers = message.headers
    own = {key: value for key, value in headers.items() if key not in _ADDED}
    return Stored(
        int(headers["Nats-Sequence"]),
        headers["Nats-Subject"],
        uid_of(message.payload),
        headers["Nats-Time-Stamp"],
        own,
        _size_of(message.payload),
    )


def stored_message(message: dict[str, Any]) -> Stored:
    """Return the message in an answer of the API."""
    data = base64.b64decode(message.get("data", ""))
    headers = parse_headers(base64.b64decode(message["hdrs"])) if "hdrs" in message else {}
    return Stored(message["seq"], message["subject"], uid_of(data), message["time"], headers, _size_of(data))


def _size_of(payload: bytes) -> int:
    """Return the size of a payload; -2 if it is damaged."""
    _, _, rest = payload.partition(b" ")
    return -2 if rest.strip(b"x") else len(payload)
