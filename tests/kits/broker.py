"""A broker on a loop that the tests hold in their hands, and short ways to talk to it."""

from typing import Any

from millstream.broker.broker import Broker
from millstream.broker.close_reason import CloseReason
from millstream.broker.connection import Connection
from millstream.broker.observer import Observer
from millstream.broker.options import AccountOptions, Authorization, BrokerOptions, User
from tests.kits.fake_transport import FakeClient, FakeLoop


class Recorder(Observer):
    """Notes what the broker tells."""

    def __init__(self) -> None:
        self.notes: list[tuple[object, ...]] = []

    def client_connected(self, connection: Connection) -> None:
        self.notes.append(("connected", connection.cid))

    def client_disconnected(self, connection: Connection, reason: CloseReason) -> None:
        self.notes.append(("disconnected", connection.cid, reason))

    def authentication_failed(self, connection: Connection) -> None:
        self.notes.append(("refused", connection.cid))

    def publish_refused(self, connection: Connection, subject: bytes) -> None:
        self.notes.append(("publish refused", connection.cid, subject))


def make_broker(observer: Observer | None = None, **options: Any) -> Broker:
    loop = FakeLoop()
    return Broker(
        BrokerOptions(**options),
        server_id="NSERVER",
        loop=loop.as_loop(),
        observer=observer,
        clock=loop.time,
    )


def loop_of(broker: Broker) -> FakeLoop:
    loop: object = broker.loop
    assert isinstance(loop, FakeLoop)
    return loop


def make_accounts(*accounts: AccountOptions, **options: Any) -> Broker:
    """A broker where each account has one user, of the same name and password."""
    users = tuple(User(name=each.name, password=each.name, account=each.name) for each in accounts)
    return make_broker(accounts=accounts, authorization=Authorization(users=users), **options)


def client(broker: Broker, user: str = "", **options: object) -> FakeClient:
    """A connected client, neither verbose nor pedantic."""
    new = FakeClient(broker)
    if user:
        options = {"user": user, "pass": user, **options}
    assert new.connect(**options) == b""
    assert not new.closed
    return new
