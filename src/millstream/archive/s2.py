"""Decompress one block of S2, the compression of archives: Snappy, plus a code for the last offset.

    block    = length of the content (uvarint), then elements to the end
    element  = tag byte, whose low two bits say what follows
        00  literal: that many bytes; lengths of 60 and more are in the 1 to 4 bytes after the tag
        01  copy of 4 to 11 bytes, offset in 11 bits; offset 0: *repeat*, with the offset of the last copy
            and a length that may be in the 1 to 3 bytes that follow
        10  copy of 1 to 64 bytes, offset in 2 bytes
        11  copy of 1 to 64 bytes, offset in 4 bytes

The bytes are untrusted, so every length and offset is checked before it is used.  Compiled, and without the
interpreter's lock, because it runs in a worker.  There is no compressor here: Snappy's output is valid S2,
and good libraries exist for that (``frames``).
"""

import cython

from millstream.archive.errors import corrupt

if cython.compiled:
    from cython.cimports.libc.string import memcpy

MAX_BLOCK = 4 * 1024 * 1024  # limit of a block's content

_MAX_BLOCK = MAX_BLOCK
_CORRUPT = -1


def unpack(data: bytes, start: int, most: int) -> bytes:
    """Decompress the block ``data[start:]``; raise ArchiveError if it is invalid or larger than `most`."""
    end = len(data)
    size = 0
    shift = 0
    at = start
    while True:
        if at >= end or shift > 28:
            raise corrupt()
        byte = data[at]
        at += 1
        size |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            break
    if size > most or size > _MAX_BLOCK:
        raise corrupt()
    out = bytearray(size)
    if _unpack(data, at, end, out, size) == _CORRUPT:
        raise corrupt()
    return bytes(out)


def _unpack(source: bytes, at: int, end: int, target: bytearray, size: int) -> int:
    p = source
    q = target
    done = 0
    offset = 0  # of the last copy
    with cython.nogil:
        while at < end:
            tag = p[at]
            kind = tag & 3
            at += 1
            if kind == 0:
                length = tag >> 2
                if length >= 60:
                    extra = length - 59
                    if extra > end - at:
                        return _CORRUPT
                    length = _little(p, at, extra)
                    at += extra
                length += 1
                if length > size - done or length > end - at:
                    return _CORRUPT
                _copy_in(q, done, p, at, length)
                at += length
                done += length
                continue
            if kind == 1:
                if at >= end:
                    return _CORRUPT
                length = (tag >> 2) & 7
                given = ((tag & 0xE0) << 3) | p[at]
                at += 1
                if given:
                    offset = given
                elif length >= 5:
                    extra = length - 4
                    if extra > end - at:
                        return _CORRUPT
                    length = _little(p, at, extra) + (4 if extra == 1 else 1 << (8 * (extra - 1)))
                    at += extra
                length += 4
            else:
                extra = 2 if kind == 2 else 4
                if extra > end - at:
                    return _CORRUPT
                length = (tag >> 2) + 1
                offset = _little(p, at, extra)
                at += extra
            if offset <= 0 or offset > done or length > size - done:
                return _CORRUPT
            _copy_within(q, done, offset, length)
            done += length
    return done if done == size else _CORRUPT


def _little(p: bytes, at: int, count: int) -> int:
    """Read an unsigned little-endian number; the bytes must exist."""
    value = 0
    for index in range(count):
        byte = p[at + index]
        value |= byte << (8 * index)
    return value


def _copy_in(q: bytearray, place: int, p: bytes, at: int, count: int) -> None:
    if cython.compiled:
        memcpy(q + place, p + at, count)  # type: ignore[operator]
    else:
        q[place : place + count] = p[at : at + count]


def _copy_within(q: bytearray, place: int, offset: int, count: int) -> None:
    """Copy `count` bytes from `offset` before `place`; an overlap repeats them."""
    if cython.compiled and offset >= count:
        memcpy(q + place, q + place - offset, count)  # type: ignore[operator]
        return
    for index in range(count):
        q[place + index] = q[place + index - offset]
