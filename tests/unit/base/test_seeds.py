"""Seeds are read and used as the official library does it, and never shown."""

import base64
import os

import nkeys as official
import pytest

from millstream.base.nkeys import KeyKind, NkeyError, verify
from millstream.base.seeds import Signer, make_seed, read_credentials

SEED = "SUAAAAICAMCAKBQHBAEQUCYMBUHA6EARCIJRIFIWC4MBSGQ3DQOR4H776Y"
CREDENTIALS = f"""-----BEGIN NATS USER JWT-----
eyJ0eXAi.eyJ-qd--Gki.c2_ln-
------END NATS USER JWT------

************************* IMPORTANT *************************
NKEY Seed printed below can be used to sign and prove identity.

-----BEGIN USER NKEY SEED-----
{SEED}
------END USER NKEY SEED------

*************************************************************
"""


def test_the_public_key_is_that_of_the_official_library() -> None:
    assert Signer(SEED).public_key == official.from_seed(bytearray(SEED.encode())).public_key.decode()


def test_a_signature_proves_who_made_it() -> None:
    signer = Signer(SEED)
    text = signer.sign(b"nonce")
    signature = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    assert verify(signer.public_key, signature, b"nonce")
    assert not verify(signer.public_key, signature, b"another")
    assert "=" not in text


@pytest.mark.parametrize("kind", [KeyKind.USER, KeyKind.ACCOUNT, KeyKind.OPERATOR])
def test_a_seed_made_here_is_read_by_the_official_library(kind: KeyKind) -> None:
    seed = make_seed(kind, os.urandom(32))
    assert Signer(seed).public_key == official.from_seed(bytearray(seed.encode())).public_key.decode()


@pytest.mark.parametrize(
    "bad",
    ["", SEED[:-1], SEED[:-1] + "A", SEED.lower(), "U" + SEED[1:], SEED[:20] + "1" + SEED[21:], "S" * 58],
)
def test_a_text_that_is_no_seed_is_refused_without_being_shown(bad: str) -> None:
    with pytest.raises(NkeyError) as caught:
        Signer(bad)
    assert not bad or bad not in str(caught.value)


def test_credentials_hold_a_token_and_a_seed() -> None:
    assert read_credentials(CREDENTIALS) == ("eyJ0eXAi.eyJ-qd--Gki.c2_ln-", SEED)
    assert read_credentials(CREDENTIALS.replace("\n", "\r\n")) == ("eyJ0eXAi.eyJ-qd--Gki.c2_ln-", SEED)


def test_credentials_without_a_seed_are_refused() -> None:
    with pytest.raises(NkeyError, match="no user seed"):
        read_credentials(CREDENTIALS.partition("*****")[0])
