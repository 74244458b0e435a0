import base64

import bcrypt
import nkeys as official
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millstream.base.nkeys import KeyKind, encode
from millstream.broker.auth import (
    AuthOptionError,
    ClientAuthenticator,
    ClientCredentials,
    Identity,
    decode_signature,
    is_bcrypt,
    passwords_match,
)
from millstream.broker.options import (
    AccountOptions,
    Authorization,
    BrokerOptions,
    ConnectionType,
    Permissions,
    SubjectRules,
    User,
    WebSocketOptions,
)

HASH = "$2b$04$tOJvBWY6ZHkf1Ik3xKr4LOM1WoXEU1GtiyZSwir73yeYi3dErdeA2"  # of "secret"
RULES = Permissions(publish=SubjectRules(allow=("foo",)))
OTHER_RULES = Permissions(subscribe=SubjectRules(deny=("bar",)))
KEY_PAIR = official.from_seed(bytearray(b"SUAIBDPBAUTWCWBKIO6XHQNINK5FWJW4OHLXC3HQ2KFE4PEJUA44CNHTAM"))
NKEY = KEY_PAIR.public_key.decode()
STRANGER = encode(KeyKind.USER, bytes(32))
NONCE = b"abcdefghijklmno"
SIGNATURE = base64.urlsafe_b64encode(KEY_PAIR.sign(NONCE)).rstrip(b"=").decode()


def authenticator(
    *users: User,
    token: str = "",
    username: str = "",
    password: str = "",
    no_auth_user: str = "",
    default_permissions: Permissions | None = None,
    accounts: tuple[AccountOptions, ...] = (),
    websocket: WebSocketOptions | None = None,
) -> ClientAuthenticator:
    return ClientAuthenticator(
        BrokerOptions(
            authorization=Authorization(
                users=users,
                token=token,
                username=username,
                password=password,
                no_auth_user=no_auth_user,
                default_permissions=default_permissions,
            ),
            accounts=accounts,
            websocket=websocket,
        )
    )


def login(server: ClientAuthenticator, **shown: object) -> Identity | None:
    candidate = server.candidate(ClientCredentials(nonce=NONCE, **shown))  # type: ignore[arg-type]
    return None if candidate is None else candidate.verify()


# -- nobody has to ---------------------------------------------------------------------------------


def test_without_configured_credentials_everybody_is_in_the_global_account() -> None:
    server = authenticator()
    assert not server.required
    assert not server.needs_nonce
    assert login(server) == Identity(account="$G")


@pytest.mark.parametrize(
    ("shown", "user", "label"),
    [
        ({"user": "a", "password": "x"}, "a", "user:a"),
        ({"token": "secret"}, "[REDACTED]", "token"),
        ({"nkey": NKEY, "user": "a"}, NKEY, f"nkey:{NKEY}"),
        ({"user": "a", "token": "secret"}, "a", "user:a"),
    ],
)
def test_unneeded_credentials_only_name_the_client(shown: dict[str, str], user: str, label: str) -> None:
    assert login(authenticator(), **shown) == Identity(user=user, label=label)


# -- one token, one user ---------------------------------------------------------------------------


@pytest.mark.parametrize("configured", ["secret", HASH])
@pytest.mark.parametrize(
    ("shown", "accepted"),
    [
        ({"token": "secret"}, True),
        ({"token": "secret "}, False),
        ({"token": ""}, False),
        ({"token": HASH}, False),
        ({"user": "secret"}, False),
        ({"password": "secret"}, False),
    ],
)
def test_a_token_is_compared(configured: str, shown: dict[str, str], accepted: bool) -> None:
    server = authenticator(token=configured)
    assert server.required
    assert (login(server, **shown) is not None) is accepted


def test_a_token_never_shows_up_in_an_identity() -> None:
    assert login(authenticator(token="secret"), token="secret") == Identity(user="[REDACTED]", label="token")


@pytest.mark.parametrize("configured", ["secret", HASH])
@pytest.mark.parametrize(
    ("shown", "accepted"),
    [
        ({"user": "me", "password": "secret"}, True),
        ({"user": "me", "password": "wrong"}, False),
        ({"user": "me"}, False),
        ({"user": "you", "password": "secret"}, False),
        ({"token": "secret"}, False),
        ({}, False),
    ],
)
def test_a_single_user_needs_its_password(configured: str, shown: dict[str, str], accepted: bool) -> None:
    server = authenticator(username="me", password=configured, default_permissions=RULES)
    identity = login(server, **shown)
    assert identity == (Identity(user="me", label="user:me") if accepted else None)


