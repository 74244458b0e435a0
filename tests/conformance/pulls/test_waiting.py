"""Pull requests that wait: turns, bounds, time, and every status they may get."""

from typing import Any

import pytest

from tests.kits.conformance.clients import Dial, ServerFactory, eventually, header_message, login
from tests.kits.conformance.pulls import MILLISECOND, SECOND, PullScene, pending, timeout

PAYLOAD = "x" * 100
LONG = 20 * SECOND  # longer than any test


def two_accounts(response_type: str) -> str:
    """One that owns streams, and one that may pull from them."""
    service = "$JS.API.CONSUMER.MSG.NEXT.*.*"
    return f"""
        accounts {{
          O {{ jetstream: enabled, users: [{{user: owner, password: p}}]
              exports: [{{service: "{service}", response_type: {response_type}}}] }}
          G {{ users: [{{user: guest, password: p}}]
              imports: [{{service: {{account: O, subject: "{service}"}}, to: "pull.*.*"}}] }}
        }}
    """


def size_of(scene: PullScene) -> int:
    """Return the bytes that a message with PAYLOAD counts, if all of its numbers have one digit."""
    ack = f"$JS.ACK.{scene.stream}.C.1.1.1.{'1' * 19}.1"
    return len(scene.subject) + len(ack) + len(PAYLOAD)


# -- who is served --------------------------------------------------------------------------------


def test_requests_take_turns(scene: PullScene) -> None:
    scene.consumer()
    scene.listen("a", "b", "c")
    scene.wait("a", "3")
    scene.wait("b", "1")
    scene.wait("c", "2")
    scene.publish(*"123456")
    assert scene.read(6) == [("a", "1"), ("b", "2"), ("c", "3"), ("a", "4"), ("c", "5"), ("a", "6")]
    scene.settled(delivered=6)


def test_messages_keep_their_subject_and_carry_where_to_acknowledge_them(scene: PullScene) -> None:
    scene.consumer()
    scene.publish("1", "2")
    scene.pull("a", "2")
    scene.read(2)
    assert scene.subjects == [scene.subject] * 2
    tokens = [ack.split(".") for ack in scene.acks]
    assert [each[:7] + each[8:] for each in tokens] == [
        ["$JS", "ACK", scene.stream, "C", "1", "1", "1", "1"],
        ["$JS", "ACK", scene.stream, "C", "1", "2", "2", "0"],
    ]


def test_statuses_come_on_the_inbox(scene: PullScene) -> None:
    scene.consumer()
    scene.pull("a", {"no_wait": True})
    assert scene.read() == [("a", "404 No Messages")]
    assert scene.subjects == [f"{scene.stream}-a"]


def test_a_client_that_is_gone_is_passed_over(scene: PullScene) -> None:
    scene.consumer()
    scene.wait("a", "2")
    scene.listen("b")
    scene.leave("a")
    scene.pull("b", "2")
    eventually(lambda: scene.waiting() == 1, "only one waits")
    scene.publish("1", "2")
    assert scene.read(2) == [("b", "1"), ("b", "2")]
    scene.settled(delivered=2)


def test_requests_of_a_client_that_hangs_up_do_not_wait_any_more(
    scene: PullScene, shared_server: ServerFactory, join: Dial
) -> None:
    scene.consumer()
    other = join(shared_server(jetstream=True))
    subject = f"$JS.API.CONSUMER.MSG.NEXT.{scene.stream}.C"
    other.round_trip(f"SUB theirs 1\r\nPUB {subject} theirs 1\r\n5\r\n".encode())
    eventually(lambda: scene.waiting() == 1, "the request waits")
    other.close()
    eventually(lambda: scene.waiting() == 0, "nobody waits")
    scene.publish("1")
    scene.pull("a")
    assert scene.read() == [("a", "1")]
    scene.settled(delivered=1)


@pytest.mark.parametrize("response_type", ["stream", "chunked"])
def test_requests_of_another_account_are_served(
    own_server: ServerFactory, join: Dial, response_type: str
) -> None:
    server = own_server(config=two_accounts(response_type), jetstream=True)
    scene = PullScene(login(join, server, "owner"), "S")
    scene.consumer()
    guest = login(join, server, "guest")
    guest.round_trip(b"SUB inbox 1\r\nPUB pull.S.C inbox 1\r\n2\r\n")
    eventually(lambda: scene.waiting() == 1, "the request waits")
    scene.publish("1", "2", "3")
    for number in (b"1", b"2"):
        line, payload, _ = guest.read_frame().split(b"\r\n")
        assert line.startswith(b"MSG S.m 1 $JS.ACK.S.C.1.%b.%b." % (number, number))
        assert payload == number
    guest.send(b'PUB pull.S.C inbox 31\r\n{"batch":2,"expires":100000000}\r\n')
    assert guest.read_frame().split(b"\r\n")[1] == b"3"
    status = f"NATS/1.0 408 Request Timeout\r\n{pending(1)}\r\n\r\n".replace("|", "\r\n").encode()
    assert guest.read_frame() == header_message("inbox", 1, status)
    guest.round_trip(b"PUB pull.S.C inbox 1\r\n9\r\n")
    eventually(lambda: scene.waiting() == 1, "another request waits")
    guest.round_trip(b"UNSUB 1\r\n")
    eventually(lambda: scene.waiting() == 0, "nobody listens")


