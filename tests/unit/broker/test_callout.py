"""Logins that a service decides about: how long they wait, what ends them, and what is left behind."""

from typing import Any

import pytest
from msgspec.structs import replace

from millstream.base.server_keys import SealError, ServerKeys
from millstream.broker import reload
from millstream.broker.broker import Broker
from millstream.broker.options import (
    AccountOptions,
    Authorization,
    BrokerOptions,
    CalloutOptions,
    User,
)
from tests.kits.broker import client, loop_of
from tests.kits.callout import SUBJECT, claims_of
from tests.kits.conformance.clients import Message, publish
from tests.kits.fake_transport import FakeClient, FakeLoop
from tests.kits.operator import UNLIMITED, Key, token

ISSUER, OTHER = Key("A", "issuer"), Key("A", "other")
TIMEOUT_S = 0.5  # the server asks after its clients later
REFUSED = b"-ERR 'Authorization Violation'\r\n"


def options(issuer: Key = ISSUER) -> BrokerOptions:
    return BrokerOptions(
        accounts=(AccountOptions(name="AUTH"), AccountOptions(name="APP")),
        authorization=Authorization(
            users=(User(name="auth", password="auth", account="AUTH"),),
            timeout_s=TIMEOUT_S,
            callout=CalloutOptions(issuer=issuer.public, users=("auth",), account="AUTH"),
        ),
    )


@pytest.fixture
def broker() -> Broker:
    loop, keys = FakeLoop(), ServerKeys()
    return Broker(
        options(), server_id=keys.server_id, xkey=keys.xkey, keys=keys, loop=loop.as_loop(), clock=loop.time
    )


def listening(broker: Broker) -> FakeClient:
    service = client(broker, "auth")
    assert service.say(f"SUB {SUBJECT} 1\r\n".encode()) == b""
    return service


def waiting(broker: Broker, **connect: Any) -> FakeClient:
    new = FakeClient(broker)
    assert new.connect(user="x", **connect) == b""
    assert not new.closed
    return new


def answer(
    service: FakeClient, signer: Key = ISSUER, limits: dict[str, Any] = UNLIMITED, **claims: Any
) -> None:
    message = Message.read(service.heard())
    request = claims_of(message.payload.decode())
    user = request["nats"]["user_nkey"]
    jwt = token(signer, "user", user, {**limits}, aud="APP", name="ann", **claims)
    response = token(signer, "authorization_response", user, {"jwt": jwt}, aud=request["iss"])
    service.say(publish(message.reply, response.encode()))


def test_a_login_waits_as_long_as_any(broker: Broker) -> None:
    listening(broker)
    late = waiting(broker)
    loop_of(broker).advance(TIMEOUT_S - 0.1)
    assert not late.closed
    loop_of(broker).advance(0.2)
    assert late.heard() == REFUSED
    assert late.closed


def test_nothing_is_left_of_logins_that_ended(broker: Broker) -> None:
    service = listening(broker)
    loop = loop_of(broker)
    space = broker.accounts["AUTH"].space
    before = space.tree.count
    gone = waiting(broker)
    gone.transport.peer_closes()
    service.heard()
    late = waiting(broker)
    service.heard()
    refused = waiting(broker)
    answer(service, OTHER)
    assert refused.heard() == REFUSED
    loop.advance(TIMEOUT_S + 1)
    assert late.closed
    assert space.tree.count == before
    assert list(broker.connections.values()) == [service.connection]


def test_an_answer_that_comes_too_late_lets_nobody_in(broker: Broker) -> None:
    service = listening(broker)
    late = waiting(broker)
    loop_of(broker).advance(TIMEOUT_S + 1)
    answer(service)
    assert late.heard() == REFUSED


def test_what_follows_connect_waits_for_the_answer(broker: Broker) -> None:
    service = listening(broker)
    new = FakeClient(broker)
    assert new.say(b'CONNECT {"user":"x","verbose":false}\r\nPING\r\n') == b""
    answer(service)
    assert new.heard().startswith(b"PONG\r\n")
    identity = new.connection.session.identity
    assert (identity.user, identity.account) == ("ann", "APP")


def test_limits_of_the_user_hold(broker: Broker) -> None:
    service = listening(broker)
    new = waiting(broker)
    answer(service, limits={"subs": 1, "data": -1, "payload": 4})
    assert b"maximum subscriptions exceeded" in new.say(b"SUB a 1\r\nSUB b 2\r\n")
    assert b"Maximum Payload Violation" in new.say(b"PUB a 5\r\nhello\r\n")


def test_an_answer_after_the_client_has_gone(broker: Broker) -> None:
    service = listening(broker)
    gone = waiting(broker)
    gone.transport.peer_closes()
    answer(service)
    assert not service.closed
    assert not broker.accounts["APP"].connections


