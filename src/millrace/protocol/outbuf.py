"""Bytes on their way to a client; messages are written by copy.

No object is made for a message: line, reply, size and body go straight into the buffer, and the
whole of it leaves in one write.
"""

from typing import TYPE_CHECKING

from millrace.base.buffer import GrowingBuffer

if TYPE_CHECKING:
    from millrace.protocol.parser import Frame

_MAX_NUMBER = 20  # digits of a 64-bit number

_CRLF = b"\r\n"
_BLANK = b" "
_H = b"H"


class OutBuffer(GrowingBuffer):
    """What a connection is about to write."""

    def append_message(self, prefix: bytes, frame: "Frame", keep_headers: bool) -> None:
        """Write MSG, or HMSG if the frame has headers and they are to be kept.

        `prefix` is the start of the line, ``MSG <subject> <sid> `` with its last blank.
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

    def _put_reply(self, frame: "Frame") -> None:
        if frame.reply_size:
            self.put(frame.buf, frame.reply_start, frame.reply_size)
            self.put(_BLANK, 0, 1)