def test_a_service_with_a_single_answer_gives_another_account_one_message(
    own_server: ServerFactory, join: Dial
) -> None:
    server = own_server(config=two_accounts("singleton"), jetstream=True)
    scene = PullScene(login(join, server, "owner"), "S")
    scene.consumer()
    scene.publish("1", "2", "3")
    guest = login(join, server, "guest")
    for number in (b"1", b"2"):
        guest.send(b"SUB inbox 1\r\nPUB pull.S.C inbox 1\r\n1\r\n")
        assert guest.read_frame().split(b"\r\n")[1] == number


def test_nothing_is_asked_without_an_inbox(scene: PullScene) -> None:
    scene.consumer()
    scene.publish("1")
    request = f"PUB $JS.API.CONSUMER.MSG.NEXT.{scene.stream}.C 0\r\n\r\n".encode()
    assert scene.client.round_trip(request) == b""
    scene.pull("a")
    assert scene.read() == [("a", "1")]
    scene.settled(delivered=1)


def test_a_consumer_that_does_not_exist_has_no_responders(scene: PullScene) -> None:
    scene.pull("a")
    assert scene.read() == [("a", f"503|Nats-Subject: $JS.API.CONSUMER.MSG.NEXT.{scene.stream}.C")]


def test_a_push_consumer_can_not_be_pulled_from(scene: PullScene) -> None:
    scene.consumer(deliver_subject=f"{scene.stream}-push")
    scene.pull("a")
    assert scene.read() == [("a", "409 Consumer is push based")]


# -- bounds ---------------------------------------------------------------------------------------


def test_no_more_requests_wait_than_may(scene: PullScene) -> None:
    scene.consumer(max_waiting=2)
    scene.wait("a")
    scene.wait("b")
    scene.pull("c")
    assert scene.read() == [("c", "409 Exceeded MaxWaiting")]
    scene.pull("d", {"batch": 1, "expires": LONG, "idle_heartbeat": SECOND})  # refused in silence
    scene.pull("e")
    assert scene.read() == [("e", "409 Exceeded MaxWaiting")]
    scene.settled(delivered=0, waiting=2)


@pytest.mark.parametrize(
    ("config", "body", "status"),
    [
        ({"max_batch": 2}, {"batch": 3}, "MaxRequestBatch of 2"),
        ({"max_batch": 2}, "3", "MaxRequestBatch of 2"),
        ({"max_expires": 2 * SECOND}, {"expires": 2 * SECOND + MILLISECOND}, "MaxRequestExpires of 2s"),
        ({"max_expires": 1_500 * MILLISECOND}, {"expires": LONG}, "MaxRequestExpires of 1.5s"),
        ({"max_expires": 90 * SECOND}, {"expires": 91 * SECOND}, "MaxRequestExpires of 1m30s"),
        ({"max_expires": 20 * MILLISECOND}, {"expires": LONG}, "MaxRequestExpires of 20ms"),
        ({"max_bytes": 100}, {"max_bytes": 101}, "MaxRequestMaxBytes of 100"),
        ({"max_batch": 2, "max_bytes": 100}, {"max_bytes": 101, "batch": 3}, "MaxRequestBatch of 2"),
        ({"max_batch": 2}, {"batch": 3, "priority": 10}, "MaxRequestBatch of 2"),
    ],
    ids=repr,
)
def test_a_request_above_a_bound_is_refused(
    scene: PullScene, config: dict[str, Any], body: Any, status: str
) -> None:
    scene.consumer(**config)
    scene.publish("1")
    scene.pull("a", body)
    assert scene.read() == [("a", f"409 Exceeded {status}")]
    scene.settled(delivered=0)


def test_a_request_at_its_bounds_is_served(scene: PullScene) -> None:
    scene.consumer(max_batch=2, max_expires=LONG, max_bytes=100_000)
    scene.publish("1", "2")
    scene.pull("a", {"batch": 2, "expires": LONG - SECOND})
    assert scene.read(2) == [("a", "1"), ("a", "2")]


