"""The connection of a leaf link: messages come in and go out as between servers.

Everything that all connections have in common (buffers, turns, backpressure) is inherited.  What differs:
operations are LMSG, HMSG, LS+ and LS-; a message names the queue groups that it is for; and the rules of the
link (``rules``) decide what passes.  The steps of the login are in ``login``, subscriptions of the other
server in ``leafs``.
"""

from typing import TYPE_CHECKING, Any

from millstream.base.buffer import equal_bytes
from millstream.broker.connection import Connection, Tick
from millstream.broker.routes import SubjectRoute, Subscriber, Subscription, Target
from millstream.protocol.ack_subject import ACK_START
from millstream.protocol.outbuf import OutBuffer
from millstream.protocol.parser import Op, Parser
from millstream.subjects.match import is_one_word

if TYPE_CHECKING:
    from millstream.protocol.parser import Frame

_NEED_MORE = Op.NEED_MORE
_PUB = Op.PUB
_BYTES_SHIFT = 14  # 16 KiB count as one message
_OPERATION_WORK = 4
_LOOK_EVERY = 64
_FLUSH_AT = 256 * 1024
_ACK = ACK_START
_ACK_SIZE = len(ACK_START)
_ACK_DOTS = 8  # in a reply before the subject that follows it
_MAX_NAMES = 1024
_DOT = ord(".")
_AT = ord("@")


