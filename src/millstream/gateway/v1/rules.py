"""Which names and subjects httpmq takes, and in which words it refuses others."""

from __future__ import annotations

import re
from typing import Final

from millstream.gateway.errors import BadRequest
from millstream.gateway.reach import is_management, is_reserved
from millstream.subjects.match import is_subset
from millstream.subjects.tokens import is_literal, valid_subject

_NAME: Final = re.compile(
    r"[a-zA-Z0-9]+|[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", re.ASCII
)
_RELAXED_NAME: Final = re.compile(r"[^\s.*>/\\\x00-\x1f\x7f]{1,255}")
_ILLEGAL: Final = re.compile("[ \t\r\n>`~!@#$%^&()_+=\\[\\]{}\\\\|;:'\",<>/?\\x00-\\x1f\\x7f]")
_RELAXED_ILLEGAL: Final = re.compile(r"[\s\x00-\x1f\x7f]")


class Invalid(BadRequest):
    """A field's value is not allowed; httpmq finds out late, and says 500."""


class Rules:
    """The strict ones of httpmq, or what NATS itself takes."""

    def __init__(self, relaxed: bool, inbox_prefix: str = "_INBOX") -> None:
        self._inbox_prefix = inbox_prefix
        self._name = _RELAXED_NAME if relaxed else _NAME
        self._illegal = _RELAXED_ILLEGAL if relaxed else _ILLEGAL

    def is_name(self, text: str) -> bool:
        """Of a stream, a consumer or a delivery group."""
        return self._name.fullmatch(text) is not None

    def is_subject(self, text: str) -> bool:
        """Of a stream or a subscription; may have wildcards."""
        return bool(text) and self._illegal.search(text) is None

    def is_publishable(self, text: str) -> bool:
        """What may stand in the path of a publish; a wildcard passes, and then nobody takes the message."""
        if not self.is_subject(text) or "" in text.split("."):
            return False
        return not is_management(text) and not is_reserved(text, self._inbox_prefix)

    def check_name(self, struct: str, field: str, value: str) -> None:
        if not value:
            raise Invalid(failed(struct, field, "required"))
        if not self.is_name(value):
            raise Invalid(failed(struct, field, "alphanum|uuid"))

    def check_subject(self, subject: str) -> None:
        if not self.is_subject(subject):
            raise Invalid(f"subject {subject!r} contains illegal characters")
        if not valid_subject(subject.encode()):
            raise Invalid(f"nats: invalid subject {subject!r}")


def check_filter(wanted: str, subjects: list[str]) -> None:
    """A filter selects from what the stream stores, or it is a mistake (newer servers let that pass)."""
    if not valid_subject(wanted.encode()) or _RELAXED_ILLEGAL.search(wanted) is not None:
        raise Invalid(f"nats: invalid filter subject {wanted!r}")
    name = wanted.encode()
    for subject in subjects:
        stored = subject.encode()
        if is_subset(name, stored) or (not is_literal(name) and is_subset(stored, name)):
            return
    raise Invalid("nats: consumer filter subject is not a valid subset of the interest subjects")


def failed(struct: str, field: str, tag: str) -> str:
    """The words of httpmq's validator."""
    return f"Key: '{struct}.{field}' Error:Field validation for '{field}' failed on the '{tag}' tag"
