"""Links of a broker without sockets: what they are told, when, and who gets a message."""

import itertools
import logging
import random
import re
from typing import Any

import bcrypt
import pytest

from millstream.base.slices import MOST_ITEMS
from millstream.broker.auth import Identity
from millstream.broker.broker import Broker
from millstream.broker.leaf import interest, leafs
from millstream.broker.leaf.login import Peer, read_connect
from millstream.broker.options import LeafOptions
from tests.kits.broker import client, loop_of, make_broker
from tests.kits.fake_spoke import FakeSpoke, connect_line, hub


@pytest.fixture
def broker() -> Broker:
    return hub()


def test_a_new_link_is_told_everything_in_slices(broker: Broker) -> None:
    count = 20_000
    user = client(broker)
    for start in range(0, count, 1000):
        user.say(b"".join(b"SUB s.%d %d\r\n" % (each, each) for each in range(start, start + 1000)))
    spoke = FakeSpoke(broker)
    most = told = spoke.said.count(b"LS+ s.")
    rounds = 0
    while told < count:
        loop_of(broker).run_one_round()
        lines = spoke.heard().count(b"LS+ s.")
        most, told, rounds = max(most, lines), told + lines, rounds + 1
        assert rounds < 10_000
    assert most <= 2 * MOST_ITEMS
    assert told == count


def test_changes_while_it_is_told_everything(broker: Broker) -> None:
    user = client(broker)
    user.say(b"".join(b"SUB s.%d %d\r\n" % (each, each) for each in range(5000)))
    spoke = FakeSpoke(broker)
    known: dict[bytes, bool] = {}
    user.say(b"".join(b"UNSUB %d\r\n" % each for each in range(0, 5000, 2)) + b"SUB new x\r\n")
    for line in re.findall(rb"LS[+-] [^\r]*", spoke.said + spoke.say(b"")):
        known[line[4:]] = line.startswith(b"LS+")
    wanted = {b"s.%d" % each for each in range(1, 5000, 2)} | {b"new"}
    assert {name for name, live in known.items() if live and name.startswith((b"s.", b"new"))} == wanted


def test_once_for_many_and_queue_groups_with_their_size(broker: Broker) -> None:
    spoke = FakeSpoke(broker)
    spoke.told()
    one, other = client(broker), client(broker)
    one.say(b"SUB a 1\r\nSUB a 2\r\nSUB a q 3\r\n")
    other.say(b"SUB a 1\r\nSUB a q 2\r\n")
    assert spoke.told() == [b"LS+ a", b"LS+ a q 1", b"LS+ a q 2"]
    one.say(b"UNSUB 1\r\nUNSUB 2\r\nUNSUB 3\r\n")
    other.say(b"UNSUB 1\r\nUNSUB 2\r\n")
    assert spoke.told() == [b"LS+ a q 1", b"LS- a", b"LS- a q"]


def test_links_hear_of_each_other_unless_they_are_isolated_or_of_one_cluster(broker: Broker) -> None:
    first = FakeSpoke(broker, "first")
    second = FakeSpoke(broker, "second")
    alone = FakeSpoke(broker, "alone", isolate=True)
    twin, other_twin = (FakeSpoke(broker, name, cluster="c") for name in ("twin", "other"))
    everybody = (first, second, alone, twin, other_twin)
    for each in everybody:
        each.told()
    first.say(b"LS+ a\r\nLS+ a q 3\r\n")
    both = [b"LS+ a", b"LS+ a q 3"]
    assert [each.told() for each in everybody] == [[], both, [], both, both]
    twin.say(b"LS+ b\r\nLS+ a\r\n")
    assert [each.told() for each in everybody] == [[b"LS+ b", b"LS+ a"], [b"LS+ b"], [], [], []]
    first.say(b"LS- a\r\nLS- a q\r\n")
    assert second.told() == [b"LS- a q"]
    assert other_twin.told() == [b"LS- a", b"LS- a q"]


