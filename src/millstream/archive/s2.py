"""One block of S2, the compression of archives and links: Snappy, plus a code for the last offset.

    block    = length of the content (uvarint), then elements to the end
    element  = tag byte, whose low two bits say what follows
        00  literal: that many bytes; lengths of 60 and more are in the 1 to 4 bytes after the tag
        01  copy of 4 to 11 bytes, offset in 11 bits; offset 0: *repeat*, with the offset of the last copy
            and a length that may be in the 1 to 3 bytes that follow
        10  copy of 1 to 64 bytes, offset in 2 bytes
        11  copy of 1 to 64 bytes, offset in 4 bytes

The bytes are untrusted, so every length and offset is checked before it is used.  Compiled, and without the
interpreter's lock, because it runs in a worker.  ``pack`` makes small blocks and takes its time; where speed
counts, ``frames`` uses a library for Snappy, whose output is valid S2.
"""

from array import array

import cython

from millstream.archive.errors import corrupt

if cython.compiled:
    from cython.cimports.libc.string import memcpy

MAX_BLOCK = 4 * 1024 * 1024  # limit of a block's content

_MAX_BLOCK = MAX_BLOCK
_CORRUPT = -1
_LEAST = 4  # bytes of a match
_END = 8  # bytes that are never the beginning of a match
_HASH = 2654435761
_ONES = 0xFFFFFFFF
_NOWHERE = -1
_HURRY = 7
_MOST_HURRY = 15
_GOOD = 64  # bytes of a match after which nothing longer is looked for


def unpack(data: bytes, start: int, most: int) -> bytes:
    """Decompress the block ``data[start:]``; raise ArchiveError if it is invalid or larger than `most`."""
    return _content(data, start, most, False)


def unpack_damaged(data: bytes, start: int, most: int) -> bytes:
    """Decompress a block up to its first invalid element, and fill the rest with zeros.

    Raise ArchiveError if its size is invalid.
    """
    return _content(data, start, most, True)


def _content(data: bytes, start: int, most: int, damaged: bool) -> bytes:
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
    if _unpack(data, at, end, out, size) == _CORRUPT and not damaged:
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


def pack(data: bytes, depth: int) -> bytes:
    """Compress a block; for each byte, look at `depth` earlier places with the same four bytes."""
    size = len(data)
    bits = min(max(size.bit_length(), 8), 16)
    heads = array("i", [_NOWHERE]) * (1 << bits)  # by hash, the last place of four bytes
    chain = array("i", [_NOWHERE]) * max(size, 1)  # the place before, with the same hash
    out = bytearray(size + size // 6 + 32)
    at = 0
    left = size
    while left >= 0x80:
        out[at] = left & 0x7F | 0x80
        left >>= 7
        at += 1
    out[at] = left
    at = _pack(data, size, out, at + 1, heads, chain, 32 - bits, depth)
    return bytes(out[:at])


def _pack(
    source: bytes,
    size: int,
    target: bytearray,
    done: int,
    heads: "array[int]",
    chain: "array[int]",
    shift: int,
    depth: int,
) -> int:
    p = source
    q = target
    h = heads.data.as_ints if cython.compiled else heads  # type: ignore[attr-defined]
    c = chain.data.as_ints if cython.compiled else chain  # type: ignore[attr-defined]
    with cython.nogil:
        at = 0
        start = 0  # of the bytes that no match covers
        last = 0  # offset of the last copy
        while at < size - _END:
            length = 0
            place = 0
            if last > 0:  # the same offset again costs less
                length = _common(p, at - last, at, size)
                place = at - last
            found = h[_hash(p, at, shift)]
            looks = depth
            while found >= 0 and looks > 0 and length < _GOOD:
                common = _common(p, found, at, size)
                if common > length + (1 if place == at - last else 0):
                    length = common
                    place = found
                found = c[found]
                looks -= 1
            if length < _LEAST or (length == _LEAST and at - place >= 65536):
                _note(p, at, at + 1, h, c, shift)
                at += 1 + min((at - start) >> _HURRY, _MOST_HURRY)  # there are no matches for long
                continue
            if start < at:
                done = _put_literal(q, done, p, start, at - start)
            done = _put_copy(q, done, at - place, length, last)
            last = at - place
            _note(p, at, min(at + length, size - _END), h, c, shift)
            at += length
            start = at
        if start < size:
            done = _put_literal(q, done, p, start, size - start)
    return done


def _hash(p: bytes, at: int, shift: int) -> int:
    word = p[at] | p[at + 1] << 8 | p[at + 2] << 16 | p[at + 3] << 24
    return ((word * _HASH) & _ONES) >> shift


def _note(p: bytes, at: int, end: int, h: "array[int]", c: "array[int]", shift: int) -> None:
    """Remember the places from `at` to `end`."""
    while at < end:
        place = _hash(p, at, shift)
        c[at] = h[place]
        h[place] = at
        at += 1


def _common(p: bytes, one: int, other: int, size: int) -> int:
    """Return how many bytes from `one` are the same as from `other`, which comes later."""
    began = other
    while other < size and p[one] == p[other]:
        one += 1
        other += 1
    return other - began


def _put_little(q: bytearray, at: int, value: int, count: int) -> int:
    for _ in range(count):
        q[at] = value & 0xFF
        value >>= 8
        at += 1
    return at


def _put_literal(q: bytearray, at: int, p: bytes, start: int, count: int) -> int:
    value = count - 1
    if value < 60:
        q[at] = value << 2
        at += 1
    else:
        extra = 1 if value < 1 << 8 else 2 if value < 1 << 16 else 3
        q[at] = (59 + extra) << 2
        at = _put_little(q, at + 1, value, extra)
    _copy_in(q, at, p, start, count)
    return at + count


def _put_copy(q: bytearray, at: int, offset: int, count: int, last: int) -> int:
    if offset == last:
        return _put_repeat(q, at, count)
    if offset < 2048 and count < 12:
        q[at] = (offset >> 8) << 5 | (count - 4) << 2 | 1
        q[at + 1] = offset & 0xFF
        return at + 2
    first = count if count <= 64 else 60  # what is left is at least a repeat
    if offset < 65536:
        q[at] = (first - 1) << 2 | 2
        at = _put_little(q, at + 1, offset, 2)
    else:
        q[at] = (first - 1) << 2 | 3
        at = _put_little(q, at + 1, offset, 4)
    return at if first == count else _put_repeat(q, at, count - first)


def _put_repeat(q: bytearray, at: int, count: int) -> int:
    """Write a copy with the last offset; `count` is 4 to 16 MiB."""
    if count <= 8:
        q[at] = (count - 4) << 2 | 1
        q[at + 1] = 0
        return at + 2
    extra = 1 if count < 264 else 2 if count < 65796 else 3
    q[at] = (4 + extra) << 2 | 1
    q[at + 1] = 0
    return _put_little(q, at + 2, count - (8 if extra == 1 else 260 if extra == 2 else 65540), extra)
