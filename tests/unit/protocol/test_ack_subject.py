"""Reply subjects of delivered messages."""

import pytest

from millstream.protocol.ack_subject import AckSubject, read_ack_subject

NUMBERS = "2.42.7.1700000000123456789.3"
SHORT = f"$JS.ACK.S.c.{NUMBERS}"


@pytest.mark.parametrize(
    ("subject", "home"),
    [
        (SHORT, ("", "", "")),
        (f"$JS.ACK._.hash.S.c.{NUMBERS}", ("_", "hash", "")),
        (f"$JS.ACK.hub.hash.S.c.{NUMBERS}.x.y", ("hub", "hash", "x.y")),
    ],
)
def test_either_form_says_the_same_of_the_message(subject: str, home: tuple[str, str, str]) -> None:
    told = read_ack_subject(subject)
    assert told == AckSubject("S", "c", 2, 42, 7, 1_700_000_000_123_456_789, 3, *home)
    assert told.numbers == NUMBERS
    assert told.short_form == SHORT


@pytest.mark.parametrize(
    "subject",
    [
        "",
        "_INBOX.x",
        "$JS.FC.S.c.abcd",
        "$JS.FC.S.c.1.2.3.4.5",
        "$JS.ACK.S.c",
        "$JS.ACK.S.c.1.42.7.1700000000123456789",
        f"$JS.ACK.hash.S.c.{NUMBERS}",
        "$JS.ACK.S.c.1.two.7.1700000000123456789.3",
        "$JS.ACK.S.c.1.-2.7.1700000000123456789.3",
    ],
)
def test_other_subjects_are_of_no_delivery(subject: str) -> None:
    assert read_ack_subject(subject) is None
