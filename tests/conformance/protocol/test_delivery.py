"""Subscriptions and what reaches them: sids, limits, wildcards, headers, order."""

import pytest

from tests.kits.conformance.clients import Dial, eventually, header_message, message, publish
from tests.kits.reference import ServerProcess
from tests.kits.wire import WireClient


@pytest.fixture
def client(server: ServerProcess, join: Dial) -> WireClient:
    return join(server)


# -- SUB and UNSUB ----------------------------------------------------------------------------------


def test_unsub_without_count_removes_at_once(client: WireClient) -> None:
    assert client.round_trip(b"SUB un.a 1\r\n" + publish("un.a") + b"UNSUB 1\r\n" + publish("un.a")) == (
        message("un.a", 1)
    )


def test_count_set_before_the_first_message(client: WireClient) -> None:
    sent = (
        b"SUB un.b 1\r\nUNSUB 1 2\r\n" + publish("un.b", b"1") + publish("un.b", b"2") + publish("un.b", b"3")
    )
    assert client.round_trip(sent) == message("un.b", 1, b"1") + message("un.b", 1, b"2")


def test_count_includes_what_was_delivered_before(client: WireClient) -> None:
    sent = b"SUB un.c 1\r\n" + publish("un.c", b"1") + publish("un.c", b"2")
    assert client.round_trip(sent) == message("un.c", 1, b"1") + message("un.c", 1, b"2")
    sent = b"UNSUB 1 3\r\n" + publish("un.c", b"3") + publish("un.c", b"4")
    assert client.round_trip(sent) == message("un.c", 1, b"3")


@pytest.mark.parametrize("count", [b"1", b"2", b"0", b"-5", b"many"])
def test_count_already_reached_removes_at_once(client: WireClient, count: bytes) -> None:
    sent = b"SUB un.d 1\r\n" + publish("un.d", b"1") + publish("un.d", b"2")
    client.round_trip(sent)
    assert client.round_trip(b"UNSUB 1 " + count + b"\r\n" + publish("un.d", b"3")) == b""


def test_count_may_be_raised_and_then_dropped(client: WireClient) -> None:
    sent = b"SUB un.e 1\r\nUNSUB 1 1\r\nUNSUB 1 2\r\n" + publish("un.e") * 3
    assert client.round_trip(sent) == message("un.e", 1) * 2
    sent = b"SUB un.e 2\r\nUNSUB 2 5\r\n" + publish("un.e") + b"UNSUB 2\r\n" + publish("un.e")
    assert client.round_trip(sent) == message("un.e", 2)


def test_sid_is_free_again_after_the_last_message(client: WireClient) -> None:
    sent = (
        b"SUB un.f 1\r\nUNSUB 1 1\r\n"
        + publish("un.f")
        + b"SUB un.g 1\r\n"
        + publish("un.f")
        + publish("un.g")
    )
    assert client.round_trip(sent) == message("un.f", 1) + message("un.g", 1)


def test_sid_in_use_is_kept_as_it_was(client: WireClient) -> None:
    sent = b"SUB old 1\r\nSUB new 1\r\n" + publish("old") + publish("new")
    assert client.round_trip(sent) == message("old", 1)


def test_each_matching_subscription_gets_its_copy(client: WireClient) -> None:
    client.round_trip(b"SUB co.py 1\r\nSUB co.py 2\r\nSUB co.* 3\r\nSUB co.> 4\r\nSUB > 5\r\nSUB co.no 6\r\n")
    frames = client.round_trip(publish("co.py", b"x"))
    expected = sorted(message("co.py", sid, b"x") for sid in range(1, 6))
    size = len(expected[0])
    assert sorted(frames[start : start + size] for start in range(0, len(frames), size)) == expected


# -- wildcards --------------------------------------------------------------------------------------

