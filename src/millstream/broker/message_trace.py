"""Message traces: report what happens to one message to a subject that its publisher chose.

Headers request a trace, as in nats-server:

    Nats-Trace-Dest: <subject>   report to this subject, in the publisher's account
    Nats-Trace-Only: true        report what would happen, and deliver nothing
    traceparent: …-01            a sampled W3C trace, reported where the account says (`msg_trace`)

A trace is a list of events: where the message came in, mappings, streams and services of other accounts,
streams that store it, every client, and every link to another server.  That server sends a trace of its own
to the same subject; `Nats-Trace-Hop: <number>` in both tells which belong together.  A traced message is
delivered by this module instead of ``SubjectSpace.deliver``; all others pay for one look at their headers.
"""

from __future__ import annotations

import logging
import random
import re
import time
from typing import TYPE_CHECKING, Any, Final

import msgspec

from millstream.broker.connection import Connection
from millstream.broker.imports import ServiceImport
from millstream.broker.internal import CallbackSubscriber, CaptureSubscriber
from millstream.broker.leaf.connection import LeafConnection
from millstream.broker.leaf.links import is_named
from millstream.protocol import errors, headers
from millstream.protocol.ack_subject import ACK_START
from millstream.protocol.parser import Frame, make_frame
from millstream.subjects.tokens import valid_publish_subject

if TYPE_CHECKING:
    from collections.abc import Callable

    from millstream.broker.broker import Broker
    from millstream.broker.router import SubjectSpace
    from millstream.broker.routes import SubjectRoute, Subscriber, Target

_log = logging.getLogger("millstream.broker")

_DEST: Final = "Nats-Trace-Dest"
_ONLY: Final = "Nats-Trace-Only"
_HOP: Final = (
    "Nats-Trace-Hop"  # of a message between servers: 1.2 is the second copy that the first receiver sent
)
_ORIGIN: Final = "Nats-Trace-Origin-Account"  # of servers before 2.11: such a message is not traced
_ENCODING: Final = "Accept-Encoding"
_PARENT: Final = "traceparent"  # in upper or lower case
_SAMPLED: Final = re.compile(r"[^-]*-[^-]*-[^-]*-([0-9a-fA-F]{2})")
_DISABLED: Final = b"trace disabled"  # in place of a subject: it was traced already
_DEST_LINE: Final = re.compile(rb"(?<=\r\n)Nats-Trace-Dest:[^\r\n]*")
_YES: Final = ("1", "true", "on")
_CLIENT: Final = 0  # the kinds of connections, as the reference numbers them
_LEAF: Final = 4
_API: Final = b"$JS.API.>"
_SYSTEM: Final = b"$SYS.REQ."
_SYSTEM_SERVICES: Final = {  # under the name that an account knows, and their own
    b"$SYS.REQ.USER.INFO": b"$SYS.REQ.USER.{}.INFO",
    b"$SYS.REQ.ACCOUNT.PING.CONNZ": b"$SYS.REQ.ACCOUNT.{}.CONNZ",
    b"$SYS.REQ.SERVER.PING.CONNZ": b"$SYS.REQ.ACCOUNT.{}.CONNZ",
    b"$SYS.REQ.ACCOUNT.PING.STATZ": b"$SYS.REQ.ACCOUNT.{}.STATZ",
}

_NO_ECHO: Final = "Not delivered because of no echo"
_DENIED: Final = "Not delivered because subscription denies this subject"
_UNSUBSCRIBED: Final = "Not delivered because subscription is closed"
_CLOSED: Final = "Not delivered because client is closed"
_NOT_ALLOWED: Final = "Not delivered because publish denied for this subject"
_CANNOT_ONLY: Final = "Not delivered because remote does not support message tracing"
_CANNOT: Final = (
    "Message delivered but remote does not support message tracing so no trace event generated from there"
)


