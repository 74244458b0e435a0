"""What a well-formed subject is: dot-separated tokens, none empty, wildcards only as whole tokens.

The broker asks these questions with different strictness, and the differences are part of the
protocol: a subscription may hold wildcards but no blanks, a pedantic publish may hold no wildcard
while blanks cannot reach it (the parser splits on them).  Control characters are refused wherever a
configuration or a header names a subject, since the server itself sends to those; a client may subscribe
with them, as nats-server lets it, and gets nothing.  Bytes are not checked to be UTF-8.
Which subject matches which, and whether SUB accepts a subject, is in `subjects.match`, which is compiled.
"""

import re
from typing import Final

_SHAPE: Final = re.compile(rb"[^.\x00-\x20]+(?:\.[^.\x00-\x20]+)*")
_WILDCARDS: Final = (b"*", b">")


def valid_subject(subject: bytes) -> bool:
    """Whether a configuration may have it: no empty token, blank or control character, `>` only last."""
    return _SHAPE.fullmatch(subject) is not None and _ends_with_its_tail(subject)


def _ends_with_its_tail(subject: bytes) -> bool:
    return b">" not in subject or not (subject.startswith(b">.") or b".>." in subject)


def valid_literal_subject(subject: bytes) -> bool:
    """Whether a pedantic PUB accepts it: no empty token and no wildcard token."""
    return all(token and token not in _WILDCARDS for token in subject.split(b"."))


def valid_publish_subject(subject: bytes) -> bool:
    """Whether it is a valid subject without wildcards, blanks counted as faults too."""
    return is_literal(subject) and _SHAPE.fullmatch(subject) is not None


def is_literal(subject: bytes) -> bool:
    """Whether no token is a wildcard; says nothing about the subject being valid."""
    if b"*" not in subject and b">" not in subject:
        return True
    return not any(token in _WILDCARDS for token in subject.split(b"."))


def token_count(subject: bytes) -> int:
    """How many tokens there are, empty ones counted; 0 for the empty subject."""
    return subject.count(b".") + 1 if subject else 0
