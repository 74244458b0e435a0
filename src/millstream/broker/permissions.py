"""The permissions of one connection to publish and subscribe.

Built from the user's rules when a connection is authenticated, and owned by that connection, because it has
state: small caches, and the reply subjects opened by delivered requests (`allow_responses`).  A connection
without restrictions has no `PermissionSet`.  The rules themselves may be thousands; connections of the same
user share them.

A deny beats an allow.  Rules are compared token by token with the subject as it is written, so the wildcards
of a subscription are plain tokens here: as in nats-server, `foo.*` both allows and denies `foo.>`.  A
subscription wider than a deny is accepted, and denied messages are held back at delivery; only then does
delivery cost anything (`filters_deliveries`).

The caller passes the time, in monotonic seconds, and chooses the error texts for the client.
"""

from collections.abc import Callable
from functools import lru_cache
from itertools import islice
from typing import Final

from millstream.base.errors import MillstreamError
from millstream.broker.options import Permissions, SubjectRules
from millstream.subjects.cover import Cover
from millstream.subjects.filter_index import FilterIndex
from millstream.subjects.match import is_subset, matches
from millstream.subjects.tokens import is_literal, valid_subject

_MAX_PUBLISH_CACHE: Final = 128
_FEW_PATTERNS: Final = 8  # that are tried in turn
_MOST_SHARED: Final = 64  # lists of rules that connections share
_DOT: Final = ord(".")
_MAX_DELIVERY_CACHE: Final = 256
_MOST_REPLIES: Final = 65_536  # that a connection may answer, by `allow_responses`
_DROPPED_AT_ONCE: Final = 33  # oldest entries that make room when a cache is full


class PermissionRuleError(MillstreamError):
    """A rule is not a subject; the message says where it is."""


class _Rules:
    """Patterns without queue groups: literals and many patterns are looked up, few are tried in turn."""

    __slots__ = ("_cover", "_covers", "_literals", "_patterns")

    def __init__(self, patterns: list[bytes], covers: Callable[[bytes, bytes], bool] = matches) -> None:
        self._covers = covers
        self._literals = frozenset(pattern for pattern in patterns if is_literal(pattern))
        self._patterns = [pattern for pattern in patterns if not is_literal(pattern)]
        self._cover = Cover(self._patterns) if len(self._patterns) > _FEW_PATTERNS else None

    def match(self, subject: bytes) -> bool:
        if subject in self._literals:
            return True
        if _has_empty_token(subject):
            return False
        if self._cover is not None:
            cover = self._cover
            return bool(cover.matching(subject) if self._covers is matches else cover.of(subject))
        for pattern in self._patterns:  # noqa: SIM110 - asked for each new subject
            if self._covers(subject, pattern):
                return True
        return False


class _QueueRules:
    """Subscription rules: patterns for everybody, and patterns for members of queue groups."""

    __slots__ = ("_collisions", "_covers", "_plain", "_queued", "patterns")

    def __init__(self, entries: tuple[str, ...], covers: Callable[[bytes, bytes], bool] = matches) -> None:
        self._covers = covers
        plain: list[bytes] = []
        self._queued: list[tuple[bytes, bytes]] = []
        for entry in entries:
            subject, _, queue = " ".join(entry.split()).encode().partition(b" ")
            if queue:
                self._queued.append((subject, queue))
            else:
                plain.append(subject)
        self._plain = _Rules(plain, covers)
        self.patterns = plain + [subject for subject, _ in self._queued]
        self._collisions: FilterIndex | None = None  # of the patterns, once it was asked for

    def collide(self, subject: bytes) -> bool:
        """Return True if a rule and `subject` have a literal subject in common."""
        if self._collisions is None:
            self._collisions = FilterIndex()
            for pattern in self.patterns:
                self._collisions.add((pattern,), pattern)
        return bool(self._collisions.colliding(subject))

    def match_plain(self, subject: bytes) -> bool:
        return self._plain.match(subject)

    def queues(self, subject: bytes) -> list[bytes]:
        """Return the queue groups, possibly as patterns, that have a rule for `subject`."""
        if _has_empty_token(subject):
            return []
        return [queue for pattern, queue in self._queued if self._covers(subject, pattern)]


