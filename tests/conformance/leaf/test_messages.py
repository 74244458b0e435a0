"""Messages and interest over a link, with Millstream as its hub, as its spoke, and as both."""

from collections.abc import Iterator

import pytest

from tests.kits.leaf import PAIR_NAMES, PAIRS, Linked, asked, client, leafz, linked
from tests.kits.reference import ServerKind, ServerProcess
from tests.kits.server.monitor import eventually
from tests.kits.wire import WireClient

Ends = tuple[ServerProcess, ServerProcess]


@pytest.fixture(scope="module", params=PAIRS, ids=PAIR_NAMES)
def kinds(request: pytest.FixtureRequest) -> tuple[ServerKind, ServerKind]:
    chosen: tuple[ServerKind, ServerKind] = request.param
    return chosen


@pytest.fixture(scope="module")
def pair(kinds: tuple[ServerKind, ServerKind]) -> Iterator[Linked]:
    with linked(kinds) as servers:
        yield servers


@pytest.fixture(params=["to the hub", "to the spoke"])
def ends(pair: Linked, request: pytest.FixtureRequest) -> Ends:
    """The server of the publisher, and that of the subscriber."""
    return (pair.spoke, pair.hub) if request.param == "to the hub" else (pair.hub, pair.spoke)


@pytest.fixture
def clients(ends: Ends) -> Iterator[tuple[WireClient, WireClient]]:
    with client(ends[0]) as near, client(ends[1]) as far:
        yield near, far


def test_a_message_with_reply_and_headers(pair: Linked, ends: Ends, clients: tuple[WireClient, ...]) -> None:
    near, far = clients
    far.round_trip(b"SUB m.* 1\r\n")
    pair.until_asked(ends[0], "m.*")
    near.send(b"PUB m.1 inbox 5\r\nhello\r\n")
    near.send(b"HPUB m.2 inbox 18 20\r\nNATS/1.0\r\na: b\r\n\r\nhi\r\n")
    near.send(b"PUB m.3 0\r\n\r\n")
    assert far.read_frames(3) == (
        b"MSG m.1 1 inbox 5\r\nhello\r\n"
        b"HMSG m.2 1 inbox 18 20\r\nNATS/1.0\r\na: b\r\n\r\nhi\r\n"
        b"MSG m.3 1 0\r\n\r\n"
    )


def test_a_request_and_its_answer(pair: Linked, ends: Ends, clients: tuple[WireClient, ...]) -> None:
    near, far = clients
    far.round_trip(b"SUB service 1\r\n")
    pair.until_asked(ends[0], "service")
    near.send(b"SUB inbox.1 7\r\nPUB service inbox.1 1\r\nq\r\n")
    assert far.read_frame() == b"MSG service 1 inbox.1 1\r\nq\r\n"
    far.send(b"PUB inbox.1 1\r\na\r\n")
    assert near.read_frame() == b"MSG inbox.1 7 1\r\na\r\n"


def test_once_for_overlapping_subscriptions(
    pair: Linked, ends: Ends, clients: tuple[WireClient, ...]
) -> None:
    near, far = clients
    far.round_trip(b"SUB over.> 1\r\nSUB over.* 2\r\nSUB over.x g 3\r\n")
    pair.until_asked(ends[0], "over.>", "over.*", "over.x")
    near.send(b"PUB over.x 1\r\n1\r\nPUB over.y.z 1\r\n2\r\n")
    got = sorted(far.read_frame() for _ in range(4))
    assert got == [
        b"MSG over.x 1 1\r\n1\r\n",
        b"MSG over.x 2 1\r\n1\r\n",
        b"MSG over.x 3 1\r\n1\r\n",
        b"MSG over.y.z 1 1\r\n2\r\n",
    ]


def test_a_queue_group_prefers_its_members_at_hand(
    pair: Linked, ends: Ends, clients: tuple[WireClient, ...]
) -> None:
    near, far = clients
    far.round_trip(b"SUB work g 1\r\n")
    pair.until_asked(ends[0], "work")
    near.round_trip(b"SUB work g 2\r\nSUB work h 3\r\n")
    got = near.round_trip(b"PUB work 1\r\nx\r\n" * 20)
    assert got.count(b"MSG work 2 ") == got.count(b"MSG work 3 ") == 20
    assert far.round_trip() == b""
    near.send(b"UNSUB 2\r\nPUB work 1\r\ny\r\n")
    assert far.read_frame() == b"MSG work 1 1\r\ny\r\n"


def test_interest_comes_and_goes(pair: Linked, ends: Ends, clients: tuple[WireClient, ...]) -> None:
    near, far = clients
    far.round_trip(b"SUB tide 1\r\nSUB tide 2\r\nSUB tide g 3\r\n")
    pair.until_asked(ends[0], "tide")
    far.round_trip(b"UNSUB 1\r\nUNSUB 3\r\n")
    near.send(b"PUB tide 1\r\nx\r\n")
    assert far.read_frame() == b"MSG tide 2 1\r\nx\r\n"
    far.round_trip(b"UNSUB 2\r\n")
    pair.until_not_asked(ends[0], "tide")


def test_a_client_that_leaves_takes_its_interest_along(pair: Linked, ends: Ends) -> None:
    with client(ends[1]) as guest:
        guest.round_trip(b"".join(b"SUB guest.%d %d\r\n" % (number, number) for number in range(200)))
        pair.until_asked(ends[0], "guest.0", "guest.199")
    eventually(lambda: not any(subject.startswith("guest.") for subject in asked(ends[0])))


def test_no_message_comes_back(pair: Linked, ends: Ends, clients: tuple[WireClient, ...]) -> None:
    near, far = clients
    near.round_trip(b"SUB echo 1\r\n")
    far.round_trip(b"SUB echo 1\r\n")
    pair.until_asked(pair.hub, "echo")
    pair.until_asked(pair.spoke, "echo")
    near.send(b"PUB echo 1\r\nx\r\n")
    assert far.read_frame() == b"MSG echo 1 1\r\nx\r\n"
    assert near.round_trip() == b"MSG echo 1 1\r\nx\r\n"
    assert far.round_trip() == b""


def test_nobody_listens_anywhere(clients: tuple[WireClient, ...]) -> None:
    near, _ = clients
    got = near.round_trip(b"SUB alone.1 1\r\nPUB nobody.there alone.1 0\r\n\r\n")
    assert b"NATS/1.0 503" in got


def test_monitoring(pair: Linked) -> None:
    [at_hub] = leafz(pair.hub)["leafs"]
    [at_spoke] = leafz(pair.spoke)["leafs"]
    assert (at_hub["name"], at_hub["is_spoke"], at_hub["account"]) == ("spoke", False, "$G")
    assert (at_spoke["name"], at_spoke["is_spoke"], at_spoke["account"]) == ("hub", True, "$G")
    assert at_spoke["port"] == pair.leaf_port
    assert at_hub["subscriptions"] == len(at_hub["subscriptions_list"])
