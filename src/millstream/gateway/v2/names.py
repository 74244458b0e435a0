"""Names that come in from HTTP: streams, consumers, subjects, headers.

They end up in the subjects of NATS commands, so nothing passes here that could end a command, reach
another subject, or match more than was said.  All of it is refused with 400.
"""

import re
from collections.abc import Iterable
from typing import Final

from millstream.gateway.errors import BadRequest, PermissionDenied
from millstream.gateway.reach import is_management, is_reserved
from millstream.gateway.settings import Group, Settings

_NAME: Final = re.compile(r"[^\x00-\x20\x7f.*>/\\]{1,255}")
_SUBJECT: Final = re.compile(r"[^\x00-\x20\x7f.]+(?:\.[^\x00-\x20\x7f.]+)*")
_HEADER_NAME: Final = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_HEADER_VALUE: Final = re.compile(r"[^\x00\r\n]*")
_MAX_SUBJECT: Final = 1024
_MAX_DIGITS: Final = 1000
_LONG_NUMBER: Final = re.compile(f"[0-9]{{{_MAX_DIGITS + 1}}}")
_SUBJECTS_IN_HEADERS: Final = frozenset({"nats-trace-dest", "nats-schedule-target", "nats-schedule-source"})

NAME_PATTERN: Final = r"^[^\u0000-\u0020\u007f.*>/\\]{1,255}$"  # of _NAME, for the description


def check_name(name: str, what: str) -> str:
    """`name`, if a stream or consumer may be called so."""
    if _NAME.fullmatch(name) is None:
        raise BadRequest(f"{name!r} can not be the name of a {what}")
    return name


def check_subject(subject: str) -> str:
    """`subject`, if a message can be published to it: no wildcard, no blank, no empty token."""
    _check_tokens(subject)
    if ("*" in subject or ">" in subject) and any(token in "*>" for token in subject.split(".")):
        raise BadRequest(f"{subject!r} has wildcards; messages are published to one subject")
    return subject


def check_reach(subject: str, settings: Settings) -> None:
    """403 for the server's own subjects: of those that administrate, where only the data plane is served."""
    if is_reserved(subject, settings.nats.link.inbox_prefix):
        raise PermissionDenied(f"{subject} belongs to the server, not to callers of the gateway")
    if is_management(subject) and Group.MANAGEMENT not in settings.groups:
        raise PermissionDenied(f"{subject} belongs to the management group, which is not served here")


def check_header_reach(pairs: Iterable[tuple[str, str]], settings: Settings) -> None:
    """The same for subjects in headers, to which a server publishes on its own."""
    for name, value in pairs:
        if name.lower() in _SUBJECTS_IN_HEADERS:
            check_reach(value.strip(), settings)


def check_filter(subject: str) -> str:
    """`subject`, if messages can be chosen by it."""
    _check_tokens(subject)
    if ">" in subject and ">" in subject.split(".")[:-1]:
        raise BadRequest(f"{subject!r} has `>` before its end")
    return subject


def _check_tokens(subject: str) -> None:
    if _SUBJECT.fullmatch(subject) is None:
        raise BadRequest(f"{subject!r} is no subject: empty tokens, blanks or control characters")
    if len(subject) > _MAX_SUBJECT:
        raise BadRequest(f"a subject has at most {_MAX_SUBJECT} characters")


def check_header_name(name: str) -> str:
    if _HEADER_NAME.fullmatch(name) is None:
        raise BadRequest(f"{name!r} can not be the name of a header")
    return name


def check_header_value(value: str, name: str = "") -> str:
    """`value`, if the header `name` may have it: servers read the numbers of their own headers."""
    if _HEADER_VALUE.fullmatch(value) is None:
        raise BadRequest("the value of a header can not have line ends in it")
    if len(value) > _MAX_DIGITS and name.lower().startswith("nats-") and _LONG_NUMBER.search(value):
        raise BadRequest(f"a number in {name} has more than {_MAX_DIGITS} digits")
    return value
