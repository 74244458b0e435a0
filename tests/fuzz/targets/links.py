"""A hub in memory with a client and a link: whatever the spoke says must not harm the client."""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterator

from millstream.archive.frames import S2_START, PackLevel, s2_frames
from tests.kits.broker import client, loop_of
from tests.kits.fake_spoke import FakeSpoke, connect_line, hub

_STRANGER, _PACKED, _RAW = 1, 2, 4
_LINE = re.compile(rb"(?:H?MSG [^\x00-\x20]+ 1 (?:[^\x00-\x20]+ )?(?:[0-9]+ )?[0-9]+|PING|PONG|\+OK)\r\n")
WORDS = (
    b"LMSG a 2\r\nhi\r\n", b"LMSG a.b + r q 2\r\nhi\r\n", b"HMSG a 12 14\r\nNATS/1.0\r\n\r\nhi\r\n",
    b"LS+ a.* q 3\r\n", b"LS+ ", b"LS- a\r\n", b"INFO {", b"\"compression\":\"s2_auto\"", b"CONNECT {",
    b"PING\r\n", b"PONG\r\n", b"-ERR 'x'\r\n", b"$LDS.", b"$JS.ACK.s.c.1.1.1.1.1@a", b"|", b"+",
    b"\r\n", b"\xff", b"*", b">", S2_START, b"\x00\x05\x00\x00", b"\xfe\x00\x00\x00",
)  # fmt: skip


def seeds() -> Iterator[bytes]:
    talk = (
        b"LS+ a.*\r\nLS+ a q 2\r\nLMSG a 2\r\nhi\r\nHMSG b.c | q 12 14\r\nNATS/1.0\r\n\r\nhi\r\n"
        b"LMSG m $JS.ACK.s.c.1.1.1.1.1@seen 1\r\nx\r\nLS- a q\r\nPING\r\n"
    )
    for choice in range(4):
        yield bytes((choice,)) + (connect_line() if choice & _STRANGER else b"") + talk
    yield bytes((_PACKED | _RAW,)) + s2_frames(talk, PackLevel.FAST) + s2_frames(talk, PackLevel.NONE)
    yield bytes((_STRANGER | _PACKED | _RAW,)) + s2_frames(connect_line() + talk, PackLevel.BEST)
    yield (
        bytes((_STRANGER,))
        + b'INFO {"compression":"s2_best"}\r\n'
        + S2_START
        + s2_frames(talk, PackLevel.FAST)
    )


def check(data: bytes) -> Hashable:
    """The client gets whole frames only, is never closed, and still gets its own message in the end."""
    if not data:
        return None
    choice, data = data[0], data[1:]
    broker = hub("accept" if choice & 8 else "s2_fast")
    witness = client(broker)
    witness.say(b"SUB > 1\r\n")
    spoke = FakeSpoke(broker, stranger=bool(choice & _STRANGER), packed=bool(choice & _PACKED))
    for at in range(0, len(data), 997):
        if spoke.link.closed or not spoke.transport.reading:
            break
        piece = data[at : at + 997]
        if choice & _PACKED and not choice & _RAW:
            piece = s2_frames(piece, PackLevel.FAST)
        spoke.transport.receive(piece)
    loop_of(broker).run_ready()
    heard = witness.heard() + witness.say(b"PUB last.word 3\r\nend\r\n")
    assert not witness.closed
    at = 0
    while at < len(heard):
        line = _LINE.match(heard, at)
        assert line is not None, heard[at : at + 80]
        at = line.end()
        if b"MSG " in line[0][:5]:
            at += int(line[0].split()[-1]) + 2
            assert heard[at - 2 : at] == b"\r\n"
    assert heard.endswith(b"MSG last.word 1 3\r\nend\r\n"), heard[-200:]
    return (
        choice & 15,
        spoke.link.closed,
        spoke.link.ready,
        heard.count(b"MSG "),
        len(spoke.link.subscriptions),
    )
