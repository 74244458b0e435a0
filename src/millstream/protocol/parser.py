"""A pull parser for the bytes of a client, without an object per message.

``feed`` takes a chunk as it came from the socket; ``next`` returns the code of the next operation in it, or
``NEED_MORE``.  The details of the operation stay in the parser: offsets of the argument line or, for PUB and
HPUB, a ``Frame``.  The frame is always the same object and refers to the parser's memory, so it is valid only
until the next call; copy what you keep.

    PUB orders.eu inbox.1 5\\r\\nhello\\r\\n
        ^subject  ^reply        ^body        (offsets into `frame.buf`)

Only a frame that a read boundary cuts in two is copied: the rest of its line or body is taken from the next
chunk, then parsing continues in that chunk.  A cut argument line, at most ``max_control_line`` long, is
parsed again when more arrives.  The memory for a cut body is allocated once and filled by the chunks that
follow, or directly by whoever reads the socket (``wants``, ``room``, ``filled``), which saves copies of large
bodies.

The rules are nats-server's, including the odd ones: a bare LF ends a line, ``CONNECT{}`` needs no blank, and
anything after ``PING`` on its line is ignored.  The arguments begin with the first byte that is not a blank,
even if it is the end of the line; a CR anywhere after that byte removes the last byte of the line.  Not here:
what an operation means.

On a leaf link (``leaf``) LMSG and HMSG take the place of PUB and HPUB.  Their argument lines are the same
unless the message is for queue groups, whose names then follow the reply (``LMSG a + reply q1 q2 5``) or a
bar.

A subject or reply that contains a control character is accepted as a word of its line, but no line that we
write may contain it: such a message is reported as ``UNCLEAN_PUB`` and delivered to nobody.
"""

import re
from enum import IntEnum
from typing import Any

import cython

from millstream.protocol.digits import read_number

if cython.compiled:
    from cython.cimports.cpython.buffer import PyBUF_WRITE
    from cython.cimports.cpython.bytes import PyBytes_AS_STRING, PyBytes_FromStringAndSize
    from cython.cimports.cpython.memoryview import PyMemoryView_FromMemory
    from cython.cimports.libc.string import memchr, memcpy


class Op(IntEnum):
    """The results of ``Parser.next``.  Negative numbers end the connection."""

    NEED_MORE = 0
    PUB = 1  # PUB or HPUB: see `frame`
    CONNECT = 2
    SUB = 3
    UNSUB = 4
    PING = 5
    PONG = 6
    INFO = 7
    OK = 8
    ERR = 9
    UNCLEAN_PUB = 10  # PUB or HPUB with a control character in its subject or reply: see `frame`
    LEAF_SUB = 11  # LS+
    LEAF_UNSUB = 12  # LS-
    UNKNOWN = -2  # no such operation
    BAD_ARGUMENTS = -3  # wrong count or a bad number: close without -ERR
    LINE_TOO_LONG = -4
    PAYLOAD_TOO_BIG = -5  # the declared size is in `frame.body_size`
    CONNECT_WANTED = -6  # another operation came while `connect_first` was set; it was not consumed
    BAD_BODY = -7  # the body does not end in CRLF; the subject is known


# The same numbers for C (see parser.pxd): Python cannot see a C-declared name.
_NEED_MORE = Op.NEED_MORE
_PUB = Op.PUB
_UNCLEAN_PUB = Op.UNCLEAN_PUB
_UNKNOWN = Op.UNKNOWN
_BAD_ARGUMENTS = Op.BAD_ARGUMENTS
_LINE_TOO_LONG = Op.LINE_TOO_LONG
_PAYLOAD_TOO_BIG = Op.PAYLOAD_TOO_BIG
_CONNECT_WANTED = Op.CONNECT_WANTED
_BAD_BODY = Op.BAD_BODY
_CONNECT = Op.CONNECT
_SUB = Op.SUB
_UNSUB = Op.UNSUB
_PING = Op.PING
_PONG = Op.PONG
_INFO = Op.INFO
_OK = Op.OK
_ERR = Op.ERR
_LEAF_SUB = Op.LEAF_SUB
_LEAF_UNSUB = Op.LEAF_UNSUB

_TAB = ord("\t")
_LF = ord("\n")
_CR = ord("\r")
_SPACE = ord(" ")
_PLUS = ord("+")
_BAR = ord("|")
_LOWER = 0x20  # OR-ed with an ASCII letter, makes it lower case

