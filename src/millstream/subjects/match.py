"""Compare subjects and patterns token by token, without splitting.

``*`` stands for exactly one token, ``>`` for one or more at the end; both are wildcards only if they are the
whole token.  Patterns must be valid (see ``tokens``); nothing is validated here.

``is_one_word`` is called for every subject that leaves the server, ``valid_subscription`` for every SUB,
``valid_literal_subject`` for every PUB of a pedantic client,
``fnv_1a`` for every subject that a mapping partitions.
"""

_DOT = ord(".")
_STAR = ord("*")
_TAIL = ord(">")
_BLANK = ord(" ")
_CR = ord("\r")
_LF = ord("\n")
_FORM_FEED = ord("\f")
_TAB = ord("\t")


def is_one_word(subject: bytes) -> bool:
    """Return True if a protocol line can carry `subject`: no byte is a blank or a control character."""
    s = subject
    size = len(subject)
    i = 0
    while i < size and s[i] > _BLANK:
        i += 1
    return i == size


def valid_literal_subject(subject: bytes) -> bool:
    """Return True if a pedantic PUB accepts the subject: no empty token and no wildcard token."""
    s = subject
    size = len(subject)
    token_size = 0
    for i in range(size):
        c = s[i]
        if c == _DOT:
            if token_size == 0 or (token_size == 1 and (s[i - 1] == _STAR or s[i - 1] == _TAIL)):
                return False
            token_size = 0
        else:
            token_size += 1
    return token_size > 1 or (token_size == 1 and s[size - 1] != _STAR and s[size - 1] != _TAIL)


def valid_subscription(subject: bytes) -> bool:
    """Return True if SUB accepts the subject: no empty token, no white space, `>` only last.

    Unlike ``tokens.valid_subject`` it accepts control characters and a vertical tab, as nats-server does.
    """
    s = subject
    token_size = 0
    for i in range(len(subject)):
        c = s[i]
        if c == _DOT:
            if token_size == 0 or (token_size == 1 and s[i - 1] == _TAIL):
                return False
            token_size = 0
        elif c in (_BLANK, _TAB, _LF, _CR, _FORM_FEED):
            return False
        else:
            token_size += 1
    return token_size > 0


def matches(subject: bytes, pattern: bytes) -> bool:
    """Return True if the literal `subject` matches `pattern`; wildcards count only in the pattern."""
    s = subject
    p = pattern
    subject_size = len(subject)
    pattern_size = len(pattern)
    i = 0
    j = 0
    while True:
        if j < pattern_size and p[j] == _TAIL and j + 1 == pattern_size:
            return i < subject_size
        if j < pattern_size and p[j] == _STAR and (j + 1 == pattern_size or p[j + 1] == _DOT):
            if i >= subject_size or s[i] == _DOT:
                return False
            j += 1
            while i < subject_size and s[i] != _DOT:
                i += 1
        else:
            while j < pattern_size and p[j] != _DOT:
                if i >= subject_size or s[i] != p[j]:
                    return False
                i += 1
                j += 1
            if i < subject_size and s[i] != _DOT:
                return False
        if i >= subject_size or j >= pattern_size:
            return i >= subject_size and j >= pattern_size
        i += 1  # both are at a dot
        j += 1


def is_subset(subset: bytes, pattern: bytes) -> bool:
    """Return True if every subject that matches `subset` also matches `pattern`.

    An invalid `subset` is treated as nats-server does: only a ``>`` covers an empty token or a ``>`` before
    the end.
    """
    tokens = subset.split(b".")
    wider = pattern.split(b".")
    for index, token in enumerate(wider):
        if token == b">" and index + 1 == len(wider):
            return len(tokens) > index
        if index >= len(tokens) or tokens[index] == b">" or not tokens[index]:
            return False
        if token != b"*" and token != tokens[index]:
            return False
    return len(tokens) == len(wider)


def fnv_1a(key: bytes) -> int:
    """Return the FNV-1a hash of 32 bits, which decides the partition of a subject."""
    k = key
    digest = 0x811C9DC5
    for i in range(len(key)):
        digest = ((digest ^ k[i]) * 0x01000193) & 0xFFFFFFFF
    return digest


def collide(left: bytes, right: bytes) -> bool:
    """Return True if at least one literal subject matches both patterns."""
    left_tokens = left.split(b".")
    right_tokens = right.split(b".")
    for a, b in zip(left_tokens, right_tokens, strict=False):
        if a == b">" or b == b">":
            return True
        if a != b and a != b"*" and b != b"*":
            return False
    return len(left_tokens) == len(right_tokens)