@lru_cache(_MOST_SHARED)
def _publish_rules(entries: tuple[str, ...]) -> _Rules:
    return _Rules([entry.encode() for entry in entries])


@lru_cache(_MOST_SHARED)
def _subscribe_rules(entries: tuple[str, ...]) -> _QueueRules:
    return _QueueRules(entries, is_subset)


@lru_cache(_MOST_SHARED)
def _denied_subscriptions(entries: tuple[str, ...]) -> _QueueRules:
    return _QueueRules(entries)


class PermissionSet:
    """The rules of one user, with the state of one connection."""

    def __init__(self, permissions: Permissions) -> None:
        check_permissions(permissions)
        self._permissions = permissions
        publish, subscribe = permissions.publish, permissions.subscribe
        self._responses = permissions.allow_responses
        allow = publish.allow
        if allow is None and self._responses is not None:
            allow = ()  # who may answer may not say anything else, unless told
        self._publish_allow = None if allow is None else _publish_rules(allow)
        self._publish_deny = _publish_rules(publish.deny) if publish.deny else None
        # A rule allows what lies inside it.  The reference takes `>` for one token here, so that
        # `allow: foo.*` lets `foo.>` through and everything below with it; we do not follow it there.
        self._subscribe_allow = None if subscribe.allow is None else _subscribe_rules(subscribe.allow)
        self._subscribe_deny = _denied_subscriptions(subscribe.deny) if subscribe.deny else None
        self._publish_open = self._publish_allow is None and self._publish_deny is None
        self._publish_cache: dict[bytes, bool] = {}
        self._delivery_cache: dict[bytes, bool] = {}
        self._replies: dict[bytes, list[float]] = {}  # subject -> [opened at, answers sent]; oldest first
        self.filters_deliveries = False  # some accepted subscription is wider than a deny

    def may_publish(self, subject: bytes, now: float) -> bool:
        """Return True if this connection may publish to `subject`; the call uses up an opened reply."""
        if self._publish_open:
            return True
        known = self._publish_cache.get(subject)
        if known is not None:
            return known
        allowed = self.lists(subject)
        if not allowed and self._responses is not None:
            return self._use_reply(subject, now)  # never cached: the answer changes
        _remember(self._publish_cache, subject, allowed, _MAX_PUBLISH_CACHE)
        return allowed

    def lists(self, subject: bytes) -> bool:
        """Return True if `subject` may be published to without an opened reply."""
        allowed = self._publish_allow is None or self._publish_allow.match(subject)
        return allowed and (self._publish_deny is None or not self._publish_deny.match(subject))

    def may_receive(self) -> bool:
        """Return True if it may subscribe to anything, so that a response could reach it."""
        subscribe = self._permissions.subscribe
        denied = [entry.encode() for entry in subscribe.deny if " " not in entry]
        allowed = (">",) if subscribe.allow is None else subscribe.allow
        return any(
            not any(is_subset(entry.partition(" ")[0].encode(), rule) for rule in denied) for entry in allowed
        )

    def may_subscribe(self, subject: bytes, queue: bytes | None = None) -> bool:
        """Return True if SUB is accepted; accepting one that is wider than a deny turns the filter on."""
        if self._subscribe_allow is not None:
            allowed = self._subscribe_allow.match_plain(subject)
            if queue:
                ruled = self._subscribe_allow.queues(subject)
                if ruled:  # rules for queue groups replace the plain ones for members of a group
                    allowed = _is_listed(queue, ruled)
            if not allowed:
                return False
        if self._subscribe_deny is not None:
            if self._subscribe_deny.match_plain(subject):
                return False
            if queue and _is_listed(queue, self._subscribe_deny.queues(subject)):
                return False
            if not self.filters_deliveries:
                self.filters_deliveries = self.blocks_delivery(subject, queue)
        return True

    def blocks_delivery(self, subject: bytes, queue: bytes | None = None) -> bool:
        """Return True if a subscription to `subject` could receive something that is denied."""
        if self._subscribe_deny is None or not (queue or not is_literal(subject)):
            return False
        return self._subscribe_deny.collide(subject)

    def delivery_denied(self, subject: bytes, queue: bytes | None = None) -> bool:
        """Return True if a message must be held back; call it only while `filters_deliveries`."""
        if self._subscribe_deny is None:
            return False
        key = subject + b" " + queue if queue else subject
        known = self._delivery_cache.get(key)
        if known is not None:
            return known
        denied = self._subscribe_deny.match_plain(subject)
        if not denied and queue:
            denied = _is_listed(queue, self._subscribe_deny.queues(subject))
        _remember(self._delivery_cache, key, denied, _MAX_DELIVERY_CACHE)
        return denied

    def allow_response(self, reply: bytes, now: float) -> None:
        """Allow a response to this reply subject, after a message with it was delivered.

        A reply subject that is already open is not opened again: as in nats-server, the delivery uses up one
        of its responses.
        """
        if self._responses is None or not reply or self.may_publish(reply, now):
            return
        self._replies[reply] = [now, 0]
        if len(self._replies) > _MOST_REPLIES:  # who does not answer the oldest any more
            del self._replies[next(iter(self._replies))]
        self._forget_expired(now)

    def describe(self) -> dict[str, object]:
        """Return the rules as monitoring and `$SYS.REQ.USER.INFO` show them."""
        shown: dict[str, object] = {
            "publish": _describe_rules(self._permissions.publish),
            "subscribe": _describe_rules(self._permissions.subscribe),
        }
        if self._responses is not None:
            ttl = round(self._responses.expires_s * 1_000_000_000)
            shown["responses"] = {"max": self._responses.max_messages, "ttl": ttl}
        return shown

    def _use_reply(self, subject: bytes, now: float) -> bool:
        entry = self._replies.get(subject)
        rule = self._responses
        if entry is None or rule is None:
            return False
        if rule.expires_s > 0 and now - entry[0] > rule.expires_s:
            del self._replies[subject]
            return False
        entry[1] += 1
        if rule.max_messages >= 0 and entry[1] >= max(rule.max_messages, 1):
            del self._replies[subject]
        return True

    def _forget_expired(self, now: float) -> None:
        # Entries stand in the order they were opened and live equally long, so expired ones lead.
        lifetime = self._responses.expires_s if self._responses is not None else 0.0
        if lifetime <= 0:
            return
        while self._replies:
            oldest = next(iter(self._replies))
            if now - self._replies[oldest][0] <= lifetime:
                return
            del self._replies[oldest]


