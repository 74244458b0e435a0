"""Check the responses of a server before anything is done with them.

The server at the other end may be any program.  Its responses become names of folders, subjects to publish
to, and loops that run until a number is reached, so each is checked here, once, on arrival.  ``NotBelieved``
names the part of a response that cannot be true.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import Any, Final

from millstream.base.owned import visible
from millstream.golang.time import parse_time
from millstream.transfer.errors import TransferError

Json = dict[str, Any]

_LONGEST_NAME: Final = 255
_LONGEST_SHOWN: Final = 200
_NUMBERS: Final = ("messages", "bytes", "first_seq", "last_seq")
_RESTORE: Final = "$JS.SNAPSHOT.RESTORE."


class NotBelieved(TransferError):
    """The server sent something that cannot be true; nothing was done with it."""


def shown(value: object) -> str:
    """Return a server's text for messages: short, and without control characters."""
    text = visible(value if isinstance(value, str) else repr(value))
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}…"


def is_name(name: object) -> bool:
    """Return True if a stream or consumer can have this name on any server."""
    return (
        isinstance(name, str)
        and 0 < len(name.encode(errors="replace")) <= _LONGEST_NAME
        and name.isprintable()
        and not any(each.isspace() or each in ".*>/\\" for each in name)
    )


def checked_name(name: object, what: str = "stream") -> str:
    """Return a name that can be part of a subject and of a path; raise NotBelieved otherwise."""
    if not isinstance(name, str) or not is_name(name):
        raise NotBelieved(f"no {what} can have the name '{shown(name)}'")
    return name


def checked_stream(answer: Mapping[str, Any], name: str) -> tuple[Json, Json]:
    """Return configuration and state from a response about the stream `name`."""
    config, state = answer.get("config"), answer.get("state")
    if not isinstance(config, dict) or not isinstance(state, dict):
        raise NotBelieved(f"stream {name}: the answer has no configuration or no state")
    if config.get("name") != name:
        raise NotBelieved(f"stream {name}: the answer is about '{shown(config.get('name'))}'")
    checked_state(state, f"stream {name}")
    for each in _NUMBERS:
        state.setdefault(each, 0)
    return config, state


def checked_state(state: object, where: str) -> Json:
    """Return the state of a stream after checking its numbers; some may be missing."""
    if not isinstance(state, dict):
        raise NotBelieved(f"{where}: there is no state")
    for each in _NUMBERS:
        if not _is_number(state.get(each, 0)):
            raise NotBelieved(f"{where}: {each} is '{shown(state[each])}'")
    if not isinstance(state.get("deleted") or [], list):
        raise NotBelieved(f"{where}: deleted is no list")
    return state


def checked_consumer(info: object, name: str | None = None) -> Json:
    """Return the information about a consumer, which must have a name and a configuration."""
    if not isinstance(info, dict) or not isinstance(info.get("config"), dict):
        raise NotBelieved("the answer tells of no consumer")
    if checked_name(info.get("name"), "consumer") != (name or info["name"]):
        raise NotBelieved(f"consumer {name}: the answer is about '{shown(info['name'])}'")
    return info


def checked_message(message: object, seq: int) -> Json:
    """Return a stored message that was requested by its sequence."""
    if not isinstance(message, dict) or message.get("seq") != seq:
        raise NotBelieved(f"message {seq}: the answer is about another")
    subject = message.get("subject")
    if not isinstance(subject, str) or not is_subject(subject):
        raise NotBelieved(f"message {seq}: its subject is '{shown(subject)}'")
    try:
        parse_time(message.get("time") or "")
        for part in ("hdrs", "data"):
            base64.b64decode(message.get(part) or "", validate=True)
    except (ValueError, TypeError, binascii.Error) as error:
        raise NotBelieved(f"message {seq}: {shown(str(error))}") from error
    return message


def checked_target(answer: Mapping[str, Any]) -> str:
    """Return the subject for the chunks of a restore, which must be the server's own."""
    subject = answer.get("deliver_subject")
    if not isinstance(subject, str) or not subject.startswith(_RESTORE) or not is_subject(subject):
        raise NotBelieved(f"the archive cannot be sent to '{shown(subject)}'")
    return subject


def is_subject(subject: str) -> bool:
    """Return True if a message can have this subject."""
    tokens = subject.split(".")
    return (
        all(tokens)
        and not any(each in ("*", ">") for each in tokens)
        and not any(each <= " " or each == "\x7f" for each in subject)
    )


def _is_number(value: object) -> bool:
    return type(value) is int and 0 <= value < 2**64
