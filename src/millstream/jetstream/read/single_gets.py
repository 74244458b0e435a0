"""The fast path for direct gets of one durable message, from the request's bytes to the response's.

Compiled, because it is on the path of a message.  It answers requests in the simple forms (``plain_request``)
whose message exists.  All others, and all errors, are left to ``direct``.
"""

from typing import Any

from millstream.jetstream.read.answers import DirectSending
from millstream.jetstream.read.plain_request import HAS_LAST, HAS_NEXT, HAS_SEQ, HAS_TIME, PlainGet
from millstream.protocol.inlet import Responder
from millstream.protocol.outlet import Outlet
from millstream.protocol.parser import Frame
from millstream.store.errors import StoreError
from millstream.store.log import Log

_HAS_LAST = HAS_LAST
_HAS_NEXT = HAS_NEXT
_HAS_SEQ = HAS_SEQ
_HAS_TIME = HAS_TIME
_WANTED = HAS_LAST | HAS_NEXT | HAS_SEQ | HAS_TIME


class DirectGets(Responder):
    """Answers requests for one stream; see ``Responder``."""

    def __init__(self, stream: Any, sending: DirectSending, key_start: int) -> None:
        self._stream = stream
        self._sending = sending
        self._key_start = key_start  # of the message's subject in that of the request; 0: the body tells
        self._plain = PlainGet()

    def respond(self, subject: bytes, frame: Frame, outlet: Outlet) -> bool:
        try:
            return self._respond(self._stream.log, subject, frame, outlet)
        except StoreError:
            return False

    def _respond(self, log: Log, subject: bytes, frame: Frame, outlet: Outlet) -> bool:
        plain = self._plain
        bare = False
        if self._key_start > 0:
            if frame.body_size > 0:
                return False
            seq = _last_of(log, subject[self._key_start :])
        else:
            if not plain.read(frame.buf, frame.body_start, frame.body_start + frame.body_size):
                return False
            bare = plain.bare
            seq = self._chosen(log, plain)
        return seq > 0 and self._sending.one(log, seq, frame.reply(), outlet, bare)

    def _chosen(self, log: Log, plain: PlainGet) -> int:
        """Return the requested sequence; 0 if the fields contradict each other or nothing exists."""
        asked = plain.has & _WANTED
        if asked == _HAS_SEQ:
            return plain.seq
        if asked == _HAS_LAST:
            return _last_of(log, plain.subject)
        if asked == _HAS_NEXT:
            return log.next_match(1, plain.subject)
        if asked == _HAS_SEQ | _HAS_NEXT:
            return log.next_match(plain.seq, plain.subject)
        if asked == _HAS_TIME or asked == _HAS_TIME | _HAS_NEXT:
            seq = log.seq_at_time(plain.start_time)
            return log.next_match(seq, plain.subject) if seq > 0 and asked & _HAS_NEXT else seq
        return 0


def _last_of(log: Log, subject: bytes) -> int:
    """Return the last sequence of a literal subject; 0 if it has none, or may be a pattern."""
    return 0 if b"*" in subject or b">" in subject else log.last_of(subject)
