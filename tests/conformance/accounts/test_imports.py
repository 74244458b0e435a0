"""Accounts: isolated from each other, but for streams and services that one exports and one imports."""

import json
import re

import pytest

from tests.kits.conformance.clients import Dial, ServerFactory, login, message, publish
from tests.kits.reference import ServerProcess
from tests.kits.wire import WireClient

ACCOUNTS = """
accounts {
  SELLER {
    users: [ { user: seller, password: p } ]
    exports: [
      { stream: "news.>" }
      { stream: "log.>" }
      { stream: "vip.*", accounts: [BUYER] }
      { service: "price.*" }
      { service: "many", response_type: stream }
      { service: "chunks", response_type: chunked }
      { service: "vip.price", accounts: [BUYER] }
      { service: "who.asks" }
    ]
  }
  BUYER {
    users: [ { user: buyer, password: p } ]
    imports: [
      { stream: { account: SELLER, subject: "news.>" } }
      { stream: { account: SELLER, subject: "news.sport" }, to: "game" }
      { stream: { account: SELLER, subject: "log.>" }, prefix: "from.seller" }
      { stream: { account: SELLER, subject: "vip.*" }, to: "special.$1" }
      { service: { account: SELLER, subject: "price.*" } }
      { service: { account: SELLER, subject: "price.book" }, to: "book.price" }
      { service: { account: SELLER, subject: "many" } }
      { service: { account: SELLER, subject: "chunks" } }
      { service: { account: SELLER, subject: "vip.price" } }
      { service: { account: SELLER, subject: "who.asks" }, share: true }
    ]
  }
  STRANGER {
    users: [ { user: stranger, password: p } ]
    imports: [ { service: { account: SELLER, subject: "price.*" }, to: "ask.*" } ]
  }
}
"""

MAPPED_ACCOUNTS = """
accounts {
  SELLER {
    users: [ { user: seller, password: p } ]
    mappings: { price: cost }
    exports: [ { service: price } ]
  }
  BUYER {
    users: [ { user: buyer, password: p } ]
    mappings: { box: inbox }
    imports: [ { service: { account: SELLER, subject: price } } ]
  }
}
"""


@pytest.fixture
def server(shared_server: ServerFactory) -> ServerProcess:
    return shared_server(config=ACCOUNTS, monitor=True)


@pytest.fixture
def seller(server: ServerProcess, join: Dial) -> WireClient:
    return login(join, server, "seller")


@pytest.fixture
def buyer(server: ServerProcess, join: Dial) -> WireClient:
    return login(join, server, "buyer")


@pytest.fixture
def stranger(server: ServerProcess, join: Dial) -> WireClient:
    return login(join, server, "stranger")


def test_accounts_do_not_hear_each_other(seller: WireClient, buyer: WireClient, stranger: WireClient) -> None:
    for client in (seller, buyer, stranger):
        client.round_trip(b"SUB > 1\r\n")
    assert stranger.round_trip(publish("secret", b"x")) == message("secret", 1, b"x")
    assert seller.round_trip() == buyer.round_trip() == b""


def test_remote_account_is_told(seller: WireClient, buyer: WireClient) -> None:
    assert (seller.info["remote_account"], buyer.info["remote_account"]) == ("SELLER", "BUYER")


def test_queue_groups_do_not_cross_accounts(seller: WireClient, stranger: WireClient) -> None:
    seller.round_trip(b"SUB job g 1\r\n")
    stranger.round_trip(b"SUB job g 1\r\n")
    assert stranger.round_trip(publish("job") * 20) == message("job", 1) * 20
    assert seller.round_trip() == b""


# -- streams ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("subscription", "published", "seen_as"),
    [
        ("news.a", "news.a", "news.a"),
        ("news.*", "news.b", "news.b"),
        ("game", "news.sport", "game"),
        ("from.seller.log.x", "log.x", "from.seller.log.x"),
        ("from.seller.>", "log.x.y", "from.seller.log.x.y"),
        ("log.>", "log.x", None),
        ("from.seller.>", "log.*", "from.seller.log.*"),  # a published wildcard is a token like others
        ("from.seller.>", "log.>", "from.seller.log.>"),
        ("from.seller.log.*", "log.>", "from.seller.log.>"),
        ("news.*", "news.>", "news.>"),
        ("special.*", "vip.*", "special.*"),
        ("special.one", "vip.one", "special.one"),
        ("special.*", "vip.two", "special.two"),
        ("vip.*", "vip.two", None),
        ("other", "other", None),
    ],
)
def test_imported_stream(
    seller: WireClient, buyer: WireClient, subscription: str, published: str, seen_as: str | None
) -> None:
    buyer.round_trip(f"SUB {subscription} 1\r\n".encode())
    seller.round_trip(publish(published, b"x", "re.ply"))
    assert buyer.round_trip() == (message(seen_as, 1, b"x", "re.ply") if seen_as else b"")


