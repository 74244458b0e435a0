"""Auth callout in operator mode: an account delegates its logins, and may place users in other accounts."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.kits.callout import SUBJECT, CalloutRequest, CalloutService, CurveKey
from tests.kits.conformance.clients import (
    AUTHORIZATION_VIOLATION,
    Dial,
    Message,
    ServerFactory,
    publish,
    publish_refused,
)
from tests.kits.operator import Account, Key, Operator, User
from tests.kits.reference import ServerProcess
from tests.kits.wire import WireClient

OPERATOR = Operator("callout")
SIGNER, SCOPED, STRANGER = (Key("A", f"callout {name}") for name in ("signer", "scoped", "stranger"))
CURVE = CurveKey("operator")
SERVICE_USER = Key("U", "DELEGATING service").public
OPEN = OPERATOR.account(
    "OPEN",
    signing_keys=[
        {
            "kind": "user_scope",
            "key": SCOPED.public,
            "role": "reader",
            "template": {"pub": {"allow": ["$SYS.>"]}, "sub": {"allow": ["_INBOX.>"]}, "subs": -1},
        }
    ],
)
CLOSED = OPERATOR.account("CLOSED")
DELEGATING = OPERATOR.account(
    "DELEGATING",
    signing_keys=[SIGNER.public],
    authorization={"auth_users": [SERVICE_USER], "allowed_accounts": [OPEN.public]},
)
ENCRYPTING = DELEGATING.but(authorization={"auth_users": [SERVICE_USER], "xkey": CURVE.public})
ANYWHERE = DELEGATING.but(authorization={"auth_users": [SERVICE_USER], "allowed_accounts": ["*"]})
MORE = "authorization { timeout: 60 }"


@pytest.fixture
def server(shared_server: ServerFactory) -> ServerProcess:
    return shared_server(config=OPERATOR.config([OPEN, CLOSED, DELEGATING], MORE), monitor=True)


@pytest.fixture
def service(server: ServerProcess, dial: Dial) -> CalloutService:
    return CalloutService(DELEGATING.user("service").join(dial, server), DELEGATING.key)


def come(dial: Dial, server: ServerProcess, who: User, **options: Any) -> WireClient:
    client = dial(server)
    nonce = client.read_info()["nonce"]
    client.send_connect(jwt=who.token, sig=who.signature(nonce), **options)
    client.send(b"PING\r\n")
    return client


def let_in(client: WireClient) -> dict[str, Any]:
    """Return who the client is."""
    client.read_until_pong()
    client.send(b"SUB _INBOX.me me\r\n" + publish("$SYS.REQ.USER.INFO", b"", "_INBOX.me"))
    frames = iter(client.read_frame, b"")
    info: dict[str, Any] = Message.read(next(each for each in frames if each.startswith(b"MSG"))).json["data"]
    return info


def test_request(server: ServerProcess, service: CalloutService, dial: Dial) -> None:
    ann = DELEGATING.user("ann", pub={"allow": ["nothing"]})
    client = come(dial, server, ann, user="me", name="n", **{"pass": "word"})
    request = service.next_request()
    assert request.claims["sub"] == DELEGATING.public
    details, options = request.body["client_info"], request.body["connect_opts"]
    assert details["nonce"] == client.info["nonce"]
    assert (options["jwt"], options["user"], options["pass"]) == (ann.token, "me", "word")
    assert options["sig"] == ann.signature(client.info["nonce"])
    service.allow(request, name="ann of the service", sub={"allow": ["_INBOX.>"]})
    info = let_in(client)
    assert info["user"] == "ann of the service"
    assert info["account"] == DELEGATING.public
    assert info["permissions"] == {"publish": {"deny": [SUBJECT]}, "subscribe": {"allow": ["_INBOX.>"]}}


def test_users_of_the_service_log_in_themselves(
    server: ServerProcess, service: CalloutService, dial: Dial
) -> None:
    assert service.client.round_trip(publish(SUBJECT, b"")) == publish_refused(SUBJECT)
    second = DELEGATING.user("service").join(dial, server)
    assert second.round_trip() == b""


@pytest.mark.parametrize(
    ("answer", "account"),
    [
        pytest.param(
            lambda service, asked: service.allow(asked, signer=SIGNER, issuer_account=DELEGATING.public),
            DELEGATING,
            id="a signing key",
        ),
        pytest.param(
            lambda service, asked: service.answer(
                asked,
                signer=SIGNER,
                issuer_account=DELEGATING.public,
                jwt=service.user_token(asked),
            ),
            DELEGATING,
            id="an answer of a signing key",
        ),
        pytest.param(
            lambda service, asked: service.allow(asked, signer=OPEN.key), OPEN, id="another account"
        ),
        pytest.param(
            lambda service, asked: service.allow(
                asked, signer=SCOPED, issuer_account=OPEN.public, scoped=True
            ),
            OPEN,
            id="a scoped user",
        ),
    ],
)
def test_placement(
    server: ServerProcess,
    service: CalloutService,
    dial: Dial,
    answer: Callable[[CalloutService, CalloutRequest], None],
    account: Account,
) -> None:
    client = come(dial, server, DELEGATING.user("ann"))
    answer(service, service.next_request())
    info = let_in(client)
    assert info["account"] == account.public


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(lambda service, asked: service.allow(asked, signer=CLOSED.key), id="not allowed"),
        pytest.param(lambda service, asked: service.allow(asked, signer=STRANGER), id="a stranger"),
        pytest.param(
            lambda service, asked: service.allow(asked, signer=STRANGER, issuer_account=DELEGATING.public),
            id="a stranger for the account",
        ),
        pytest.param(
            lambda service, asked: service.allow(asked, signer=STRANGER, issuer_account=OPEN.public),
            id="a stranger for another account",
        ),
        pytest.param(
            lambda service, asked: service.allow(asked, signer=SCOPED, issuer_account=OPEN.public, payload=1),
            id="a scoped user with limits",
        ),
        pytest.param(
            lambda service, asked: service.answer(asked, signer=STRANGER, jwt=service.user_token(asked)),
            id="an answer of a stranger",
        ),
        pytest.param(lambda service, asked: service.refuse(asked, "no"), id="an error"),
    ],
)
def test_who_is_refused(
    server: ServerProcess,
    service: CalloutService,
    dial: Dial,
    answer: Callable[[CalloutService, CalloutRequest], None],
) -> None:
    client = come(dial, server, DELEGATING.user("ann"))
    answer(service, service.next_request())
    assert client.read_until_closed() == AUTHORIZATION_VIOLATION


def test_any_account(shared_server: ServerFactory, dial: Dial) -> None:
    server = shared_server(config=OPERATOR.config([CLOSED, ANYWHERE], MORE))
    service = CalloutService(ANYWHERE.user("service").join(dial, server), CLOSED.key)
    client = come(dial, server, ANYWHERE.user("ann"))
    request = service.next_request()
    service.answer(request, signer=ANYWHERE.key, jwt=service.user_token(request))
    assert let_in(client)["account"] == CLOSED.public


def test_encryption(shared_server: ServerFactory, dial: Dial) -> None:
    server = shared_server(config=OPERATOR.config([ENCRYPTING], MORE))
    service = CalloutService(ENCRYPTING.user("service").join(dial, server), ENCRYPTING.key, CURVE)
    client = come(dial, server, ENCRYPTING.user("ann"))
    request = service.next_request()
    # Who can encrypt an answer needs no other signature.
    service.answer(request, signer=STRANGER, jwt=service.user_token(request))
    assert let_in(client)["account"] == ENCRYPTING.public