_WORD = re.compile(rb"[^ \t]+")
_CONTROL = re.compile(rb"[\x00-\x08\x0a-\x1f]")  # accepted in a word, but never written
_MAX_DIGITS = 9  # of a size; nats-server's limit, which keeps every size within 32 bits


class Frame:
    """The positions of reply, headers and body of one message in `buf`; CRLF follows the body."""

    def __init__(self) -> None:
        self.buf = b""
        self.reply_start = 0
        self.reply_size = 0
        self.header_size = -1  # -1: a message without headers
        self.body_start = 0  # start of headers and payload
        self.body_size = 0

    def reply(self) -> bytes:
        return self.buf[self.reply_start : self.reply_start + self.reply_size]

    def headers(self) -> bytes:
        """Return the header block with its final blank line; empty if there is none."""
        if self.header_size < 0:
            return b""
        return self.buf[self.body_start : self.body_start + self.header_size]

    def payload(self) -> bytes:
        start = self.body_start + (self.header_size if self.header_size > 0 else 0)
        return self.buf[start : self.body_start + self.body_size]


def make_frame(reply: bytes, headers: bytes | None, payload: bytes) -> Frame:
    """Return a new frame, for messages that no client sent."""
    frame = Frame()
    frame.reply_size = len(reply)
    frame.body_start = len(reply)
    if headers is None:
        frame.buf = b"%b%b\r\n" % (reply, payload)
        frame.body_size = len(payload)
    else:
        frame.buf = b"%b%b%b\r\n" % (reply, headers, payload)
        frame.header_size = len(headers)
        frame.body_size = len(headers) + len(payload)
    return frame


