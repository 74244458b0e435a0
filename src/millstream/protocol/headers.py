"""Header blocks: looking one up, taking some out, putting one in.

    NATS/1.0[ status[ description]]\\r\\n
    Key: Value\\r\\n
    \\r\\n

Lookups follow the reference: keys are compared to the letter, the first one counts, blanks before the
value are skipped.  Blocks that clients send are not validated, so nothing here assumes that they are
well-formed; what cannot be found is not there.

What the server says with authority (who asks, which sequence a message has) is put in with ``claim``: readers
differ in what they make of letters, stray line ends and lines that are none, so such a block is made anew.
"""

import re
from typing import Final

START: Final = b"NATS/1.0\r\n"
_LINE: Final = b"\r\n"
_END: Final = b"\r\n\r\n"
_VERSION: Final = b"NATS/1.0"
_BLANK: Final = ord(" ")
_LINE_END: Final = re.compile(rb"\r\n|\r|\n")


def find(block: bytes, key: bytes) -> bytes | None:
    """The value of the first header called `key`, or None."""
    needle = b"\r\n" + key + b":"
    at = block.find(needle)
    if at < 0:
        return None
    start = at + len(needle)
    end = block.find(_LINE, start)
    return block[start : end if end >= 0 else len(block)].lstrip(b" ")


def status(block: bytes) -> bytes:
    """What follows the version on the first line; empty for a block without a status."""
    line, _, _ = block.partition(b"\r\n")
    return line[len(b"NATS/1.0") :].strip()


def without_status(block: bytes) -> bytes:
    """The same headers under a plain first line; empty if a status was all there was."""
    line, separator, rest = block.partition(b"\r\n")
    if not separator or len(line) <= len(b"NATS/1.0"):
        return block
    return START + rest if len(rest) > len(b"\r\n") else b""


def remove(block: bytes, *prefixes: bytes) -> bytes:
    """The block without headers whose names begin with one of `prefixes`; empty if none is left."""
    lines = block.split(b"\r\n")
    kept = [line for line in lines[1:] if line and not line.startswith(prefixes)]
    if not kept:
        return b""
    return lines[0] + b"\r\n" + b"\r\n".join(kept) + _END


def put(block: bytes, key: bytes, value: bytes) -> bytes:
    """The block, or a new one, with one header more at its end."""
    line = b"%b: %b\r\n\r\n" % (key, value)
    if not block:
        return START + line
    return block[:-2] + line if block.endswith(_END) else START + line


def replace(block: bytes, key: bytes, value: bytes) -> bytes:
    """The block with this value for `key`, wherever it was before."""
    return put(remove(block, key + b":"), key, value)


def claim(block: bytes, *headers: tuple[bytes, bytes]) -> bytes:
    """The block with these headers at its end, and no others of their names, in whatever letters."""
    block = without(block, *(key for key, _ in headers))
    return block[:-2] + b"".join(b"%b: %b\r\n" % header for header in headers) + b"\r\n"


def without(block: bytes, *keys: bytes) -> bytes:
    """A well-formed block, without headers called `keys` in any case of letters; never empty.

    A line is kept if it is a header to every reader: what begins with a blank, has no colon, or follows an
    empty line is dropped.
    """
    unwanted = {key.lower() for key in keys}
    first, *lines = _LINE_END.split(block)
    if not first.startswith(_VERSION):
        first, lines = _VERSION, [first, *lines] if first else lines
    kept = [first]
    for line in lines:
        if not line:
            break
        name, colon, _ = line.partition(b":")
        if colon and name.strip() and name[0] > _BLANK and name.strip().lower() not in unwanted:
            kept.append(line)
    return b"\r\n".join(kept) + _END


def is_sound(block: bytes, key: bytes) -> bool:
    """Whether a header called `key` can be put at the end of the block and is the only one of its name."""
    return (
        block.startswith(_VERSION)
        and block.find(_END) == len(block) - len(_END)
        and block.count(b"\r") == block.count(b"\n") == block.count(b"\r\n")
        and key.lower() not in block.lower()
    )


def make(*headers: tuple[bytes, bytes]) -> bytes:
    """A block with these headers."""
    lines = b"".join(b"%b: %b\r\n" % header for header in headers)
    return START + lines + b"\r\n"