def test_what_a_link_asked_for_ends_with_it(broker: Broker) -> None:
    first, second = FakeSpoke(broker, "first"), FakeSpoke(broker, "second")
    second.told()
    first.say(b"".join(b"LS+ s.%d\r\n" % each for each in range(500)))
    assert len(second.told()) == 500
    first.transport.peer_closes()
    loop_of(broker).run_ready()
    assert sorted(second.told()) == sorted(b"LS- s.%d" % each for each in range(500))
    user = client(broker)
    assert b"503" in user.say(b"SUB i 1\r\nPUB s.1 i 0\r\n\r\n") or user.say(b"") == b""
    assert broker.global_account.space.links is not None
    second.transport.peer_closes()
    loop_of(broker).run_ready()
    assert broker.global_account.space.links is None


def test_a_message_goes_over_a_link_once(broker: Broker) -> None:
    spoke, user = FakeSpoke(broker), client(broker)
    spoke.say(b"LS+ a.*\r\nLS+ a.>\r\nLS+ a.b\r\nLS+ a.b q 2\r\nLS+ a.* r 1\r\n")
    user.say(b"PUB a.b i 1\r\nx\r\n")
    message = spoke.say(b"")
    assert message in (b"LMSG a.b + i q r 1\r\nx\r\n", b"LMSG a.b + i r q 1\r\nx\r\n")
    user.say(b"SUB a.b q 1\r\nPUB a.b 1\r\ny\r\n")
    assert spoke.say(b"") == b"LS+ a.b q 1\r\nLMSG a.b | r 1\r\ny\r\n"


def test_a_message_of_a_link_reaches_the_queue_groups_that_it_names(broker: Broker) -> None:
    spoke, user = FakeSpoke(broker), client(broker)
    user.say(b"SUB a 1\r\nSUB a q 2\r\nSUB a r 3\r\n")
    assert_frames(spoke, user, b"LMSG a 1\r\nx\r\n", [b"MSG a 1 1"])
    assert_frames(spoke, user, b"LMSG a | q 1\r\nx\r\n", [b"MSG a 1 1", b"MSG a 2 1"])
    everybody = [b"MSG a 1 i 1", b"MSG a 2 i 1", b"MSG a 3 i 1"]
    assert_frames(spoke, user, b"LMSG a + i r q z 1\r\nx\r\n", everybody)


def assert_frames(spoke: FakeSpoke, user: Any, data: bytes, expected: list[bytes]) -> None:
    spoke.say(data)
    assert sorted(user.say(b"").split(b"\r\nx\r\n")[:-1]) == expected


def test_groups_at_the_other_ends_get_shares_by_their_sizes(broker: Broker) -> None:
    small, large, user = FakeSpoke(broker, "small"), FakeSpoke(broker, "large"), client(broker)
    small.say(b"LS+ a q 1\r\n")
    large.say(b"LS+ a q 4\r\n")
    small.say(b"")
    large.say(b"")
    user.say(b"PUB a 0\r\n\r\n" * 2000)
    shares = small.say(b"").count(b"LMSG"), large.say(b"").count(b"LMSG")
    assert sum(shares) == 2000
    assert 250 < shares[0] < 550  # 400 are expected


def test_a_message_does_not_come_back_and_goes_on_to_others(broker: Broker) -> None:
    first, second = FakeSpoke(broker, "first"), FakeSpoke(broker, "second")
    for each in (first, second):
        each.say(b"LS+ a\r\n")
    for each in (first, second):
        each.say(b"")
    assert first.say(b"LMSG a 1\r\nx\r\n") == b""
    assert second.say(b"") == b"LMSG a 1\r\nx\r\n"


@pytest.mark.parametrize(
    ("fields", "urls"),
    [
        ({}, b'"leafnode_urls":["127.0.0.1:7422"]'),
        ({"advertise": "hub.example:7"}, b'"leafnode_urls":["hub.example:7"]'),
        ({"no_advertise": True}, b'"leafnode_urls":[]'),
    ],
    ids=["found", "advertised", "none"],
)
def test_addresses_that_spokes_are_told(fields: dict[str, Any], urls: bytes) -> None:
    assert urls in FakeSpoke(make_broker(leaf=LeafOptions(port=7422, **fields)), stranger=True).said


def test_an_account_without_links_has_plain_routes(broker: Broker) -> None:
    user = client(broker)
    user.say(b"SUB a 1\r\n")
    space = broker.global_account.space
    assert space.links is None
    assert not space.route(b"a").special


class _End:
    """A link with a peer and nothing else."""

    def __init__(self, cluster: str, isolated: bool, spoke: bool) -> None:
        self.peer = Peer(cluster=cluster, isolated=isolated, spoke=spoke)

    def is_link(self) -> bool:
        return True


