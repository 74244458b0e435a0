"""SUB and UNSUB: add and remove the subscriptions of clients.

Compiled, because a client may have a million of them.  Each costs the same however many there are: an entry
in the connection's map and one in the tree of its subject space.  The garbage collector does not see them
(``base.untracked``): whoever closes a connection removes them, see ``departures``.
"""

from typing import TYPE_CHECKING, Any

from millstream.base import guard
from millstream.base.untracked import untrack
from millstream.base.wide_map import WideMap
from millstream.broker.close_reason import CloseReason
from millstream.broker.connection import Connection
from millstream.broker.history import SubscriptionRecord, record_of
from millstream.broker.routes import Subscription
from millstream.golang.quote import quoted
from millstream.protocol import errors
from millstream.subjects.match import valid_subscription
from millstream.subjects.tokens import token_count

if TYPE_CHECKING:
    from millstream.broker.broker import Broker
    from millstream.protocol.parser import Parser

_OK = b"+OK\r\n"
_SYSTEM_QUEUE = b"_sys_"
_MAX_DIGITS = 9  # of the number in an UNSUB
_SPACE = ord(" ")
_TAB = ord("\t")
_CR = ord("\r")
_LF = ord("\n")
_ENDING = "ending a subscription"


class Subscriptions:
    """The subscriptions of all connections of a broker."""

    def __init__(self, broker: "Broker") -> None:
        self._broker: Any = broker

    def subscribe(self, connection: Connection) -> None:
        """Execute the SUB that the connection's parser has found."""
        parser: Parser = connection.parser
        words = _words(parser.line(), parser.argument_start, parser.argument_end)
        count = len(words)
        if count < 2 or count > 3:
            self._broker.close(connection, CloseReason.PROTOCOL_VIOLATION)
            return
        connection.in_operations += 1
        subject = words[0]
        queue = words[1] if count == 3 else None
        sid = words[count - 1]
        refusal = self._refusal(connection, subject, queue)
        if refusal is not None:
            _log_refused(connection, refusal, subject, queue, sid)
            connection.send(_error(refusal))
            return
        if connection.subscriptions.get(sid) is None:
            if not valid_subscription(subject):
                connection.send(_error(errors.INVALID_SUBJECT))
                return
            subscription = Subscription(connection, subject, queue, sid)
            untrack(subscription)
            connection.subscriptions.put(sid, subscription)
            connection.space.subscribe(subscription)
            if connection.account.stream_imports:
                self._broker.imports.shadow(connection.account, subscription)
        if connection.careful and connection.session.connect.verbose:
            connection.send(_OK)

    def _refusal(self, connection: Connection, subject: bytes, queue: bytes | None) -> bytes | None:
        """Return the text of the refusal, or None."""
        permissions = connection.permissions
        if permissions is not None:
            if not permissions.may_subscribe(subject, queue):
                return errors.subscription_violation(subject, queue)
            connection.filters_deliveries = permissions.filters_deliveries
        if queue is not None and queue == _SYSTEM_QUEUE:
            return errors.subscription_violation(subject, queue)
        max_tokens: int = self._broker.options.max_subject_tokens
        if max_tokens and token_count(subject) > max_tokens:
            return errors.too_many_tokens(subject)
        limit: int = connection.session.max_subscriptions
        if limit >= 0 and len(connection.subscriptions) >= limit:
            return errors.MAX_SUBSCRIPTIONS
        return None

    def unsubscribe(self, connection: Connection) -> None:
        """Execute the UNSUB that the connection's parser has found."""
        parser: Parser = connection.parser
        words = _words(parser.line(), parser.argument_start, parser.argument_end)
        count = len(words)
        if count < 1 or count > 2:
            self._broker.close(connection, CloseReason.PROTOCOL_VIOLATION)
            return
        connection.in_operations += 1
        subscription: Subscription | None = connection.subscriptions.get(words[0])
        if subscription is not None:
            most = _limit(words[1]) if count == 2 else 0
            if most > subscription.delivered:
                subscription.max = most
            else:
                self.remove(connection, subscription)
        if connection.careful and connection.session.connect.verbose:
            connection.send(_OK)

    def remove(self, connection: Connection, subscription: Subscription) -> None:
        """Remove a live subscription of this connection, and its shadows in other accounts."""
        if subscription.closed:
            return
        connection.subscriptions.remove(subscription.sid)
        self._end(connection, subscription)

    def remove_newest(
        self, connection: Connection, count: int, records: list[SubscriptionRecord] | None
    ) -> bool:
        """Remove up to `count` subscriptions, roughly the newest first; return False when none is left.

        Appends a record of each to `records`, if any.  One that cannot be ended is reported, and the others
        are removed.
        """
        held: WideMap = connection.subscriptions
        while count > 0 and len(held) > 0:
            subscription = held.take_one()
            if records is not None:
                records.append(record_of(subscription))
            try:
                self._end(connection, subscription)
            except Exception as error:
                guard.report(_ENDING, error)
            count -= 1
        return len(held) > 0

    def _end(self, connection: Connection, subscription: Subscription) -> None:
        subscription.closed = True
        connection.space.unsubscribe(subscription)
        if subscription.shadows is not None:
            self._broker.imports.unshadow(subscription)


def _words(line: bytes, start: int, end: int) -> list[bytes]:
    """Return the words between blanks; as in nats-server, other white space belongs to a word."""
    words = []
    p = line
    i = start
    while i < end:
        c = p[i]
        if c in (_SPACE, _TAB, _CR, _LF):
            i += 1
            continue
        begin = i
        while i < end:
            c = p[i]
            if c in (_SPACE, _TAB, _CR, _LF):
                break
            i += 1
        words.append(line[begin:i])
    return words


def _limit(argument: bytes) -> int:
    """Return the number of an UNSUB; as in nats-server, an invalid or too long one counts as 0."""
    return int(argument) if argument.isdigit() and len(argument) <= _MAX_DIGITS else 0


def _error(text: bytes) -> bytes:
    return b"-ERR '%b'\r\n" % text


def _log_refused(
    connection: Connection, refusal: bytes, subject: bytes, queue: bytes | None, sid: bytes
) -> None:
    session = connection.session
    if not refusal.startswith(b"Permissions Violation"):
        session.note_refusal(connection, "%s", refusal.decode())
        return
    group = f", Queue: {quoted(queue)}" if queue is not None else ""
    shown = quoted(sid)[1:-1]
    session.note_refusal(
        connection, "Subscription Violation - Subject %s%s, SID %s", quoted(subject), group, shown
    )
