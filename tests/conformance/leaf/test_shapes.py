"""Three servers: circles of links and isolated spokes; and hubs that want newer servers."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest

from tests.kits.leaf import OURS, PAIR_NAMES, PAIRS, THEIRS, Linked, asked, client, leafz, linked
from tests.kits.ports import free_ports
from tests.kits.reference import ServerKind, ServerProcess
from tests.kits.server.monitor import eventually

Kinds = tuple[ServerKind, ServerKind]
both_ways = pytest.mark.parametrize("kinds", PAIRS, ids=PAIR_NAMES)


@contextmanager
def second_spoke(pair: Linked, kind: ServerKind, remote: str = "") -> Iterator[ServerProcess]:
    """Start another spoke of the hub, and wait for its link."""
    where = f'{{ url: "nats-leaf://127.0.0.1:{pair.leaf_port}"\n{remote} }}'
    config = f"server_name: second\nleafnodes {{ reconnect: 100ms, remotes [ {where} ] }}"
    with ServerProcess(kind, monitor=True, config=config) as second:
        eventually(lambda: len(leafz(pair.hub)["leafs"]) == 2 and leafz(second)["leafs"])
        yield second


@both_ways
def test_a_hub_that_wants_newer_servers(kinds: Kinds) -> None:
    with linked(kinds, hub_leaf='min_version: "99.0.0"', links=0) as pair:
        words = 'connection rejected since minimum version required is "99.0.0"'
        eventually(lambda: words in pair.hub.log and words in pair.spoke.log.replace('\\"', '"'))
        eventually(lambda: "Minimum Version Required" in pair.hub.log)
        assert leafz(pair.hub)["leafs"] == leafz(pair.spoke)["leafs"] == []


@both_ways
def test_a_hub_that_takes_this_version(kinds: Kinds) -> None:
    with linked(kinds, hub_leaf='min_version: "2.15.0"') as pair:
        assert len(leafz(pair.spoke)["leafs"]) == 1


@both_ways
def test_spokes_hear_each_other(kinds: Kinds) -> None:
    with (
        linked(kinds) as pair,
        second_spoke(pair, kinds[1]) as second,
        client(pair.spoke) as near,
        client(second) as far,
    ):
        far.round_trip(b"SUB x 1\r\n")
        pair.until_asked(pair.spoke, "x")
        near.send(b"PUB x 1\r\nz\r\n")
        assert far.read_frame() == b"MSG x 1 1\r\nz\r\n"


@both_ways
@pytest.mark.parametrize("who", ["the hub", "a spoke"])
def test_isolated_spokes_hear_the_hub_alone(kinds: Kinds, who: str) -> None:
    isolated = "isolate_leafnode_interest: true" if who == "the hub" else ""
    wish = "request_isolation: true" if who == "a spoke" else ""
    with (
        linked(kinds, hub_leaf=isolated, remote=wish) as pair,
        second_spoke(pair, kinds[1]) as second,
        client(pair.hub) as centre,
        client(pair.spoke) as near,
        client(second) as far,
    ):
        far.round_trip(b"SUB x 1\r\n")
        pair.until_asked(pair.hub, "x")
        centre.round_trip(b"SUB y 1\r\n")
        pair.until_asked(pair.spoke, "y")
        assert "x" not in asked(pair.spoke)
        near.round_trip(b"PUB x 1\r\n1\r\nPUB y 1\r\n2\r\n")
        assert centre.read_frame() == b"MSG y 1 1\r\n2\r\n"
        centre.send(b"PUB x 1\r\n3\r\n")
        assert far.read_frame() == b"MSG x 1 1\r\n3\r\n"


@pytest.mark.parametrize(
    "kinds",
    [(OURS, OURS, OURS), (OURS, THEIRS, OURS), (THEIRS, OURS, THEIRS), (THEIRS, THEIRS, THEIRS)],
    ids=["ours", "theirs between ours", "ours between theirs", "theirs"],
)
def test_a_circle_of_three(kinds: tuple[ServerKind, ...]) -> None:
    ports = free_ports(3)
    with ExitStack() as stack:
        servers = []
        for number, kind in enumerate(kinds):
            remote = f'{{ url: "nats-leaf://127.0.0.1:{ports[(number + 1) % 3]}" }}'
            config = (
                f'server_name: s{number}\nleafnodes {{ listen: "127.0.0.1:{ports[number]}"\n'
                f"reconnect: 100ms, remotes [ {remote} ] }}"
            )
            server = ServerProcess(kind, monitor=True, config=config)
            servers.append(stack.enter_context(server))
        eventually(lambda: any("Loop detected" in server.log for server in servers))
        # Several servers may find the circle at once, and each of them ends a link for a while.
        eventually(lambda: sum(len(leafz(server)["leafs"]) for server in servers) <= 4)
        clients = [stack.enter_context(client(server)) for server in servers]
        for each in clients:
            each.round_trip(b"SUB x 1\r\n")
        heard = [clients[1].round_trip(b"PUB x 4\r\nonce\r\n")]
        heard += [clients[number].round_trip() for number in (0, 2, 0, 1, 2)]
        assert heard[0].count(b"once") == 1
        assert b"once" not in heard[4]
        assert all(one.count(b"once") <= 1 for one in heard)