class Parser:
    """The parser of one connection.  Its limits may change between any two calls."""

    def __init__(self, max_control_line: int, max_payload: int) -> None:
        self.max_control_line = max_control_line
        self.max_payload = max_payload
        self.headers_allowed = False  # HPUB is a violation before headers are negotiated
        self.connect_first = False  # refuse everything but CONNECT
        self.leaf = False  # operations are those of a leaf link: LMSG, HMSG, LS+ and LS-
        self.queues: list[bytes] | None = None  # queue groups that the LMSG or HMSG just parsed is for
        self.frame = Frame()
        self.subject_start = 0
        self.subject_size = 0
        self.argument_start = 0
        self.argument_end = 0
        self._buf = b""
        self._position = 0
        self._end = 0
        self._chunk = b""  # the last chunk fed
        self._taken = 0  # how much of it was moved to `_buf`
        self._frame: Any = b""  # memory for a frame whose body is incomplete
        self._missing = 0  # bytes missing from it

    def feed(self, data: bytes) -> None:
        """Append the next chunk to what is left of the last one."""
        self._chunk = data if self._taken >= len(self._chunk) else self._chunk[self._taken :] + data
        self._taken = 0

    def next(self) -> int:
        """Return the code of the next operation; see ``Op``."""
        while True:
            if self._position < self._end and self._missing == 0:
                found = self._parse(self._position)
                if found != _NEED_MORE:
                    return found
            if not self._advance():
                if self._position >= self._end and self._missing == 0:
                    self._buf = self.frame.buf = b""  # an idle connection holds no chunk
                return _NEED_MORE

    def _advance(self) -> bool:
        """Move more of the chunk into `_buf`; return False if another chunk is needed."""
        data = self._chunk
        taken = self._taken
        if taken >= len(data):
            return False
        if self._missing > 0:
            return self._fill(data, taken)
        if self._position < self._end:  # a line was cut: take only its rest
            end = data.find(b"\n", taken) + 1
            if end == 0:
                end = len(data)
            self._buf = self._buf[self._position : self._end] + data[taken:end]
            self._position = 0
            self._end = len(self._buf)
            self._use_up(end)
        else:
            self._buf = data
            self._position = taken
            self._end = len(data)
            self._use_up(self._end)
        return True

    def _fill(self, data: bytes, taken: int) -> bool:
        """Copy the chunk's part of the cut frame; return False if more is needed before it can be parsed."""
        have = len(self._frame) - self._missing
        count = len(data) - taken
        if count > self._missing:
            count = self._missing
        if cython.compiled:
            memcpy(PyBytes_AS_STRING(self._frame) + have, PyBytes_AS_STRING(data) + taken, count)
        else:
            self._frame[have : have + count] = data[taken : taken + count]
        self._use_up(taken + count)
        return self._is_filled(have, count)

    def _is_filled(self, have: int, count: int) -> bool:
        """Count `count` bytes after the first `have` of the cut frame; return True if it can be parsed."""
        self._missing -= count
        have += count
        if self._missing > 1 or (self._missing == 1 and self._frame[have - 1] == _CR):
            return False
        # Complete, or it does not end in CRLF: then there is nothing to wait for.
        self._buf = self._frame if cython.compiled else bytes(self._frame)
        self._frame = b""
        self._position = 0
        self._end = have
        self._missing = 0
        return True

    # -- large bodies ---------------------------------------------------------------------------

    def wants(self) -> int:
        """Return the number of bytes missing from a cut frame; 0 while unparsed bytes of a chunk are left."""
        return self._missing if self._taken >= len(self._chunk) else 0

    def room(self) -> memoryview:
        """Return the memory for the missing bytes; after reading into it call ``filled`` instead of ``feed``.

        The memory is invalid after either call.
        """
        have = len(self._frame) - self._missing
        if cython.compiled:
            room: memoryview = PyMemoryView_FromMemory(
                PyBytes_AS_STRING(self._frame) + have, self._missing, PyBUF_WRITE
            )
            return room
        return memoryview(self._frame)[have:]

    def filled(self, count: int) -> None:
        """Take the first `count` bytes of ``room`` as the next bytes of the cut frame."""
        if count > self._missing:
            raise ValueError("the room is smaller than that")
        self._is_filled(len(self._frame) - self._missing, count)

    def _use_up(self, taken: int) -> None:
        """Mark everything before `taken` as consumed; drop a chunk that is used up."""
        self._taken = taken
        if taken >= len(self._chunk):
            self._chunk = b""

    def _parse(self, i: int) -> int:
        """Return the code of the operation at `i`, or NEED_MORE if it is cut."""
        n = self._end
        p = self._buf
        c = p[i] | _LOWER
        if self.connect_first and c != 0x63:  # c
            return _CONNECT_WANTED
        if (
            c == 0x70  # p
            and n - i > 3
            and (p[i + 1] | _LOWER) == 0x75  # u
            and (p[i + 2] | _LOWER) == 0x62  # b
            and (p[i + 3] == _SPACE or p[i + 3] == _TAB)
        ):
            return self._publish(i + 4, False)
        return self._control(i)

    def subject(self) -> bytes:
        """Return the subject of the message just parsed."""
        return self._buf[self.subject_start : self.subject_start + self.subject_size]

    def subject_is(self, subject: bytes) -> bool:
        """Return True if the message just parsed goes to `subject`, without creating a bytes object."""
        size = self.subject_size
        if len(subject) != size:
            return False
        p = self._buf
        s = subject
        start = self.subject_start
        for i in range(size):
            if p[start + i] != s[i]:
                return False
        return True

    def argument(self) -> bytes:
        """Return the argument line of the operation just parsed."""
        return self._buf[self.argument_start : self.argument_end]

    def line(self) -> bytes:
        """Return the memory that `argument_start` and `argument_end` refer to."""
        return self._buf

    def has_rest(self) -> bool:
        """Return True if unparsed bytes are left: a cut frame, or operations not yet asked for."""
        return self._position < self._end or self._missing > 0 or self._taken < len(self._chunk)

    def body_is_cut(self) -> bool:
        """Return True if the line of a message is complete but its body is not; the subject is known."""
        return self._missing > 0

    # -- PUB and HPUB ---------------------------------------------------------------------------

    def _publish(self, i: int, with_headers: bool) -> int:
        p = self._buf
        n = self._end
        line_start = i
        while i < n and (p[i] == _SPACE or p[i] == _TAB):
            i += 1
        if i >= n:
            return self._keep_word(line_start)
        line_start = i
        # Start and end of the last tokens: a is the newest, d the oldest of four.
        a = a_end = b = b_end = c = c_end = d = d_end = 0
        count = 0
        plain = True
        found = _PUB
        while i < n:
            while i < n and (p[i] == _SPACE or p[i] == _TAB):
                i += 1
            if i >= n or p[i] == _LF:
                break
            if p[i] == _CR:
                i += 1
                plain = i >= n or p[i] == _LF
                break
            d = c
            d_end = c_end
            c = b
            c_end = b_end
            b = a
            b_end = a_end
            a = i
            count += 1
            while i < n and p[i] > _SPACE:
                i += 1
            while i < n and p[i] != _SPACE and p[i] != _LF and p[i] != _TAB and p[i] != _CR:
                found = _UNCLEAN_PUB  # a control character: the word continues, but must not be written
                i += 1
            a_end = i
        if count == 0 or not plain:
            i = self._buf.find(b"\n", line_start + 1, n)
            if i < 0:
                return self._cut_line(line_start)
            end = self._end_of_arguments(line_start, i)
            tokens = _tokens(self._buf, line_start, end)
            count = len(tokens)
            if _CONTROL.search(self._buf, line_start, end) is not None:
                found = _UNCLEAN_PUB
            if (count > 3 + with_headers and not self.leaf) or count < 2 + with_headers:
                return _LINE_TOO_LONG if end - line_start > self.max_control_line else _BAD_ARGUMENTS
            a, a_end = tokens[-1]
            b, b_end = tokens[-2]
            c, c_end = tokens[-3] if count > 2 else (0, 0)
            d, d_end = tokens[-4] if count > 3 else (0, 0)
        elif i >= n:
            return self._cut_line(line_start)
        else:
            end = i - 1 if p[i - 1] == _CR else i
        if end - line_start > self.max_control_line:
            return _LINE_TOO_LONG
        if with_headers and not self.headers_allowed:
            return _BAD_ARGUMENTS
        if count < 2 + with_headers or (count > 3 + with_headers and not self.leaf):
            return _BAD_ARGUMENTS
        frame = self.frame
        size = self._number(a, a_end)
        if size < 0:
            return _BAD_ARGUMENTS
        if with_headers:
            header_size = self._number(b, b_end)
            if header_size < 0 or header_size > size:
                return _BAD_ARGUMENTS
            if header_size == 0:
                header_size = -1  # a header size of zero means no headers
            b = c
            b_end = c_end
            c = d
            c_end = d_end
            count -= 1
        else:
            header_size = -1
        frame.body_size = size
        if size > self.max_payload:
            return _PAYLOAD_TOO_BIG
        if self.leaf:
            self.queues = None
        if count > 3:
            if not self._name_queues(line_start, end, 1 + with_headers):
                return _BAD_ARGUMENTS
        elif count == 2:
            self.subject_start = b
            self.subject_size = b_end - b
            frame.reply_start = 0
            frame.reply_size = 0
        else:
            self.subject_start = c
            self.subject_size = c_end - c
            frame.reply_start = b
            frame.reply_size = b_end - b
        i += 1
        end = i + size
        if end + 2 > n:
            if end < n and p[end] != _CR:
                return _BAD_BODY
            return self._cut_body(end + 2 - n)
        if p[end] != _CR or p[end + 1] != _LF:
            return _BAD_BODY
        frame.buf = self._buf
        frame.header_size = header_size
        frame.body_start = i
        self._position = end + 2
        return found

    def _name_queues(self, start: int, end: int, numbers: int) -> bool:
        """Read the line of a message for queue groups, which ends in `numbers` sizes; False if it is none."""
        tokens = _tokens(self._buf, start, end)
        sign_start, sign_end = tokens[1]
        sign = self._buf[sign_start]
        if sign_end - sign_start != 1 or (sign != _PLUS and sign != _BAR):
            return False
        first = 2 if sign == _BAR else 3
        if len(tokens) - numbers < first:
            return False
        subject_start, subject_end = tokens[0]
        self.subject_start = subject_start
        self.subject_size = subject_end - subject_start
        reply_start, reply_end = tokens[2] if sign == _PLUS else (0, 0)
        self.frame.reply_start = reply_start
        self.frame.reply_size = reply_end - reply_start
        self.queues = [self._buf[at:till] for at, till in tokens[first : len(tokens) - numbers]]
        return True

    def _number(self, start: int, end: int) -> int:
        return -1 if end - start > _MAX_DIGITS else read_number(self._buf, start, end)

    def _end_of_arguments(self, start: int, line_end: int) -> int:
        """Return the end of the arguments that begin at `start` and precede the LF at `line_end`."""
        return line_end - 1 if self._find(_CR, start + 1, line_end) > 0 else line_end

    def _keep_word(self, word_end: int) -> int:
        """Drop everything after the word: it means nothing, and an endless line must not use memory."""
        self._buf = self._buf[self._position : word_end]
        self._position = 0
        self._end = len(self._buf)
        return _NEED_MORE

    def _cut_line(self, line_start: int) -> int:
        if self._end - line_start > self.max_control_line + 1:  # a CR may be the last byte
            return _LINE_TOO_LONG
        return _NEED_MORE

    def _cut_body(self, missing: int) -> int:
        """Allocate memory for the whole frame and move its beginning there."""
        start = self._position
        have = self._end - start
        if cython.compiled:
            self._frame = PyBytes_FromStringAndSize(cython.NULL, have + missing)
            memcpy(PyBytes_AS_STRING(self._frame), PyBytes_AS_STRING(self._buf) + start, have)
        else:
            self._frame = bytearray(self._buf[start : self._end]) + bytes(missing)
        self._missing = missing
        self._position = self._end
        return _NEED_MORE

    # -- everything else ------------------------------------------------------------------------

    def _control(self, i: int) -> int:
        """Parse an operation other than PUB.  A wrong letter is an error at once."""
        first = self._buf[i] | _LOWER
        second = self._buf[i + 1] | _LOWER if i + 1 < self._end else 0
        if self.leaf and (first == 0x6C or first == 0x68 or first == 0x73 or first == 0x75):  # l, h, s, u
            return self._leaf_control(i, first)
        if first == 0x70:  # p
            if second == 0x69:  # i
                return self._line(i, b"ping", _PING)
            if second == 0x6F:  # o
                return self._line(i, b"pong", _PONG)
            return self._keyword(i, b"pub ") if self._keyword(i, b"pub ") < 0 else _NEED_MORE
        if first == 0x68:  # h
            found = self._keyword(i, b"hpub ")
            return self._publish(i + 5, True) if found > 0 else found
        if first == 0x73:  # s
            return self._line(i, b"sub ", _SUB)
        if first == 0x75:  # u
            return self._line(i, b"unsub ", _UNSUB)
        if first == 0x63:  # c
            return self._line(i, b"connect", _CONNECT)
        if first == 0x69:  # i
            return self._line(i, b"info", _INFO)
        if self._buf[i] == 0x2B:  # +
            return self._line(i, b"+ok", _OK)
        if self._buf[i] == 0x2D:  # -
            return self._line(i, b"-err ", _ERR)
        return _UNKNOWN

    def _leaf_control(self, i: int, first: int) -> int:
        """Parse an operation that only leaf links have."""
        if first == 0x68:  # h
            found = self._keyword(i, b"hmsg ")
            return self._publish(i + 5, True) if found > 0 else found
        if first != 0x6C:  # l
            return _UNKNOWN
        if i + 2 >= self._end:
            return _NEED_MORE
        if (self._buf[i + 1] | _LOWER) == 0x6D:  # m
            found = self._keyword(i, b"lmsg ")
            return self._publish(i + 5, False) if found > 0 else found
        if self._buf[i + 2] == _PLUS:
            return self._line(i, b"ls+ ", _LEAF_SUB)
        return self._line(i, b"ls- ", _LEAF_UNSUB)

    def _keyword(self, i: int, word: bytes) -> int:
        """Return 1 if `word` is at `i`, 0 if it is cut, else UNKNOWN; a blank in it also matches a tab."""
        for index in range(len(word)):
            if i + index >= self._end:
                return _NEED_MORE
            seen = self._buf[i + index]
            wanted = word[index]
            if wanted == _SPACE:
                if seen != _SPACE and seen != _TAB:
                    return _UNKNOWN
            elif (seen | _LOWER) != wanted if wanted > 0x60 else seen != wanted:
                return _UNKNOWN
        return 1

    def _find(self, byte: int, start: int, end: int) -> int:
        """Return the first position of `byte` in ``_buf[start:end]``, or -1."""
        if not cython.compiled:
            return self._buf.find(byte, start, end)
        if start >= end:
            return -1
        p = PyBytes_AS_STRING(self._buf)
        at = cython.cast("const char*", memchr(p + start, byte, end - start))
        return -1 if at == cython.NULL else at - p

    def _line(self, i: int, word: bytes, op: int) -> int:
        found = self._keyword(i, word)
        if found <= 0:
            return found
        start = i + len(word)
        word_end = start
        ignored = op == _PING or op == _PONG or op == _OK
        if not ignored:
            while start < self._end and (self._buf[start] == _SPACE or self._buf[start] == _TAB):
                start += 1
        end = self._find(_LF, start if ignored else start + 1, self._end)
        if end < 0:
            if ignored or start == self._end:
                return self._keep_word(word_end)
            return self._cut_line(start)
        self._position = end + 1
        end = start if ignored else self._end_of_arguments(start, end)
        if end - start > self.max_control_line:
            return _LINE_TOO_LONG
        self.argument_start = start
        self.argument_end = end
        return op


def _tokens(buf: bytes, start: int, end: int) -> list[tuple[int, int]]:
    """Return the positions of the words in a line that did not parse on the fast path."""
    return [match.span() for match in _WORD.finditer(buf, start, end)]
