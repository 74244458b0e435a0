import base64
import binascii

import nkeys as official
import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.base.nkeys import (
    KeyKind,
    NkeyError,
    check_user_key,
    decode,
    encode,
    new_server_id,
    new_xkey,
    verify,
)

SEED = b"SUAIBDPBAUTWCWBKIO6XHQNINK5FWJW4OHLXC3HQ2KFE4PEJUA44CNHTAM"


@pytest.fixture(scope="module")
def user() -> official.KeyPair:
    return official.from_seed(bytearray(SEED))


@pytest.fixture(scope="module")
def user_key(user: official.KeyPair) -> str:
    return user.public_key.decode("ascii")


def test_the_official_library_and_ours_agree_on_a_public_key(user: official.KeyPair, user_key: str) -> None:
    assert decode(user_key) == (KeyKind.USER, bytes(user._keys.verify_key))
    assert encode(*decode(user_key)) == user_key


@pytest.mark.parametrize(
    ("kind", "letter"),
    [
        (KeyKind.ACCOUNT, "A"),
        (KeyKind.CLUSTER, "C"),
        (KeyKind.SERVER, "N"),
        (KeyKind.OPERATOR, "O"),
        (KeyKind.USER, "U"),
        (KeyKind.CURVE, "X"),
    ],
)
@given(raw=st.binary(min_size=32, max_size=32))
def test_encoding_starts_with_the_letter_of_the_kind_and_decodes_back(
    kind: KeyKind, letter: str, raw: bytes
) -> None:
    text = encode(kind, raw)
    assert len(text) == 56
    assert text[0] == letter
    assert decode(text) == (kind, raw)


def test_a_key_of_the_wrong_size_is_not_encoded() -> None:
    with pytest.raises(NkeyError, match="32 bytes, not 31"):
        encode(KeyKind.USER, bytes(31))


def test_a_signature_by_the_official_library_verifies(user: official.KeyPair, user_key: str) -> None:
    signature = user.sign(b"nonce")
    assert verify(user_key, signature, b"nonce")


def test_a_signature_for_other_data_or_another_key_does_not_verify(
    user: official.KeyPair, user_key: str
) -> None:
    signature = user.sign(b"nonce")
    assert not verify(user_key, signature, b"other")
    assert not verify(new_server_id(), signature, b"nonce")


@pytest.mark.parametrize("length", [0, 63, 65])
def test_a_signature_of_the_wrong_length_does_not_verify(user_key: str, length: int) -> None:
    assert not verify(user_key, bytes(length), b"nonce")


@pytest.mark.parametrize("key", ["", "U", "not a key", "U" * 56, pytest.param(new_xkey(), id="an xkey")])
def test_nothing_verifies_with_something_that_is_no_signing_key(key: str) -> None:
    assert not verify(key, bytes(64), b"nonce")


def test_a_user_key_passes_the_user_check(user_key: str) -> None:
    check_user_key(user_key)


@pytest.mark.parametrize(
    ("key", "complaint"),
    [
        ("", "56 characters, not 0"),
        ("UABC", "56 characters, not 4"),
        ("u" * 56, "A-Z and 2-7"),
        ("U" + "1" * 55, "A-Z and 2-7"),
        ("Ü" + "A" * 55, "A-Z and 2-7"),
        ("U" + "A" * 55, "checksum"),
        (SEED.decode("ascii"), "seed"),
        (encode(KeyKind.ACCOUNT, bytes(32)), "'U', not 'A'"),
    ],
)
def test_a_bad_user_key_is_refused_with_a_reason(key: str, complaint: str) -> None:
    with pytest.raises(NkeyError, match=complaint):
        check_user_key(key)


def test_every_single_mistyped_character_is_noticed(user_key: str) -> None:
    for position, letter in enumerate(user_key):
        other = "B" if letter != "B" else "C"
        with pytest.raises(NkeyError):
            decode(user_key[:position] + other + user_key[position + 1 :])


def test_a_private_key_prefix_is_no_public_key() -> None:
    body = bytes([15 << 3]) + bytes(32)
    text = base64.b32encode(body + binascii.crc_hqx(body, 0).to_bytes(2, "little")).decode("ascii")
    with pytest.raises(NkeyError, match="starts with 'P'"):
        decode(text)


def test_fresh_server_ids_and_xkeys_are_valid_and_differ() -> None:
    assert decode(new_server_id())[0] is KeyKind.SERVER
    assert decode(new_xkey())[0] is KeyKind.CURVE
    assert new_server_id() != new_server_id()
