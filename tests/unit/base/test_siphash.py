"""The hash with a key, against vectors of its authors and another implementation."""

import random
import shutil
import subprocess

import pytest

from millstream.base.siphash import KEY_SIZE, SipHash

KEY = bytes(range(KEY_SIZE))


def digest(key: bytes, data: bytes) -> str:
    hashing = SipHash(key)
    hashing.of(data)
    return (hashing.high.to_bytes(8, "little") + hashing.low.to_bytes(8, "little")).hex()


@pytest.mark.parametrize(
    ("size", "expected"),
    [(0, "a3817f04ba25a8e66df67214c7550293"), (1, "da87c1d86b99af44347659119b22fc45")],
)
def test_the_authors_vectors(size: int, expected: str) -> None:
    assert digest(KEY, bytes(range(size))) == expected


@pytest.mark.skipif(shutil.which("openssl") is None, reason="there is no openssl")
@pytest.mark.parametrize("size", [*range(18), 63, 64, 255, 256, 300])
def test_openssl_has_the_same(size: int) -> None:
    generator = random.Random(size)
    key, data = generator.randbytes(KEY_SIZE), generator.randbytes(size)
    command = [
        "openssl",
        "mac",
        "-macopt",
        f"hexkey:{key.hex()}",
        "-macopt",
        "size:16",
        "-in",
        "/dev/stdin",
        "SIPHASH",
    ]
    theirs = subprocess.run(command, input=data, capture_output=True, check=True).stdout
    assert digest(key, data) == theirs.decode().strip().lower()


def test_another_key_has_another_hash() -> None:
    assert digest(KEY, b"x") != digest(bytes(KEY_SIZE), b"x")


def test_a_key_has_16_bytes() -> None:
    with pytest.raises(ValueError, match="15 bytes"):
        SipHash(bytes(15))
