"""One inflow: the consumer of a mirror or source on its origin, from the request for it to its end.

It speaks to the origin only through subjects of its account: it requests a push consumer from the JetStream
API, subscribes to the deliver subject, answers flow control once the messages before it are durable, and
requests a new consumer when messages are missing or none arrive.  ``life`` decides when, ``intake`` handles
the messages.
"""

from __future__ import annotations

import json
import logging
import random
from typing import TYPE_CHECKING, Any, Final

from millstream.base.complaints import Complaints
from millstream.base.decimals import read_whole
from millstream.golang.time import Time
from millstream.jetstream.sourcing import life as times
from millstream.jetstream.sourcing.intake import MirrorIntake, OriginIntake, SourceIntake
from millstream.jetstream.sourcing.life import InflowEvent, InflowState, Life
from millstream.jetstream.sourcing.origin import Dialect, Origin, OriginKind, OriginStart
from millstream.jetstream.sourcing.positions import StoredPosition
from millstream.jetstream.sourcing.slow_path import store_mirrored, store_sourced
from millstream.jsapi import headers as names
from millstream.jsapi.enums import AckPolicy
from millstream.jsapi.errors import ApiError, Err, ErrorBody
from millstream.jsapi.limits import LARGEST_SEQ
from millstream.jsapi.names import FLOW_CONTROL_PREFIX
from millstream.jsapi.stream_types import ExternalStream, StreamSourceInfo
from millstream.protocol import headers
from millstream.subjects.tokens import valid_publish_subject

if TYPE_CHECKING:
    from millstream.jetstream.ports import Cancel, ClientRequest
    from millstream.jetstream.stream.stream import Stream

_log = logging.getLogger("millstream.jetstream")

_NS: Final = 1_000_000_000
_LAST_CONSUMER: Final = names.LAST_CONSUMER.encode()
_LAST_STREAM: Final = names.LAST_STREAM.encode()
_STALLED: Final = names.CONSUMER_STALLED.encode()
_IDENTITY: Final = names.STREAM_IDENTITY.encode()
_FLOW_CONTROL: Final = FLOW_CONTROL_PREFIX.encode()
_SHOWN: Final = 100  # bytes of a refused subject that are logged
_NOT_UNDERSTOOD: Final = (Err.REQUIRED_API_LEVEL.value[1], Err.INVALID_JSON.value[1])
_OTHER_IDENTITY: Final = Err.CONSUMER_STREAM_IDENTITY_MISMATCH.value[1]
_CAUGHT_UP: Final = 10  # a mirror with fewer messages to come may answer direct gets for its origin
_DIALECTS: Final = (Dialect.IDENTITY, Dialect.SOURCING, Dialect.PLAIN)

_complaints: Final = Complaints(_log)


def refuse_deputy(stream: str, origin: str, subject: bytes) -> None:
    """Log, rate-limited, that an origin wants flow control answered at somebody else's subject."""
    _complaints.tell(
        (stream, origin),
        "stream %s: its origin %s wants flow control answered at %r, which is not of its consumer",
        stream,
        origin,
        subject[:_SHOWN],
        level=logging.WARNING,
    )


