"""Logins: tokens of operator mode, and the headers of proxies."""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Iterator
from typing import Any

from millstream.base.errors import MillstreamError
from millstream.broker.operator.account import claimed_account
from millstream.broker.user_claims import permissions_of
from millstream.claims.decode import read_account, read_activation, read_operator, read_user
from millstream.claims.templates import filled
from millstream.claims.token import read_token
from millstream.claims.validation import account_issues, activation_issues, user_issues
from millstream.protocol.proxy_header import BadProxyHeader, read_proxy_header
from tests.kits.operator import Key, Operator, encoded

_OPERATOR = Operator("fuzz")
_ACCOUNT = _OPERATOR.account("A")
_HEADER = encoded(b'{"typ":"JWT","alg":"ed25519-nkey"}')
_RULES = {"allow": ["a.{{name()}}", "b.{{tag(x)}}"], "deny": ["c q"]}
_BODIES: dict[str, dict[str, Any]] = {
    "operator": {"signing_keys": ["O"], "system_account": "A", "assert_server_version": "2.1.0"},
    "account": {
        "limits": {"subs": -1, "imports": -1, "exports": -1, "wildcards": True, "tiered_limits": {"R1": {}}},
        "exports": [{"subject": "a.*", "type": "service", "account_token_position": 2}],
        "imports": [
            {"subject": "a.*", "account": _ACCOUNT.public, "type": "stream", "local_subject": "b.$1"}
        ],
        "signing_keys": ["A", {"kind": "user_scope", "key": "A", "template": {"pub": _RULES}}],
        "revocations": {"*": 1},
        "mappings": {"a.*": [{"subject": "b.$1", "weight": 50, "cluster": ""}]},
        "default_permissions": {"sub": _RULES, "resp": {"max": 1, "ttl": 2}},
        "authorization": {"auth_users": ["U"], "allowed_accounts": ["*"], "xkey": "X"},
        "trace": {"dest": "a", "sampling": 5},
    },
    "user": {
        "pub": _RULES,
        "src": ["10.0.0.0/8"],
        "times": [{"start": "01:00:00", "end": "02:00:00"}],
        "times_location": "Europe/Berlin",
        "tags": ["x:1", "x:2"],
    },
    "activation": {"subject": "a.>", "kind": "service", "issuer_account": "A"},
}
TOKEN_WORDS = (b'"type":"user"', b'"version":1', b"{{", b"}}", b"-1", b"null", b"[]", b"$1", b".>", b"*")
PROXY_WORDS = (b"PROXY ", b"TCP4 ", b"TCP6 ", b"\r\n", b"\r\n\r\n\x00\r\nQUIT\n", b"\x21\x11", b"::1")


def body_seeds() -> Iterator[bytes]:
    for kind, body in _BODIES.items():
        for version in (1, 2):
            yield json.dumps({**body, "type": kind, "version": version}).encode()


def check_bodies(data: bytes) -> Hashable:
    """Read the body as that of each kind of token, signed by the right key, and use what it says."""
    return tuple(_outcome(use, data) for use in (_operator, _account, _user, _activation))


def _outcome(use: Callable[[bytes], object], data: bytes) -> str:
    try:
        return str(use(data))
    except MillstreamError as error:
        return type(error).__name__


def _signed(key: Key, subject: str, data: bytes) -> str:
    claims = b'{"iss":"%b","sub":"%b","name":"n","iat":1,"nats":%b}' % (
        key.public.encode(),
        subject.encode(),
        data,
    )
    text = f"{_HEADER}.{encoded(claims)}"
    return f"{text}.{encoded(key.sign(text.encode()))}"


def _operator(data: bytes) -> object:
    return bool(read_operator(_signed(_OPERATOR.key, _OPERATOR.key.public, data)).body.signing_keys)


def _account(data: bytes) -> object:
    account = read_account(_signed(_OPERATOR.key, _ACCOUNT.public, data))
    if not (issues := account_issues(account)):
        claimed_account(account, strict=False, others={})
    return len(issues)


def _user(data: bytes) -> object:
    user = read_user(_signed(_ACCOUNT.key, Key("U", "fuzz").public, data))
    issues = user_issues(user)
    permissions_of(filled(user.body, user, read_account(_ACCOUNT.token)))
    return len(issues)


def _activation(data: bytes) -> object:
    return len(activation_issues(read_activation(_signed(_ACCOUNT.key, _ACCOUNT.public, data))))


def token_seeds() -> Iterator[bytes]:
    yield _ACCOUNT.token.encode()
    yield _ACCOUNT.user("fuzz").token.encode()
    yield _ACCOUNT.user("fuzz", version=1).token.encode()


def check_token(data: bytes) -> Hashable:
    return read_token(data.decode("utf-8", "replace")).kind


def proxy_seeds() -> Iterator[bytes]:
    yield b"PROXY TCP4 192.0.2.1 198.51.100.1 56324 4222\r\nCONNECT {}\r\n"
    yield b"PROXY TCP6 2001:db8::1 2001:db8::2 1 2\r\n"
    yield b"PROXY UNKNOWN\r\n"
    yield b"\r\n\r\n\x00\r\nQUIT\n\x21\x11\x00\x0c" + bytes(12) + b"PING\r\n"
    yield b"\r\n\r\n\x00\r\nQUIT\n\x21\x21\x00\x24" + bytes(36)
    yield b"\r\n\r\n\x00\r\nQUIT\n\x20\x00\x00\x00"


def check_proxy(data: bytes) -> Hashable:
    """Read a header whole and byte by byte: the result is the same, and known as soon as it can be."""
    whole = read_proxy_header(data)
    for cut in range(len(data)):
        try:
            part = read_proxy_header(data[:cut])
        except BadProxyHeader as error:
            raise AssertionError("a good header has a bad beginning") from error
        if part is not None and part != whole:
            raise AssertionError(f"{part} after {cut} bytes, {whole} at the end")
        if part is not None:
            break
    return whole is None, whole is not None and bool(whole.size), whole is not None and bool(whole.host)
