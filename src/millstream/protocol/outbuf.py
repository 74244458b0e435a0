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
_BLANK = ord(" ")
_H = ord("H")
_MSG = b"MSG "
_LMSG = b"LMSG "
_HMSG = b"HMSG "
_AT = ord("@")
_REPLY_AND_QUEUES = b"+ "
_QUEUES_ONLY = b"| "


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
            self.put_byte(_H)
            self.put(prefix, 0, len(prefix))
            self._put_reply(frame)
            self.put_number(frame.header_size)
            self.put_byte(_BLANK)
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

    def append_leaf_message(
        self,
        subject: bytes,
        shown: bytes | None,
        queues: list[bytes] | None,
        frame: "Frame",
        keep_headers: bool,
    ) -> None:
        """Append LMSG, or HMSG if the frame has headers and `keep_headers` is set; `queues` names groups.

        `shown`, the subject that receivers are to see, follows the reply.
        """
        room = (
            len(subject)
            + (len(shown) if shown is not None else 0)
            + frame.reply_size
            + frame.body_size
            + 2 * _MAX_NUMBER
            + 16
        )
        for queue in queues or ():
            room += len(queue) + 1
        self.reserve(room)
        headers = frame.header_size >= 0 and keep_headers
        dropped = frame.header_size if frame.header_size >= 0 and not keep_headers else 0
        self.put(_HMSG if headers else _LMSG, 0, 5)
        self.put(subject, 0, len(subject))
        self.put_byte(_BLANK)
        if queues is not None:
            self.put(_REPLY_AND_QUEUES if frame.reply_size else _QUEUES_ONLY, 0, 2)
        if shown is None:
            self._put_reply(frame)
        else:
            self.put(frame.buf, frame.reply_start, frame.reply_size)
            self.put_byte(_AT)
            self.put(shown, 0, len(shown))
            self.put_byte(_BLANK)
        for queue in queues or ():
            self.put(queue, 0, len(queue))
            self.put_byte(_BLANK)
        if headers:
            self.put_number(frame.header_size)
            self.put_byte(_BLANK)
        self.put_number(frame.body_size - dropped)
        self.put(_CRLF, 0, 2)
        self.put(frame.buf, frame.body_start + dropped, frame.body_size - dropped + 2)

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
        self.put_byte(_BLANK)
        self.put(sid, 0, len(sid))
        self.put_byte(_BLANK)
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
            self.put_byte(_BLANK)