def test_a_reload_keeps_those_whom_the_issuer_still_signs(broker: Broker) -> None:
    service = listening(broker)
    new = waiting(broker)
    answer(service)
    assert not new.closed
    reload.apply(broker, replace(options(), max_payload=2048))
    new.heard()
    assert not new.closed
    reload.apply(broker, options(OTHER))
    assert new.closed
    assert not service.closed


def test_a_service_is_asked_once_for_each_login(broker: Broker) -> None:
    service = listening(broker)
    first, second = waiting(broker), waiting(broker)
    frames = service.heard()
    assert frames.count(b"MSG ") == 2
    loop_of(broker).advance(TIMEOUT_S + 1)
    assert first.closed
    assert second.closed


def test_keys_that_do_not_fit() -> None:
    ours, theirs = ServerKeys(), ServerKeys()
    sealed = ours.seal(b"secret", theirs.xkey)
    assert b"secret" not in sealed
    assert theirs.open(sealed, ours.xkey) == b"secret"
    for data, writer in (
        (sealed, theirs.xkey),
        (sealed[4:], ours.xkey),
        (sealed[:-1], ours.xkey),
        (b"", ours.xkey),
        (sealed, ours.server_id),
        (sealed, "junk"),
    ):
        with pytest.raises(SealError):
            theirs.open(data, writer)


def asked(service: FakeClient) -> tuple[str, dict[str, Any]]:
    """Return the reply subject of the next request, and its claims."""
    message = Message.read(service.heard())
    return message.reply, claims_of(message.payload.decode())


def response(
    request: dict[str, Any], signer: Key = ISSUER, *, about: str = "", user: str = "", **body: Any
) -> bytes:
    """Return an answer to a request; `about` is another user than its own, and `user` that of the token."""
    own = request["nats"]["user_nkey"]
    jwt = token(signer, "user", user or about or own, {**UNLIMITED}, aud="APP", name="ann")
    body = body or {"jwt": jwt}
    return token(signer, "authorization_response", about or own, body, aud=request["iss"]).encode()


def test_the_first_answer_decides(broker: Broker) -> None:
    """Neither the same answer nor another one lets a second client in, or one in that was refused."""
    service = listening(broker)
    new = waiting(broker)
    reply, request = asked(service)
    allowed, refused = response(request), response(request, error="no")
    service.say(publish(reply, allowed) + publish(reply, refused) + publish(reply, allowed))
    assert not new.closed
    assert new.connection.session.identity.user == "ann"
    assert len(broker.accounts["APP"].connections) == 1
    second = waiting(broker)
    reply, request = asked(service)
    service.say(publish(reply, response(request, error="no")) + publish(reply, response(request)))
    assert second.heard() == REFUSED
    assert len(broker.accounts["APP"].connections) == 1


def test_an_answer_is_for_one_login(broker: Broker) -> None:
    """An answer, or its user, is worth nothing for another login, nor for one of another server."""
    service = listening(broker)
    first = waiting(broker)
    _, one = asked(service)
    for forged in (
        lambda other: response(one),
        lambda other: response(other, about=one["nats"]["user_nkey"]),
        lambda other: response(other, user=one["nats"]["user_nkey"]),
        lambda other: response(other | {"iss": OTHER.public}),
    ):
        second = waiting(broker)
        reply, other = asked(service)
        service.say(publish(reply, forged(other)))
        assert second.heard() == REFUSED
    assert not first.closed
    assert not broker.accounts["APP"].connections


def test_an_answer_without_its_signature_lets_nobody_in(broker: Broker) -> None:
    service = listening(broker)
    for forged in (
        lambda text: text.rpartition(b".")[0] + b".",
        lambda text: text[:-4] + (b"AAAA" if text[-4:] != b"AAAA" else b"BBBB"),
        lambda text: b".".join([b"eyJ0eXAiOiJKV1QiLCJhbGciOiJub25lIn0", *text.split(b".")[1:]]),
        lambda text: text * 2,
        lambda text: b"",
        lambda text: b"junk",
    ):
        new = waiting(broker)
        reply, request = asked(service)
        service.say(publish(reply, forged(response(request))))
        assert new.heard() == REFUSED
    assert not broker.accounts["APP"].connections


def test_a_client_cannot_answer_for_the_service(broker: Broker) -> None:
    """A message to the subject of an answer, but in another account, reaches nobody."""
    service = listening(broker)
    inside = waiting(broker)
    answer(service)
    new = waiting(broker)
    reply, request = asked(service)
    inside.say(publish(reply, response(request)))
    assert not new.closed
    loop_of(broker).advance(TIMEOUT_S + 0.1)
    assert new.heard() == REFUSED
