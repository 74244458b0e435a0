"""Header blocks: read, write, find, remove and add headers.

    NATS/1.0[ status[ description]]\\r\\n
    Key: Value\\r\\n
    \\r\\n

Lookups follow nats-server: keys are case-sensitive, the first match counts, blanks before the value are
skipped.  Blocks from clients are not validated, so nothing here assumes that they are well-formed.

Headers that only the server may set (the requester, the sequence of a message) are added with ``claim``.
Readers disagree about the case of names, stray line ends and lines without a colon, so ``claim`` rebuilds
the block to leave no second header that a reader could take for the server's.
"""

import re
from collections.abc import Iterable
from typing import Final

Pairs = list[tuple[str, str]]

VERSION: Final = b"NATS/1.0"
START: Final = VERSION + b"\r\n"
_LINE: Final = b"\r\n"
_END: Final = b"\r\n\r\n"
_BLANK: Final = ord(" ")
_RETURN = ord("\r")
_FEED = ord("\n")
_SMALL = ord(" ")  # the bit that makes a letter small
_LINE_END: Final = re.compile(rb"\r\n|\r|\n")


def find(block: bytes, key: bytes) -> bytes | None:
    """Return the value of the first header called `key`, or None."""
    needle = b"\r\n" + key + b":"
    at = block.find(needle)
    if at < 0:
        return None
    start = at + len(needle)
    end = block.find(_LINE, start)
    return block[start : end if end >= 0 else len(block)].lstrip(b" ")


def status(block: bytes) -> bytes:
    """Return the status and description on the first line; empty if there are none."""
    line, _, _ = block.partition(b"\r\n")
    return line[len(VERSION) :].strip()


def without_status(block: bytes) -> bytes:
    """Return the block without its status; empty if it has no headers."""
    line, separator, rest = block.partition(b"\r\n")
    if not separator or len(line) <= len(VERSION):
        return block
    return START + rest if len(rest) > len(b"\r\n") else b""


def remove(block: bytes, *prefixes: bytes) -> bytes:
    """Return the block without headers whose names begin with one of `prefixes`; empty if none is left."""
    lines = block.split(b"\r\n")
    kept = [line for line in lines[1:] if line and not line.startswith(prefixes)]
    if not kept:
        return b""
    return lines[0] + b"\r\n" + b"\r\n".join(kept) + _END


def put(block: bytes, key: bytes, value: bytes) -> bytes:
    """Return the block, or a new one if it is empty or malformed, with one header added at its end."""
    line = b"%b: %b\r\n\r\n" % (key, value)
    if not block:
        return START + line
    return block[:-2] + line if block.endswith(_END) else START + line


def replace(block: bytes, key: bytes, value: bytes) -> bytes:
    """Return the block with `key` set to `value` and all its earlier values removed."""
    return put(remove(block, key + b":"), key, value)


def claim(block: bytes, *headers: tuple[bytes, bytes]) -> bytes:
    """Return a well-formed block that ends in these headers and has no others of their names, in any case."""
    if not block:
        return make(*headers)
    block = without(block, *(key for key, _ in headers))
    return block[:-2] + b"".join(b"%b: %b\r\n" % header for header in headers) + b"\r\n"


def without(block: bytes, *keys: bytes) -> bytes:
    """Return a well-formed block without headers called `keys`, in any case; it is never empty.

    Keeps only lines that every reader takes for a header: drops lines that begin with a blank, have no colon
    or follow an empty line.
    """
    unwanted = {key.lower() for key in keys}
    first, *lines = _LINE_END.split(block)
    if not first.startswith(VERSION):
        first, lines = VERSION, [first, *lines] if first else lines
    kept = [first]
    for line in lines:
        if not line:
            break
        name, colon, _ = line.partition(b":")
        if colon and name.strip() and name[0] > _BLANK and name.strip().lower() not in unwanted:
            kept.append(line)
    return b"\r\n".join(kept) + _END


def is_sound(block: bytes, key: bytes) -> bool:
    """Return True if the block is well-formed and nowhere contains `key`, so that it can be appended.

    Returns False for a few other blocks, too: bytes are compared without the bit that makes letters small.
    """
    if not block.startswith(VERSION) or not block.endswith(_END):
        return False
    p = block
    wanted = key
    count = len(key)
    end = len(block) - len(_END)
    at = 0
    while at < end:
        if p[at] == _RETURN:
            if p[at + 1] != _FEED or (p[at + 2] == _RETURN and p[at + 3] == _FEED):
                return False  # not the end of a line, or the end of the block
            at += 1
        elif p[at] == _FEED:
            return False
        elif at + count <= end:
            same = 0
            while same < count and (p[at + same] | _SMALL) == (wanted[same] | _SMALL):
                same += 1
            if same == count:
                return False
        at += 1
    return True


def make(*headers: tuple[bytes, bytes]) -> bytes:
    """Return a block of these headers."""
    lines = b"".join(b"%b: %b\r\n" % header for header in headers)
    return START + lines + b"\r\n"


def make_status(text: bytes, *headers: tuple[bytes, bytes]) -> bytes:
    """Return a block with a status, such as ``404 No Messages``, and these headers."""
    lines = b"".join(b"%b: %b\r\n" % header for header in headers)
    return b"%b %b\r\n%b\r\n" % (VERSION, text, lines)


def read_pairs(block: bytes) -> Pairs:
    """Return the names and values of a block, in their order; a name may come more than once."""
    found: Pairs = []
    for line in block.split(b"\r\n"):
        name, colon, value = line.partition(b":")
        if colon and not line.startswith(VERSION):
            found.append((text_of(name), text_of(value).strip()))
    return found


def make_text(pairs: Iterable[tuple[str, str]]) -> bytes:
    """Return the block of these names and values; empty if there are none.  The caller has checked them."""
    lines = "".join([f"{name}: {value}\r\n" for name, value in pairs])
    return START + lines.encode(errors="surrogatepass") + b"\r\n" if lines else b""


def text_of(value: bytes) -> str:
    """Return a name or value as text: UTF-8, or Latin-1 if it is not."""
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value.decode("latin-1")