# -- users -----------------------------------------------------------------------------------------

USERS = (
    User(name="a", password="pa", permissions=RULES),
    User(name="b", password=HASH, account="B"),
    User(name="open", password=""),
    User(nkey=NKEY, account="K", permissions=OTHER_RULES),
)


@pytest.mark.parametrize(
    ("shown", "expected"),
    [
        ({"user": "a", "password": "pa"}, Identity(user="a", label="user:a", permissions=RULES)),
        ({"user": "b", "password": "secret"}, Identity(user="b", label="user:b", account="B")),
        ({"user": "open"}, Identity(user="open", label="user:open")),
        ({"user": "a", "password": "secret"}, None),
        ({"user": "a"}, None),
        ({"user": "b", "password": HASH}, None),
        ({"user": "open", "password": "x"}, None),
        ({"user": "nobody", "password": "pa"}, None),
        ({"user": "", "password": "pa"}, None),
        ({"token": "pa"}, None),
        ({}, None),
    ],
)
def test_a_listed_user_needs_its_password(shown: dict[str, str], expected: Identity | None) -> None:
    assert login(authenticator(*USERS), **shown) == expected


def test_only_a_bcrypt_check_is_slow() -> None:
    server = authenticator(*USERS)
    slow = {
        shown["user"]: candidate.slow
        for shown in ({"user": "a", "password": "pa"}, {"user": "b", "password": "secret"})
        if (candidate := server.candidate(ClientCredentials(**shown))) is not None
    }
    assert slow == {"a": False, "b": True}
    token = authenticator(token=HASH).candidate(ClientCredentials(token="secret"))
    assert token is not None
    assert token.slow


def test_choosing_a_candidate_never_runs_bcrypt(monkeypatch: pytest.MonkeyPatch) -> None:
    called = []
    monkeypatch.setattr(bcrypt, "checkpw", lambda *_: called.append(1) or True)
    candidate = authenticator(*USERS).candidate(ClientCredentials(user="b", password="secret"))
    assert candidate is not None
    assert not called
    assert candidate.verify() is not None
    assert called


def test_default_permissions_are_for_users_of_the_block_without_their_own() -> None:
    server = authenticator(
        User(name="plain", password="x"),
        User(name="own", password="x", permissions=RULES),
        User(name="elsewhere", password="x", account="A"),
        default_permissions=OTHER_RULES,
    )
    found = {
        name: identity.permissions
        for name in ("plain", "own", "elsewhere")
        if (identity := login(server, user=name, password="x")) is not None
    }
    assert found == {"plain": OTHER_RULES, "own": RULES, "elsewhere": None}


@pytest.mark.parametrize(
    ("allowed", "kind", "accepted"),
    [
        (None, ConnectionType.WEBSOCKET, True),
        (frozenset[ConnectionType](), ConnectionType.WEBSOCKET, True),
        (frozenset({ConnectionType.STANDARD}), ConnectionType.STANDARD, True),
        (frozenset({ConnectionType.STANDARD}), ConnectionType.WEBSOCKET, False),
        (frozenset({ConnectionType.STANDARD}), ConnectionType.IN_PROCESS, False),
        (frozenset({ConnectionType.WEBSOCKET, ConnectionType.MQTT}), ConnectionType.WEBSOCKET, True),
    ],
)
def test_a_user_may_be_bound_to_kinds_of_connection(
    allowed: frozenset[ConnectionType] | None, kind: ConnectionType, accepted: bool
) -> None:
    server = authenticator(
        User(name="a", password="x", connection_types=allowed), User(nkey=NKEY, connection_types=allowed)
    )
    by_password = login(server, user="a", password="x", connection_type=kind)
    by_key = login(server, nkey=NKEY, signature=SIGNATURE, connection_type=kind)
    assert (by_password is not None) is accepted
    assert (by_key is not None) is accepted


# -- nkeys -----------------------------------------------------------------------------------------


def test_an_nkey_signs_the_nonce() -> None:
    server = authenticator(*USERS)
    assert server.needs_nonce
    assert login(server, nkey=NKEY, signature=SIGNATURE) == Identity(
        user=NKEY, label=f"nkey:{NKEY}", account="K", permissions=OTHER_RULES, nkey=NKEY
    )


def test_plain_base64_is_taken_for_a_signature_too() -> None:
    padded = base64.b64encode(KEY_PAIR.sign(NONCE)).decode()
    assert login(authenticator(*USERS), nkey=NKEY, signature=padded) is not None