MATCHES = [
    ("a", "a", True),
    ("a", "A", False),
    ("a", "a.b", False),
    ("*", "a", True),
    ("*", "a.b", False),
    (">", "a", True),
    (">", "a.b.c", True),
    ("a.*", "a.b", True),
    ("a.*", "a", False),
    ("a.*", "a.b.c", False),
    ("a.>", "a.b", True),
    ("a.>", "a.b.c", True),
    ("a.>", "a", False),
    ("a.*.c", "a.b.c", True),
    ("*.*", "a.b", True),
    ("*.>", "a.b", True),
    ("*.>", "a", False),
    ("a*", "a*", True),
    ("a*", "ab", False),
    ("a>.b", "a>.b", True),
    ("a.*b", "a.xb", False),
    ("a.*", "a.*", True),  # a published wildcard is an ordinary token
    ("a.>", "a.*", True),
    (">", "a.>", True),
    ("a.b", "a.*", False),
    ("a.b", "a.>", False),
    ("a.*", "a.>", True),
    (">", "a..b", False),  # nobody gets a subject with an empty token
    ("a.*.b", "a..b", False),
    (">", "a.", False),
    ("a.*", "a.", False),
    (">", ".a", False),
]


@pytest.mark.parametrize(("pattern", "subject", "matches"), MATCHES)
def test_pattern_and_subject(
    server: ServerProcess, join: Dial, pattern: str, subject: str, matches: bool
) -> None:
    client = join(server)
    sent = f"SUB {pattern} 1\r\n".encode() + publish(subject, b"x")
    assert client.round_trip(sent) == (message(subject, 1, b"x") if matches else b"")


# -- headers ----------------------------------------------------------------------------------------

BLOCK = b"NATS/1.0\r\nKey: a\r\nKey: b\r\nother:  c\r\n\r\n"


def test_headers_pass_unchanged(client: WireClient) -> None:
    sent = b"SUB he.ad 1\r\nHPUB he.ad in.box %d %d\r\n%bbody\r\n" % (len(BLOCK), len(BLOCK) + 4, BLOCK)
    assert client.round_trip(sent) == header_message("he.ad", 1, BLOCK, b"body", "in.box")


def test_headers_without_body_pass_unchanged(client: WireClient) -> None:
    sent = b"SUB he.ad 1\r\nHPUB he.ad %d %d\r\n%b\r\n" % (len(BLOCK), len(BLOCK), BLOCK)
    assert client.round_trip(sent) == header_message("he.ad", 1, BLOCK)


def test_header_bytes_are_not_judged(client: WireClient) -> None:
    assert client.round_trip(b"SUB he.ad 1\r\nHPUB he.ad 4 6\r\nabcdhi\r\n") == (
        b"HMSG he.ad 1 4 6\r\nabcdhi\r\n"
    )


def test_headers_are_stripped_for_who_does_not_know_them(server: ServerProcess, join: Dial) -> None:
    old, new, publisher = join(server, headers=None, no_responders=None), join(server), join(server)
    for client in (old, new):
        client.round_trip(b"SUB strip.it 1\r\n")
    publisher.send(b"HPUB strip.it in.box %d %d\r\n%bbody\r\n" % (len(BLOCK), len(BLOCK) + 4, BLOCK))
    assert old.read_frame() == message("strip.it", 1, b"body", "in.box")
    assert new.read_frame() == header_message("strip.it", 1, BLOCK, b"body", "in.box")


# -- no responders ----------------------------------------------------------------------------------


def test_nobody_there_is_told_to_the_inbox(client: WireClient) -> None:
    sent = b"SUB box.* 1\r\n" + publish("nobody.there", b"x", "box.1")
    status = b"NATS/1.0 503\r\nNats-Subject: nobody.there\r\n\r\n"
    assert client.round_trip(sent) == header_message("box.1", 1, status)