def test_sums_over_links_are_what_looking_at_each_finds() -> None:
    kinds = itertools.product(("", "c", "d"), (False, True), (False, True))
    links: list[Any] = [_End(*kind) for kind in kinds for _ in range(2)]
    chance = random.Random(7)
    for subject in (b"a", b"$LDS.x"):
        for _ in range(50):
            weights = {link: chance.randint(1, 9) for link in links if chance.random() < 0.5}
            members = interest._Members(subject, 3 + len(weights))
            for link, weight in weights.items():
                members.add(link, weight)
            for link in links:
                others = sum(
                    weight for other, weight in weights.items() if interest._concerns(link, other, subject)
                )
                assert members.told_to(link) == 3 + others


def test_the_others_are_counted_once_for_all_links(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    spokes = [FakeSpoke(broker, f"s{number}") for number in range(20)]
    loop_of(broker).run_ready()  # each is told everything
    counted: list[bytes] = []
    count = interest.LinkInterest._members

    def note(self: Any, subject: bytes, queue: bytes | None) -> Any:
        counted.append(subject)
        return count(self, subject, queue)

    monkeypatch.setattr(interest.LinkInterest, "_members", note)
    spokes[0].say(b"LS+ a\r\n")
    assert counted == [b"a"]
    for spoke in spokes[1:]:
        assert spoke.told() == [b"LS+ a"]


def test_a_compression_that_a_spoke_only_claims(caplog: pytest.LogCaptureFixture) -> None:
    broker = hub("s2_auto")
    spoke = FakeSpoke(broker, compress_mode="s2_fast")
    assert spoke.link.peer.compression == "not supported"
    spoke.say(b"PONG\r\n")
    assert spoke.say(b"PING\r\n") == b"PONG\r\n"
    assert [record for record in caplog.records if record.levelno > logging.INFO] == []


def test_a_stranger_announces_a_large_block() -> None:
    broker = hub("s2_fast")
    spoke = FakeSpoke(broker, stranger=True, packed=True)
    spoke.transport.receive(b"\x01" + (1024 * 1024).to_bytes(3, "little"))
    assert spoke.link.closed
    known = FakeSpoke(broker, packed=True)
    known.transport.receive(b"\x01" + (1024 * 1024).to_bytes(3, "little"))
    assert not known.link.closed


def test_deny_lists_that_are_no_subjects_after_a_slow_login(
    broker: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    assert broker.leafs is not None
    assert broker.leafs.hub is not None
    accepted = broker.leafs.hub
    spoke = FakeSpoke(broker, stranger=True)
    connect = read_connect(connect_line(deny_pub=["a..b"]).removeprefix(b"CONNECT "))
    accepted._resume(spoke.link, lambda: accepted._decide(spoke.link, connect, Identity(account="$G")))
    assert spoke.link.closed
    assert b"-ERR" in spoke.heard()
    assert not [each for each in caplog.records if each.exc_info]


def test_a_refused_user_with_a_long_name_and_a_long_error(
    broker: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    own = make_broker(leaf=LeafOptions(port=7422, username="known", password="p"))
    FakeSpoke(own, user="u" * 50_000, **{"pass": "wrong"})
    FakeSpoke(broker, stranger=True).say(b"-ERR '" + b"x" * 50_000 + b"'\r\n")
    assert caplog.messages
    assert max(map(len, caplog.messages)) < 1000


def test_an_unknown_user_is_refused_as_late_as_a_wrong_password() -> None:
    hashed = bcrypt.hashpw(b"p", bcrypt.gensalt(4)).decode()
    broker = make_broker(leaf=LeafOptions(port=7422, username="known", password=hashed))
    broker.password_checks.usual_s = 0.25
    spoke = FakeSpoke(broker, user="unknown", **{"pass": "p"})
    assert not spoke.link.closed
    loop_of(broker).advance(0.3)
    loop_of(broker).run_ready()
    assert spoke.link.closed
    assert b"Authorization Violation" in spoke.heard()


def test_no_link_takes_a_descriptor_that_is_kept_for_the_store(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leafs, "uses_kept", lambda transport: True)
    spoke = FakeSpoke(broker, stranger=True)
    assert spoke.link.closed
    assert b"maximum connections exceeded" in spoke.said
