"""Tickets: whose they are, for how long, and that nobody else can make one."""

import base64

import msgspec
import pytest

from millstream.broker.auth import ClientAuthenticator, Identity
from millstream.broker.options import (
    GLOBAL_ACCOUNT,
    Authorization,
    BrokerOptions,
    ConnectionType,
    Permissions,
    SubjectRules,
    User,
)
from millstream.server.arrow.tickets import LIFETIME_NS, Tickets

BY_TCP = frozenset({ConnectionType.STANDARD})
ANN = Identity(user="ann", label="user:ann", account="A", connection_types=BY_TCP)
NOW = 1_700_000_000_000_000_000


def test_a_ticket_tells_whose_it_is_until_it_expires() -> None:
    tickets = Tickets()
    ticket, expires = tickets.issue(ANN, NOW)
    assert expires == NOW + LIFETIME_NS
    assert tickets.check(ticket, NOW) == ANN
    assert tickets.check(ticket, expires - 1) == ANN
    assert tickets.check(ticket, expires) is None


def test_a_ticket_of_another_server_is_worth_nothing() -> None:
    ticket, _ = Tickets().issue(ANN, NOW)
    assert Tickets().check(ticket, NOW) is None


def test_no_bit_of_a_ticket_can_be_changed() -> None:
    tickets = Tickets()
    ticket, _ = tickets.issue(ANN, NOW)
    for at in range(len("mst1."), len(ticket)):
        other = "A" if ticket[at] != "A" else "B"
        changed = ticket[:at] + other + ticket[at + 1 :]
        if at == len(ticket) - 1 and _decoded(changed) == _decoded(ticket):
            continue  # the last character has bits that say nothing
        assert tickets.check(changed, NOW) is None


def _decoded(ticket: str) -> bytes:
    seal = ticket.rpartition(".")[2]
    return base64.urlsafe_b64decode(seal + "=" * (-len(seal) % 4))


@pytest.mark.parametrize("text", ["mst1.", "mst1..", "mst1.x", "mst1.é.é", "mst1.\ud800.x", "mst1.a.b.c"])
def test_what_is_no_ticket_is_refused(text: str) -> None:
    assert Tickets().check(text, NOW) is None


def test_a_ticket_has_no_permissions_of_its_own() -> None:
    rules = Permissions(publish=SubjectRules(allow=("x",)))
    tickets = Tickets()
    ticket, _ = tickets.issue(msgspec.structs.replace(ANN, permissions=rules), NOW)
    assert tickets.check(ticket, NOW) == ANN


def known(authorization: Authorization, identity: Identity) -> Identity | None:
    return ClientAuthenticator(BrokerOptions(authorization=authorization)).still_known(identity)


def test_a_holder_is_looked_up_in_the_present_configuration() -> None:
    rules = Permissions(publish=SubjectRules(allow=("x",)))
    bob = User(name="bob", password="p", permissions=rules)
    claimed = Identity(user="bob", label="user:bob")
    found = known(Authorization(users=(bob,)), claimed)
    assert found is not None
    assert found.permissions == rules
    assert known(Authorization(users=(msgspec.structs.replace(bob, name="eve"),)), claimed) is None
    assert known(Authorization(users=(bob,)), msgspec.structs.replace(claimed, account="B")) is None


def test_a_holder_by_token_or_single_user_needs_that_to_be_configured_still() -> None:
    by_token = Identity(user="[REDACTED]", label="token")
    by_name = Identity(user="ann", label="user:ann")
    anybody = Identity()
    assert known(Authorization(token="t"), by_token) == by_token
    assert known(Authorization(token="t"), by_name) is None
    assert known(Authorization(token="t"), anybody) is None
    assert known(Authorization(username="ann", password="p"), by_name) == by_name
    assert known(Authorization(username="eve", password="p"), by_name) is None
    assert known(Authorization(), anybody) == anybody
    assert known(Authorization(), msgspec.structs.replace(anybody, account="B")) is None
    assert anybody.account == GLOBAL_ACCOUNT
