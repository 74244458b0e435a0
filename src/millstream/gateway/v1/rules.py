"""The names and subjects that httpmq accepts, and its words for refusing others."""

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
    """Raised if a field's value is not allowed; httpmq notices this late, and answers 500."""


class Rules:
    """The rules for names: httpmq's strict ones, or those of NATS."""

    def __init__(self, relaxed: bool, inbox_prefix: str = "_INBOX") -> None:
        self._inbox_prefix = inbox_prefix
        self._name = _RELAXED_NAME if relaxed else _NAME
        self._illegal = _RELAXED_ILLEGAL if relaxed else _ILLEGAL

    def is_name(self, text: str) -> bool:
        """Return whether a stream, a consumer or a delivery group may have this name."""
        return self._name.fullmatch(text) is not None

    def is_subject(self, text: str) -> bool:
        """Return whether a stream or a subscription may have this subject; wildcards are allowed."""
        return bool(text) and self._illegal.search(text) is None

    def is_publishable(self, text: str) -> bool:
        """Return whether a publish may have this subject; a wildcard passes, but no stream stores it."""
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
    """Raise unless the filter matches subjects of the stream (newer servers do not check this)."""
    if not valid_subject(wanted.encode()) or _RELAXED_ILLEGAL.search(wanted) is not None:
        raise Invalid(f"nats: invalid filter subject {wanted!r}")
    name = wanted.encode()
    for subject in subjects:
        stored = subject.encode()
        if is_subset(name, stored) or (not is_literal(name) and is_subset(stored, name)):
            return
    raise Invalid("nats: consumer filter subject is not a valid subset of the interest subjects")


def failed(struct: str, field: str, tag: str) -> str:
    """Return the text of httpmq's validator for a field."""
    return f"Key: '{struct}.{field}' Error:Field validation for '{field}' failed on the '{tag}' tag"
