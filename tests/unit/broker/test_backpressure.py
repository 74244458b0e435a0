"""Slow receivers: bounded memory for each, a deadline, a pause for the sender, no harm to others."""

from millstream.broker.broker import Broker
from millstream.broker.close_reason import CloseReason
from tests.kits.broker import client, loop_of, make_broker
from tests.kits.fake_transport import FakeClient

KILOBYTE = b"PUB foo 1000\r\n" + b"x" * 1000 + b"\r\n"


def scene(**options: object) -> tuple[Broker, FakeClient, FakeClient, FakeClient]:
    """A sender, a receiver that has stopped reading, and one that reads."""
    broker = make_broker(**options)
    sender, slow, quick = client(broker), client(broker), client(broker)
    for each in (slow, quick):
        each.say(b"SUB foo 1\r\n")
    slow.transport.stop_taking()
    return broker, sender, slow, quick


def test_more_than_max_pending_closes_the_receiver_at_once_and_only_it() -> None:
    broker, sender, slow, quick = scene(max_pending=10_000)
    for _ in range(9):
        sender.say(KILOBYTE)
        loop_of(broker).advance(0.01)
    assert not slow.closed
    sender.say(KILOBYTE)
    assert slow.closed
    assert slow.transport.aborted
    assert slow.connection.session.reason is CloseReason.SLOW_CONSUMER_PENDING_BYTES
    assert broker.totals.slow_consumers == broker.global_account.totals.slow_consumers == 1
    assert quick.heard().count(b"MSG foo") == 10
    assert sorted(broker.connections) == [sender.connection.cid, quick.connection.cid]


def test_max_pending_itself_is_allowed() -> None:
    broker, sender, slow, _ = scene(max_pending=2 * 1018)
    sender.say(KILOBYTE)
    sender.say(KILOBYTE) if sender.transport.reading else None
    assert slow.transport.get_write_buffer_size() == 2 * 1018
    assert not slow.closed
    loop_of(broker).advance(0.01)
    sender.say(b"PUB foo 0\r\n\r\n")
    assert slow.closed


def test_one_large_chunk_is_noticed_within_the_chunk() -> None:
    broker, sender, slow, _ = scene(max_pending=1_000_000)
    sender.say(KILOBYTE * 5000)
    assert slow.closed
    assert slow.connection.written < 2_000_000
    assert broker.totals.slow_consumers == 1


def test_a_reading_client_is_never_slow_however_much_it_gets() -> None:
    _, sender, _, quick = scene(max_pending=10_000)
    sender.say(KILOBYTE * 1000)
    assert quick.heard().count(b"MSG foo") == 1000
    assert not quick.closed


def test_a_backlog_that_does_not_drain_in_time_closes_the_receiver() -> None:
    broker, sender, slow, quick = scene(write_deadline_s=3.0)
    sender.say(KILOBYTE)
    loop_of(broker).advance(2.9)
    assert not slow.closed
    loop_of(broker).advance(0.2)
    assert slow.closed
    assert slow.connection.session.reason is CloseReason.SLOW_CONSUMER_WRITE_DEADLINE
    assert broker.totals.slow_consumers == 1
    assert not quick.closed


def test_a_backlog_that_drains_in_time_is_forgiven() -> None:
    broker, sender, slow, _ = scene(write_deadline_s=3.0)
    sender.say(KILOBYTE)
    loop_of(broker).advance(2.0)
    slow.transport.take(500)
    loop_of(broker).advance(0.5)
    slow.transport.take()
    loop_of(broker).advance(1.5)  # not far enough for a ping to go unanswered
    assert not slow.closed
    assert broker.totals.slow_consumers == 0


def test_a_receiver_that_keeps_reading_slowly_is_judged_on_what_was_there() -> None:
    broker, sender, slow, _ = scene(write_deadline_s=3.0, ping_interval_s=100)
    sender.say(KILOBYTE)  # must be gone after three seconds
    for _ in range(5):
        loop_of(broker).advance(2.0)
        slow.transport.take(1500)
        sender.say(KILOBYTE)
        assert not slow.closed
    loop_of(broker).advance(6.1)
    assert slow.closed


def test_with_retry_a_receiver_that_moves_is_kept_and_counted() -> None:
    broker, sender, slow, _ = scene(write_deadline_s=3.0, write_timeout_retry=True)
    sender.say(KILOBYTE)
    loop_of(broker).advance(1.0)
    slow.transport.take(10)
    loop_of(broker).advance(2.1)
    assert not slow.closed
    assert broker.totals.slow_consumers == 1
    loop_of(broker).advance(3.1)  # not a byte since
    assert slow.closed


