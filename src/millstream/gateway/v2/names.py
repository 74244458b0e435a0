"""Names that come in from HTTP: streams, consumers, subjects, headers.

They become part of NATS commands.  A name that could end a command, reach another subject, or match more than
intended is refused with 400.
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

NAME_PATTERN: Final = r"^[^\u0000-\u0020\u007f.*>/\\]{1,255}$"  # _NAME for the description


def check_name(name: str, what: str) -> str:
    """Return `name`; 400 if a stream or consumer cannot have it."""
    if _NAME.fullmatch(name) is None:
        raise BadRequest(f"{name!r} can not be the name of a {what}")
    return name


def check_subject(subject: str) -> str:
    """Return `subject`; 400 if it has a wildcard, a blank or an empty token."""
    _check_tokens(subject)
    if ("*" in subject or ">" in subject) and any(token in "*>" for token in subject.split(".")):
        raise BadRequest(f"{subject!r} has wildcards; messages are published to one subject")
    return subject


def check_reach(subject: str, settings: Settings) -> None:
    """Raise 403 for the server's subjects; the management group may use those of the administration."""
    if is_reserved(subject, settings.nats.link.inbox_prefix):
        raise PermissionDenied(f"{subject} belongs to the server, not to callers of the gateway")
    if is_management(subject) and Group.MANAGEMENT not in settings.groups:
        raise PermissionDenied(f"{subject} belongs to the management group, which is not served here")


def check_header_reach(pairs: Iterable[tuple[str, str]], settings: Settings) -> None:
    """Raise 403 for the server's own subjects in headers that make a server publish there."""
    for name, value in pairs:
        if name.lower() in _SUBJECTS_IN_HEADERS:
            check_reach(value.strip(), settings)


def check_filter(subject: str) -> str:
    """Return `subject`; 400 if it cannot be a filter."""
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
        raise BadRequest(f"{name!r} cannot be the name of a header")
    return name


def check_header_value(value: str, name: str = "") -> str:
    """Return `value`; 400 if the header `name` cannot have it.  Servers parse numbers in their headers."""
    if _HEADER_VALUE.fullmatch(value) is None:
        raise BadRequest("the value of a header can not have line ends in it")
    if len(value) > _MAX_DIGITS and name.lower().startswith("nats-") and _LONG_NUMBER.search(value):
        raise BadRequest(f"a number in {name} has more than {_MAX_DIGITS} digits")
    return value
