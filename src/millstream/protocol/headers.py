"""Header blocks: looking one up, taking some out, putting one in.

    NATS/1.0[ status[ description]]\\r\\n
    Key: Value\\r\\n
    \\r\\n

Lookups follow the reference: keys are compared to the letter, the first one counts, blanks before the
value are skipped.  Blocks that clients send are not validated, so nothing here assumes that they are
well-formed; what cannot be found is not there.
"""

from typing import Final

START: Final = b"NATS/1.0\r\n"
_END: Final = b"\r\n\r\n"


def find(block: bytes, key: bytes) -> bytes | None:
    """The value of the first header called `key`, or None."""
    needle = b"\r\n" + key + b":"
    at = block.find(needle)
    if at < 0:
        return None
    start = at + len(needle)
    end = block.find(b"\r\n", start)
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


def make(*headers: tuple[bytes, bytes]) -> bytes:
    """A block with these headers."""
    lines = b"".join(b"%b: %b\r\n" % header for header in headers)
    return START + lines + b"\r\n"
