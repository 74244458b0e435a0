"""The operations of a client, except messages and subscriptions.

``Connection`` calls it with the operation's code; every response and ``-ERR`` that a connected client gets
comes from here, from ``subscriptions`` or from ``handshake``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from millstream.broker import handshake
from millstream.broker.client_json import BadJson, read_object
from millstream.broker.close_reason import CloseReason
from millstream.broker.router import CONSENSUS_PREFIX, GATEWAY_PREFIXES, RESERVED_REPLIES
from millstream.golang.quote import quoted
from millstream.protocol import errors, headers
from millstream.protocol.parser import Op
from millstream.subjects.match import is_one_word, valid_literal_subject

if TYPE_CHECKING:
    from millstream.broker.broker import Broker
    from millstream.broker.connection import Connection
    from millstream.protocol.parser import Frame

_OK: Final = b"+OK\r\n"

_FATAL: Final = {
    Op.UNKNOWN: (CloseReason.PROTOCOL_VIOLATION, errors.UNKNOWN_OPERATION),
    Op.BAD_ARGUMENTS: (CloseReason.PROTOCOL_VIOLATION, None),
    Op.LINE_TOO_LONG: (CloseReason.MAX_CONTROL_LINE_EXCEEDED, errors.LINE_TOO_LONG),
    Op.PAYLOAD_TOO_BIG: (CloseReason.MAX_PAYLOAD_EXCEEDED, errors.PAYLOAD_TOO_BIG),
}


class Commands:
    """The operations, for all connections of a broker."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._handlers: dict[int, Callable[[Connection], None]] = {
            Op.CONNECT: lambda connection: handshake.connect(broker, connection),
            Op.CONNECT_WANTED: lambda connection: handshake.without_connect(broker, connection),
            Op.SUB: broker.subscriptions.subscribe,
            Op.UNSUB: broker.subscriptions.unsubscribe,
            Op.PING: self._ping,
            Op.PONG: lambda connection: connection.keepalive.pong(broker.now()),
            Op.INFO: self._info,
            Op.OK: lambda connection: None,
            Op.ERR: lambda connection: broker.close(connection, CloseReason.PARSE_ERROR),
            Op.BAD_BODY: self._bad_body,
            Op.UNCLEAN_PUB: self._publish_to_nobody,
        }

    def execute(self, connection: Connection, op: int) -> None:
        """Execute any operation but PUB."""
        if connection.tracer is not None and op > 0 and op != Op.UNCLEAN_PUB:
            connection.tracer.operation_in(op, connection.parser.argument())
        handler = self._handlers.get(op)
        if handler is not None:
            handler(connection)
        else:
            reason, text = _FATAL[Op(op)]
            connection.session.note_refusal(connection, "%s", self._fault(connection, op))
            self._broker.close(connection, reason, text)

    def _fault(self, connection: Connection, op: int) -> str:
        """Return the log text for an operation that ends its connection."""
        if op == Op.PAYLOAD_TOO_BIG:
            return f"maximum payload exceeded: more than {connection.parser.max_payload}"
        if op == Op.LINE_TOO_LONG:
            return f"maximum control line exceeded: more than {connection.parser.max_control_line}"
        return "Client parser ERROR: " + ("unknown operation" if op == Op.UNKNOWN else "bad arguments")

    def _info(self, connection: Connection) -> None:
        """Check that an INFO from a client is JSON; it means nothing."""
        try:
            read_object(connection.parser.argument())
        except BadJson:
            self._broker.close(connection, CloseReason.PROTOCOL_VIOLATION)

    # -- pings ------------------------------------------------------------------------------------

    def _ping(self, connection: Connection) -> None:
        connection.send(b"PONG\r\n")
        self.after_pong(connection)

    def after_pong(self, connection: Connection) -> None:
        """Send an INFO with the client's account after the first pong."""
        connection.keepalive.heard(self._broker.now())
        session = connection.session
        if session.connect_received and not session.pong_sent:
            session.pong_sent = True
            if session.connect.protocol >= 1:
                connection.send(handshake.connect_info(self._broker, connection))

    # -- publishing, off the fast path ------------------------------------------------------------

    def check_subject(self, connection: Connection) -> None:
        """Report an invalid subject to a pedantic client; the message is delivered all the same."""
        if not (connection.subject_checked or valid_literal_subject(connection.parser.subject())):
            connection.send(_error(errors.INVALID_PUBLISH_SUBJECT))

    def _bad_body(self, connection: Connection) -> None:
        if connection.pedantic:
            self.check_subject(connection)
        self._broker.close(connection, CloseReason.PROTOCOL_VIOLATION, errors.UNKNOWN_OPERATION)

    def _publish_to_nobody(self, connection: Connection) -> None:
        """Refuse a message that no protocol line can carry; the sender gets what nats-server sends."""
        subject, frame = connection.parser.subject(), connection.parser.frame
        if connection.pedantic:
            self.check_subject(connection)
        if self.may_name(connection, subject) and self.may_publish(connection, subject, frame):
            connection.space.refuse(frame.reply() if is_one_word(subject) else subject)

    def may_name(self, connection: Connection, subject: bytes) -> bool:
        """Return False, and send an error, if no client may publish to this subject."""
        if subject.startswith(GATEWAY_PREFIXES) or (
            subject.startswith(CONSENSUS_PREFIX) and not connection.account.is_system
        ):
            connection.session.note_refusal(connection, "Publish Violation - Subject %s", quoted(subject))
            connection.send(_error(errors.publish_violation(subject)))
            return False
        return True

    def may_publish(self, connection: Connection, subject: bytes, frame: Frame) -> bool:
        """Check a message of a connection that is verbose, restricted or traced."""
        return self.refusal(connection, subject, frame) is None

    def refusal(self, connection: Connection, subject: bytes, frame: Frame) -> bytes | None:
        """Return why a message is refused, after telling its publisher; None if it is accepted."""
        connect = connection.session.connect
        if connection.tracer is not None:
            connection.tracer.message_in(subject, frame)
        permissions = connection.permissions
        if permissions is not None and not permissions.may_publish(subject, self._broker.now()):
            connection.session.note_refusal(connection, "Publish Violation - Subject %s", quoted(subject))
            connection.send(_error(errors.publish_violation(subject)))
            self._broker.observer.publish_refused(connection, subject)
            return errors.publish_violation(subject)
        if frame.reply_size and frame.reply().startswith(RESERVED_REPLIES):
            self.refuse_reply(connection, frame)
            return errors.reply_violation(frame.reply())
        if connect.verbose:
            connection.send(_OK)
        return None

    def refuse_reply(self, connection: Connection, frame: Frame) -> None:
        connection.session.note_refusal(connection, "Publish Violation - Reply %s", quoted(frame.reply()))
        connection.send(_error(errors.reply_violation(frame.reply())))

    def answer_no_responders(self, connection: Connection, subject: bytes, reply: bytes) -> None:
        """Tell the sender of a request at once that there are no responders."""
        for subscription in connection.space.tree.match(reply).plain:
            if subscription.owner is connection:
                break
        else:
            return
        block = headers.make_status(b"503", (b"Nats-Subject", subject))
        connection.send(
            b"HMSG %b %b %d %d\r\n%b\r\n" % (reply, subscription.sid, len(block), len(block), block)
        )


def _error(text: bytes) -> bytes:
    return b"-ERR '%b'\r\n" % text