def test_nobody_there_is_told_for_requests_with_headers(client: WireClient) -> None:
    sent = b"SUB box.* 1\r\nHPUB nobody box.1 12 12\r\nNATS/1.0\r\n\r\n\r\n"
    status = b"NATS/1.0 503\r\nNats-Subject: nobody\r\n\r\n"
    assert client.round_trip(sent) == header_message("box.1", 1, status)


def test_nobody_there_does_not_use_up_the_limit_of_the_inbox(client: WireClient) -> None:
    sent = b"SUB box.2 1\r\nUNSUB 1 1\r\n" + publish("nobody.there", b"x", "box.2") * 2
    sent += publish("box.2", b"y") * 2
    status = b"NATS/1.0 503\r\nNats-Subject: nobody.there\r\n\r\n"
    assert client.round_trip(sent) == header_message("box.2", 1, status) * 2 + message("box.2", 1, b"y")


@pytest.mark.parametrize(
    ("subscription", "why"),
    [
        (b"SUB box.* workers 1\r\n", "a queue group is no inbox"),
        (b"SUB other 1\r\n", "nobody listens to the reply"),
        (b"SUB box.1 1\r\nSUB nobody.* 2\r\nUNSUB 2\r\nSUB nobody.there x 3\r\n", "somebody is there"),
    ],
)
def test_nobody_there_is_not_told(client: WireClient, subscription: bytes, why: str) -> None:
    answer = client.round_trip(subscription + publish("nobody.there", b"x", "box.1"))
    assert b"503" not in answer, why


def test_nobody_there_is_not_told_without_a_reply(client: WireClient) -> None:
    assert client.round_trip(b"SUB > q 1\r\nUNSUB 1\r\n" + publish("nobody.there", b"x")) == b""


def test_nobody_there_is_not_told_to_others(server: ServerProcess, join: Dial) -> None:
    asking, listening = join(server), join(server)
    listening.round_trip(b"SUB box.3 1\r\n")
    assert asking.round_trip(publish("nobody.there", b"x", "box.3")) == b""
    assert listening.round_trip() == b""


def test_nobody_there_is_not_told_to_who_did_not_ask(server: ServerProcess, join: Dial) -> None:
    client = join(server, no_responders=False)
    assert client.round_trip(b"SUB box.4 1\r\n" + publish("nobody.there", b"x", "box.4")) == b""


def test_own_subscription_without_echo_is_nobody(server: ServerProcess, join: Dial) -> None:
    client = join(server, echo=False)
    answer = client.round_trip(b"SUB box.5 1\r\nSUB only.me 2\r\n" + publish("only.me", b"x", "box.5"))
    assert answer == header_message("box.5", 1, b"NATS/1.0 503\r\nNats-Subject: only.me\r\n\r\n")


# -- order and reach --------------------------------------------------------------------------------


def test_order_is_kept_for_each_publisher(server: ServerProcess, join: Dial) -> None:
    subscriber, first, second = join(server), join(server), join(server)
    subscriber.round_trip(b"SUB order.* 1\r\n")
    count = 500
    for number in range(count):
        first.send(publish("order.a", b"%d" % number))
        second.send(publish("order.b", b"%d" % number))
    seen: dict[bytes, list[int]] = {b"order.a": [], b"order.b": []}
    for _ in range(2 * count):
        frame = subscriber.read_frame()
        seen[frame.split()[1]].append(int(frame.split(b"\r\n")[1]))
    assert seen == {b"order.a": list(range(count)), b"order.b": list(range(count))}


def test_closing_a_connection_removes_its_subscriptions(server: ServerProcess, join: Dial) -> None:
    gone, asking = join(server), join(server)
    gone.round_trip(b"SUB was.here 1\r\n")
    gone.send(b"BYE\r\n")  # an unknown operation: the close is ordered behind the subscription
    gone.read_until_closed()
    asking.round_trip(b"SUB box.6 1\r\n")
    eventually(lambda: b"503" in asking.round_trip(publish("was.here", b"", "box.6")))
