"""The envelope of tokens: what is read, and what is refused before anything else is looked at."""

import itertools
import json

import pytest

from millstream.claims.decode import read_account, read_operator, read_user, undecorated
from millstream.claims.token import MAX_TOKEN_BYTES, ClaimsError, read_token
from tests.kits.operator import Key, Operator, encoded, token

OPERATOR = Operator("unit")
ACCOUNT = OPERATOR.account("A")
USER = ACCOUNT.user("ann")


def test_reads_both_versions() -> None:
    assert read_operator(OPERATOR.token).body.system_account == OPERATOR.system.public
    assert read_account(ACCOUNT.token).token.name == "A"
    assert read_user(USER.token).body.subs == -1
    old = read_user(ACCOUNT.user("old", version=1, signer=Key("A", "signer")).token)
    assert (old.token.version, old.account) == (1, ACCOUNT.public)


def test_reads_files_of_credentials() -> None:
    assert undecorated(USER.credentials()) == USER.token
    assert undecorated(f"{USER.token}\n") == USER.token


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "expected 3 chunks"),
        ("a.b.c.d", "expected 3 chunks"),
        ("x" * (MAX_TOKEN_BYTES + 1), "token too large"),
        ("!.b.c", "illegal base64 data"),
        ("e30.e30.e30", "not supported type"),
        (encoded(b'{"typ":"JWT","alg":"HS256"}') + ".e30.e30", "unexpected .* algorithm"),
        (encoded(b'{"typ":"jwt","alg":"ed25519"}') + ".e30.e30", "signature verification"),
        (encoded(b'{"typ":"jwt","alg":"ed25519"}') + f".{encoded(b'[' * 5000)}.e30", "invalid claims"),
        (encoded(b'{"a":' * 5000) + ".e30.e30", "invalid claims"),
        (token(ACCOUNT.key, "user", USER.public, {}, exp=2**63), "invalid claims"),
        (encoded(b'{"typ":"jwt","alg":"none"}') + ".e30.", "unexpected .* algorithm"),
        (USER.token[:-10] + "AAAAAAAAAA", "V2 signature verification"),
        (token(ACCOUNT.key, "user", USER.public, {"version": 3}), "newer version"),
    ],
    ids=itertools.count(),  # tokens differ from process to process
)
def test_refuses_what_is_malformed(text: str, reason: str) -> None:
    with pytest.raises(ClaimsError, match=reason):
        read_token(text)


def test_refuses_the_wrong_kind_and_signer() -> None:
    with pytest.raises(ClaimsError, match="not user claim"):
        read_user(token(ACCOUNT.key, "account", ACCOUNT.public, {}))
    with pytest.raises(ClaimsError, match=r"unable to validate expected prefixes - \[account\]"):
        read_user(token(OPERATOR.key, "user", USER.public, {}))
    with pytest.raises(ClaimsError, match="invalid claims"):
        read_user(token(ACCOUNT.key, "user", USER.public, {"subs": "many"}))


def test_signature_covers_the_header_of_version_2() -> None:
    _, claims, signature = USER.token.split(".")
    header = encoded(json.dumps({"typ": "JWT", "alg": "ed25519"}).encode())
    with pytest.raises(ClaimsError, match="V2 signature"):
        read_token(f"{header}.{claims}.{signature}")
