"""Refuse messages on the fast path: those that exceed a limit, or expect another last sequence.

A publisher that compares and sets, or that writes to a full stream, is refused as often as others are
stored.  The responses differ in one number, so they are encoded once for each stream and sent like acks.  The
limits are those of ``limits`` for streams that discard new messages; where one of these may depend on the
message that would be replaced, the slow path decides.

Compiled, because it is on the path of a message.
"""

from collections.abc import Callable

from millstream.jsapi.codec import encode
from millstream.jsapi.errors import ApiError, Err
from millstream.jsapi.publish_types import PubAckResponse
from millstream.protocol.parser import Frame
from millstream.protocol.replies import Replies
from millstream.store.log import Log

MOST_MESSAGES = "maximum messages exceeded"
MOST_BYTES = "maximum bytes exceeded"
MOST_OF_SUBJECT = "maximum messages per subject exceeded"

# What a limit says to a message:
ROOM = 0  # there is room
FULL = 1  # there is none, and the publisher was told
UNKNOWN = 2  # the slow path decides
_ROOM = ROOM
_FULL = FULL
_UNKNOWN = UNKNOWN
_NUMBER = 2**64 - 1  # stands for the number in the text of a response


class Refusals:
    """The limits and the refusals of one stream."""

    def __init__(self, send: Callable[[bytes, Replies, bool], None]) -> None:
        self.limited = False
        self._send = send
        self._stream = ""
        self._messages = 0  # limits; 0: none
        self._bytes = 0
        self._of_subject = 0
        self._replaces = False  # the message may replace another one
        self._in_memory = False
        self._texts: dict[str, tuple[bytes, bytes]] = {}  # by the error's own text; around the number
        self._replies = Replies()

    def configure(
        self, stream: str, messages: int, size: int, of_subject: int, replaces: bool, *, in_memory: bool
    ) -> None:
        """Set the name of the stream and its limits for new messages; 0 means that there is none."""
        if stream != self._stream:
            self._stream = stream
            self._texts.clear()
        self._messages, self._bytes, self._of_subject = messages, size, of_subject
        self._replaces, self._in_memory = replaces, in_memory
        self.limited = messages > 0 or size > 0 or of_subject > 0

    def check(self, log: Log, subject: bytes, frame: Frame, answers: bool) -> int:
        """Return ``ROOM``, ``FULL`` or ``UNKNOWN``; send the refusal of a full stream if it `answers`."""
        if self._of_subject > 0 and log.count_of(subject) >= self._of_subject:
            return self._refuse_full(MOST_OF_SUBJECT, frame, answers)
        if 0 < self._messages <= log.state.messages:
            return _UNKNOWN if self._replaces else self._refuse_full(MOST_MESSAGES, frame, answers)
        if self._bytes > 0:
            # As ``StreamCommits.bytes`` and ``Stream.size_of`` count.
            size = len(subject) + frame.body_size
            if self._in_memory:
                size += log.state.record_bytes - 10 * log.state.messages - 4 * log.state.with_headers + 16
            else:
                size += (
                    log.state.record_bytes + 4 * log.state.messages + (34 if frame.header_size > 0 else 30)
                )
            if size > self._bytes:
                return _UNKNOWN if self._replaces else self._refuse_full(MOST_BYTES, frame, answers)
        return _ROOM

    def _refuse_full(self, reason: str, frame: Frame, answers: bool) -> int:
        if answers and frame.reply_size > 0:
            texts = self._texts.get(reason)
            if texts is None:
                error = ApiError(Err.STREAM_STORE_FAILED, err=reason)
                texts = self._prepare(reason, PubAckResponse(error.body, self._stream, _NUMBER))
            self._answer(texts, frame, 0)
        return _FULL

    def refuse_expectation(self, frame: Frame, last: int) -> None:
        """Refuse a message that expects another sequence than `last`."""
        if frame.reply_size > 0:
            texts = self._texts.get("")
            if texts is None:
                error = ApiError(Err.WRONG_LAST_SEQUENCE, seq=_NUMBER)
                texts = self._prepare("", PubAckResponse(error.body, self._stream))
            self._answer(texts, frame, last)

    def _prepare(self, reason: str, response: PubAckResponse) -> tuple[bytes, bytes]:
        """Encode a response, and remember what is before and behind its number."""
        start, _, end = encode(response).partition(b"%d" % _NUMBER)
        texts = self._texts[reason] = start, end
        return texts

    def _answer(self, texts: tuple[bytes, bytes], frame: Frame, number: int) -> None:
        """Send a refusal with the number in it."""
        self._replies.add(frame.buf, frame.reply_start, frame.reply_size, number, texts[1])
        try:
            self._send(texts[0], self._replies, False)
        finally:
            self._replies.clear()