# -- bytes ----------------------------------------------------------------------------------------


def test_a_message_that_does_not_fit_ends_the_request(scene: PullScene) -> None:
    scene.consumer()
    size = size_of(scene)
    scene.publish(PAYLOAD, PAYLOAD, PAYLOAD)
    scene.pull("a", {"batch": 5, "max_bytes": 2 * size + 7})
    assert scene.read(3) == [
        ("a", PAYLOAD),
        ("a", PAYLOAD),
        ("a", f"409 Message Size Exceeds MaxBytes|{pending(3, 7)}"),
    ]
    scene.settled(delivered=2)


def test_a_message_that_does_not_fit_goes_to_the_next(scene: PullScene) -> None:
    scene.consumer()
    scene.listen("a", "b")
    scene.wait("a", {"batch": 5, "max_bytes": 10})
    scene.wait("b", "1")
    scene.publish("1")
    assert sorted(scene.read(2)) == [("a", f"409 Message Size Exceeds MaxBytes|{pending(5, 10)}"), ("b", "1")]
    scene.settled(delivered=1)


def test_a_request_that_is_used_up_to_the_byte_ends_in_silence(scene: PullScene) -> None:
    scene.consumer()
    scene.publish(PAYLOAD, PAYLOAD, PAYLOAD)
    scene.pull("a", {"batch": 5, "max_bytes": 2 * size_of(scene)})
    assert scene.read(2) == [("a", PAYLOAD)] * 2
    scene.settled(delivered=2)


@pytest.mark.parametrize(("batch", "left"), [(2, 0), (0, -1), (-3, -4)])
def test_a_complete_batch_with_bytes_left_is_told(scene: PullScene, batch: int, left: int) -> None:
    scene.consumer()
    size = size_of(scene)
    scene.publish(PAYLOAD, PAYLOAD)
    scene.pull("a", {"batch": batch, "max_bytes": 10 * size})
    messages = max(batch, 1)
    assert scene.read(messages + 1) == [
        *[("a", PAYLOAD)] * messages,
        ("a", f"409 Batch Completed|{pending(left, (10 - messages) * size)}"),
    ]
    scene.settled(delivered=messages)


# -- requests that do not wait --------------------------------------------------------------------


def test_no_wait_with_nothing_there(scene: PullScene) -> None:
    scene.consumer()
    scene.pull("a", {"batch": 5, "no_wait": True})
    assert scene.read() == [("a", "404 No Messages")]
    scene.settled(delivered=0)


def test_no_wait_with_less_than_it_wants(scene: PullScene) -> None:
    scene.consumer()
    scene.publish("1", "2")
    scene.pull("a", {"batch": 5, "no_wait": True})
    assert scene.read(3) == [("a", "1"), ("a", "2"), ("a", "404 No Messages")]
    scene.settled(delivered=2)


def test_no_wait_with_all_that_it_wants(scene: PullScene) -> None:
    scene.consumer()
    scene.publish("1", "2")
    scene.pull("a", {"batch": 2, "no_wait": True})
    assert scene.read(2) == [("a", "1"), ("a", "2")]
    scene.settled(delivered=2)


def test_no_wait_with_a_time_waits_for_the_first(scene: PullScene) -> None:
    scene.consumer()
    scene.wait("a", {"batch": 5, "no_wait": True, "expires": LONG})
    scene.publish("1")
    assert scene.read(2) == [("a", "1"), ("a", "404 No Messages")]
    scene.settled(delivered=1)


def test_no_wait_with_a_time_that_passes(scene: PullScene) -> None:
    scene.consumer()
    scene.pull("a", {"batch": 5, "no_wait": True, "expires": 50 * MILLISECOND})
    assert scene.read() == [("a", timeout(5))]


def test_no_wait_gets_nothing_that_others_wait_for(scene: PullScene) -> None:
    # Somebody claims more than there is, and may not have it: the bound is on what is not acknowledged.
    scene.consumer(ack_policy="explicit", max_ack_pending=1)
    scene.publish("1", "2", "3")
    scene.pull("a", "5")
    assert scene.read() == [("a", "1")]
    scene.pull("b", {"batch": 1, "no_wait": True})
    assert scene.read() == [("b", "408 Requests Pending")]
    scene.settled(delivered=1, waiting=1)


