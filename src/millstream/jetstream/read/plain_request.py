"""Parse the common bodies of direct gets in place.

    {"seq":42}  {"last_by_subj":"a.b"}  {"seq":42,"next_by_subj":"a.*"}  {"start_time":"2026-11-17T18:00:00Z"}

A body is simple if every JSON reader agrees on it: its names are known and occur once, numbers are integers
of at most 63 bits, texts are ASCII without escapes, and a time is in UTC and between 1970 and 2200.  All
others are not refused here: ``direct`` reads them with ``jsapi.codec``.
"""

from millstream.protocol.digits import digits_end, read_number

_SEQ = b"seq"
_LAST = b"last_by_subj"
_NEXT = b"next_by_subj"
_TIME = b"start_time"
_NO_HEADERS = b"no_hdr"
_TRUE = b"true"
_FALSE = b"false"
_QUOTE = ord('"')
_BACKSLASH = ord("\\")
_SPACE = ord(" ")
_LAST_PRINTABLE = ord("~")
_ZERO = ord("0")
_COLON = ord(":")
_COMMA = ord(",")
_OPEN = ord("{")
_CLOSE = ord("}")
_DASH = ord("-")
_POINT = ord(".")
_UPPER_T = ord("T")
_UPPER_Z = ord("Z")
_LONGEST_FRACTION = 9
_SHORTEST_TIME = len("2006-01-02T15:04:05Z")
_FIRST_YEAR = 1970
_LAST_YEAR = 2200
_SECOND = 1_000_000_000
_DAYS_OF_400_YEARS = 146_097
_DAYS_TO_1970 = 719_468  # from the first of March of year 0

HAS_SEQ = 1
HAS_LAST = 2
HAS_NEXT = 4
HAS_TIME = 8
_HAS_NO_HEADERS = 16
_HAS_SEQ = HAS_SEQ
_HAS_LAST = HAS_LAST
_HAS_NEXT = HAS_NEXT
_HAS_TIME = HAS_TIME


class PlainGet:
    """The request in one body; `has` tells which fields it has."""

    def __init__(self) -> None:
        self.has = 0
        self.seq = 0
        self.subject = b""  # of `last_by_subj` or `next_by_subj`
        self.start_time = 0  # nanoseconds since 1970
        self.bare = False  # `no_hdr`
        self._at = 0

    def read(self, buf: bytes, start: int, end: int) -> bool:
        """Parse ``buf[start:end]``; return False if it is not simple."""
        self.has = 0
        self.bare = False
        self._at = start
        if not self._passes(buf, end, _OPEN):
            return False
        while True:
            if not self._read_pair(buf, end):
                return False
            if self._passes(buf, end, _COMMA):
                continue
            return self._passes(buf, end, _CLOSE) and self._ends(buf, end)

    def _read_pair(self, buf: bytes, end: int) -> bool:
        name = self._text(buf, end)
        if name is None or not self._passes(buf, end, _COLON):
            return False
        if name == _SEQ:
            return self._is_new(_HAS_SEQ) and self._number(buf, end)
        if name in (_NEXT, _LAST):
            other = _HAS_LAST if name == _NEXT else _HAS_NEXT
            if self.has & other or not self._is_new(_HAS_NEXT if name == _NEXT else _HAS_LAST):
                return False
            subject = self._text(buf, end)
            self.subject = subject or b""
            return len(self.subject) > 0
        if name == _TIME:
            text = self._text(buf, end)
            return text is not None and self._is_new(_HAS_TIME) and self._time(text)
        if name == _NO_HEADERS:
            return self._is_new(_HAS_NO_HEADERS) and self._flag(buf, end)
        return False

    def _is_new(self, field: int) -> bool:
        if self.has & field:
            return False
        self.has |= field
        return True

    # -- tokens -----------------------------------------------------------------------------------

    def _skip_space(self, buf: bytes, end: int) -> None:
        p = buf
        while self._at < end and p[self._at] == _SPACE:
            self._at += 1

    def _ends(self, buf: bytes, end: int) -> bool:
        self._skip_space(buf, end)
        return self._at == end

    def _passes(self, buf: bytes, end: int, wanted: int) -> bool:
        """Move after a character if it is the next one; return False if it is not."""
        p = buf
        self._skip_space(buf, end)
        if self._at >= end or p[self._at] != wanted:
            return False
        self._at += 1
        return True

    def _text(self, buf: bytes, end: int) -> bytes | None:
        if not self._passes(buf, end, _QUOTE):
            return None
        p = buf
        start = self._at
        at = start
        while at < end:
            byte = p[at]
            if byte == _QUOTE:
                self._at = at + 1
                return buf[start:at]
            if byte < _SPACE or byte > _LAST_PRINTABLE or byte == _BACKSLASH:
                return None
            at += 1
        return None

    def _number(self, buf: bytes, end: int) -> bool:
        """Read `seq`, which must not be 0."""
        p = buf
        self._skip_space(buf, end)
        start = self._at
        at = digits_end(p, start, end)
        value = read_number(p, start, at)
        if value < 0 or p[start] == _ZERO:
            return False
        self._at = at
        self.seq = value
        return True

    def _flag(self, buf: bytes, end: int) -> bool:
        self._skip_space(buf, end)
        for word in (_TRUE, _FALSE):
            if buf[self._at : self._at + len(word)] == word and self._at + len(word) <= end:
                self._at += len(word)
                self.bare = word == _TRUE
                return True
        return False

    # -- times ------------------------------------------------------------------------------------

    def _time(self, text: bytes) -> bool:
        """Read an RFC 3339 time in UTC."""
        p = text
        size = len(text)
        if size < _SHORTEST_TIME or p[size - 1] != _UPPER_Z:
            return False
        if p[4] != _DASH or p[7] != _DASH or p[10] != _UPPER_T or p[13] != _COLON or p[16] != _COLON:
            return False
        year, month, day = read_number(p, 0, 4), read_number(p, 5, 7), read_number(p, 8, 10)
        hour, minute, second = read_number(p, 11, 13), read_number(p, 14, 16), read_number(p, 17, 19)
        if year < _FIRST_YEAR or year > _LAST_YEAR or month < 1 or month > 12:
            return False
        if day < 1 or day > _days_of(year, month):
            return False
        if hour < 0 or hour > 23 or minute < 0 or minute > 59 or second < 0 or second > 59:
            return False
        fraction = 0
        if size > _SHORTEST_TIME:
            count = size - _SHORTEST_TIME - 1
            if p[19] != _POINT or count < 1 or count > _LONGEST_FRACTION:
                return False
            fraction = read_number(p, 20, 20 + count)
            if fraction < 0:
                return False
            for _ in range(_LONGEST_FRACTION - count):
                fraction *= 10
        seconds = ((_days_since_1970(year, month, day) * 24 + hour) * 60 + minute) * 60 + second
        self.start_time = seconds * _SECOND + fraction
        return True


def _days_of(year: int, month: int) -> int:
    if month == 2:
        return 29 if year % 4 == 0 and (year % 100 != 0 or year % 400 == 0) else 28
    return 30 if month == 4 or month == 6 or month == 9 or month == 11 else 31


def _days_since_1970(year: int, month: int, day: int) -> int:
    """Return the days since 1970, computed with years that begin in March, so that a leap day is the last."""
    if month <= 2:
        year -= 1
    moved = month - 3 if month > 2 else month + 9
    era = year // 400
    of_era = year - era * 400
    of_year = (153 * moved + 2) // 5 + day - 1
    return era * _DAYS_OF_400_YEARS + of_era * 365 + of_era // 4 - of_era // 100 + of_year - _DAYS_TO_1970
