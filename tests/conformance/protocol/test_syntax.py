"""Spelling that must be understood: case, blanks, line ends, and frames cut anywhere."""

import pytest

from tests.kits.conformance.clients import Dial, message, publish
from tests.kits.reference import ServerKind, ServerProcess


@pytest.mark.parametrize(
    "sent",
    [
        b"sub spelling 1\r\npub spelling 2\r\nhi\r\n",
        b"Sub spelling 1\r\nPuB spelling 2\r\nhi\r\n",
        b"SUB\tspelling\t1\r\nPUB\tspelling\t2\r\nhi\r\n",
        b"SUB   spelling \t 1  \r\nPUB   spelling    2 \r\nhi\r\n",
        b"SUB spelling 1\nPUB spelling 2\nhi\r\n",
        b"SUB spelling 1\r\nHPUB spelling 0 2\r\nhi\r\n",
        b"SUB spelling 1\r\nhpub spelling 0 2\r\nhi\r\n",
        b"SUB spelling 2\r\nUNSUB 2\r\nunsub\t2\nSUB spelling 1\r\nPUB spelling 2\r\nhi\r\n",
        b"SUB \nspelling 1\r\nPUB spelling 2\r\nhi\r\n",
        b"SUB spelling 2\r\nUNSUB \n2\r\nSUB spelling 1\r\nPUB spelling 2\r\nhi\r\n",
        b"INFO\n{}\r\nSUB spelling 1\r\nPUB spelling 2\r\nhi\r\n",
        b"SUB spelling\r1\r\nPUB spelling 2\r\nhi\r\n",
        b"SUB spelling\r 12\nPUB spelling 2\r\nhi\r\n",  # a CR before costs the line its last byte
        b"PING  and more\r\nSUB spelling 1\r\nPUB spelling 2\r\nhi\r\n",
        b"ping\nSUB spelling 1\r\nPUB spelling 2\r\nhi\r\n",
        b"PONG\nPONG x\r\n+OK\n+ok\r\nSUB spelling 1\r\nPUB spelling 2\r\nhi\r\n",
    ],
)
def test_spelling_is_understood(server: ServerProcess, join: Dial, sent: bytes) -> None:
    client = join(server)
    expected = message("spelling", 1, b"hi")
    if sent[:4].lower() == b"ping":
        expected = b"PONG\r\n" + expected
    client.send(sent)
    assert client.read_frames(expected.count(b"PONG") + 1) == expected


def test_connect_in_any_case_and_with_blanks(server: ServerProcess, dial: Dial) -> None:
    client = dial(server)
    client.read_info()
    assert client.round_trip(b'connect \t {"verbose":false} \n') == b""


@pytest.mark.parametrize("subject", [b"odd\rone", b"odd\r", b"\nodd", b"\rodd"])
def test_a_stray_line_end_belongs_to_the_subject_and_reaches_nobody_here(
    server: ServerProcess, join: Dial, subject: bytes
) -> None:
    client = join(server)
    sent = b"SUB > 1\r\nPUB " + subject + b" 2\r\nhi\r\n"
    delivered = b"MSG " + subject + b" 1 2\r\nhi\r\n"
    assert client.round_trip(sent) == (b"" if server.kind is ServerKind.MILLSTREAM else delivered)


@pytest.mark.parametrize("words", [b"odd\x00one", b"odd\x01", b"\x0bodd", b"fine \x1finbox", b"fine in\rbox"])
def test_a_control_character_in_subject_or_reply_reaches_nobody_here(
    server: ServerProcess, join: Dial, words: bytes
) -> None:
    client = join(server)
    sent = b"SUB > 1\r\nPUB " + words + b" 2\r\nhi\r\n"
    subject, _, reply = words.partition(b" ")
    delivered = b"MSG " + subject + b" 1 " + (reply + b" " if reply else b"") + b"2\r\nhi\r\n"
    assert client.round_trip(sent) == (b"" if server.kind is ServerKind.MILLSTREAM else delivered)


def test_invalid_subject_is_told_before_the_payload_has_come(server: ServerProcess, join: Dial) -> None:
    client = join(server, pedantic=True)
    client.send(b"PUB foo.* 2\r\n")
    assert client.read_frame() == b"-ERR 'Invalid Publish Subject'\r\n"


@pytest.mark.parametrize("size", [1, 2, 3, 7])
def test_frames_may_be_cut_anywhere(server: ServerProcess, join: Dial, size: int) -> None:
    client = join(server)
    subject = f"cut.{size}"
    sent = (
        b"SUB " + subject.encode() + b" 1\r\n"
        b"HPUB "
        + subject.encode()
        + b" re.ply 12 14\r\nNATS/1.0\r\n\r\nhi\r\n"
        + publish(subject, b"\r\nPING\r\n", "a.reply")
        + b"PING\r\n"
    )
    for start in range(0, len(sent), size):
        client.send(sent[start : start + size])
    assert client.read_until_pong() == (
        b"HMSG "
        + subject.encode()
        + b" 1 re.ply 12 14\r\nNATS/1.0\r\n\r\nhi\r\n"
        + message(subject, 1, b"\r\nPING\r\n", "a.reply")
    )


def test_a_sid_is_any_word(server: ServerProcess, join: Dial) -> None:
    client = join(server)
    sent = b"SUB words.a one-two\r\n" + publish("words.a", b"x") + b"UNSUB one-two\r\n" + publish("words.a")
    assert client.round_trip(sent) == message("words.a", "one-two", b"x")


def test_subjects_and_payloads_are_any_bytes(server: ServerProcess, join: Dial) -> None:
    client = join(server)
    payload = bytes(range(256))
    subject = "grüße.日本.\x7f"
    sent = b"SUB " + subject.encode() + b" 1\r\n"
    sent += b"PUB " + subject.encode() + b" 256\r\n" + payload + b"\r\n"
    assert client.round_trip(sent) == b"MSG " + subject.encode() + b" 1 256\r\n" + payload + b"\r\n"


def test_subjects_need_not_be_text(server: ServerProcess, join: Dial) -> None:
    client = join(server)
    sent = b"SUB \xff\xfe.* 1\r\nPUB \xff\xfe.\x80 1\r\nx\r\n"
    assert client.round_trip(sent) == b"MSG \xff\xfe.\x80 1 1\r\nx\r\n"
