"""Tokens of an OpenID Connect issuer: which are accepted, what they permit, and how keys are renewed."""

import hashlib
import hmac
import json
import time
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

pytest.importorskip("jwt")

from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from millstream.broker import reload
from millstream.broker.auth import ClientCredentials, Identity
from millstream.broker.broker import Broker
from millstream.broker.oidc.key_ring import KeyRing
from millstream.broker.oidc.keys import OidcError, fetch_keys, is_safe_url, read_keys
from millstream.broker.oidc.tokens import fitting_keys, identity_of, read_header, verified_claims
from millstream.broker.options import (
    AccountOptions,
    Authorization,
    BrokerOptions,
    OidcOptions,
    Permissions,
    SubjectRules,
    User,
)
from tests.kits.fake_transport import FakeClient, FakeLoop
from tests.kits.oidc import AUDIENCE, Issuer, IssuerKey, claims, part, shared_key, signed

ISSUER = "https://login.example"
RSA, EC, ED = shared_key("RSA", "rsa"), shared_key("EC", "ec"), shared_key("OKP", "ed")
STRANGER = shared_key("RSA", "stranger")
KEYS = json.dumps({"keys": [RSA.public(), EC.public(), ED.public()]}).encode()
READER = Permissions(publish=SubjectRules(allow=()), subscribe=SubjectRules(allow=("a.>",)))
WRITER = Permissions(
    publish=SubjectRules(allow=("a.>",), deny=("a.x",)), subscribe=SubjectRules(allow=("b.>",))
)
OPTIONS = OidcOptions(issuer=ISSUER, audience=(AUDIENCE, "other"))
BY_ROLE = replace(OPTIONS, roles={"reader": READER, "writer": WRITER}, roles_claim="realm.roles")
PLACED = replace(OPTIONS, account_claim="team", accounts=("A", "B"))
NOW = int(time.time())
HOUR = 3600
REFUSED = b"-ERR 'Authorization Violation'\r\n"


def identified(text: str, options: OidcOptions = OPTIONS, keys: bytes = KEYS) -> Identity:
    header = read_header(text)
    fitting = fitting_keys(header, read_keys(keys))
    return identity_of(verified_claims(text, header, fitting, options), options)


def good(key: IssuerKey = RSA, algorithm: str = "RS256", **changes: Any) -> str:
    return signed(key, algorithm, claims(ISSUER, **changes))


@pytest.mark.parametrize(
    ("key", "algorithm"),
    [(RSA, "RS256"), (RSA, "PS256"), (EC, "ES256"), (ED, "EdDSA")],
    ids=["rs", "ps", "es", "ed"],
)
def test_algorithms(key: IssuerKey, algorithm: str) -> None:
    found = identified(good(key, algorithm))
    assert (found.user, found.account, found.permissions) == ("ann", "$G", None)
    assert found.grant is not None
    assert found.grant.token == ""  # monitoring shows it


def unsigned(header: dict[str, Any], signature: bytes = b"") -> str:
    return f"{part({'typ': 'JWT', **header})}.{part(claims(ISSUER))}.{part(signature)}"


def confused() -> str:
    """Return a token that has a public key for the secret of its HMAC."""
    secret = RSA.private.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    text = unsigned({"alg": "HS256", "kid": "rsa"}).rpartition(".")[0]
    return f"{text}.{part(hmac.new(secret, text.encode(), hashlib.sha256).digest())}"


def changed_claims() -> str:
    header, _, signature = good().split(".")
    return f"{header}.{part(claims(ISSUER, sub='root'))}.{signature}"