class Inflow:
    """Copies the messages of one origin."""

    def __init__(self, stream: Stream, origin: Origin) -> None:
        self.origin = origin
        self.identity = ""  # the origin's identity, if known
        self.is_placed = False  # a source: its position is known, also if it has no message yet
        self.error: ErrorBody | None = None
        self.intake = self._make_intake(stream)
        self.life = Life()
        self._stream = stream
        self._world = stream.world
        self._last_ns = 0  # when the origin was last heard from
        self._dialect = Dialect.IDENTITY
        self._start = OriginStart()
        self._deliver = ""
        self._recreated = False  # the origin is another stream than before
        self._reply: Any = None  # subscriptions
        self._messages: Any = None
        self._timer: Cancel | None = None

    def _make_intake(self, stream: Stream) -> OriginIntake:
        intake: OriginIntake
        if self.origin.kind is OriginKind.MIRROR:

            def mirror(subject: bytes, block: bytes, payload: bytes, seq: int, timestamp: int) -> bool:
                return store_mirrored(stream, subject, block, payload, seq, timestamp)

            intake = MirrorIntake(stream, stream.log, stream.ingest, mirror)
        else:
            intake = source_intake = SourceIntake(stream, stream.log, stream.ingest, self._store_sourced)
            self._source_intake = source_intake
        intake.rename(self.origin.transforms)
        intake.on_gap = self.interrupt
        intake.on_control = self._controlled
        intake.on_sign = self._lives
        return intake

    def _store_sourced(self, subject: bytes, block: bytes, payload: bytes, seq: int, _: int) -> bool:
        log = self._stream.log
        last, messages = log.last_seq, log.messages
        line = self._source_intake.source_line(subject, seq)
        target = self._source_intake.target(subject)
        if not store_sourced(self._stream, target, block, payload, line):
            return False
        if log.last_seq > last and log.messages <= messages:
            self._stream.inflows.skipped(self.origin.index_name, seq)
        return True

    # -- life -------------------------------------------------------------------------------------

    def start(self, position: StoredPosition | None = None) -> None:
        """Schedule the first request; a source continues after `position`."""
        log = self._stream.log
        self.is_placed = position is not None or log.messages == log.last_seq
        if position is not None:
            self.intake.sseq = position.seq
            self.identity = position.identity
        self._step(InflowEvent.START)
        self._plan()

    def stop(self) -> None:
        self._step(InflowEvent.STOP)
        self._let_go()
        self.intake.let_go()

    def remove(self) -> None:
        """Stop for good: the configuration lost the origin.  Delete the consumer unless the user made it."""
        self.stop()
        if self.origin.config.consumer is None:
            self._world.ask(self.origin.delete_subject(), b"")

    def follow(self, origin: Origin) -> None:
        """Take over a configuration of the same source; only the consumer's name may differ."""
        before, self.origin = self.origin, origin
        if before.consumer_name != origin.consumer_name and self.life.state is InflowState.FLOWING:
            self._world.ask(before.delete_subject(), b"")
            self.interrupt()

    def appeared(self) -> None:
        """Retry at once: the origin has just been created."""
        if self.life.state is InflowState.WAITING and self.life.failures:
            self.life.hope()
            self._plan()

    def reconnected(self) -> None:
        """Retry at once: the way to the origin may be there again, and a request may have been lost."""
        if self.life.state is InflowState.ASKING:
            self._step(InflowEvent.REFUSED)
            self._let_go()
        if self.life.state is InflowState.WAITING:
            self.life.hope()
            self._plan()

    def interrupt(self) -> None:
        """Request a new consumer: messages are missing, or none arrive."""
        self._step(InflowEvent.INTERRUPTED)
        if self.life.state is InflowState.WAITING:
            self._let_go()
            self._plan()

    def _step(self, event: InflowEvent) -> None:
        self.life.step(event, self._world.steady_ns())

    def _let_go(self) -> None:
        self.intake.close()
        for handle in (self._reply, self._messages):
            if handle is not None:
                self._world.release(handle)
        self._reply = self._messages = None
        self._cancel()

    def _cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _plan(self) -> None:
        self._cancel()
        jitter = random.randrange(times.LEAST_JITTER_NS, times.MOST_JITTER_NS)
        delay = self.life.delay_ns(self._world.steady_ns(), jitter)
        self._timer = self._world.call_later(delay / _NS, self._ask)

    # -- asking -----------------------------------------------------------------------------------

    def _ask(self) -> None:
        self._timer = None
        self._step(InflowEvent.DUE)
        self.error = None
        self._dialect = Dialect.IDENTITY if self.origin.kind is OriginKind.SOURCE else Dialect.SOURCING
        self._start = self._where_to_start()
        self._deliver = self.origin.new_deliver_subject()
        self._send()

    def _send(self) -> None:
        reply = self.origin.new_reply_subject().encode()
        if self._reply is not None:
            self._world.release(self._reply)
        self._reply = self._world.hear(reply, self._answered)
        wait = times.ANSWER_WAIT_NS if self.origin.config.consumer is None else times.RESET_WAIT_NS
        subject, block, body = self.origin.request(self._start, self._deliver, self._dialect, self.identity)
        if not self._world.has_interest(subject):
            wait = times.NOBODY_WAIT_NS
        self._cancel()
        self._timer = self._world.call_later(wait / _NS, self._waited_in_vain)
        self._world.ask(subject, body, reply=reply, headers=block)

    def _where_to_start(self) -> OriginStart:
        log, config = self._stream.log, self.origin.config
        if self.origin.kind is OriginKind.MIRROR:
            if log.last_seq or log.first_seq > 1:
                return OriginStart(log.last_seq + 1)
            return (
                OriginStart(config.opt_start_seq)
                if config.opt_start_seq
                else OriginStart(0, config.opt_start_time)
            )
        if self.intake.sseq:
            return OriginStart(self.intake.sseq + 1)
        if config.opt_start_seq:
            return OriginStart(config.opt_start_seq)
        last = Time(log.last_timestamp) if log.last_timestamp else None
        if config.opt_start_time is not None:
            later = not self.is_placed and last is not None and int(config.opt_start_time) < int(last)
            return OriginStart(0, last if later else config.opt_start_time)
        if log.first_seq > 1 and not (self.is_placed or self._recreated):
            return OriginStart(0, last)  # it had messages of unknown origin: continue with newer ones
        return OriginStart()

    def _waited_in_vain(self) -> None:
        self._timer = None
        self._refused(None)

    def _refused(self, error: ErrorBody | None) -> None:
        self.error = error
        self._step(InflowEvent.REFUSED)
        self._let_go()
        self._plan()

    # -- the answer -------------------------------------------------------------------------------

    def _answered(self, request: ClientRequest) -> None:
        if self.life.state is not InflowState.ASKING:
            return
        try:
            answer: Any = json.loads(request.payload)
            error = answer.get("error")
            delivered = _delivered(answer)
        except (ValueError, AttributeError, RecursionError):
            self._refused(ApiError(Err.INVALID_JSON, err="not an answer").body)
            return
        if error:
            self._take_error(error)
        elif (
            not answer.get("name")
            or not isinstance(answer["name"], str)
            or not isinstance(answer.get("config"), dict)
        ):
            self._refused(self._setup_error("invalid consumer create response"))
        elif self._lacks_acks(answer["config"]):
            is_mirror = self.origin.kind is OriginKind.MIRROR
            self._refused(
                ApiError(
                    Err.MIRROR_CONSUMER_REQUIRES_FLOW_CONTROL_ACK
                    if is_mirror
                    else Err.SOURCE_CONSUMER_REQUIRES_FLOW_CONTROL_ACK
                ).body
            )
        else:
            self._accepted(answer, delivered, headers.find(request.headers, _IDENTITY) or b"")

    def _setup_error(self, text: str) -> ErrorBody:
        is_mirror = self.origin.kind is OriginKind.MIRROR
        err = Err.MIRROR_CONSUMER_SETUP_FAILED if is_mirror else Err.SOURCE_CONSUMER_SETUP_FAILED
        return ApiError(err, err=text).body

    def _lacks_acks(self, config: dict[str, Any]) -> bool:
        """Return True if the consumer was created by somebody else and does not learn what we have stored."""
        return self.origin.config.consumer is not None and config.get("ack_policy") != (
            AckPolicy.FLOW_CONTROL.value
        )

    def _take_error(self, error: Any) -> None:
        found = error if isinstance(error, dict) else {}
        code = _small(found.get("err_code"))
        if code == _OTHER_IDENTITY and self.origin.kind is OriginKind.SOURCE:
            self.intake.sseq = 0
            self.identity = ""
            self._recreated = True
            self._step(InflowEvent.OTHER_ORIGIN)
            self._let_go()
            self._plan()
            return
        last = Dialect.SOURCING if self.origin.config.consumer is not None else Dialect.PLAIN
        if code in _NOT_UNDERSTOOD and self._dialect is not last:
            self._dialect = _DIALECTS[_DIALECTS.index(self._dialect) + 1]
            self._send()
            return
        self._refused(ErrorBody(_small(found.get("code")), code, str(found.get("description", ""))))

    def _accepted(self, answer: dict[str, Any], delivered: int, identity: bytes) -> None:
        self._step(InflowEvent.ACCEPTED)
        self._cancel()
        self._world.release(self._reply)
        self._reply = None
        if self.origin.kind is OriginKind.MIRROR:
            self._catch_up(delivered)
        else:
            self._know(identity.decode(errors="replace"))
            self.intake.sseq = max(self.intake.sseq, delivered)
            self.is_placed = True
        durable = self.origin.config.consumer
        deliver = (
            str(answer["config"].get("deliver_subject", "")) if durable is None else durable.deliver_subject
        )
        self.intake.open(answer["name"].encode())
        self._lives()
        self._watch_silence()
        if not answer.get("num_pending") and self._stream.log.messages:
            self._answer_for_origin()
        self._messages = self._world.capture(deliver.encode(), self.intake.take)

    def _catch_up(self, delivered: int) -> None:
        """Skip the sequences of a mirror before the first message that it will get."""
        log = self._stream.log
        if log.last_seq < delivered:
            if log.messages:
                log.skip_to(delivered, log.last_timestamp)
            else:
                self._stream.retention.purge(None, delivered + 1, 0)
            self._stream.ingest.tell()
        self.intake.sseq = max(delivered, log.last_seq)

    def _know(self, identity: str) -> None:
        """Record the origin's identity; start over if it is another stream."""
        if self._recreated or (identity and self.identity and identity != self.identity):
            _log.warning("stream %s: its source %s is a new stream", self._stream.name, self.origin.name)
            self.intake.sseq = 0
        self.identity = identity
        self._recreated = False
        name, filters, destinations = self.origin.index_name.encode().split(b" ", 2)
        self._source_intake.describe(
            b"%b: %b " % (names.STREAM_SOURCE.encode(), name),
            b" %b %b " % (filters, destinations),
            b" %b" % identity.encode() if identity else b"",
        )

    # -- while it flows ---------------------------------------------------------------------------

    def _lives(self) -> None:
        """Record that messages arrive; called for the first since ``watch``."""
        self._last_ns = self._world.steady_ns()
        self._world.call_soon(self._took)

    def _took(self) -> None:
        self._last_ns = self._world.steady_ns()
        self.intake.watch()
        if self.intake.dseq and self.intake.lag + 1 < _CAUGHT_UP:
            self._answer_for_origin()

    def _answer_for_origin(self) -> None:
        if self.origin.kind is OriginKind.MIRROR and self.life.state is InflowState.FLOWING:
            self._stream.direct.answer_for(self.origin.name)

    def _watch_silence(self) -> None:
        left = self._last_ns + times.SILENCE_NS - self._world.steady_ns()
        self._timer = self._world.call_later(max(left, 0) / _NS + 0.001, self._check_silence)

    def _check_silence(self) -> None:
        self._timer = None
        if self._world.steady_ns() - self._last_ns > times.SILENCE_NS:
            self.interrupt()
        else:
            self._watch_silence()

    def _controlled(self, block: bytes, reply: bytes) -> None:
        """Handle a heartbeat or a flow control request."""
        if self.life.state is not InflowState.FLOWING:
            return
        intake = self.intake
        if reply:
            state = (_LAST_CONSUMER, b"%d" % intake.dseq), (_LAST_STREAM, b"%d" % intake.sseq)
            answer = headers.make(*state)
            # The origin may forget the messages, or send more than fits into memory, only after this
            # response.
            self._answer_flow_control(reply, answer)
            return
        last = headers.find(block, _LAST_CONSUMER)
        if last and (read_whole(last) or intake.dseq) != intake.dseq:
            intake.interrupt()
            return
        stalled = headers.find(block, _STALLED)
        if stalled:
            self._answer_flow_control(stalled, None)

    def _answer_flow_control(self, subject: bytes, block: bytes | None) -> None:
        """Answer flow control once the messages before it are durable, if `subject` is our consumer's.

        The origin names the subject and may belong to another account; it must not make us publish elsewhere.
        """
        name = b".%b.%b." % (self.origin.name.encode(), self.intake.consumer())
        if not (subject.startswith(_FLOW_CONTROL) and name in subject and valid_publish_subject(subject)):
            refuse_deputy(self._stream.name, self.origin.name, subject)
            return
        self._stream.on_durable(lambda: self._world.ask(subject, b"", headers=block))

    # -- what it is like --------------------------------------------------------------------------

    def position(self) -> StoredPosition:
        return StoredPosition(self.intake.sseq, self.identity)

    def info(self) -> StreamSourceInfo:
        config = self.origin.config
        external = config.external
        return StreamSourceInfo(
            name=config.name,
            external=ExternalStream(external.api, external.deliver) if external is not None else None,
            lag=self.intake.lag,
            seq=self.intake.sseq if self.origin.kind is OriginKind.SOURCE else 0,
            active=self._world.steady_ns() - self._last_ns if self._last_ns else -1,
            error=self.error,
            filter_subject=config.filter_subject,
            subject_transforms=config.subject_transforms,
        )


def _delivered(answer: dict[str, Any]) -> int:
    """Return the last sequence that the consumer has passed; raise ValueError if it is out of range."""
    place = answer.get("delivered")
    seq = place.get("stream_seq", 0) if isinstance(place, dict) else 0
    if not isinstance(seq, int) or not 0 <= seq <= LARGEST_SEQ:
        raise ValueError("no sequence of a stream")
    return seq


def _small(number: Any) -> int:
    return number if isinstance(number, int) and 0 <= number < 2**31 else 0
