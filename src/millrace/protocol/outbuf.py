"""One growable buffer of bytes to send; messages are written into it by copy.

No object is made for a message: line, reply, size and body go straight into the buffer, and the
whole of it leaves in one write.  The two primitives at the bottom have a C and a Python form;
everything above them is the same code in both builds.
"""

from typing import TYPE_CHECKING, Any

import cython

if cython.compiled:
    from cython.cimports.cpython.bytearray import PyByteArray_Resize
    from cython.cimports.libc.string import memcpy

if TYPE_CHECKING:
    from millrace.protocol.parser import Frame

_INITIAL = 16 * 1024
_KEEP = 1024 * 1024  # a buffer that grew beyond this gives its memory back when emptied
_MAX_NUMBER = 20  # digits of a 64-bit number

_CRLF = b"\r\n"
_BLANK = b" "
_H = b"H"


class OutBuffer:
    """Bytes on their way out.  `size` counts those not yet taken."""

    def __init__(self) -> None:
        self._store = bytearray(_INITIAL)
        self._capacity = _INITIAL
        self.size = 0

    def append(self, data: bytes) -> None:
        count = len(data)
        self._reserve(count)
        self._put(data, 0, count)

    def append_message(self, prefix: bytes, frame: "Frame", keep_headers: bool) -> None:
        """Write MSG, or HMSG if the frame has headers and they are to be kept.

        `prefix` is the start of the line, ``MSG <subject> <sid> `` with its last blank.
        """
        self._reserve(len(prefix) + frame.reply_size + frame.body_size + 2 * _MAX_NUMBER + 8)
        if frame.header_size < 0:
            self._put(prefix, 0, len(prefix))
            self._put_reply(frame)
            self._put_number(frame.body_size)
            self._put(_CRLF, 0, 2)
            self._put(frame.buf, frame.body_start, frame.body_size + 2)
        elif keep_headers:
            self._put(_H, 0, 1)
            self._put(prefix, 0, len(prefix))
            self._put_reply(frame)
            self._put_number(frame.header_size)
            self._put(_BLANK, 0, 1)
            self._put_number(frame.body_size)
            self._put(_CRLF, 0, 2)
            self._put(frame.buf, frame.body_start, frame.body_size + 2)
        else:
            self._put(prefix, 0, len(prefix))
            self._put_reply(frame)
            self._put_number(frame.body_size - frame.header_size)
            self._put(_CRLF, 0, 2)
            self._put(
                frame.buf,
                frame.body_start + frame.header_size,
                frame.body_size - frame.header_size + 2,
            )

    def take(self) -> bytes:
        """All bytes so far; the buffer is empty afterwards."""
        if cython.compiled:
            store: Any = self._store
            data: bytes = store[: self.size]
        else:
            data = bytes(memoryview(self._store)[: self.size])
        self.size = 0
        if self._capacity > _KEEP:
            self._store = bytearray(_INITIAL)
            self._capacity = _INITIAL
        return data

    def _put_reply(self, frame: "Frame") -> None:
        if frame.reply_size:
            self._put(frame.buf, frame.reply_start, frame.reply_size)
            self._put(_BLANK, 0, 1)

    def _reserve(self, extra: int) -> None:
        if self.size + extra > self._capacity:
            self._grow(extra)

    def _grow(self, extra: int) -> None:
        capacity = max(2 * self._capacity, self.size + extra)
        if cython.compiled:
            PyByteArray_Resize(self._store, capacity)
        else:
            self._store.extend(bytes(capacity - self._capacity))
        self._capacity = capacity

    # -- primitives: the room has been reserved ---------------------------------------------------

    def _put(self, source: bytes, start: int, count: int) -> None:
        if cython.compiled:
            target: Any = self._store
            origin: Any = source
            memcpy(target + self.size, origin + start, count)
        else:
            self._store[self.size : self.size + count] = source[start : start + count]
        self.size += count

    def _put_number(self, value: int) -> None:
        if cython.compiled:
            target = self._store
            digits = 1
            rest = value
            while rest >= 10:
                rest //= 10
                digits += 1
            position = self.size + digits
            rest = value
            while True:
                position -= 1
                target[position] = 48 + rest % 10
                rest //= 10
                if rest == 0:
                    break
            self.size += digits
        else:
            text = b"%d" % value
            self._put(text, 0, len(text))