class LeafConnection(Connection):
    """One link, from its first byte to its last."""

    def __init__(self, broker: Any, tick: Tick, parser: Parser, cid: int, account: Any, peer: Any) -> None:
        Connection.__init__(self, broker, tick, parser, cid, account)
        parser.leaf = True
        self.peer = peer  # login.Peer: who is at the other end, and what was agreed
        self.rules: Any = None  # rules.LinkRules, when the link is ready
        self._max_payload = 0
        self._tracks = False  # `allow_responses`: remember reply subjects delivered
        self.links: Any = None  # links.AccountLinks of its account
        self.ready = False  # logged in: messages and subscriptions may pass
        self.pedantic = False
        self.echo = False
        self._sent: Target | None = None  # the last receiver that the rules allowed
        self._weights: dict[Subscription, int] = {}  # of members of queue groups, if not 1
        self._renamed_from: SubjectRoute | None = None
        self._renamed: dict[bytes, SubjectRoute] = {}  # the same route under other subjects

    def __str__(self) -> str:
        session = self.session
        return f"{session.ip}:{session.port} - lid:{self.cid}"

    def is_link(self) -> bool:
        return True

    def takes_parts(self) -> bool:
        return False

    def weight_of(self, subscription: Subscription) -> int:
        """Return how many members of its queue group a subscription of the other server stands for."""
        weight: int = self._weights.get(subscription, 1)
        return weight

    def set_weight(self, subscription: Subscription, weight: int) -> None:
        if weight == 1:
            self._weights.pop(subscription, None)
        else:
            self._weights[subscription] = weight

    def take_rules(self, rules: Any) -> None:
        """Apply rules from the next message on."""
        self.rules = rules
        self.permissions = rules.publishing
        self._max_payload = rules.max_payload
        self._tracks = rules.changes
        self._sent = self._route = None

    # -- the way in -------------------------------------------------------------------------------

    def _act(self) -> None:
        parser = self.parser
        while not (self.closed or self.suspended or self.waiting):
            op = parser.next()
            if op == _PUB:
                if not self.ready:
                    self.broker.leafs.refuse_early(self)
                    return
                self._take_message()
                self._work += 1 + (parser.frame.body_size >> _BYTES_SHIFT)
            elif op == _NEED_MORE:
                break
            else:
                self.broker.leafs.execute(self, op)
                self._work += _OPERATION_WORK
            if self._work >= _LOOK_EVERY:
                self._look_at_the_clock()

    def _take_message(self) -> None:
        frame = self.parser.frame
        self.in_messages += 1
        self.in_bytes += frame.body_size
        queues = self.parser.queues
        if (
            frame.header_size > 0
            and self._may_be_traced(frame)
            and self.broker.traces.take(self, frame, queues)
        ):
            return
        route = self._route
        shown = self._take_subject(frame) if frame.reply_size > _ACK_SIZE else 0
        if route is None or not route.valid or not self.parser.subject_is(route.subject):
            route = self._find_link_route()
            if route is None:
                return
            if not self.parser.subject_is(route.subject):
                # A mapping chose the receivers, and the sender knows nothing of their queue groups.
                self._work += self.space.deliver(route, frame, self)
                return
        if shown > 0:
            route = self._rename(route, frame.buf[frame.reply_start + frame.reply_size + 1 : shown])
            if route is None:
                return
        self._work += self.links.deliver_from(route, frame, self, queues)

    def _take_subject(self, frame: "Frame") -> int:
        """Cut a reply ``$JS.ACK.….<pending>@<subject>``; return the end of the subject, or 0 without one.

        Between servers, a message of a consumer has the subject that it is to be seen under at the end of its
        reply.
        """
        if not equal_bytes(frame.buf, frame.reply_start, _ACK):
            return 0
        p = frame.buf
        end = frame.reply_start + frame.reply_size
        dots = 0
        for i in range(frame.reply_start, end):
            if p[i] == _DOT:
                dots += 1
            elif p[i] == _AT and dots >= _ACK_DOTS:
                frame.reply_size = i - frame.reply_start
                return end if i + 1 < end else 0
        return 0

    def _rename(self, route: SubjectRoute, subject: bytes) -> SubjectRoute | None:
        """Return a route whose receivers see a message under another subject, None if that is invalid."""
        if route is not self._renamed_from:
            self._renamed_from = route
            self._renamed.clear()
        renamed = self._renamed.get(subject)
        if renamed is None:
            if not is_one_word(subject):
                self.space.refuse(subject)
                return None
            if len(self._renamed) >= _MAX_NAMES:
                self._renamed.clear()
            renamed = self._renamed[subject] = route.renamed(subject)
        return renamed

    def _find_link_route(self) -> SubjectRoute | None:
        """Return the receivers of a message, None if it must not pass; the last route is remembered."""
        self._route = None
        subject = self.parser.subject()
        if not self.rules.may_receive(subject):
            self.broker.leafs.refuse_message(self, subject)
            return None
        mapping = self.space.mapping
        if mapping is not None:
            mapped: bytes = mapping(subject)
            if mapped != subject:
                return self.space.route(mapped)
        if subject.startswith(_ACK):
            acks = self.space.ack_route(subject)
            if acks is not None:
                return SubjectRoute(subject, [Target(each, subject) for each in acks.group], [])
        route = self.space.crowd_route(subject)
        if route is None:
            route = self.space.route(subject)
            if not self._tracks:
                self._route = route
        return route

    # -- the way out ------------------------------------------------------------------------------

    def deliver(self, target: Target, frame: "Frame", source: Subscriber | None) -> bool:
        queue = target.subscription.queue
        return self.send_message(target, frame, source, None if queue is None else [queue])

    def send_message(
        self, target: Target, frame: "Frame", source: Subscriber | None, queues: list[bytes] | None
    ) -> bool:
        """Send a message once, for plain subscribers and for a member of each group in `queues`."""
        if self.closed or source is self or not self.ready or target.subscription.closed:
            return False
        via = target.via if target.via is not None else target.subject
        if target is not self._sent:
            if not self.rules.may_send(via):
                return False
            self._sent = target
        if frame.body_size > self._max_payload:
            self.broker.leafs.refuse_size(self, frame.body_size)
            return False
        if self._tracks and frame.reply_size > 0:
            self.rules.allow_response(frame.reply())
        out = self._lend()
        shown = target.subject if target.via is not None and self._is_delivery(frame) else None
        out.append_leaf_message(via, shown, queues, frame, self.headers)
        self.out_messages += 1
        self.out_bytes += frame.body_size
        target.subscription.delivered += 1
        if out.size > _FLUSH_AT:
            self._write()
        return True

    def _lend(self) -> OutBuffer:
        if self._out is None:
            self._out = self.tick.borrow(self)
        return self._out

    def _is_delivery(self, frame: "Frame") -> bool:
        """Return True for a message of a consumer, whose reply can carry the subject."""
        return frame.reply_size > _ACK_SIZE and equal_bytes(frame.buf, frame.reply_start, _ACK)

    def answer(
        self,
        subscription: Subscription,
        replies: bytes,
        at: int,
        size: int,
        start: bytes,
        number: int,
        end_size: int,
    ) -> None:
        Subscriber.answer(self, subscription, replies, at, size, start, number, end_size)