@pytest.mark.parametrize(
    "shown",
    [
        {"nkey": NKEY},
        {"nkey": NKEY, "signature": "not base64!"},
        {"nkey": NKEY, "signature": SIGNATURE[:-4]},
        {"nkey": NKEY, "signature": base64.b64encode(KEY_PAIR.sign(b"other")).decode()},
        {"nkey": STRANGER, "signature": SIGNATURE},
        {"nkey": "U", "signature": SIGNATURE},
        # a bad nkey is not saved by a good password
        {"nkey": STRANGER, "signature": SIGNATURE, "user": "a", "password": "pa"},
    ],
)
def test_a_bad_nkey_login_is_refused(shown: dict[str, str]) -> None:
    assert login(authenticator(*USERS), **shown) is None


def test_a_signature_is_good_for_one_nonce_only() -> None:
    candidate = authenticator(*USERS).candidate(
        ClientCredentials(nkey=NKEY, signature=SIGNATURE, nonce=b"another nonce")
    )
    assert candidate is not None
    assert candidate.verify() is None


def test_an_nkey_is_ignored_where_there_are_none() -> None:
    server = authenticator(User(name="a", password="pa"))
    assert not server.needs_nonce
    assert login(server, nkey=NKEY, signature=SIGNATURE, user="a", password="pa") is not None
    assert login(server, nkey=NKEY, signature=SIGNATURE) is None


@pytest.mark.parametrize(
    ("text", "data"),
    [
        ("", b""),
        ("AAAA", bytes(3)),
        ("AAA", bytes(2)),
        ("AA==", bytes(1)),
        ("-_-_", b"\xfb\xff\xbf"),
        ("+/+/", b"\xfb\xff\xbf"),
        ("A", None),
        ("AA=", None),
        ("-_==", None),
        ("A A", None),
        ("ÄÄÄÄ", None),
    ],
)
def test_signatures_are_decoded_strictly(text: str, data: bytes | None) -> None:
    assert decode_signature(text) == data


# -- nobody in particular --------------------------------------------------------------------------


def test_who_shows_nothing_becomes_the_no_auth_user() -> None:
    server = authenticator(*USERS, no_auth_user="a")
    assert login(server) == Identity(user="a", label="user:a", permissions=RULES)


@pytest.mark.parametrize(
    "shown", [{"user": "x"}, {"password": "x"}, {"token": "x"}, {"nkey": STRANGER}, {"user": "a"}]
)
def test_who_shows_something_wrong_does_not(shown: dict[str, str]) -> None:
    assert login(authenticator(*USERS, no_auth_user="a"), **shown) is None


def test_an_nkey_can_be_the_no_auth_user_and_then_needs_no_signature() -> None:
    server = authenticator(*USERS, no_auth_user=NKEY)
    expected = Identity(user=NKEY, label=f"nkey:{NKEY}", account="K", permissions=OTHER_RULES, nkey=NKEY)
    assert login(server) == expected
    assert login(server, nkey=NKEY) == expected


def test_a_no_auth_user_with_a_hashed_password_lets_nobody_in() -> None:
    """nats-server compares the hash with itself as if it were the password, and so do we."""
    assert login(authenticator(*USERS, no_auth_user="b")) is None


def test_a_no_auth_user_is_bound_to_its_kinds_of_connection_too() -> None:
    user = User(name="a", password="x", connection_types=frozenset({ConnectionType.WEBSOCKET}))
    server = authenticator(user, no_auth_user="a")
    assert login(server) is None
    assert not server.connect_may_be_skipped(ConnectionType.STANDARD)
    assert login(server, connection_type=ConnectionType.WEBSOCKET) is not None
    assert server.connect_may_be_skipped(ConnectionType.WEBSOCKET)


def test_a_no_auth_user_hides_that_authentication_is_required() -> None:
    open_server, closed_server = authenticator(*USERS, no_auth_user="a"), authenticator(*USERS)
    assert open_server.required
    assert not open_server.announced_for(ConnectionType.STANDARD)
    assert open_server.connect_may_be_skipped(ConnectionType.STANDARD)
    assert closed_server.announced_for(ConnectionType.STANDARD)
    assert not closed_server.connect_may_be_skipped(ConnectionType.STANDARD)
    assert not authenticator(*USERS, no_auth_user=NKEY).connect_may_be_skipped(ConnectionType.STANDARD)
    assert authenticator().connect_may_be_skipped(ConnectionType.STANDARD)


