"""Long messages arrive like short ones, in their place among others."""

from __future__ import annotations

import pytest

from millstream.broker.broker import Broker
from millstream.broker.options import BrokerOptions
from millstream.protocol.outlet import LONG, long_part
from tests.kits.fake_transport import FakeClient, FakeLoop


@pytest.fixture
def broker() -> Broker:
    return Broker(BrokerOptions(), server_id="N", loop=FakeLoop().as_loop())


def joined(broker: Broker, lines: bytes, **options: object) -> FakeClient:
    client = FakeClient(broker)
    client.connect(**options)
    client.say(lines)
    return client


def test_every_receiver_gets_the_same_and_in_order(broker: Broker) -> None:
    first, second = joined(broker, b"SUB a.* 1\r\n"), joined(broker, b"SUB a.b 2\r\nUNSUB 2 2\r\n")
    account = broker.global_account
    parts = [b"x" * LONG, b"y"]
    assert broker.publish(account, b"a.b", b"before") == 2
    assert broker.publish_parts(account, b"a.b", parts, headers=b"NATS/1.0\r\nA: b\r\n\r\n") == 2
    broker.publish(account, b"a.b", b"after")
    size = LONG + 1
    long = b"HMSG a.b %%b 18 %d\r\nNATS/1.0\r\nA: b\r\n\r\n%b\r\n" % (size + 18, b"".join(parts))
    assert first.heard() == b"MSG a.b 1 6\r\nbefore\r\n%bMSG a.b 1 5\r\nafter\r\n" % (long % b"1")
    assert second.heard() == b"MSG a.b 2 6\r\nbefore\r\n%b" % (long % b"2")  # it wanted two
    assert first.connection.out_messages == 3
    assert first.connection.out_bytes == len(b"beforeafter") + size + 18


def test_headers_are_left_out_for_those_who_cannot_read_them(broker: Broker) -> None:
    client = joined(broker, b"SUB a 1\r\n", headers=False)
    payload = b"x" * LONG
    broker.publish(broker.global_account, b"a", payload, reply=b"r", headers=b"NATS/1.0\r\n\r\n")
    assert client.heard() == b"MSG a 1 r %d\r\n%b\r\n" % (LONG, payload)


def test_no_part_is_copied_for_a_single_receiver(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    client = joined(broker, b"SUB a 1\r\n")
    written: list[bytes] = []
    monkeypatch.setattr(client.transport, "writelines", written.extend)
    parts = [b"x" * (5 << 20), b"y" * (5 << 20)]
    assert broker.publish_parts(broker.global_account, b"a", parts) == 1
    assert [id(each) for each in written[1:-1]] == [id(each) for each in parts]


def test_a_queue_group_gets_it_once(broker: Broker) -> None:
    clients = [joined(broker, b"SUB a workers 1\r\n") for _ in range(3)]
    assert broker.publish(broker.global_account, b"a", b"x" * LONG) == 1
    assert sum(bool(each.heard()) for each in clients) == 1


def test_nobody_listens(broker: Broker) -> None:
    assert broker.publish(broker.global_account, b"a", b"x" * LONG) == 0


def test_a_receiver_that_does_not_read_is_slow(broker: Broker) -> None:
    client = joined(broker, b"SUB a 1\r\n")
    client.transport.stop_taking()
    for _ in range(BrokerOptions().max_pending // LONG + 2):
        broker.publish(broker.global_account, b"a", b"x" * LONG)
    client.heard()
    assert client.closed


def test_a_long_message_of_a_client_keeps_its_place(broker: Broker) -> None:
    receivers = [joined(broker, b"SUB a 1\r\nSUB b 2\r\n") for _ in range(2)]
    sender = joined(broker, b"")
    payload = b"x" * LONG
    sender.say(b"PUB a r 5\r\nfirst\r\nPUB b r %d\r\n%b\r\nPUB a 4\r\nlast\r\n" % (LONG, payload))
    for each in receivers:
        long = b"MSG b 2 r %d\r\n%b\r\n" % (LONG, payload)
        assert each.heard() == b"MSG a 1 r 5\r\nfirst\r\n%bMSG a 1 4\r\nlast\r\n" % long


def test_a_long_message_keeps_its_headers_for_those_who_can_read_them(broker: Broker) -> None:
    reads, cannot = joined(broker, b"SUB a 1\r\n"), joined(broker, b"SUB a 1\r\n", headers=False)
    block, payload = b"NATS/1.0\r\nA: b\r\n\r\n", b"x" * LONG
    line = b"HPUB a %d %d\r\n%b%b\r\n" % (len(block), len(block) + LONG, block, payload)
    joined(broker, b"").say(line)
    assert reads.heard() == b"HMSG a 1 %d %d\r\n%b%b\r\n" % (len(block), len(block) + LONG, block, payload)
    assert cannot.heard() == b"MSG a 1 %d\r\n%b\r\n" % (LONG, payload)


def test_members_of_queue_groups_share_long_messages(broker: Broker) -> None:
    clients = [joined(broker, b"SUB a workers 1\r\n") for _ in range(3)]
    sender = joined(broker, b"")
    sender.say(b"PUB a %d\r\n%b\r\n" % (LONG, b"x" * LONG) * 4)
    assert sum(each.heard().count(b"MSG a 1") for each in clients) == 4


def test_a_long_message_is_only_kept_in_memory_that_it_fills() -> None:
    memory = b"x" * (4 * LONG)
    assert long_part(memory, 5, LONG) == b"x" * LONG
    assert long_part(memory, 5, LONG - 1) is None
    assert long_part(memory + b"x", 5, LONG) is None
