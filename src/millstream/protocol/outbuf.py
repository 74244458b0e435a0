"""The bytes that a connection is about to write.

No object is created per message: line, reply, size and body are copied into the buffer, which leaves in one
write.
"""

from typing import TYPE_CHECKING

from millstream.base.buffer import GrowingBuffer, digits_of

if TYPE_CHECKING:
    from millstream.protocol.parser import Frame

_MAX_NUMBER = 20  # digits of a 64-bit number

_CRLF = b"\r\n"
_BLANK = b" "
_H = b"H"
_MSG = b"MSG "


class OutBuffer(GrowingBuffer):
    """Outgoing bytes of a connection."""

    def append_message(self, prefix: bytes, frame: "Frame", keep_headers: bool) -> None:
        """Append MSG, or HMSG if the frame has headers and `keep_headers` is set.

        `prefix` is the start of the line, ``MSG <subject> <sid> `` with the blank at its end.
        """
        self.reserve(len(prefix) + frame.reply_size + frame.body_size + 2 * _MAX_NUMBER + 8)
        if frame.header_size < 0:
            self.put(prefix, 0, len(prefix))
            self._put_reply(frame)
            self.put_number(frame.body_size)
            self.put(_CRLF, 0, 2)
            self.put(frame.buf, frame.body_start, frame.body_size + 2)
        elif keep_headers:
            self.put(_H, 0, 1)
            self.put(prefix, 0, len(prefix))
            self._put_reply(frame)
            self.put_number(frame.header_size)
            self.put(_BLANK, 0, 1)
            self.put_number(frame.body_size)
            self.put(_CRLF, 0, 2)
            self.put(frame.buf, frame.body_start, frame.body_size + 2)
        else:
            self.put(prefix, 0, len(prefix))
            self._put_reply(frame)
            self.put_number(frame.body_size - frame.header_size)
            self.put(_CRLF, 0, 2)
            self.put(
                frame.buf,
                frame.body_start + frame.header_size,
                frame.body_size - frame.header_size + 2,
            )

    def append_answer(
        self, sid: bytes, source: bytes, at: int, size: int, start: bytes, number: int, end_size: int
    ) -> int:
        """Append a MSG whose payload is ``start + number + end``; return the size of the payload.

        Subject and `end` follow each other in `source`.
        """
        body_size = len(start) + digits_of(number) + end_size
        self.reserve(size + len(sid) + body_size + _MAX_NUMBER + 10)
        self.put(_MSG, 0, 4)
        self.put(source, at, size)
        self.put(_BLANK, 0, 1)
        self.put(sid, 0, len(sid))
        self.put(_BLANK, 0, 1)
        self.put_number(body_size)
        self.put(_CRLF, 0, 2)
        self.put(start, 0, len(start))
        self.put_number(number)
        self.put(source, at + size, end_size)
        self.put(_CRLF, 0, 2)
        return body_size

    def _put_reply(self, frame: "Frame") -> None:
        if frame.reply_size:
            self.put(frame.buf, frame.reply_start, frame.reply_size)
            self.put(_BLANK, 0, 1)
