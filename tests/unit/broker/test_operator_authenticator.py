"""Users of operator mode: the terms of their tokens, and tokens that contradict themselves."""

import time
from typing import Any

import pytest

from millstream.broker.auth import Candidate, ClientCredentials, Decided, Login
from millstream.broker.callout import CalloutRules
from millstream.broker.operator.account import claimed_account
from millstream.broker.operator.authenticator import OperatorAuthenticator
from millstream.broker.options import Trust
from millstream.claims.decode import read_account
from tests.kits.operator import UNLIMITED, Account, Key, Operator, User

OPERATOR = Operator("unit")
TRUST = Trust(keys=(OPERATOR.key.public,))
ACCOUNT = OPERATOR.account("A", mappings={"a": [{"subject": "b.{{bad(1)}}"}], "c": [{"subject": "d"}]})


def _nobody_asks(rules: CalloutRules, login: Login, done: Decided) -> None:
    raise AssertionError("there is no service to ask")


def candidate(user: User, account: Account = ACCOUNT, **more: Any) -> Candidate | None:
    claimed = claimed_account(read_account(account.token), strict=False, others={})
    authenticator = OperatorAuthenticator(TRUST, {account.public: claimed}, _nobody_asks)
    nonce = "nonce"
    credentials = ClientCredentials(
        **{
            "jwt": user.token,
            "signature": user.signature(nonce),
            "nonce": nonce.encode(),
            "host": "127.0.0.1",
            **more,
        }
    )
    return authenticator.candidate(credentials)


def test_terms_are_those_of_the_token() -> None:
    ends = int(time.time()) + 60
    found = candidate(ACCOUNT.user("ann", subs=5, payload=6, exp=ends))
    assert found is not None
    identity = found.verify()
    assert identity is not None
    assert identity.grant is not None
    terms = identity.grant
    assert (terms.max_subscriptions, terms.max_payload, terms.ends) == (5, 6, ends)
    assert (identity.account, terms.signer, terms.name) == (ACCOUNT.public, ACCOUNT.public, "ann")


def test_a_nonce_of_nothing_proves_nothing() -> None:
    user = ACCOUNT.user("ann")
    assert candidate(user, nonce=b"", signature=user.signature("")) is None


def test_a_rule_that_is_no_subject_refuses_the_user() -> None:
    assert candidate(ACCOUNT.user("ann", pub={"allow": ["a.>.b"]})) is None
    rules = OPERATOR.account("B", default_permissions={"sub": {"allow": ["a.>.b"]}})
    assert candidate(rules.user("ann"), rules) is None


def test_an_unknown_account_is_to_be_looked_up() -> None:
    other = OPERATOR.account("OTHER")
    found = candidate(other.user("ann"))
    assert found is not None
    assert found.needs_account == other.public
    assert found.verify() is None


def test_a_mapping_that_does_not_work_is_left_out() -> None:
    claimed = claimed_account(read_account(ACCOUNT.token), strict=False, others={})
    assert [each.source for each in claimed.options.mappings] == ["c"]


def test_users_of_a_callout_are_not_decided_about_here() -> None:
    service = ACCOUNT.user("service")
    account = OPERATOR.account("A", authorization={"auth_users": [service.public]})
    found = candidate(service, account)
    assert found is not None
    assert found.verify() is not None
    other = candidate(account.user("ann"), account)
    assert other is not None
    assert other.ask is not None
    assert other.verify() is None


@pytest.mark.parametrize(
    "template",
    [
        {"times": [{"start": "25:99", "end": "soon"}]},
        {"times_location": "Nowhere/At_all", "times": [{"start": "00:00:00", "end": "23:59:59"}]},
        {"src": ["300.1.2.3/99"]},
        {"proxy_required": True},
    ],
    ids=["hours", "zone", "network", "proxy"],
)
def test_a_template_that_cannot_be_applied_refuses_the_user(template: dict[str, Any]) -> None:
    key = Key("A", "scoped")
    scope = {"kind": "user_scope", "key": key.public, "template": {**UNLIMITED, **template}}
    scoped = OPERATOR.account("C", signing_keys=[scope])
    assert candidate(scoped.user("ann", signer=key, scoped=True), scoped) is None