def test_wide_subscription_gets_each_import(seller: WireClient, buyer: WireClient) -> None:
    buyer.round_trip(b"SUB > 1\r\n")
    seller.round_trip(publish("news.sport"))
    subjects = sorted(line.split()[1] for line in buyer.round_trip().split(b"\r\n") if line)
    assert subjects == [b"game", b"news.sport"]


def test_importer_cannot_publish_into_the_exporter(seller: WireClient, buyer: WireClient) -> None:
    seller.round_trip(b"SUB > 1\r\n")
    buyer.round_trip(publish("news.a") + publish("game"))
    assert seller.round_trip() == b""


def test_account_without_import_gets_nothing(seller: WireClient, stranger: WireClient) -> None:
    stranger.round_trip(b"SUB news.> 1\r\nSUB vip.* 2\r\n")
    seller.round_trip(publish("news.a") + publish("vip.a"))
    assert stranger.round_trip() == b""


def test_unsubscribing_from_an_imported_stream(seller: WireClient, buyer: WireClient) -> None:
    buyer.round_trip(b"SUB news.a 1\r\nSUB news.b 2\r\nUNSUB 2\r\n")
    seller.round_trip(publish("news.a") + publish("news.b"))
    assert buyer.round_trip() == message("news.a", 1)


def test_queue_group_on_an_imported_stream(server: ServerProcess, join: Dial, seller: WireClient) -> None:
    members = [login(join, server, "buyer") for _ in range(2)]
    for member in members:
        member.round_trip(b"SUB news.q g 1\r\n")
    seller.round_trip(publish("news.q") * 200)
    shares = [member.round_trip().count(b"MSG ") for member in members]
    assert sum(shares) == 200
    assert min(shares) > 20


# -- services ---------------------------------------------------------------------------------------


def _request_info(account: str) -> bytes:
    """Return a pattern for the header block that tells a service which account asks."""
    return rb"NATS/1\.0\r\nNats-Request-Info: \{\"acc\":\"%b\",\"rtt\":\d+\}\r\n\r\n" % account.encode()


def _ask(asking: WireClient, serving: WireClient, subject: str, served: str, answers: int = 1) -> bytes:
    """Let `asking` request, and return what it gets after `serving` answered so many times."""
    serving.round_trip(f"SUB {served} 1\r\n".encode())
    asking.round_trip(b"SUB box.* 1\r\n" + publish(subject, b"?", "box.7"))
    request = serving.read_frame()
    account = asking.info["remote_account"]
    pattern = rb"HMSG %b 1 (_R_\.\w+\.\w+) \d+ \d+\r\n%b\?\r\n" % (served.encode(), _request_info(account))
    match = re.fullmatch(pattern, request)
    assert match is not None, request
    reply = match.group(1)  # the requester's own inbox stays private
    serving.round_trip(publish(reply.decode(), b"!") * answers)
    return asking.round_trip()


def test_request_to_an_imported_service(buyer: WireClient, seller: WireClient) -> None:
    assert _ask(buyer, seller, "price.tea", "price.tea") == message("box.7", 1, b"!")


def test_request_to_a_renamed_service(buyer: WireClient, seller: WireClient) -> None:
    assert _ask(buyer, seller, "book.price", "price.book") == message("box.7", 1, b"!")


def test_request_to_a_service_renamed_by_wildcard(stranger: WireClient, seller: WireClient) -> None:
    assert _ask(stranger, seller, "ask.tea", "price.tea") == message("box.7", 1, b"!")


@pytest.mark.parametrize("token", ["*", ">"])
def test_request_to_a_wildcard_is_a_request(stranger: WireClient, seller: WireClient, token: str) -> None:
    seller.round_trip(b"SUB price.* 1\r\n")
    stranger.round_trip(publish(f"ask.{token}", b"?"))
    assert seller.round_trip().startswith(f"HMSG price.{token} 1 ".encode())


def test_mappings_hold_for_what_comes_from_another_account(shared_server: ServerFactory, join: Dial) -> None:
    server = shared_server(config=MAPPED_ACCOUNTS)
    seller, buyer = login(join, server, "seller"), login(join, server, "buyer")
    seller.round_trip(b"SUB > 1\r\n")
    buyer.round_trip(b"SUB box 1\r\nSUB inbox 2\r\n" + publish("price", b"?", "box"))
    request = seller.read_frame()
    assert request.startswith(b"HMSG cost 1 _R_.")
    seller.round_trip(publish(request.split()[3].decode(), b"!"))
    assert buyer.round_trip() == message("inbox", 2, b"!")