class MessageTrace(msgspec.Struct):
    """The trace of one message so far."""

    account: str
    headers: dict[str, list[str]]
    size: int
    only: bool  # nothing is delivered
    hop: str = ""  # the number of this copy, if another server sent it
    events: list[dict[str, Any]] = []
    hops: int = 0  # copies sent to other servers

    @property
    def encoding(self) -> str:
        """Return the compression that the publisher wants for the trace."""
        return self.headers.get(_ENCODING, [""])[0].lower()

    def add(self, station: str, **facts: Any) -> None:
        """Add an event; empty facts are left out, except numbers."""
        told = {name: fact for name, fact in facts.items() if fact or (fact == 0 and fact is not False)}
        self.events.append({"type": station, "ts": time.time_ns(), **told})

    def came_in(self, connection: Connection, subject: bytes) -> None:
        kind, name = _CLIENT, connection.session.connect.name
        if isinstance(connection, LeafConnection):
            kind, name = _LEAF, connection.peer.name
        self.add("in", kind=kind, cid=connection.cid, name=name, acc=self.account, subj=_text(subject))

    def failed(self, reason: bytes) -> None:
        """Record that the message was refused on arrival."""
        self.events[0]["error"] = _text(reason)

    def went_out(self, connection: Connection, target: Target, error: str) -> None:
        account, subscription = connection.account.name, target.subscription
        self.add(
            "eg",
            kind=_CLIENT,
            cid=connection.cid,
            name=connection.session.connect.name,
            acc=account if account != self.account else "",
            sub=_text(subscription.subject),
            queue=_text(subscription.queue or b""),
            error=error,
        )

    def next_hop(self) -> str:
        """Return the number of the next copy that is sent to another server."""
        self.hops += 1
        return f"{self.hop}.{self.hops}" if self.hop else str(self.hops)

    def left_by(self, link: LeafConnection, hop: str, error: str) -> None:
        """Record that a link got the message, or why it did not."""
        account = link.account.name
        elsewhere = account if account != self.account else ""
        self.add("eg", kind=_LEAF, cid=link.cid, name=link.peer.name, hop=hop, acc=elsewhere, error=error)


