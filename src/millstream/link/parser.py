"""The parser of what a server sends; it makes no object for a message.

Bytes come in through ``feed``, or without a copy through ``room`` and ``filled``; ``next`` returns the code
of the next operation, or ``NEED_MORE``.  What belongs to it is left in the parser as offsets into `buffer`::

    MSG orders.eu 7 _INBOX.x 5\\r\\nhello\\r\\n
        ^subject  ^sid ^reply      ^payload
    HMSG orders.eu 7 12 17\\r\\nNATS/1.0\\r\\n\\r\\nhello\\r\\n
                                 ^headers        ^payload

The offsets are valid until the next ``next``, ``feed`` or ``room``.  Compiled modules copy directly from
`buffer`; other callers use ``subject()``, ``payload()`` and so on.

A frame that is cut by a read stays in the buffer until the rest has come.  A line or body beyond the limits
raises ProtocolViolation before it takes memory.  `dialogue` acts on the operations.
"""

from enum import IntEnum
from typing import Any

import cython

from millstream.link.errors import ProtocolViolation
from millstream.protocol.digits import read_number
from millstream.protocol.headers import VERSION

if cython.compiled:
    from cython.cimports.libc.string import memchr, memcpy, memmove


class LinkOp(IntEnum):
    """The operations that ``LinkParser.next`` finds."""

    NEED_MORE = 0
    MSG = 1  # with or without headers
    INFO = 2  # see `line`
    PING = 3
    PONG = 4
    OK = 5
    ERR = 6  # see `line`


# The same numbers for C (parser.pxd): a C-declared name is invisible to Python.
_NEED_MORE = LinkOp.NEED_MORE
_MSG = LinkOp.MSG

DEFAULT_MAX_LINE = 1024 * 1024  # bytes; the INFO of a large cluster is the longest line there is
DEFAULT_MAX_BODY = 128 * 1024 * 1024  # bytes; a server can be told to take messages of 64 MiB
DEFAULT_ROOM = 256 * 1024  # bytes of one read

_SMALLEST = 4096  # bytes of the first allocation
_KEEP = 4 * 1024 * 1024  # an empty buffer above this size is replaced by a small one
_MAX_DIGITS = 9  # of a size
_MAX_SID_DIGITS = 18
_SHOWN = 60  # bytes of malformed input that an error quotes

_LF = ord("\n")
_CR = ord("\r")
_SPACE = ord(" ")
_TAB = ord("\t")
_STATUS = len(VERSION) + 1  # where a status begins in a header block
_LOWER = 0x20  # the bit that makes an ASCII letter lower case


