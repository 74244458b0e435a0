"""The client protocol read the slow way: one whole stream of bytes, split into lines.

An independent statement of the rules, to compare the real parser with.  It has no state between
calls, knows nothing of read boundaries, and looks at all the input every time.
"""

import re
from collections.abc import Iterable
from typing import NamedTuple

from millstream.protocol.parser import Op, Parser

WORDS = {
    b"pub ": Op.PUB,
    b"hpub ": Op.PUB,
    b"sub ": Op.SUB,
    b"unsub ": Op.UNSUB,
    b"connect": Op.CONNECT,
    b"info": Op.INFO,
    b"ping": Op.PING,
    b"pong": Op.PONG,
    b"+ok": Op.OK,
    b"-err ": Op.ERR,
}
IGNORE_THE_LINE = (Op.PING, Op.PONG, Op.OK)


class Limits(NamedTuple):
    max_control_line: int = 64
    max_payload: int = 32
    headers_allowed: bool = True
    connect_first: bool = False


class Event(NamedTuple):
    """One operation: PUB fills all but `argument`, the others only that, and errors nothing."""

    op: Op
    argument: bytes = b""
    subject: bytes = b""
    reply: bytes = b""
    headers: bytes | None = None
    payload: bytes = b""


class _Incomplete(Exception):
    pass


class _Refused(Exception):
    def __init__(self, op: Op) -> None:
        self.op = op


def naive_events(data: bytes, limits: Limits) -> list[Event]:
    """Return the events in `data` up to its end, an incomplete operation, or the first error."""
    events = []
    while data:
        try:
            event, data = _one(data, limits)
        except _Incomplete:
            break
        except _Refused as error:
            events.append(Event(error.op))
            break
        events.append(event)
    return events


def _one(data: bytes, limits: Limits) -> tuple[Event, bytes]:
    if limits.connect_first and data[:1] not in (b"C", b"c"):
        raise _Refused(Op.CONNECT_WANTED)
    word = _word(data)
    op = WORDS[word]
    rest = data[len(word) :]
    if op in IGNORE_THE_LINE:
        if b"\n" not in rest:
            raise _Incomplete
        return Event(op), rest.split(b"\n", 1)[1]
    rest = rest.lstrip(b" \t")
    first, (line, newline, after) = rest[:1], rest[1:].partition(b"\n")
    if not newline:
        if len(first + line) > limits.max_control_line + 1:
            raise _Refused(Op.LINE_TOO_LONG)
        raise _Incomplete
    argument = first + (line[:-1] if b"\r" in line else line)
    if len(argument) > limits.max_control_line:
        raise _Refused(Op.LINE_TOO_LONG)
    if op is Op.PUB:
        return _message(argument, after, limits, with_headers=len(word) == 5)
    return Event(op, argument), after


def _word(data: bytes) -> bytes:
    start = data[:7].lower().replace(b"\t", b" ")
    for word in WORDS:
        if start.startswith(word):
            return word
    if any(word.startswith(start) for word in WORDS):
        raise _Incomplete
    raise _Refused(Op.UNKNOWN)


def _message(argument: bytes, after: bytes, limits: Limits, *, with_headers: bool) -> tuple[Event, bytes]:
    tokens = [token for token in re.split(rb"[ \t]+", argument) if token]
    sizes = 2 if with_headers else 1
    if with_headers and not limits.headers_allowed:
        raise _Refused(Op.BAD_ARGUMENTS)
    if len(tokens) not in (1 + sizes, 2 + sizes):
        raise _Refused(Op.BAD_ARGUMENTS)
    if not all(re.fullmatch(rb"[0-9]{1,9}", token) for token in tokens[-sizes:]):
        raise _Refused(Op.BAD_ARGUMENTS)
    header_size, total = int(tokens[-sizes]) if with_headers else 0, int(tokens[-1])
    if header_size > total:
        raise _Refused(Op.BAD_ARGUMENTS)
    if total > limits.max_payload:
        raise _Refused(Op.PAYLOAD_TOO_BIG)
    end = after[total : total + 2]
    if not b"\r\n".startswith(end):
        raise _Refused(Op.BAD_BODY)
    if end != b"\r\n":
        raise _Incomplete
    reply = tokens[1] if len(tokens) == 2 + sizes else b""
    headers = after[:header_size] if with_headers and header_size else None
    unclean = re.search(rb"[\x00-\x1f]", tokens[0] + reply)
    op = Op.UNCLEAN_PUB if unclean else Op.PUB
    event = Event(op, b"", tokens[0], reply, headers, after[header_size:total])
    return event, after[total + 2 :]


def real_events(chunks: Iterable[bytes], limits: Limits) -> list[Event]:
    """Return the events of the parser under test, up to the first error."""
    parser = Parser(limits.max_control_line, limits.max_payload)
    parser.headers_allowed = limits.headers_allowed
    parser.connect_first = limits.connect_first
    events: list[Event] = []
    for chunk in chunks:
        parser.feed(chunk)
        while (op := Op(parser.next())) is not Op.NEED_MORE:
            events.append(event_of(parser, op))
            if op < 0:
                return events
    return events


def event_of(parser: Parser, op: Op) -> Event:
    """Copy what the parser has just found."""
    if op < 0:
        return Event(op)
    if op not in (Op.PUB, Op.UNCLEAN_PUB):
        return Event(op, parser.argument())
    frame = parser.frame
    headers = frame.headers() if frame.header_size >= 0 else None
    return Event(op, b"", parser.subject(), frame.reply(), headers, frame.payload())