class MessageTraces:
    """Handles the messages of a broker that may request a trace."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def publish(self, connection: Connection, frame: Frame) -> bool:
        """Deliver and trace a message; return False, having done nothing, if it is not to be traced."""
        return self._handle(connection, frame, lambda trace: self._trace(connection, frame, trace))

    def take(self, link: LeafConnection, frame: Frame, queues: list[bytes] | None) -> bool:
        """Deliver and trace a message of another server, which names the queue groups that it is for."""
        if frame.reply_size > 0 and frame.reply().startswith(ACK_START):
            return False  # the delivery of a consumer
        return self._handle(link, frame, lambda trace: self._trace_from(link, frame, queues, trace))

    def _handle(self, connection: Connection, frame: Frame, pass_on: Callable[[MessageTrace], None]) -> bool:
        block = frame.headers()
        found = _read(block)
        dest = (headers.find(block, _DEST.encode()) or b"").strip(b" \t")
        if not found or dest == _DISABLED:
            return False
        only = bool(dest) and _value(found, _ONLY).lower() in _YES
        if not dest:
            configured = connection.account.configured.trace
            if configured is None or not _is_sampled(found):
                return False
            if not connection.is_link() and random.randrange(100) >= configured.sampling:
                if connection.space.links is None:
                    return False
                self._pass_on(connection, connection.parser.subject(), _without_trace(frame))
                return True
            dest = configured.dest.encode()
        if _value(found, _ORIGIN):
            return only
        if not valid_publish_subject(dest):
            _log.error("%s - message traces can not be sent to %r", connection, _text(dest))
            return only
        if self._refuses(connection, dest):
            return True
        hop = _value(found, _HOP) if connection.is_link() else ""
        trace = MessageTrace(connection.account.name, found, frame.body_size, only, hop)
        pass_on(trace)
        self._broker.observer.message_traced(connection.account, dest, trace)
        return True

    def _refuses(self, connection: Connection, dest: bytes) -> bool:
        """Return True, and send an error, if the publisher may not publish to the trace's destination."""
        if isinstance(connection, LeafConnection):
            if connection.rules.may_receive(dest):
                return False
            connection.send(b"-ERR '%b'\r\n" % errors.publish_violation(dest))
            return True
        if not self._broker.commands.may_name(connection, dest):
            return True
        permissions = connection.permissions
        if permissions is None or permissions.lists(dest):
            return False
        connection.send(b"-ERR '%b'\r\n" % errors.publish_violation(dest))
        self._broker.observer.publish_refused(connection, dest)
        return True

    def _pass_on(self, connection: Connection, subject: bytes, frame: Frame) -> None:
        """Deliver a client's message that is not sampled, such that no other server traces it."""
        commands, space = self._broker.commands, connection.space
        if not commands.may_name(connection, subject):
            return
        if space.mapping is not None:
            subject = space.mapping(subject)
        if commands.refusal(connection, subject, frame) is not None:
            return
        taken = space.deliver(space.route(subject), frame, connection)
        if not taken and connection.no_responders and frame.reply_size > 0:
            commands.answer_no_responders(connection, subject, frame.reply())

    def _trace(self, connection: Connection, frame: Frame, trace: MessageTrace) -> None:
        """Deliver a client's message and trace it."""
        commands, space = self._broker.commands, connection.space
        subject = connection.parser.subject()
        trace.came_in(connection, subject)
        if not commands.may_name(connection, subject):
            trace.failed(errors.publish_violation(subject))
            return
        if space.mapping is not None and (mapped := space.mapping(subject)) != subject:
            trace.add("sm", to=_text(mapped))
            subject = mapped
        refusal = commands.refusal(connection, subject, frame)
        if refusal is not None:
            trace.failed(refusal)
            return
        taken = self._deliver(space, space.route(subject), frame, connection, trace)
        if not taken and connection.no_responders and frame.reply_size > 0:
            commands.answer_no_responders(connection, subject, frame.reply())

    def _trace_from(
        self, link: LeafConnection, frame: Frame, queues: list[bytes] | None, trace: MessageTrace
    ) -> None:
        """Deliver a message of another server and trace it."""
        space, subject = link.space, link.parser.subject()
        trace.came_in(link, subject)
        named = True
        if not link.rules.may_receive(subject):
            assert self._broker.leafs is not None
            self._broker.leafs.refuse_message(link, subject)
            return
        if space.mapping is not None and (mapped := space.mapping(subject)) != subject:
            trace.add("sm", to=_text(mapped))
            subject, named = mapped, False
        self._deliver(space, space.route(subject), frame, link, trace, (queues or []) if named else None)

    def _deliver(
        self,
        space: SubjectSpace,
        route: SubjectRoute,
        frame: Frame,
        source: Subscriber,
        trace: MessageTrace,
        queues: list[bytes] | None = None,
    ) -> int:
        """Do what ``SubjectSpace.deliver`` does, and trace it, except to very many receivers.

        A message of another server is only for the queue groups that it names, `queues`.
        """
        if route.wide is not None or route.groups is not None:
            return self._deliver_wide(space, route, frame, source, trace, queues)
        distant = [target for target in route.plain if isinstance(target.owner, LeafConnection)]
        taken = sum(
            self._try(target, frame, source, trace)
            for target in route.plain
            if not isinstance(target.owner, LeafConnection)
        )
        chosen: dict[Subscriber, list[Target]] = {target.owner: [] for target in distant}
        for members in route.queues:
            if queues is not None and not is_named(members[0].subscription, queues):
                continue
            local = [each for each in members if not each.owner.is_link()]
            if any(self._try(each, frame, source, trace) for each in random.sample(local, len(local))):
                taken += 1
            elif len(local) < len(members):
                member = space.links.choose(members, source)
                if member is not None:
                    chosen.setdefault(member.owner, []).append(member)
        for target in distant:
            group = chosen.pop(target.owner, [])
            taken += self._send(target, group, frame, source, trace)
        for group in chosen.values():
            taken += self._send(group[0], group, frame, source, trace)
        return taken

    def _deliver_wide(
        self,
        space: SubjectSpace,
        route: SubjectRoute,
        frame: Frame,
        source: Subscriber,
        trace: MessageTrace,
        queues: list[bytes] | None,
    ) -> int:
        """Deliver to very many receivers, without a trace of them."""
        if trace.only:
            return 1
        if isinstance(source, LeafConnection) and queues is not None:
            taken: int = source.links.deliver_from(route, _without_trace(frame), source, queues)
            return taken
        return space.deliver(route, _without_trace(frame), source)

    def _send(
        self, target: Target, group: list[Target], frame: Frame, source: Subscriber, trace: MessageTrace
    ) -> bool:
        """Send a message to another server, which traces it too; `group` are the members of queue groups.

        A message that crossed into another account is not traced there: its destination is in the first one.
        """
        link: Any = target.owner
        if link is source:
            return False
        if target.subscription.origin is not None:
            self._cross(target, trace)
        traced = link.peer.traces and link.account.name == trace.account
        subject = target.via if target.via is not None else target.subject
        hop, error = trace.next_hop(), ""
        if not link.rules.may_send(subject):
            # Only a hub calls it a subscription that its user may not have.
            refused = link.peer.spoke or not link.rules.is_in_allow_list(subject)
            error = _NOT_ALLOWED if refused else _DENIED
        elif link.closed or target.subscription.closed:
            error = _CLOSED if link.closed else _UNSUBSCRIBED
        elif trace.only and not traced:
            error = _CANNOT_ONLY
        sent = False
        if not error:
            onward = frame if traced else _without_trace(frame)
            block = headers.replace(onward.headers(), _HOP.encode(), hop.encode())
            copy = make_frame(frame.reply(), block, frame.payload())
            sent = link.send_message(
                target, copy, source, [each.subscription.queue for each in group] or None
            )
            error = "" if traced else _CANNOT
        trace.left_by(link, hop, error)
        return sent

    def _try(self, target: Target, frame: Frame, source: Subscriber, trace: MessageTrace) -> bool:
        try:
            return self._hand(target, frame, source, trace)
        except Exception as error:
            target.owner.failed(target, frame, error)
            return False

    def _hand(self, target: Target, frame: Frame, source: Subscriber, trace: MessageTrace) -> bool:
        """Deliver to one receiver; return True if it received the message, or would have."""
        owner = target.owner
        if target.subscription.origin is not None and not self._cross(target, trace):
            return trace.only or owner.deliver(target, frame, source)
        if isinstance(owner, Connection):
            error = _obstacle(owner, target, source)
            trace.went_out(owner, target, error)
            return not error and (trace.only or owner.deliver(target, frame, source))
        if isinstance(owner, ServiceImport):
            return self._hand_to_service(owner, target, frame, source, trace)
        if isinstance(owner, CaptureSubscriber) and owner.traced is not None:
            told = owner.traced(target.subject, frame if trace.only else _without_trace(frame), trace.only)
            trace.add("js", **told)
            return True
        if isinstance(owner, CallbackSubscriber) and self._tell_own_service(target, trace):
            return not trace.only and owner.deliver(target, frame, source)
        return trace.only or owner.deliver(target, frame, source)

    def _cross(self, target: Target, trace: MessageTrace) -> bool:
        """Record the crossing into an importing account; return True if the trace continues there."""
        owner, subscription = target.owner, target.subscription
        account = owner.account if isinstance(owner, Connection) else self._broker.imports.account_of(target)
        trace.add("se", acc=account.name, to=_text(target.subject))
        return subscription.traceable

    def _hand_to_service(
        self, owner: ServiceImport, target: Target, frame: Frame, source: Subscriber, trace: MessageTrace
    ) -> bool:
        def send(space: SubjectSpace, route: SubjectRoute, request: Frame) -> int:
            crossing = {"acc": owner.exporter.name, "from": _text(target.subject), "to": _text(route.subject)}
            trace.add("si", **crossing)
            if owner.traceable:
                return self._deliver(space, route, request, source, trace)
            return 0 if trace.only else space.deliver(route, request, source)

        request = _without_reply(frame) if trace.only else _without_trace(frame)
        return owner.pass_on(target, request, source, send)

    def _tell_own_service(self, target: Target, trace: MessageTrace) -> bool:
        """Return True, and record it, if the server itself answers: a system service in nats-server."""
        account, subject = self._broker.options.system_account, target.subject
        if account == trace.account or (
            target.subscription.subject != _API and not subject.startswith(_SYSTEM)
        ):
            return False
        to = _SYSTEM_SERVICES.get(subject, subject).replace(b"{}", trace.account.encode())
        trace.add("si", **{"acc": account, "from": _text(subject), "to": _text(to)})
        return True


