"""Headers that tell where a message is from, of all ages."""

import pytest

from millstream.jetstream.sourcing.source_header import SourcePosition, parse


@pytest.mark.parametrize(
    ("text", "meaning"),
    [
        ("O 3 o.2 two.x o.2 hfYX0l8i", SourcePosition("O", "O o.2 two.x", 3, "hfYX0l8i")),
        ("O:abcdefgh 3 > > o.2", SourcePosition("O:abcdefgh", "O:abcdefgh > >", 3)),
        ("O 3 a\fb c\fd o.2 hfYX0l8i", SourcePosition("O", "O a\fb c\fd", 3, "hfYX0l8i")),
        ("O 3 > >", SourcePosition("O", "O > >", 3)),
        ("O 3", SourcePosition("O", "", 3)),
        ("$JS.ACK.O.c.1.22.3.4.5", SourcePosition("O", "", 22)),
        ("$JS.ACK.domain.account.O.c.1.22.3.4.5", SourcePosition("O", "", 22)),
        ("O -3", SourcePosition("O", "", 0)),
        ("O 99999999999999999999", SourcePosition("O", "", 0)),
    ],
)
def test_what_a_header_says(text: str, meaning: SourcePosition) -> None:
    assert parse(text) == meaning


@pytest.mark.parametrize("text", ["", "O", "O 3 >", "$JS.ACK.O.c.1.22.3.4", "$JS.ACK.a.b.O.c.1.22.3.4"])
def test_what_says_nothing(text: str) -> None:
    assert parse(text) is None
