"""A whole broker in memory with three clients: what two of them say must not harm the third."""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterator

from millstream.broker.broker import Broker
from millstream.broker.options import (
    AccountOptions,
    Authorization,
    Export,
    ExportKind,
    Import,
    Permissions,
    SubjectRules,
    User,
)
from tests.kits.broker import client, loop_of, make_broker
from tests.kits.fake_transport import FakeClient

# No subject or reply has a blank or a control character; the number of a subscription is its client's own.
_MESSAGE = rb"(?:H?MSG [^\x00-\x20]+ [^ \t\n]+ (?:[^\x00-\x20]+ )?(?:[0-9]+ )?[0-9]+"
_LINE = re.compile(_MESSAGE + rb"|PING|PONG|\+OK|-ERR [^\n]*|INFO [^\n]*)\r\n")
WORDS = (
    b"CONNECT {", b"SUB a.* 1\r\n", b"SUB a.> q 2\r\n", b"UNSUB 1\r\n", b"UNSUB 2 1\r\n",
    b"PUB a.b 2\r\nhi\r\n", b"PUB svc.x r 2\r\nhi\r\n",
    b"HPUB a.b 12 14\r\nNATS/1.0\r\n\r\nhi\r\n", b"PING\r\n", b"\r\n", b"\xff", b"SUB svc.> 5\r\n",
    b"PUB _INBOX.1 0\r\n\r\n", b"$SYS.REQ.", b"*", b">",
    b"Nats-Trace-Dest: t\r\n", b"\"verbose\":true,", b"\"echo\":false,", b"\"headers\":true,",
)  # fmt: skip


def _broker() -> Broker:
    service = Export(kind=ExportKind.SERVICE, subject="svc.>")
    accounts = (
        AccountOptions(name="A", exports=(service, Export(kind=ExportKind.STREAM, subject="news.>"))),
        AccountOptions(
            name="B",
            imports=(
                Import(kind=ExportKind.SERVICE, account="A", subject="svc.>"),
                Import(kind=ExportKind.STREAM, account="A", subject="news.>"),
            ),
        ),
    )
    rules = SubjectRules(deny=("svc.secret", "a.*.c"))
    limited = Permissions(publish=rules, subscribe=rules)
    users = (
        User(name="A", password="A", account="A"),
        User(name="B", password="B", account="B", permissions=limited),
        User(name="C", password="C", account="A"),
    )
    return make_broker(accounts=accounts, authorization=Authorization(users=users), max_payload=2000)


def seeds() -> Iterator[bytes]:
    sign_on = (
        b"CONNECT "
        b'{"user":"B","pass":"B","verbose":false,"pedantic":true,"headers":true,"no_responders":true}\r\n'
    )
    talk = (
        b"SUB a.* 1\r\nSUB _I.> 2\r\nPUB a.b 5\r\nhello\r\nHPUB svc.x _I.1 12 14\r\nNATS/1.0\r\n\r\n"
        b"hi\r\nUNSUB 1 3\r\nPING\r\n"
    )
    yield sign_on + talk
    yield b"\x00" + talk
    yield (
        b'CONNECT {"user":"A","pass":"A"}\r\nSUB svc.> q 1\r\nPUB news.x 2\r\nhi\r\nSUB $SYS.> 2\r\n'
        b"SUB > 3\r\n"
    )
    yield talk.replace(b"\r\nhi", b"Nats-Trace-Dest: t.x\r\n\r\nhi").replace(b"12 14", b"33 35")


def check(data: bytes) -> Hashable:
    """The witness gets whole lines only, is never closed, and still gets its own message in the end."""
    broker = _broker()
    witness = client(broker, "C")
    witness.say(b"SUB > 1\r\nSUB svc.> 2\r\n")
    signed = client(broker, "B", headers=True, no_responders=True)
    stranger = FakeClient(broker)
    heard = b""
    answers = []
    for speaker in (stranger, signed):
        for at in range(0, len(data), 997):
            if speaker.closed or not speaker.transport.reading:
                break
            answers.append(speaker.say(data[at : at + 997]))
        heard += witness.heard()
    loop_of(broker).run_ready()
    heard += witness.heard() + witness.say(b"PUB last.word 3\r\nend\r\n")
    assert not witness.closed
    assert _frames(heard)[-1].startswith(b"MSG last.word "), heard[-200:]
    for each in answers:
        _frames(each)
    return stranger.closed, signed.closed, tuple(answer[:12] for answer in answers[-2:]), heard.count(b"MSG ")


def _frames(sent: bytes) -> list[bytes]:
    """The lines that a client would read; AssertionError if it would read something else."""
    lines, at = [], 0
    while at < len(sent):
        line = _LINE.match(sent, at)
        assert line is not None, sent[at : at + 80]
        lines.append(line[0])
        at = line.end()
        if b"MSG " in line[0][:5]:
            at += int(line[0].split()[-1])
            assert sent[at : at + 2] == b"\r\n"
            at += 2
    return lines