def _read(block: bytes) -> dict[str, list[str]]:
    """Return all headers with a value, unchanged."""
    found: dict[str, list[str]] = {}
    if not block.startswith(headers.START):
        return found
    for line in block.split(b"\r\n")[1:]:
        name, colon, value = line.partition(b":")
        if colon and name and value.strip(b" \t"):
            found.setdefault(_text(name), []).append(_text(value.strip(b" \t")))
    return found


def _value(found: dict[str, list[str]], name: str) -> str:
    return found.get(name, [""])[0]


def _is_sampled(found: dict[str, list[str]]) -> bool:
    """Return True if a `traceparent` is sampled."""
    for name, values in found.items():
        if name.lower() == _PARENT:
            for value in values:
                flags = _SAMPLED.fullmatch(value)
                if flags is not None and int(flags[1], 16) & 1:
                    return True
    return False


def _obstacle(connection: Connection, target: Target, source: Subscriber) -> str:
    """Return why a client does not get a message, see ``Connection.deliver``; empty if it does."""
    subscription = target.subscription
    if connection.outdated:
        connection.broker.renew(connection)
    if source is connection and not connection.echo:
        return _NO_ECHO
    if connection.filters_deliveries and connection.permissions.delivery_denied(
        target.subject, subscription.queue
    ):
        return _DENIED
    if subscription.closed:
        return _UNSUBSCRIBED
    return _CLOSED if connection.closed else ""


def _without_trace(frame: Frame) -> Frame:
    """Return a copy with tracing disabled, so that downstream servers do not trace it again."""
    block = frame.headers()
    disabled = b"Nats-Trace-Dest: " + _DISABLED
    changed, count = _DEST_LINE.subn(disabled, block)
    if not count:
        changed = headers.put(block, b"Nats-Trace-Dest", _DISABLED)
    return make_frame(frame.reply(), changed, frame.payload())


def _without_reply(frame: Frame) -> Frame:
    """Return a copy without reply subject, because nobody responds to a message that is only traced."""
    return make_frame(b"", frame.headers(), frame.payload())


def _text(value: bytes) -> str:
    return value.decode(errors="replace")
