"""Queue groups: each message once for each group, spread over the members."""

from collections import Counter
from itertools import chain

from tests.kits.conformance.clients import Dial, message, publish
from tests.kits.reference import ServerProcess
from tests.kits.wire import WireClient

MESSAGES = 300


def _payloads(client: WireClient) -> list[bytes]:
    frames = client.round_trip()
    return [line for line in frames.split(b"\r\n") if line and not line.startswith(b"MSG ")]


def test_each_message_reaches_one_member_and_every_member_gets_some(
    server: ServerProcess, join: Dial
) -> None:
    members = [join(server) for _ in range(4)]
    for member in members:
        member.round_trip(b"SUB jobs workers 1\r\n")
    sent = [b"%d" % number for number in range(MESSAGES)]
    join(server).round_trip(b"".join(publish("jobs", payload) for payload in sent))
    received = [_payloads(member) for member in members]
    assert sorted(chain.from_iterable(received)) == sorted(sent)
    assert all(len(share) > MESSAGES / 16 for share in received), [len(share) for share in received]
    # A member sees its share in the order of the publisher.
    assert all(share == sorted(share, key=int) for share in received)


def test_members_on_one_connection_share_too(server: ServerProcess, join: Dial) -> None:
    client = join(server)
    client.round_trip(b"SUB one.conn g 1\r\nSUB one.conn g 2\r\nSUB one.conn g 3\r\n")
    frames = client.round_trip(publish("one.conn") * MESSAGES)
    shares = Counter(line.split()[2] for line in frames.split(b"\r\n") if line)
    assert sum(shares.values()) == MESSAGES
    assert set(shares) == {b"1", b"2", b"3"}
    assert min(shares.values()) > MESSAGES / 10


def test_groups_and_plain_subscriptions_do_not_share(server: ServerProcess, join: Dial) -> None:
    first, second, plain = join(server), join(server), join(server)
    first.round_trip(b"SUB two.groups a 1\r\n")
    second.round_trip(b"SUB two.groups b 1\r\n")
    plain.round_trip(b"SUB two.groups 1\r\nSUB two.* 2\r\n")
    join(server).round_trip(publish("two.groups") * 10)
    assert first.round_trip() == message("two.groups", 1) * 10
    assert second.round_trip() == message("two.groups", 1) * 10
    assert Counter(plain.round_trip().split(b"\r\n")) == Counter(
        (message("two.groups", 1) * 10 + message("two.groups", 2) * 10).split(b"\r\n")
    )


def test_groups_of_one_name_on_different_patterns_are_one_group(server: ServerProcess, join: Dial) -> None:
    exact, wide = join(server), join(server)
    exact.round_trip(b"SUB same.name g 1\r\n")
    wide.round_trip(b"SUB same.* g 1\r\n")
    join(server).round_trip(publish("same.name") * MESSAGES)
    shares = [client.round_trip().count(b"MSG ") for client in (exact, wide)]
    assert sum(shares) == MESSAGES
    assert min(shares) > MESSAGES / 10


def test_member_with_a_limit_leaves_the_rest_to_others(server: ServerProcess, join: Dial) -> None:
    limited, other = join(server), join(server)
    limited.round_trip(b"SUB lim.it g 1\r\nUNSUB 1 3\r\n")
    other.round_trip(b"SUB lim.it g 1\r\n")
    join(server).round_trip(publish("lim.it") * MESSAGES)
    assert limited.round_trip().count(b"MSG ") == 3
    assert other.round_trip().count(b"MSG ") == MESSAGES - 3


def test_member_without_echo_is_passed_over(server: ServerProcess, join: Dial) -> None:
    publisher, other = join(server, echo=False), join(server)
    publisher.round_trip(b"SUB ec.ho g 1\r\n")
    other.round_trip(b"SUB ec.ho g 1\r\n")
    assert publisher.round_trip(publish("ec.ho") * 50) == b""
    assert other.round_trip() == message("ec.ho", 1) * 50


def test_publisher_may_be_a_member(server: ServerProcess, join: Dial) -> None:
    publisher, other = join(server), join(server)
    publisher.round_trip(b"SUB self.too g 1\r\n")
    other.round_trip(b"SUB self.too g 1\r\n")
    own = publisher.round_trip(publish("self.too") * MESSAGES).count(b"MSG ")
    assert own + other.round_trip().count(b"MSG ") == MESSAGES
    assert 0 < own < MESSAGES


def test_replies_pass_through_a_group(server: ServerProcess, join: Dial) -> None:
    asking, worker = join(server), join(server)
    worker.round_trip(b"SUB serv.ice g 7\r\n")
    asking.round_trip(b"SUB my.box 1\r\n" + publish("serv.ice", b"question", "my.box"))
    assert worker.read_frame() == message("serv.ice", 7, b"question", "my.box")
    worker.send(publish("my.box", b"answer"))
    assert asking.read_frame() == message("my.box", 1, b"answer")