def check_permissions(permissions: Permissions) -> None:
    """Raise PermissionRuleError for the first rule that is not a subject."""
    for label, rules, queues in (
        ("publish", permissions.publish, False),
        ("subscribe", permissions.subscribe, True),
    ):
        for part, entries in (("allow", rules.allow or ()), ("deny", rules.deny)):
            problem = _first_problem(entries, queues)
            if problem:
                raise PermissionRuleError(f"{label} {part}: {problem}")


@lru_cache(2 * _MOST_SHARED)
def _first_problem(entries: tuple[str, ...], queues: bool) -> str:
    return next(filter(None, (_rule_problem(entry, queues) for entry in entries)), "")


def _rule_problem(entry: str, queues: bool) -> str:
    if valid_subject(entry.encode()):
        return ""
    words = entry.split()
    if not queues or len(words) != 2:
        return f'subject "{entry}" is not a valid subject'
    if not valid_subject(words[0].encode()):
        return f'subject "{words[0]}" is not a valid subject'
    if not valid_subject(words[1].encode()):
        return f'queue "{words[1]}" is not a valid queue'
    return ""


def _has_empty_token(subject: bytes) -> bool:
    """Return True for a subject with an empty token, which matches no rule, not even `>`."""
    return not subject or subject.find(b"..") >= 0 or subject[0] == _DOT or subject[-1] == _DOT


def _is_listed(queue: bytes, rules: list[bytes]) -> bool:
    # A group may itself be called `v1.*`, so equality comes first.
    return any(queue == rule or (not is_literal(rule) and is_subset(queue, rule)) for rule in rules)


def _remember(cache: dict[bytes, bool], key: bytes, value: bool, limit: int) -> None:
    cache[key] = value
    if len(cache) > limit:
        for old in list(islice(cache, _DROPPED_AT_ONCE)):
            del cache[old]


def _describe_rules(rules: SubjectRules) -> dict[str, list[str]]:
    shown: dict[str, list[str]] = {}
    if rules.allow:
        shown["allow"] = list(rules.allow)
    if rules.deny:
        shown["deny"] = list(rules.deny)
    return shown