HOSTILE = {
    "no signature": unsigned({"alg": "none", "kid": "rsa"}),
    "no signature, in other letters": unsigned({"alg": "nOnE", "kid": "rsa"}),
    "an empty signature": unsigned({"alg": "RS256", "kid": "rsa"}),
    "a public key as secret": confused(),
    "changed claims": changed_claims(),
    "a key of another": signed(STRANGER, "RS256", claims(ISSUER), kid="rsa"),
    "an unknown key": signed(STRANGER, "RS256", claims(ISSUER)),
    "a key for another algorithm": signed(RSA, "RS256", claims(ISSUER), kid="ec"),
    "a longer hash": signed(RSA, "RS512", claims(ISSUER)),
    "its own key": signed(STRANGER, "RS256", claims(ISSUER), kid="rsa", jwk=STRANGER.public()),
    "a URL for its key": signed(STRANGER, "RS256", claims(ISSUER), kid="rsa", jku="https://evil.example"),
    "critical headers": signed(RSA, "RS256", claims(ISSUER), crit=["exp"], exp=1),
    "another issuer": signed(RSA, "RS256", claims("https://evil.example")),
    "a longer issuer": signed(RSA, "RS256", claims(ISSUER + "/evil")),
    "a part of the issuer": signed(RSA, "RS256", claims(ISSUER[:-1])),
    "no issuer": good(iss=None),
    "issuers": good(iss=[ISSUER]),
    "another audience": good(aud="somebody"),
    "no audience": good(aud=None),
    "an empty audience": good(aud=[]),
    "expired": good(exp=NOW - HOUR),
    "no expiry": good(exp=None),
    "an expiry that is none": good(exp="never"),
    "an expiry without end": good(exp=float("inf")),
    "not yet valid": good(nbf=NOW + HOUR),
    "of the future": good(iat=NOW + HOUR),
    "nobody": good(sub=None),
    "an empty name": good(sub=""),
    "a number for a name": good(sub=7),
    "a name with a line end": good(sub="a\r\nb"),
    "a very long name": good(sub="a" * 300),
    "a very long token": good(more="a" * 70_000),
    "junk": "eyJ.eyJ.eyJ",
    "two parts": "eyJhbGciOiJSUzI1NiJ9.eyJ9",
    "deep nesting": f"{part(b'[' * 10_000)}.e30.e30",
    "a list for a header": f"{part([])}.e30.e30",
    "a number for a key id": unsigned({"alg": "RS256", "kid": 7}),
    "no text": "eyJ\udcff.a.b",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_tokens(name: str) -> None:
    with pytest.raises(OidcError):
        identified(HOSTILE[name])


def test_clocks_may_differ() -> None:
    now = int(time.time())
    found = identified(good(exp=now - 5, nbf=now + 5, iat=now + 5))
    assert found.grant is not None
    assert found.grant.ends == now - 5 + OPTIONS.clock_skew_s


def test_one_key_needs_no_id() -> None:
    keys = json.dumps({"keys": [EC.public()]}).encode()
    text = signed(EC, "ES256", claims(ISSUER), kid=None)
    assert identified(text, keys=keys).user == "ann"
    two = json.dumps({"keys": [EC.public(), IssuerKey("EC", "second").public()]}).encode()
    with pytest.raises(OidcError):
        identified(text, keys=two)


def test_roles_add_up() -> None:
    permissions = identified(good(realm={"roles": ["reader", "writer", "x"]}), BY_ROLE).permissions
    assert permissions is not None
    assert permissions.publish == SubjectRules(allow=("a.>",), deny=("a.x",))
    assert permissions.subscribe == SubjectRules(allow=("a.>", "b.>"))
    assert identified(good(realm={"roles": "reader x"}), BY_ROLE).permissions == READER


@pytest.mark.parametrize(
    "more",
    [{}, {"realm": {}}, {"realm": {"roles": ["x"]}}, {"realm": {"roles": {"reader": 1}}}, {"realm": 1}],
)
def test_who_has_no_role_has_the_default_or_nothing(more: dict[str, Any]) -> None:
    with pytest.raises(OidcError):
        identified(good(**more), BY_ROLE)
    assert identified(good(**more), replace(BY_ROLE, default_permissions=READER)).permissions == READER


def test_accounts() -> None:
    assert identified(good(team="B"), PLACED).account == "B"
    for other in ("C", "$SYS", None, ["A"], {"A": 1}):
        with pytest.raises(OidcError):
            identified(good(team=other), PLACED)


@pytest.mark.parametrize(
    "document",
    [
        b"",
        b"[]",
        b'{"keys": 7}',
        b'{"keys": [{"kty": "oct", "k": "c2VjcmV0", "kid": "rsa"}]}',
        b'{"keys": [{"kty": "RSA", "n": "AQ", "e": "AQAB", "kid": "rsa"}]}',
        b'{"keys": [{"kty": "EC", "crv": "P-256", "x": "AA", "y": "AA", "kid": "ec"}]}',
        json.dumps({"keys": [RSA.public(use="enc"), EC.public(alg="ES512")]}).encode(),
        json.dumps(
            {"keys": [IssuerKey("RSA", "w", rsa.generate_private_key(65537, 1024)).public()]}
        ).encode(),
    ],
    ids=["empty", "list", "number", "secret", "tiny", "off the curve", "other uses", "weak"],
)
def test_keys_that_cannot_be_used(document: bytes) -> None:
    with pytest.raises(OidcError):
        read_keys(document)


def test_what_an_issuer_may_not_answer() -> None:
    with Issuer(RSA) as issuer:
        options = replace(OPTIONS, issuer=issuer.url)
        assert set(fetch_keys(options)) == {"rsa"}
        good_discovery = issuer.documents["/.well-known/openid-configuration"]
        for discovery in (
            {"issuer": "https://evil.example", "jwks_uri": f"{issuer.url}/keys"},
            {"issuer": issuer.url, "jwks_uri": "http://198.51.100.1/keys"},
            {"issuer": issuer.url, "jwks_uri": "file:///etc/passwd"},
            {"issuer": issuer.url},
            b"<html>",
            b" " * 2_000_000,
        ):
            issuer.documents["/.well-known/openid-configuration"] = lambda found=discovery: found
            with pytest.raises(OidcError):
                fetch_keys(options)
        issuer.documents["/.well-known/openid-configuration"] = good_discovery
        del issuer.documents["/keys"]
        with pytest.raises(OidcError, match="404"):
            fetch_keys(options)
    with pytest.raises(OidcError):
        fetch_keys(options)


@pytest.mark.parametrize(
    ("url", "safe"),
    [
        ("https://login.example/x", True),
        ("http://127.0.0.1:80", True),
        ("http://[::1]/", True),
        ("http://localhost", True),
        ("http://login.example", False),
        ("http://localhost.example", False),
        ("file:///x", False),
        ("https://", False),
        ("http://[", False),
    ],
)
def test_urls(url: str, safe: bool) -> None:
    assert is_safe_url(url) is safe


# -- logins -------------------------------------------------------------------------------------------


def options(keys: Path, **changes: Any) -> BrokerOptions:
    return BrokerOptions(
        accounts=(AccountOptions(name="A"), AccountOptions(name="B")),
        ping_interval_s=3600.0,
        authorization=Authorization(
            users=(User(name="static", password="static"),),
            timeout_s=0.5,
            oidc=replace(PLACED, jwks_file=str(keys), **changes),
        ),
    )


@pytest.fixture
def keys(tmp_path: Path) -> Path:
    path = tmp_path / "keys.json"
    path.write_bytes(KEYS)
    return path


@pytest.fixture
def loop() -> FakeLoop:
    return FakeLoop()


@pytest.fixture
def broker(keys: Path, loop: FakeLoop) -> Broker:
    return Broker(options(keys), server_id="N", loop=loop.as_loop(), clock=loop.time)


def joined(broker: Broker, loop: FakeLoop, **connect: Any) -> FakeClient:
    client = FakeClient(broker)
    client.connect(**connect)
    loop.finish_jobs()
    loop.run_ready()
    return client


@pytest.mark.parametrize("field", ["auth_token", "jwt"])
def test_a_token_lets_in(broker: Broker, loop: FakeLoop, field: str) -> None:
    client = joined(broker, loop, **{field: good(team="A")})
    assert not client.closed
    assert client.connection.account.name == "A"
    assert client.say(b"PING\r\n").startswith(b"PONG\r\n")


def test_a_bad_token_does_not(broker: Broker, loop: FakeLoop) -> None:
    client = joined(broker, loop, auth_token=good(team="A", exp=NOW - HOUR))
    assert client.heard() == REFUSED


def test_users_of_the_configuration_log_in_as_before(broker: Broker, loop: FakeLoop) -> None:
    assert not joined(broker, loop, user="static", **{"pass": "static"}).closed
    assert joined(broker, loop, user="static", **{"pass": "wrong"}).closed
    assert joined(broker, loop).closed


def test_the_end_of_a_token_ends_the_connection(broker: Broker, loop: FakeLoop) -> None:
    client = joined(broker, loop, auth_token=good(team="A"))
    assert not client.closed
    before = client.connection.session.identity
    client.connection.session.identity = replace(before, grant=replace(before.grant, ends=time.time() - 1))
    loop.advance(HOUR + 60)
    assert b"User Authentication Expired" in client.heard()


def test_unknown_keys_are_fetched_once_in_ten_seconds(broker: Broker, loop: FakeLoop, keys: Path) -> None:
    assert not joined(broker, loop, auth_token=good(team="A")).closed
    new = IssuerKey("EC", "new")
    keys.write_text(json.dumps({"keys": [new.public()]}))
    text = signed(new, "ES256", claims(ISSUER, team="A"))
    assert joined(broker, loop, auth_token=text).closed  # keys were fetched just now
    loop.advance(11)
    assert not joined(broker, loop, auth_token=text).closed
    assert joined(broker, loop, auth_token=good(team="A")).closed  # the old key is gone


def test_a_login_waits_for_keys_no_longer_than_any(broker: Broker, loop: FakeLoop) -> None:
    client = FakeClient(broker)
    assert client.connect(auth_token=good(team="A")) == b""
    other = joined_without_keys(broker)
    assert not other.closed
    loop.advance(1)
    assert client.heard() == REFUSED
    loop.finish_jobs()
    loop.run_ready()
    assert client.closed


def joined_without_keys(broker: Broker) -> FakeClient:
    client = FakeClient(broker)
    client.connect(user="static", **{"pass": "static"})
    return client


def test_keys_last_a_day_without_their_issuer(broker: Broker, loop: FakeLoop, keys: Path) -> None:
    assert not joined(broker, loop, auth_token=good(team="A")).closed
    keys.unlink()
    for hours in (2, 20):
        loop.advance(hours * HOUR)
        assert not joined(broker, loop, auth_token=good(team="A")).closed
    loop.advance(3 * HOUR)
    assert joined(broker, loop, auth_token=good(team="A")).closed


def test_a_reload_decides_again(broker: Broker, loop: FakeLoop, keys: Path) -> None:
    client = joined(broker, loop, auth_token=good(team="A", roles=["reader"]))
    reload.apply(broker, options(keys, default_permissions=READER))
    assert not client.closed
    assert client.connection.session.identity.permissions == READER
    reload.apply(broker, options(keys, accounts=("B",)))
    assert client.closed


def test_tickets_end_with_their_token(broker: Broker, loop: FakeLoop) -> None:
    identity = joined(broker, loop, auth_token=good(team="A")).connection.session.identity
    assert broker.authenticator.still_known(identity) is not None
    ended = replace(identity, grant=replace(identity.grant, ends=time.time() - 1))
    assert broker.authenticator.still_known(ended) is None
    candidate = broker.authenticator.candidate(ClientCredentials(token=good(team="A")))
    assert candidate is not None
    assert candidate.verify() is None


def test_keys_are_fetched_when_there_is_a_thread_again(
    broker: Broker, loop: FakeLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise RuntimeError("can't start new thread")

    ring = KeyRing(broker, OPTIONS)
    with monkeypatch.context() as patch:
        patch.setattr(loop, "run_in_executor", refuse)
        with pytest.raises(RuntimeError):
            ring.renew(lambda: None)
    loop.advance(11)
    before = len(loop.jobs)
    ring.renew(lambda: None)
    assert len(loop.jobs) == before + 1