def test_only_one_answer_of_a_single_response_service(buyer: WireClient, seller: WireClient) -> None:
    assert _ask(buyer, seller, "price.tea", "price.tea", answers=3) == message("box.7", 1, b"!")


@pytest.mark.parametrize("subject", ["many", "chunks"])
def test_all_answers_of_a_streaming_service(buyer: WireClient, seller: WireClient, subject: str) -> None:
    assert _ask(buyer, seller, subject, subject, answers=3) == message("box.7", 1, b"!") * 3


def test_request_to_a_private_service(buyer: WireClient, seller: WireClient) -> None:
    assert _ask(buyer, seller, "vip.price", "vip.price") == message("box.7", 1, b"!")


def test_nobody_serves_an_imported_service(buyer: WireClient) -> None:
    answer = buyer.round_trip(b"SUB box.* 1\r\n" + publish("price.nobody", b"?", "box.1"))
    assert answer.startswith(b"HMSG box.1 1 ")
    assert b"NATS/1.0 503\r\n" in answer


def test_service_of_another_account_is_nobody(stranger: WireClient, seller: WireClient) -> None:
    seller.round_trip(b"SUB vip.price 1\r\n")
    answer = stranger.round_trip(b"SUB box.* 1\r\n" + publish("vip.price", b"?", "box.1"))
    assert b"NATS/1.0 503\r\n" in answer
    assert seller.round_trip() == b""


def test_request_without_reply_arrives(buyer: WireClient, seller: WireClient) -> None:
    seller.round_trip(b"SUB price.x 1\r\n")
    buyer.round_trip(publish("price.x", b"fire and forget"))
    pattern = rb"HMSG price\.x 1 \d+ \d+\r\n%bfire and forget\r\n" % _request_info("BUYER")
    assert re.fullmatch(pattern, seller.round_trip())


def test_service_that_knows_no_headers_gets_none(
    server: ServerProcess, join: Dial, buyer: WireClient
) -> None:
    old = login(join, server, "seller", headers=False, no_responders=False)
    old.round_trip(b"SUB price.x 1\r\n")
    buyer.round_trip(publish("price.x", b"fire and forget"))
    assert old.round_trip() == message("price.x", 1, b"fire and forget")


def test_shared_import_tells_who_asks(buyer: WireClient, seller: WireClient) -> None:
    seller.round_trip(b"SUB who.asks 1\r\n")
    buyer.round_trip(publish("who.asks", b"?", "box.1"))
    request = seller.read_frame()
    assert request.startswith(b"HMSG who.asks 1 _R_.")
    info = json.loads(re.search(rb"\r\nNats-Request-Info: (.*)\r\n\r\n\?\r\n", request).group(1))
    assert {key: info[key] for key in ("host", "acc", "user", "lang", "ver", "kind", "client_type")} == {
        "host": "127.0.0.1",
        "acc": "BUYER",
        "user": "buyer",
        "lang": "wire",
        "ver": "0",
        "kind": "Client",
        "client_type": "nats",
    }
    assert info["id"] == buyer.info["client_id"]
    assert info["server"] == buyer.info["server_id"]
    assert set(info) == {
        "rtt",
        "start",
        "host",
        "id",
        "acc",
        "user",
        "lang",
        "ver",
        "server",
        "kind",
        "client_type",
    }


def test_service_group_shares_requests(server: ServerProcess, join: Dial, buyer: WireClient) -> None:
    workers = [login(join, server, "seller") for _ in range(2)]
    for worker in workers:
        worker.round_trip(b"SUB price.* g 1\r\n")
    buyer.round_trip(publish("price.tea", b"?", "box.1") * 100)
    shares = [worker.round_trip().count(b"MSG ") for worker in workers]
    assert sum(shares) == 100
    assert min(shares) > 10


def test_headers_cross_accounts(buyer: WireClient, seller: WireClient) -> None:
    seller.round_trip(b"SUB price.h 1\r\n")
    buyer.round_trip(b"HPUB price.h 18 20\r\nNATS/1.0\r\nA: b\r\n\r\nhi\r\n")
    request = seller.round_trip()
    assert request.startswith(b"HMSG price.h 1 ")
    assert b"\r\nNATS/1.0\r\nA: b\r\nNats-Request-Info: {" in request
    assert request.endswith(b"}\r\n\r\nhi\r\n")
