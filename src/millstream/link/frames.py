"""Frames of single messages, as bytes: for what is not worth a window.

Whatever would break its line is refused here, so that nothing a caller hands in becomes another command.
"""

from collections.abc import Mapping

from millstream.link.errors import LinkError


def header_block(headers: bytes | Mapping[str, str]) -> bytes:
    """A block from names and values; a block stays what it is."""
    if isinstance(headers, bytes):
        return headers
    for name, value in headers.items():
        if not name or any(bad in name for bad in "\r\n: ") or "\r" in value or "\n" in value:
            raise LinkError(f"the header {name!r} has a character that no header may have")
    if not headers:
        return b""
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    return b"NATS/1.0\r\n%b\r\n" % lines.encode()


def check_subject(subject: str) -> None:
    """LinkError for a text that would break the line it is put in."""
    if not subject or any(bad in subject for bad in " \t\r\n"):
        raise LinkError(f"{subject!r} is no subject")


def message_frame(subject: str, payload: bytes, reply: str, headers: bytes | Mapping[str, str]) -> bytes:
    """PUB, or HPUB if there are headers."""
    check_subject(subject)
    block = header_block(headers)
    line = f"{subject} {reply} " if reply else f"{subject} "
    if block:
        return b"HPUB %b%d %d\r\n%b%b\r\n" % (
            line.encode(), len(block), len(block) + len(payload), block, payload
        )  # fmt: skip
    return b"PUB %b%d\r\n%b\r\n" % (line.encode(), len(payload), payload)


def subscription_frame(subject: str, queue: str, sid: int) -> bytes:
    check_subject(subject)
    middle = f" {queue}" if queue else ""
    return f"SUB {subject}{middle} {sid}\r\n".encode()
