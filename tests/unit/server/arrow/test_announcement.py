"""The address that a client is given."""

from types import SimpleNamespace
from typing import Any

import pytest

from millstream.arrow.options import ArrowOptions
from millstream.broker.auth import ClientAuthenticator, Identity
from millstream.broker.options import BrokerOptions, ConnectionType
from millstream.server.arrow.announcement import Announcement
from millstream.server.arrow.tickets import Tickets

REPLY = b"_INBOX.x"


def told(options: ArrowOptions, ip: str, sockname: str = "10.0.0.7", scheme: str = "http") -> dict[str, Any]:
    """The answer to a client at `ip` that reached the server at `sockname`."""
    endpoint: Any = SimpleNamespace(port=8223, tickets=Tickets(), scheme=scheme)
    transport = SimpleNamespace(get_extra_info=lambda name: (sockname, 4222))
    client = SimpleNamespace(
        session=SimpleNamespace(
            ip=ip,
            identity=Identity(account="A"),
            kind=ConnectionType.STANDARD,
            connect=SimpleNamespace(millstream_key=""),
        ),
        transport=transport,
    )
    server: Any = SimpleNamespace(broker=SimpleNamespace(authenticator=ClientAuthenticator(BrokerOptions())))
    announcement = Announcement(server, options, endpoint)
    account: Any = SimpleNamespace(name="A")
    return announcement._info(account, client, REPLY)


@pytest.mark.parametrize(
    ("options", "ip", "sockname", "urls"),
    [
        (ArrowOptions(), "127.0.0.1", "127.0.0.1", ["http://127.0.0.1:8223"]),
        (ArrowOptions(), "::1", "::1", ["http://127.0.0.1:8223"]),
        (ArrowOptions(), "::ffff:127.0.0.1", "::ffff:127.0.0.1", ["http://127.0.0.1:8223"]),
        (ArrowOptions(), "10.0.0.5", "10.0.0.7", []),
        (ArrowOptions(host="localhost"), "10.0.0.5", "10.0.0.7", []),
        (ArrowOptions(host="0.0.0.0"), "10.0.0.5", "10.0.0.7", ["http://10.0.0.7:8223"]),
        (ArrowOptions(host="0.0.0.0"), "::ffff:10.0.0.5", "::ffff:10.0.0.7", ["http://10.0.0.7:8223"]),
        (ArrowOptions(host="::"), "fe80::5", "fe80::7", ["http://[fe80::7]:8223"]),
        (ArrowOptions(host="10.0.0.7"), "10.0.0.5", "10.0.0.7", ["http://10.0.0.7:8223"]),
        (ArrowOptions(advertise="x.org"), "10.0.0.5", "10.0.0.7", ["http://x.org:8223"]),
        (ArrowOptions(advertise="x.org:9"), "10.0.0.5", "10.0.0.7", ["http://x.org:9"]),
    ],
)
def test_a_client_is_told_an_address_that_it_can_reach(
    options: ArrowOptions, ip: str, sockname: str, urls: list[str]
) -> None:
    info = told(options, ip, sockname)
    assert info["urls"] == urls
    assert ("ticket" in info) == bool(urls)


def test_the_scheme_is_that_of_the_endpoint() -> None:
    assert told(ArrowOptions(), "127.0.0.1", scheme="https")["urls"] == ["https://127.0.0.1:8223"]


def test_a_client_of_another_account_gets_no_ticket() -> None:
    endpoint: Any = SimpleNamespace(port=8223, tickets=Tickets(), scheme="http")
    client = SimpleNamespace(session=SimpleNamespace(ip="127.0.0.1", identity=Identity(account="B")))
    announcement = Announcement(None, ArrowOptions(), endpoint)  # type: ignore[arg-type]
    account: Any = SimpleNamespace(name="A")
    assert announcement._info(account, client, REPLY) == {"version": 1, "urls": []}
    assert announcement._info(account, None, REPLY) == {"version": 1, "urls": []}
