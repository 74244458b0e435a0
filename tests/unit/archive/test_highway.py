"""HighwayHash-64 against the vectors that its authors publish; longer input is in the compat tests."""

import pytest

from millstream.archive.highway import HighwayHash

KEY = bytes(range(32))


@pytest.mark.parametrize(
    ("size", "expected"),
    [
        (0, 0x907A56DE22C26E53),
        (1, 0x7EAB43AAC7CDDD78),
        (2, 0xB8D0569AB0B53D62),
        (3, 0x5C6BEFAB8A463D80),
        (4, 0xF205A46893007EDA),
        (5, 0x2B8A1668E4A94541),
        (6, 0xBD4CCC325BEFCA6F),
        (7, 0x4D02AE1738F59482),
        (8, 0xE1205108E55F3171),
    ],
)
def test_the_published_vectors(size: int, expected: int) -> None:
    assert int.from_bytes(HighwayHash(KEY).sum(bytes(range(size))), "little") == expected


def test_a_hash_does_not_depend_on_how_the_bytes_are_handed_over() -> None:
    data = bytes(range(256)) * 3
    hasher = HighwayHash(KEY)
    whole = hasher.sum(data)
    for step in (1, 7, 31, 32, 33, 100):
        hasher.begin()
        for at in range(0, len(data), step):
            hasher.add(data, at, min(at + step, len(data)))
        assert hasher.end().to_bytes(8, "little") == whole


def test_every_length_and_every_bit_counts() -> None:
    hasher = HighwayHash(KEY)
    seen = {hasher.sum(bytes(size)) for size in range(100)}
    assert len(seen) == 100
    data = bytearray(45)
    before = hasher.sum(bytes(data))
    for at in range(len(data)):
        data[at] ^= 1
        assert hasher.sum(bytes(data)) != before
        data[at] ^= 1


def test_a_key_has_32_bytes() -> None:
    with pytest.raises(ValueError, match="32 bytes"):
        HighwayHash(b"short")
