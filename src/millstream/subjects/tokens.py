"""Validity of subjects: dot-separated tokens, none of them empty, wildcards only as whole tokens.

The checks differ in strictness, and the differences are part of the protocol.  A subscription may contain
wildcards but no blanks; a pedantic publish may contain no wildcard, and blanks cannot reach it because the
parser splits at them.  Control characters are refused in subjects of configurations and headers, because the
server itself publishes to those; as in nats-server, a client may subscribe to such a subject and receives
nothing.  Subjects need not be UTF-8.  Matching, and the
checks of SUB and of a pedantic PUB, are in the compiled `subjects.match`.
"""

import re
from typing import Final

_SHAPE: Final = re.compile(rb"[^.\x00-\x20]+(?:\.[^.\x00-\x20]+)*")
_WILDCARDS: Final = (b"*", b">")


def valid_subject(subject: bytes) -> bool:
    """Return True if a configuration may name it: no empty token or control character, `>` only last."""
    return _SHAPE.fullmatch(subject) is not None and _ends_with_its_tail(subject)


def _ends_with_its_tail(subject: bytes) -> bool:
    return b">" not in subject or not (subject.startswith(b">.") or b".>." in subject)


def valid_publish_subject(subject: bytes) -> bool:
    """Return True for a valid subject without wildcards, blanks and control characters."""
    return is_literal(subject) and _SHAPE.fullmatch(subject) is not None


def is_literal(subject: bytes) -> bool:
    """Return True if no token is a wildcard; the subject need not be valid."""
    if b"*" not in subject and b">" not in subject:
        return True
    return not any(token in _WILDCARDS for token in subject.split(b"."))


def token_count(subject: bytes) -> int:
    """Return the number of tokens, empty ones included; 0 for the empty subject."""
    return subject.count(b".") + 1 if subject else 0