class LinkParser:
    """The parser of one connection; its limits may change between any two calls."""

    def __init__(self, max_line: int = DEFAULT_MAX_LINE, max_body: int = DEFAULT_MAX_BODY) -> None:
        self.max_line = max_line
        self.max_body = max_body
        self.buffer = bytearray()
        self.subject_start = 0
        self.subject_size = 0
        self.sid = 0
        self.reply_start = 0
        self.reply_size = 0
        self.header_start = 0
        self.header_size = 0  # 0: a message without headers
        self.payload_start = 0
        self.payload_size = 0
        self.line_start = 0  # of the arguments of INFO and -ERR
        self.line_size = 0
        self._capacity = 0
        self._position = 0  # where the next operation begins
        self._end = 0  # of the bytes that have come
        self._scanned = 0  # up to here there is no end of the line that begins at `_position`
        self._wanted = 0  # how many bytes from `_position` on the cut frame has; 0: not known

    # -- bytes in -----------------------------------------------------------------------------------

    def feed(self, data: bytes) -> None:
        """Append a chunk of input."""
        count = len(data)
        self._make_room(count)
        if cython.compiled:
            target: Any = self.buffer
            source: Any = data
            memcpy(target + self._end, source, count)
        else:
            self.buffer[self._end : self._end + count] = data
        self._end += count

    def room(self, count: int = DEFAULT_ROOM) -> memoryview:
        """Return writable memory for at least `count` bytes; ``filled`` then says how many were written."""
        if self._wanted > 0 and self._position + self._wanted - self._end > count:
            count = self._position + self._wanted - self._end  # all that is missing, in one allocation
        self._make_room(count)
        return memoryview(self.buffer)[self._end : self._capacity]

    def filled(self, count: int) -> None:
        """Note that `count` bytes were written to the memory that ``room`` returned."""
        if count < 0 or count > self._capacity - self._end:
            raise ValueError("more bytes than there was room for")
        self._end += count

    def clear(self) -> None:
        """Drop buffered input of a connection that is gone."""
        self._position = 0
        self._end = 0
        self._scanned = 0
        self._wanted = 0

    def rest(self) -> int:
        """Return the number of bytes that are not parsed yet."""
        return self._end - self._position

    def _make_room(self, count: int) -> None:
        """Make room for `count` bytes after `_end`, dropping what was parsed."""
        held = self._end - self._position
        if self._position == self._end and self._capacity > _KEEP and count <= _KEEP:
            self._replace(count, 0)
        elif self._capacity - self._end >= count and self._position < self._capacity // 2:
            return  # there is enough, and little to gain by moving
        elif self._capacity - held >= count:
            if cython.compiled:
                target: Any = self.buffer
                memmove(target, target + self._position, held)
            else:
                self.buffer[0:held] = self.buffer[self._position : self._end]
        else:
            self._replace(max(held + count, min(2 * self._capacity, _KEEP), _SMALLEST), held)
        self._scanned -= self._position
        if self._scanned < 0:
            self._scanned = 0
        self._position = 0
        self._end = held

    def _replace(self, capacity: int, held: int) -> None:
        """Replace the buffer by a new one, because the old one may still be in use."""
        store = bytearray(capacity)
        if cython.compiled:
            target: Any = store
            source: Any = self.buffer
            memcpy(target, source + self._position, held)
        else:
            store[0:held] = self.buffer[self._position : self._end]
        self.buffer = store
        self._capacity = capacity

    # -- operations out -----------------------------------------------------------------------------

    def next(self) -> int:
        """Return the ``LinkOp`` of the next operation; raises ProtocolViolation for malformed input."""
        if self._end - self._position < self._wanted:
            return _NEED_MORE
        i = self._position
        n = self._end
        if i >= n:
            return _NEED_MORE
        end = self._find_line_end(max(i, self._scanned))
        if end < 0:
            self._scanned = n
            if n - i > self.max_line:
                raise ProtocolViolation(f"the server sent a line of more than {self.max_line} bytes")
            return _NEED_MORE
        if end - i > self.max_line:
            raise ProtocolViolation(f"the server sent a line of more than {self.max_line} bytes")
        p = self.buffer
        c = p[i] | _LOWER
        if (
            c == 0x6D  # m
            and end - i > 4
            and (p[i + 1] | _LOWER) == 0x73  # s
            and (p[i + 2] | _LOWER) == 0x67  # g
            and (p[i + 3] == _SPACE or p[i + 3] == _TAB)
        ):
            return self._message(i + 4, end, False)
        if (
            c == 0x68  # h
            and end - i > 5
            and (p[i + 1] | _LOWER) == 0x6D
            and (p[i + 2] | _LOWER) == 0x73
            and (p[i + 3] | _LOWER) == 0x67
            and (p[i + 4] == _SPACE or p[i + 4] == _TAB)
        ):
            return self._message(i + 5, end, True)
        return self._control(i, end)

    def _find_line_end(self, start: int) -> int:
        """Return the position of the LF, or -1."""
        if cython.compiled:
            p: Any = self.buffer
            found = cython.cast("unsigned char*", memchr(p + start, _LF, self._end - start))
            if found == cython.NULL:
                return -1
            return int(found - p)
        return self.buffer.find(b"\n", start, self._end)

    def _message(self, i: int, end: int, with_headers: bool) -> int:
        p = self.buffer
        line_end = end
        if p[end - 1] == _CR:
            end -= 1
        # Where the last four words begin and end: a is the newest, d the oldest; the subject is the first.
        a = a_end = b = b_end = c = c_end = d = d_end = 0
        first = first_end = 0
        count = 0
        while i < end:
            if p[i] == _SPACE or p[i] == _TAB:
                i += 1
                continue
            d = c
            d_end = c_end
            c = b
            c_end = b_end
            b = a
            b_end = a_end
            a = i
            while i < end and p[i] != _SPACE and p[i] != _TAB:
                i += 1
            a_end = i
            if count == 0:
                first = a
                first_end = a_end
            count += 1
        if with_headers:
            if count < 4 or count > 5:
                raise self._violation("a bad HMSG line", line_end)
            size = self._number(a, a_end, _MAX_DIGITS)
            header_size = self._number(b, b_end, _MAX_DIGITS)
            if header_size < 0 or header_size > size:
                raise self._violation("a bad HMSG line", line_end)
            b = c
            b_end = c_end
            c = d
            c_end = d_end
            count -= 1
        else:
            if count < 3 or count > 4:
                raise self._violation("a bad MSG line", line_end)
            size = self._number(a, a_end, _MAX_DIGITS)
            header_size = 0
        if count == 3:
            sid = self._number(b, b_end, _MAX_SID_DIGITS)
            self.reply_start = a
            self.reply_size = 0
        else:
            sid = self._number(c, c_end, _MAX_SID_DIGITS)
            self.reply_start = b
            self.reply_size = b_end - b
        if size < 0 or sid < 0:
            raise self._violation("a bad number", line_end)
        if size > self.max_body:
            raise ProtocolViolation(
                f"the server announced a message of {size} bytes; {self.max_body} are taken"
            )
        start = line_end + 1
        if start + size + 2 > self._end:
            self._wanted = start + size + 2 - self._position
            self._scanned = line_end  # the line is parsed again when the body is complete
            return _NEED_MORE
        if p[start + size] != _CR or p[start + size + 1] != _LF:
            raise self._violation("a body of another size than announced", line_end)
        self.subject_start = first
        self.subject_size = first_end - first
        self.sid = sid
        self.header_start = start
        self.header_size = header_size
        self.payload_start = start + header_size
        self.payload_size = size - header_size
        self._position = start + size + 2
        self._scanned = 0
        self._wanted = 0
        return _MSG

    def _number(self, start: int, end: int, most: int) -> int:
        """Return the value of decimal digits, or -1 if there are none or too many."""
        return -1 if end - start > most else read_number(self.buffer, start, end)

    def _control(self, i: int, end: int) -> int:
        line = bytes(self.buffer[i:end]).rstrip(b"\r")
        word = line[:5].upper()
        if word.startswith(b"PING"):
            op = LinkOp.PING
        elif word.startswith(b"PONG"):
            op = LinkOp.PONG
        elif word.startswith(b"+OK"):
            op = LinkOp.OK
        elif word in (b"INFO ", b"INFO\t"):
            op = LinkOp.INFO
        elif word.startswith(b"-ERR"):
            op = LinkOp.ERR
        else:
            raise self._violation("no NATS operation", end)
        arguments = line[4:]
        self.line_start = i + 4 + len(arguments) - len(arguments.lstrip())
        self.line_size = len(arguments.strip())
        self._position = end + 1
        self._scanned = 0
        self._wanted = 0
        return op

    def _violation(self, what: str, end: int) -> ProtocolViolation:
        line = bytes(self.buffer[self._position : min(end, self._position + _SHOWN)])
        return ProtocolViolation(f"the server sent {what}: {line!r}")

    # -- what belongs to the operation just found ---------------------------------------------------

    def subject(self) -> bytes:
        return self._cut(self.subject_start, self.subject_size)

    def reply(self) -> bytes:
        return self._cut(self.reply_start, self.reply_size)

    def headers(self) -> bytes:
        """Return the header block with its closing blank line, or nothing."""
        return self._cut(self.header_start, self.header_size)

    def payload(self) -> bytes:
        return self._cut(self.payload_start, self.payload_size)

    def line(self) -> bytes:
        """Return the arguments of INFO or -ERR."""
        return self._cut(self.line_start, self.line_size)

    def status(self) -> int:
        """Return the status on the first line of the headers, such as 404, or 0."""
        if self.header_size < 12:
            return 0
        start = self.header_start + _STATUS  # after the version and a blank
        if self.buffer[start - 1] != _SPACE:
            return 0
        status = self._number(start, start + 3, 3)
        return status if status > 0 else 0

    def _cut(self, start: int, count: int) -> bytes:
        if cython.compiled:
            p: Any = self.buffer
            data: bytes = p[start : start + count]
            return data
        return bytes(self.buffer[start : start + count])
