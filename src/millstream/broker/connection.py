"""A client connection: parse bytes from its transport, route messages, write its output.

This is the path of a message.  One chunk read from the socket is parsed to its end; every message in it is
copied into the output buffers of its receivers; then each receiver that got something writes once.  No task,
future or object is created for a message.

    transport ──data_received──▶ Parser ──▶ SubjectSpace.deliver ──▶ Connection.deliver (receiver)
                                                                          │ OutBuffer
    transport ◀──────────────────────── Tick.flush ◀──────────────────────┘

``Tick`` lists the connections that the current chunk wrote to and lends them their buffers, so an idle
connection owns none.  Thousands of connections are written to in slices (``write_queue``).  A connection
whose input takes long is not read from until others had their turn.
Rare events (CONNECT, SUB, timers, closing) are in ``commands``, ``subscriptions``, ``handshake``,
``keepalive`` and ``backpressure``, which use the public fields here.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from millstream.base import guard
from millstream.base.buffer import equal_bytes, has_line
from millstream.base.wide_map import WideMap
from millstream.broker.newcomers import Newcomers
from millstream.broker.router import CONSENSUS_PREFIX, GATEWAY_PREFIXES, RESERVED_REPLIES, SubjectSpace
from millstream.broker.routes import AckRoute, SubjectRoute, Subscriber, Subscription, Target
from millstream.broker.watchdog import Watchdog
from millstream.broker.write_queue import WriteQueue
from millstream.protocol.ack_subject import ACK_START
from millstream.protocol.outbuf import OutBuffer
from millstream.protocol.outlet import LONG, long_part
from millstream.protocol.parser import Op, Parser
from millstream.subjects.match import valid_literal_subject

if TYPE_CHECKING:
    from millstream.protocol.parser import Frame

_NEED_MORE = Op.NEED_MORE
_PUB = Op.PUB
_PING = Op.PING
_SUB = Op.SUB
_UNSUB = Op.UNSUB

# How long one connection is served before others get their turn.  The clock is read after so much work:
# a message and each of its deliveries count 1, other operations more.
_SLICE_S = 0.002
_LOOK_EVERY = 64
_REQUEST_WORK = 8
_BYTES_SHIFT = 14  # 16 KiB count 1, too
_OPERATION_WORK = 4
_FLUSH_AT = 256 * 1024  # a buffer this full is written without waiting for the end of the chunk
_SPARE_BUFFERS = 64
_WRITES_AT_ONCE = 64  # connections that are written to without a look at the clock
_LOOK_AFTER = 16  # of these writes
_WRITE_S = 0.001  # for the writes of one step to more of them; the others are written to in slices
_LARGE_BODY = 64 * 1024  # bytes that are missing; so many are read where they are needed
_LONG = LONG

_UNDERSCORE = ord("_")
_DOLLAR = ord("$")
_I = ord("I")

_PONG = b"PONG\r\n"
_CRLF = b"\r\n"
_ACK = ACK_START
_RESERVED_STARTS = (*GATEWAY_PREFIXES, CONSENSUS_PREFIX)
_RESERVED_FIRST = (b"$", b"_")  # with which all of them begin: most subjects do not
_DIRECT_GET = b"$JS.API.DIRECT.GET."
_TRACE = b"Nats-Trace-Dest:"

# Names of steps, for the watchdog.
_READ = "connection read"
_MADE = "connection made"
_LOST = "connection lost"
_DRAINED = "connection drained"


class Tick:
    """The connections that have something to write, and the buffers lent to them."""

    def __init__(self, watchdog: Watchdog, clock: Callable[[], float]) -> None:
        self.watchdog = watchdog
        self.clock = clock  # in seconds; for how long something takes
        self._dirty: list[Connection] = []
        self._spare: list[OutBuffer] = []
        self.near_max_pending = False  # a receiver is close to its limit: the sender should pause
        self.flooded = False  # and not for a moment, but until ``release``: its messages wait for the disk
        self.held: list[Connection] = []  # until then
        self.switches = 0  # how often the input of another client was processed than before
        self.reader = 0  # the client whose input was processed last
        self.round = 0  # of the loop, which reads a socket many times in one round; not every round counts
        self.counts = False  # the round will be counted when this one has ended
        self.in_slices: Any = None  # ``Turns.in_slices``
        self.writes: WriteQueue | None = None  # of the last flush that could not write everything
        self.newcomers = Newcomers()

    @property
    def steps(self) -> int:
        """Return the number of steps that the loop has finished."""
        return self.watchdog.steps

    def reads(self, cid: int) -> None:
        """Record whose input is processed."""
        if cid != self.reader:
            self.reader = cid
            self.switches += 1

    def borrow(self, connection: "Connection") -> OutBuffer:
        self._dirty.append(connection)
        if self._spare:
            return self._spare.pop()
        return OutBuffer()

    def give_back(self, buffer: OutBuffer) -> None:
        if len(self._spare) < _SPARE_BUFFERS:
            self._spare.append(buffer)

    def count_round(self) -> None:
        """Record that the loop has polled all sockets since this was requested."""
        self.round += 1
        self.counts = False

    def release(self) -> None:
        """Read again from connections that were held."""
        held = self.held
        self.held = []
        for connection in held:
            if not connection.closed:
                connection.backpressure.release()

    def has_many_writes(self) -> bool:
        """Return True if so many connections have something to write that they should do it now."""
        return len(self._dirty) >= _WRITES_AT_ONCE

    def flush(self) -> bool:
        """Write the output of every connection in the list, including what flushing itself adds.

        Returns True if there were too many connections; the rest is in `writes` then.
        """
        left = False
        while self._dirty:
            dirty = self._dirty
            self._dirty = []
            if len(dirty) > _WRITES_AT_ONCE:
                left = self._flush_many(dirty) or left
            else:
                for connection in dirty:
                    connection.flush()
        return left

    def _flush_many(self, dirty: "list[Connection]") -> bool:
        end: float = self.clock() + _WRITE_S
        at = 0
        for connection in dirty:
            connection.flush()
            at += 1
            if at % _LOOK_AFTER == 0 and self.clock() >= end:
                break
        if at == len(dirty) or self.in_slices is None:
            for connection in dirty[at:]:
                connection.flush()
            return False
        rest = dirty[at:]
        for connection in rest:
            connection.put_off()
        self.writes = WriteQueue(rest)
        self.in_slices("writing to many clients", self.writes.write())
        return True


class Connection(Subscriber):
    """One client, from its first byte to its last."""

    def __init__(self, broker: Any, tick: Tick, parser: Parser, cid: int, account: Any) -> None:
        self.broker = broker
        self.tick = tick
        self.parser = parser
        self.cid = cid
        self.transport: Any = None
        self.account = account  # accounts.Account; another one may follow from authentication
        self.space: SubjectSpace = account.space
        self.subscriptions = WideMap()  # from sid to Subscription
        # Life cycle; see `handshake` and `close`.
        self.closed = False
        self.outdated = False  # its rights are those of options that were replaced; see `reload`
        self.suspended = False  # stops parsing, e.g. while a password is checked elsewhere
        self.waiting = False  # has input left for its next turn
        self._is_new = True  # until its first input
        # Of a TCP connection without TLS: the transport leaves it to us to close when the peer has hung up.
        self.half_closes = False
        self.reads_bodies = False  # large bodies are read into the parser (``body_reader``)
        self.session: Any = None  # handshake.Session: who this is and what was negotiated
        self.keepalive: Any = None
        self.backpressure: Any = None
        self.tracer: Any = None
        # Negotiated by CONNECT; these are the values before it.
        self.echo = True
        self.headers = False
        self.no_responders = False
        self.pedantic = True
        self.subject_checked = False  # of a message whose body is still coming
        self.careful = True  # verbose, traced or restricted: the slow way to publish
        self.permissions: Any = None
        self.filters_deliveries = False  # some subscription is wider than what is denied
        self.tracks_replies = False  # `allow_responses`: remember reply subjects delivered
        # Counted here, read by monitoring.
        self.in_messages = 0
        self.in_bytes = 0
        self.in_operations = 0  # SUB and UNSUB
        self.out_messages = 0
        self.out_bytes = 0
        self.written = 0  # bytes handed to the transport
        self.write_blocked = False  # the transport holds bytes that the peer has not taken
        self.last_activity = 0.0
        self._out: OutBuffer | None = None
        self._put_off: OutBuffer | None = None  # output that is written in a slice, or with the next one
        self._holds = 0  # reasons not to read on, see ``hold``
        self._route: SubjectRoute | None = None
        self._acks: AckRoute | None = None  # where the last acknowledgement went
        self._work = 0  # done since the last look at the clock
        self._turn_end = 0.0  # when others get their turn, by `tick.clock`; 0: not known yet
        self._round = 0  # of the loop, for which that is true
        self._later: list[bytes] | None = None  # input that came although nothing is read

    def enter(self, account: Any) -> None:
        """Move to `account`; routes through the previous one must not be used again."""
        self.account = account
        self.space = account.space
        self._route = self._acks = None

    def __str__(self) -> str:
        session = self.session
        return f"{session.ip}:{session.port} - cid:{self.cid}{session.description()}"

    # -- transport callbacks ----------------------------------------------------------------------

    def connection_made(self, transport: Any) -> None:
        watchdog = self.tick.watchdog
        began = watchdog.began()
        self.transport = transport
        try:
            self.broker.connection_made(self)
        except Exception as error:
            self.broker.fail(self, "a new connection", error)
        self.tick.flush()
        watchdog.ended(began, _MADE)

    def data_received(self, data: bytes) -> None:
        self.last_activity = self.broker.now()
        if self.waiting:
            if self._later is None:
                self._later = []
            self._later.append(data)
            return
        watchdog = self.tick.watchdog
        began = watchdog.began()
        if self._is_new:
            self._is_new = False
            self._log_in(data)
            watchdog.ended(began, _READ)
            return
        self.parser.feed(data)
        self.process()
        if self.half_closes and not self.reads_bodies and self.parser.wants() > _LARGE_BODY:
            self.broker.read_bodies(self)
        watchdog.ended(began, _READ)

    def _log_in(self, data: bytes) -> None:
        """Process the first input now, or later if many clients connect at once."""
        tick = self.tick
        if tick.newcomers.may_log_in(tick.round):
            began: float = tick.clock()
            self.parser.feed(data)
            self.process()
            tick.newcomers.took(tick.clock() - began)
            self._count_round()
        else:
            self.waiting = True
            self._later = [data]
            self.transport.pause_reading()
            tick.newcomers.put_off(self)

    def _count_round(self) -> None:
        """Have the present round of the loop counted when it has ended."""
        if not self.tick.counts:
            self.tick.counts = True
            self.broker.turns.soon(self.tick.count_round)

    def room(self) -> memoryview | None:
        """Return the memory for the rest of a large body; None: the next bytes go to ``data_received``."""
        if self.waiting or self.suspended or self.closed or self.parser.wants() == 0:
            return None
        return self.parser.room()

    def body_received(self, count: int) -> None:
        """Process `count` bytes that were read into ``room``."""
        watchdog = self.tick.watchdog
        began = watchdog.began()
        self.last_activity = self.broker.now()
        self.parser.filled(count)
        if self.parser.wants() == 0:
            self.process()
        watchdog.ended(began, _READ)

    def eof_received(self) -> bool:
        """Handle the end of the peer's input; return True if `departures` will close the transport."""
        self.tick.flush()
        if self.closed or not self.half_closes:
            return False
        self.catch_up()
        self.closed = True
        self.broker.departures.hang_up(self)
        return True

    def connection_lost(self, error: Exception | None) -> None:
        watchdog = self.tick.watchdog
        began = watchdog.began()
        guard.alone("the end of a connection", self.broker.connection_lost, self, error)
        self.tick.flush()
        watchdog.ended(began, _LOST)

    def pause_writing(self) -> None:
        self.write_blocked = True
        if not self.closed:
            self.backpressure.blocked()

    def resume_writing(self) -> None:
        watchdog = self.tick.watchdog
        began = watchdog.began()
        self.write_blocked = False
        if not self.closed:
            self.backpressure.drained()
        watchdog.ended(began, _DRAINED)

    # -- the way in -------------------------------------------------------------------------------

    def process(self) -> None:
        """Process everything in the parser, then let all receivers write.

        An unexpected exception closes this connection and no other.
        """
        self.tick.reads(self.cid)
        try:
            if self.outdated:
                self.broker.renew(self)
            self._act()
        except Exception as error:
            self.broker.fail(self, "an operation of a client", error)
        tick = self.tick
        if tick.flush() and tick.writes is not None and not self.closed:
            tick.writes.hold(self)
        if self.tick.near_max_pending:
            self.tick.near_max_pending = False
            if not self.closed:
                if self.tick.flooded:
                    self.backpressure.hold()
                else:
                    self.backpressure.stall()
            self.tick.flooded = False

    def _act(self) -> None:
        parser = self.parser
        while not (self.closed or self.suspended or self.waiting):
            op = parser.next()
            if op == _PUB:
                self._publish()
                self._work += 1 + (parser.frame.body_size >> _BYTES_SHIFT)
            elif op == _NEED_MORE:
                if self.pedantic and parser.body_is_cut():
                    self.broker.commands.check_subject(self)
                    self.subject_checked = True
                break
            elif self.tracer is not None:
                self.broker.commands.execute(self, op)
                self._work += _OPERATION_WORK
            elif op == _PING:
                self.send(_PONG)
                self.broker.commands.after_pong(self)
                self._work += _OPERATION_WORK
            else:
                if op == _SUB:
                    self.broker.subscriptions.subscribe(self)
                elif op == _UNSUB:
                    self.broker.subscriptions.unsubscribe(self)
                else:
                    self.broker.commands.execute(self, op)
                self._work += _OPERATION_WORK
            if self._work >= _LOOK_EVERY:
                self._look_at_the_clock()

    def _look_at_the_clock(self) -> None:
        """Stop reading until others had their turn, if this connection was served for long enough."""
        self._work = 0
        tick = self.tick
        now: float = tick.clock()
        if self._turn_end == 0.0 or self._round != tick.round:
            self._turn_end = now + _SLICE_S
            self._round = tick.round
            self._count_round()
        elif now >= self._turn_end and not (self.closed or self.suspended or self.waiting):
            self.waiting = True
            self.transport.pause_reading()
            self.broker.turns.soon(self.take_turn)

    def hold(self) -> None:
        """Read nothing until ``let_go`` was called as often as this."""
        self._holds += 1
        if not self.waiting:
            self.waiting = True
            self.transport.pause_reading()

    def let_go(self) -> None:
        self._holds -= 1
        if self._holds == 0:
            self.take_turn()

    def take_turn(self) -> None:
        """Continue with the input that was left."""
        if self._holds > 0:
            return
        self.waiting = False
        if self.closed:
            return
        self._turn_end = 0.0
        if self._later is not None:
            self.parser.feed(b"".join(self._later))
            self._later = None
        self.process()
        if not (self.waiting or self.closed or self.suspended or self.backpressure.stalled):
            self.transport.resume_reading()

    def _publish(self) -> None:
        frame = self.parser.frame
        self.in_messages += 1
        self.in_bytes += frame.body_size
        if self.pedantic:
            if not (self.subject_checked or valid_literal_subject(self.parser.subject())):
                self.broker.commands.check_subject(self)
            self.subject_checked = False
        acks = self._acks
        if acks is not None and acks.inlet is not None and self._is_plain_ack(acks, frame):
            acks.inlet.take_at(frame.buf, self.parser.subject_start, self.parser.subject_size, frame)
            return
        if frame.header_size > 0 and self._may_be_traced(frame) and self.broker.traces.publish(self, frame):
            return
        route = self._route
        if route is None or not route.valid or not self.parser.subject_is(route.subject):
            route = self._find_route()
            if route is None:
                return
        if self.careful:
            if not self.broker.commands.may_publish(self, route.subject, frame):
                return
        elif frame.reply_size > 4 and self._reply_is_reserved(frame):
            self.broker.commands.refuse_reply(self, frame)
            return
        taken = self.space.deliver(route, frame, self)
        self._work += taken if frame.reply_size == 0 else taken + _REQUEST_WORK
        if taken == 0 and self.no_responders and frame.reply_size > 0:
            self.broker.commands.answer_no_responders(self, route.subject, frame.reply())

    def _may_be_traced(self, frame: "Frame") -> bool:
        """Return True if the headers may request a trace."""
        start = frame.body_start
        return self.space.traced or has_line(frame.buf, start, start + frame.header_size, _TRACE)

    def _find_route(self) -> SubjectRoute | None:
        self._route = None
        subject = self.parser.subject()
        if equal_bytes(subject, 0, _ACK) and self.space.mapping is None:
            return self._find_ack_route(subject)
        if equal_bytes(subject, 0, _DIRECT_GET) and self.space.mapping is None:
            route = self.space.direct_route(subject)
            if route is not None:
                return route
        if (
            subject.startswith(_RESERVED_FIRST)
            and subject.startswith(_RESERVED_STARTS)
            and not self.broker.commands.may_name(self, subject)
        ):
            return None
        if self.space.mapping is not None:
            # Weighted mappings give another subject each time: such a route is not kept.
            mapped: bytes = self.space.mapping(subject)
            route = self.space.crowd_route(mapped)
            return route if route is not None else self.space.route(mapped)
        route = self.space.crowd_route(subject)
        if route is not None:
            return route
        self._route = self.space.route(subject)
        return self._route

    def _is_plain_ack(self, acks: AckRoute, frame: "Frame") -> bool:
        """Return True if the ack takes the same route as the last one, on the fast path."""
        parser = self.parser
        return (
            acks.valid
            and frame.reply_size == 0
            and frame.header_size <= 0
            and not self.careful
            and not self.pedantic
            and parser.subject_size > len(acks.start)
            and equal_bytes(frame.buf, parser.subject_start, acks.start)
        )

    def _find_ack_route(self, subject: bytes) -> SubjectRoute:
        """Return the route of an ack, without caching it: its subject is used once."""
        acks = self.space.ack_route(subject)
        if acks is None:
            return self.space.route(subject)
        self._acks = acks if acks.inlet is not None else None
        return SubjectRoute(subject, [Target(subscription, subject) for subscription in acks.group], [])

    def _reply_is_reserved(self, frame: "Frame") -> bool:
        first = frame.buf[frame.reply_start]
        if first == _UNDERSCORE or first == _DOLLAR:
            if frame.buf[frame.reply_start + 1] == _I:  # of _INBOX, as most replies begin
                return False
            return frame.buf.startswith(RESERVED_REPLIES, frame.reply_start)
        return False

    # -- the way out ------------------------------------------------------------------------------

    def deliver(self, target: Target, frame: "Frame", source: Subscriber | None) -> bool:
        if self.closed or (source is self and not self.echo):
            return False
        subscription = target.subscription
        if subscription.closed:
            return False
        if (self.filters_deliveries or self.tracks_replies) and not self._may_have(target, frame):
            return False
        prefix = target.prefix()
        if len(prefix) == 0:
            self.space.refuse(target.subject)
            return False
        if frame.body_size >= _LONG and self.takes_parts():
            start = frame.body_start + (frame.header_size if frame.header_size > 0 else 0)
            size = frame.body_start + frame.body_size - start
            payload = long_part(frame.buf, start, size)
            if payload is not None:
                return self.deliver_parts(target, frame.reply(), frame.headers(), [payload], size)
        out = self._out
        if out is None:
            out = self._out = self.tick.borrow(self)
        out.append_message(prefix, frame, self.headers)
        self.out_messages += 1
        self.out_bytes += frame.body_size
        if self.tracer is not None:
            guard.alone("tracing", self.tracer.message_out, target, frame)
        self._count(subscription)
        if out.size > _FLUSH_AT:
            self._write()
        return True

    def takes_parts(self) -> bool:
        restricted = self.filters_deliveries or self.tracks_replies
        return self.half_closes and self.tracer is None and not restricted

    def deliver_parts(self, target: Target, reply: bytes, block: bytes, parts: list[Any], size: int) -> bool:
        subscription = target.subscription
        prefix = target.prefix()
        self._write()  # which may close it
        if self.closed or subscription.closed or len(prefix) == 0:
            return False
        if reply:
            prefix = b"%b%b " % (prefix, reply)
        if block and self.headers:
            size += len(block)
            start = b"H%b%d %d\r\n%b" % (prefix, len(block), size, block)
        else:
            start = b"%b%d\r\n" % (prefix, size)
        self.out_messages += 1
        self.out_bytes += size
        self.written += len(start) + size
        try:
            self.transport.writelines([start, *parts, _CRLF])
            if self.write_blocked:
                self.backpressure.check()
        except Exception as error:
            self.broker.fail(self, "writing to a client", error)
        self._count(subscription)
        return True

    def _may_have(self, target: Target, frame: "Frame") -> bool:
        """Return True if the permissions allow the delivery; if the check fails, end the connection."""
        try:
            if self.outdated:
                self.broker.renew(self)
                if self.closed or target.subscription.closed:
                    return False
            if self.filters_deliveries and self.permissions.delivery_denied(
                target.subject, target.subscription.queue
            ):
                return False
            if self.tracks_replies and frame.reply_size > 0:
                self.permissions.allow_response(frame.reply(), self.broker.now())
        except Exception as error:
            self.broker.fail(self, "delivering to a client", error)
            return False
        return True

    def behind(self) -> bool:
        return self.write_blocked

    def gone(self) -> bool:
        return self.closed

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
        if self.closed or subscription.closed:
            return
        if self.filters_deliveries or self.tracer is not None:
            Subscriber.answer(self, subscription, replies, at, size, start, number, end_size)
            return
        out = self._out
        if out is None:
            out = self._out = self.tick.borrow(self)
        self.out_messages += 1
        self.out_bytes += out.append_answer(subscription.sid, replies, at, size, start, number, end_size)
        self._count(subscription)
        if out.size > _FLUSH_AT:
            self._write()

    def _count(self, subscription: Subscription) -> None:
        if subscription.origin is not None:
            subscription.delivered += 1
            subscription = subscription.origin
        subscription.delivered += 1
        if subscription.max > 0 and subscription.delivered >= subscription.max:
            guard.alone("ending a subscription", self.broker.subscriptions.remove, self, subscription)

    def send(self, line: bytes) -> None:
        """Queue a protocol line; it is sent with the next flush."""
        if self.closed:
            return
        if self._out is None:
            self._out = self.tick.borrow(self)
        self._out.append(line)

    def flush(self) -> None:
        """Write all output and return the borrowed buffer."""
        out = self._out
        if out is None:
            return
        self._write()
        self._out = None
        self.tick.give_back(out)

    def put_off(self) -> None:
        """Leave the output for ``catch_up``."""
        if self._put_off is not None:
            self.flush()
        else:
            self._put_off = self._out
            self._out = None

    def catch_up(self) -> None:
        """Write the output that was put off."""
        out = self._put_off
        if out is not None:
            self._put_off = None
            self._write_out(out)
            self.tick.give_back(out)

    def _write(self) -> None:
        if self._put_off is not None:
            self.catch_up()
        if self._out is not None:
            self._write_out(self._out)

    def _write_out(self, out: OutBuffer) -> None:
        if out.size == 0:
            return
        data = out.take()
        if self.closed:
            return
        self.written += len(data)
        try:
            self.transport.write(data)
            if self.write_blocked:
                self.backpressure.check()
        except Exception as error:
            self.broker.fail(self, "writing to a client", error)

    def stop(self) -> None:
        """Stop input and output; queued output is written first."""
        self.flush()
        self.catch_up()
        self.closed = True