def test_no_wait_at_the_bound_of_acks_waits(scene: PullScene) -> None:
    scene.consumer(ack_policy="explicit", max_ack_pending=1)
    scene.publish("1", "2", "3")
    scene.pull("a", "1")
    assert scene.read() == [("a", "1")]
    scene.wait("b", {"batch": 1, "no_wait": True})
    scene.client.send(f"PUB {scene.acks[0]} 0\r\n\r\n".encode())
    assert scene.read() == [("b", "2")]
    scene.settled(delivered=2)


# -- time -----------------------------------------------------------------------------------------


def test_a_request_ends_when_its_time_is_over(scene: PullScene) -> None:
    scene.consumer()
    size = size_of(scene)
    scene.publish(PAYLOAD)
    scene.pull("a", {"batch": 5, "expires": 50 * MILLISECOND, "max_bytes": 3 * size})
    assert scene.read(2) == [("a", PAYLOAD), ("a", timeout(4, 2 * size))]
    scene.settled(delivered=1)


def test_a_time_below_zero_is_over_at_once(scene: PullScene) -> None:
    scene.consumer()
    scene.publish("1")
    scene.pull("a", {"batch": 5, "expires": -1})
    assert scene.read() == [("a", timeout(5))]
    scene.settled(delivered=0)


def test_the_first_to_expire_is_the_first_to_hear(scene: PullScene) -> None:
    scene.consumer()
    scene.listen("a", "b", "c")
    scene.pull("a", {"batch": 1, "expires": 2 * SECOND})
    scene.pull("b", {"batch": 2, "expires": 100 * MILLISECOND})
    scene.pull("c", {"batch": 3, "expires": SECOND})
    assert scene.read(3) == [("b", timeout(2)), ("c", timeout(3)), ("a", timeout(1))]


def test_heartbeats_come_until_the_time_is_over(scene: PullScene) -> None:
    scene.consumer()
    scene.publish("1", "2", "3")
    scene.pull("a", {"batch": 5, "expires": SECOND, "idle_heartbeat": 200 * MILLISECOND})
    assert scene.read(3) == [("a", "1"), ("a", "2"), ("a", "3")]
    events = scene.read()
    while events[-1][1].startswith("100"):
        events += scene.read()
    assert events.pop() == ("a", timeout(2))
    assert set(events) == {("a", "100 Idle Heartbeat|Nats-Last-Consumer: 3|Nats-Last-Stream: 3")}
    assert 1 <= len(events) <= 6


def test_heartbeats_and_time_go_on_while_the_consumer_is_paused(scene: PullScene) -> None:
    scene.consumer(pause_until="2100-01-01T00:00:00Z")
    scene.publish("1")
    scene.pull("a", {"batch": 5, "expires": SECOND, "idle_heartbeat": 200 * MILLISECOND})
    events = scene.read(2)
    while events[-1][1].startswith("100"):
        events += scene.read()
    assert events[0] == ("a", "100 Idle Heartbeat|Nats-Last-Consumer: 0|Nats-Last-Stream: 0")
    assert events[-1] == ("a", timeout(5))
    scene.settled(delivered=0)


def test_no_wait_at_a_paused_consumer_finds_nothing(scene: PullScene) -> None:
    scene.consumer(pause_until="2100-01-01T00:00:00Z")
    scene.publish("1")
    scene.pull("a", {"batch": 5, "no_wait": True})
    assert scene.read() == [("a", "404 No Messages")]
    scene.settled(delivered=0)


# -- the end --------------------------------------------------------------------------------------


def test_those_who_wait_hear_that_the_consumer_was_deleted(scene: PullScene) -> None:
    scene.consumer()
    scene.wait("a", "5")
    scene.wait("b", {"batch": 2, "max_bytes": 100})
    scene.api(f"CONSUMER.DELETE.{scene.stream}.C")
    assert sorted(scene.read(2)) == [("a", "409 Consumer Deleted"), ("b", "409 Consumer Deleted")]


def test_those_who_wait_hear_that_the_stream_was_deleted(scene: PullScene) -> None:
    scene.consumer()
    scene.wait("a", "5")
    scene.api(f"STREAM.DELETE.{scene.stream}")
    assert scene.read() == [("a", "409 Consumer Deleted")]


def test_those_who_wait_hear_that_the_server_stops(own_server: ServerFactory, join: Dial) -> None:
    server = own_server(jetstream=True)
    scene = PullScene(join(server), "S")
    scene.consumer()
    scene.wait("a", "5")
    scene.wait("b", {"batch": 2, "max_bytes": 100})
    server.stop()
    assert sorted(scene.read(2)) == [
        ("a", f"409 Server Shutdown|{pending(5)}"),
        ("b", f"409 Server Shutdown|{pending(2, 100)}"),
    ]