def test_users_of_the_system_account_alone_leave_the_server_open() -> None:
    server = authenticator(User(name="admin", password="x", account="$SYS"))
    stranger = login(server)
    assert stranger is not None
    assert stranger.account == "$G"
    assert stranger.user.startswith("nats-")
    assert login(authenticator(User(name="admin", password="x", account="$SYS"))) == stranger
    assert login(server, user="admin", password="x") == Identity(
        user="admin", label="user:admin", account="$SYS"
    )
    assert login(server, user="admin", password="y") is None
    assert login(server, password="y") is None
    assert login(server, user=stranger.user) is None
    assert server.announced_for(ConnectionType.STANDARD)
    assert server.connect_may_be_skipped(ConnectionType.STANDARD)


@pytest.mark.parametrize(
    "server",
    [
        authenticator(User(name="admin", password="x", account="$SYS"), accounts=(AccountOptions(name="A"),)),
        authenticator(User(name="admin", password="x", account="$SYS"), User(name="a", password="x")),
    ],
)
def test_any_other_account_or_user_closes_it(server: ClientAuthenticator) -> None:
    assert login(server) is None


# -- passwords -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("password", "hashed"),
    [
        (HASH, True),
        ("$2a$11$", True),
        ("$2x$11$abc", True),
        ("$2y$04$abc", True),
        ("$2c$11$abc", False),
        ("$2a$1$abc", False),
        ("x$2a$11$abc", False),
        ("", False),
        ("$", False),
    ],
)
def test_a_hash_is_recognised_by_its_prefix(password: str, hashed: bool) -> None:
    assert is_bcrypt(password) is hashed


@pytest.mark.parametrize("prefix", ["$2a$", "$2b$", "$2y$", "$2x$"])
def test_every_kind_of_hash_is_checked(prefix: str) -> None:
    assert passwords_match(prefix + HASH[4:], "secret")
    assert not passwords_match(prefix + HASH[4:], "Secret")


@pytest.mark.parametrize("given_password", ["", "secret", "x" * 100, "\0", "ü", "\ud800"])
def test_a_damaged_hash_matches_nothing_and_breaks_nothing(given_password: str) -> None:
    assert not passwords_match("$2a$11$short", given_password)
    assert passwords_match(HASH, given_password) is (given_password == "secret")


def test_bcrypt_looks_at_the_first_72_bytes_only() -> None:
    hashed = bcrypt.hashpw(b"x" * 72, bcrypt.gensalt(4)).decode()
    assert passwords_match(hashed, "x" * 80)
    assert not passwords_match(hashed, "x" * 71)


@settings(max_examples=50)
@given(st.text(max_size=8), st.text(max_size=8))
def test_plain_passwords_match_only_themselves(configured: str, shown: str) -> None:
    assert passwords_match(configured, shown) is (configured == shown)
    assert passwords_match(configured, configured)


# -- contradictions --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("authorization", "websocket", "text"),
    [
        (Authorization(no_auth_user="x"), None, "users/nkeys are not defined"),
        (
            Authorization(users=(User(name="a", password="b"),), no_auth_user="x"),
            None,
            'no_auth_user: "x" not present as user or nkey in authorization block or account configuration',
        ),
        (Authorization(), WebSocketOptions(no_auth_user="x"), "users/nkeys are not defined"),
        (
            Authorization(users=(User(name="a"),)),
            WebSocketOptions(username="x"),
            "websocket authentication username not compatible with presence of users/nkeys",
        ),
        (
            Authorization(users=(User(name="a"),)),
            WebSocketOptions(token="x"),
            "websocket authentication token not compatible with presence of users/nkeys",
        ),
        (Authorization(users=(User(name="a"), User(name="a"))), None, "listed twice"),
        (Authorization(users=(User(nkey=NKEY), User(nkey=NKEY))), None, "listed twice"),
        (Authorization(users=(User(),)), None, "needs a name or an nkey"),
        (Authorization(users=(User(nkey="UBAD"),)), None, "not a valid public nkey for a user"),
        (
            Authorization(
                users=(User(name="a", permissions=Permissions(publish=SubjectRules(deny=("a..b",)))),)
            ),
            None,
            'invalid permissions for user "a": publish deny: subject "a..b" is not a valid subject',
        ),
        (
            Authorization(default_permissions=Permissions(publish=SubjectRules(deny=("",)))),
            None,
            "invalid permissions for default_permissions: publish deny",
        ),
    ],
)
def test_contradicting_options_are_refused(
    authorization: Authorization, websocket: WebSocketOptions | None, text: str
) -> None:
    with pytest.raises(AuthOptionError) as caught:
        ClientAuthenticator(BrokerOptions(authorization=authorization, websocket=websocket))
    assert text in str(caught.value)