def test_the_sender_pauses_while_a_receiver_is_near_max_pending() -> None:
    broker, sender, slow, _ = scene(max_pending=4000)
    for _ in range(2):
        sender.say(KILOBYTE)
        assert sender.transport.reading
    sender.say(KILOBYTE)  # more than three quarters
    assert not sender.transport.reading
    assert broker.totals.stalled_clients == 1
    loop_of(broker).advance(0.01)
    assert sender.transport.reading
    assert not slow.closed


def test_a_sender_whose_receivers_have_room_again_is_not_paused() -> None:
    broker, sender, slow, _ = scene(max_pending=4000)
    sender.say(KILOBYTE * 3)
    loop_of(broker).advance(0.01)
    slow.transport.take()
    sender.say(KILOBYTE)
    assert sender.transport.reading


def test_the_pause_can_be_switched_off() -> None:
    broker, sender, _, _ = scene(max_pending=4000, no_fast_producer_stall=True)
    sender.say(KILOBYTE * 3)
    assert sender.transport.reading
    assert broker.totals.stalled_clients == 0


def test_a_sender_that_leaves_during_its_pause_is_left_alone() -> None:
    broker, sender, _, _ = scene(max_pending=4000)
    sender.say(KILOBYTE * 3)
    sender.transport.peer_closes()
    loop_of(broker).run_ready()
    loop_of(broker).advance(1.0)
    assert sender.connection.cid not in broker.connections


def test_a_sender_that_is_held_is_read_from_when_it_is_released() -> None:
    broker, sender, _, _ = scene()
    hold_at_each_message(broker, b"stored")
    sender.say(b"PUB stored 1\r\nx\r\n")
    assert not sender.transport.reading
    loop_of(broker).advance(60.0)  # no timer ends it
    assert not sender.transport.reading
    broker.tick.release()
    assert sender.transport.reading
    assert broker.totals.stalled_clients == 0


def test_only_the_sender_of_what_waits_is_held() -> None:
    broker, sender, slow, quick = scene()
    hold_at_each_message(broker, b"stored")
    sender.say(b"PUB stored 1\r\nx\r\n")
    quick.say(b"PUB other 1\r\nx\r\n")
    assert [each.transport.reading for each in (sender, slow, quick)] == [False, True, True]


def test_a_sender_that_is_held_and_stalled_waits_for_both() -> None:
    broker, sender, slow, _ = scene(max_pending=4000)
    sender.say(KILOBYTE * 3)  # stalled
    sender.connection.backpressure.hold()
    loop_of(broker).advance(0.01)
    assert not sender.transport.reading
    slow.transport.take()
    broker.tick.release()
    assert sender.transport.reading


def test_a_sender_that_leaves_while_it_is_held_is_left_alone() -> None:
    broker, sender, _, _ = scene()
    hold_at_each_message(broker, b"stored")
    sender.say(b"PUB stored 1\r\nx\r\n")
    sender.transport.peer_closes()
    loop_of(broker).run_ready()
    broker.tick.release()
    assert sender.connection.cid not in broker.connections


def hold_at_each_message(broker: Broker, subject: bytes) -> None:
    """Do what a stream does whose messages wait for the disk."""

    def taken(message: object) -> None:
        broker.tick.near_max_pending = broker.tick.flooded = True

    broker.subscribe(broker.global_account, subject, taken)


def test_a_client_that_pings_and_does_not_read_is_closed() -> None:
    broker = make_broker(max_pending=10_000)
    one = client(broker)
    one.transport.stop_taking()
    for _ in range(20):
        if not one.closed:
            one.say(b"PING\r\n" * 100)
            loop_of(broker).advance(0.01)
    assert one.closed
    assert broker.connections == {}


def test_a_connection_closed_by_its_own_last_words_is_recorded_once() -> None:
    broker = make_broker(max_pending=100)
    one = client(broker)
    one.transport.stop_taking()
    one.say(b"PING\r\n" * 10)
    loop_of(broker).advance(0.01)
    one.say(b"PING\r\n" * 9 + b"NONSENSE\r\n")
    assert one.closed
    assert len(broker.closed) == 1


def test_a_client_that_does_not_read_its_last_words_is_cut_off() -> None:
    broker = make_broker()
    one = client(broker)
    one.transport.stop_taking()
    one.say(b"NONSENSE\r\n")
    assert one.transport.closing
    assert not one.transport.lost
    loop_of(broker).advance(2.1)
    assert one.transport.lost


def test_no_timer_is_left_when_the_backlog_is_gone() -> None:
    broker, sender, slow, quick = scene(max_pending=4000)
    sender.say(KILOBYTE * 3)
    loop_of(broker).advance(0.01)
    slow.transport.take()
    for each in (sender, slow, quick):
        each.transport.peer_closes()
    loop_of(broker).run_ready()
    assert loop_of(broker).pending_timers() == 0
