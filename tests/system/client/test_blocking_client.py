"""The client of a program without an event loop."""

import json
import threading
from collections.abc import Iterator

import pytest

from millstream.base.ids import nuid
from millstream.client import (
    BlockingClient,
    ClientClosed,
    ClientError,
    ServerUnavailable,
    StartAt,
    StreamNotFound,
    connect_blocking,
)
from millstream.client.blocking_client import BlockingOrderedConsumer
from tests.kits.client import BEAT_S, PATIENCE_S
from tests.kits.reference import ServerProcess
from tests.kits.wire import WireClient


@pytest.fixture
def stream(js_server: ServerProcess) -> Iterator[str]:
    name = f"S{nuid()}"
    wire = WireClient.connect(js_server.port)
    wire.handshake()
    config = {"name": name, "subjects": [f"{name}.>"]}
    ask(wire, f"$JS.API.STREAM.CREATE.{name}", json.dumps(config).encode())
    yield name
    ask(wire, f"$JS.API.STREAM.DELETE.{name}", b"")
    wire.close()


@pytest.fixture
def client(js_server: ServerProcess) -> Iterator[BlockingClient]:
    with connect_blocking(js_server.client_url) as connected:
        yield connected


def test_messages_are_iterated_in_order_and_later_ones_are_waited_for(
    client: BlockingClient, stream: str
) -> None:
    sequences = [client.publish(f"{stream}.a", str(number).encode()) for number in range(1, 601)]
    assert sequences == list(range(1, 601))
    seen = []
    with client.ordered(stream) as messages:
        for message in messages:
            seen.append(int(message.data))
            if message.stream_seq == 600:
                client.publish(f"{stream}.b", b"601", headers={"k": "v"})
            if message.stream_seq == 601:
                assert message.headers == {"k": "v"}
                break
        state = messages.state
    assert seen == list(range(1, 602))
    assert (state.stream_seq, state.consumer_seq, state.lag) == (601, 601, 0)


def test_state_counts_what_the_program_has_seen(client: BlockingClient, stream: str) -> None:
    for number in range(5):
        client.publish(f"{stream}.a", b"%d" % number)
    with client.ordered(stream, start=StartAt.by_sequence(2)) as messages:
        assert messages.state.stream_seq == 0
        messages.next(PATIENCE_S)
        state = messages.state
        assert (state.stream_seq, state.consumer_seq, state.lag) == (2, 1, 3)


def test_waiting_can_time_out(client: BlockingClient, stream: str) -> None:
    with client.ordered(stream) as messages:
        with pytest.raises(TimeoutError):
            messages.next(timeout_s=0.01)
        client.publish(f"{stream}.a", b"1")
        assert messages.next(timeout_s=PATIENCE_S).data == b"1"


def test_another_thread_can_end_an_iteration(client: BlockingClient, stream: str) -> None:
    client.publish(f"{stream}.a", b"1")
    first = threading.Event()
    counted: list[int] = []

    def count(messages: BlockingOrderedConsumer) -> None:
        for message in messages:
            counted.append(message.stream_seq)
            first.set()

    with client.ordered(stream) as messages:
        reader = threading.Thread(target=count, args=(messages,))
        reader.start()
        assert first.wait(PATIENCE_S)
        messages.close()
        reader.join(PATIENCE_S)
        assert not reader.is_alive()
        with pytest.raises(ClientClosed):
            messages.next()
    assert counted == [1]


def test_what_ends_a_reading_is_raised_where_it_is_waited_for(
    js_server: ServerProcess, client: BlockingClient, stream: str
) -> None:
    with pytest.raises(StreamNotFound):
        client.ordered("NOWHERE").open()
    client.publish(f"{stream}.a", b"1")
    with client.ordered(stream, heartbeat_s=BEAT_S) as messages:
        assert next(messages).data == b"1"
        wire = WireClient.connect(js_server.port)
        wire.handshake()
        ask(wire, f"$JS.API.STREAM.DELETE.{stream}", b"")
        wire.close()
        with pytest.raises(StreamNotFound):
            messages.next(PATIENCE_S)
        with pytest.raises(StreamNotFound):
            next(messages)


def test_a_closed_client_says_so(js_server: ServerProcess, stream: str) -> None:
    client = connect_blocking(js_server.client_url)
    client.close()
    client.close()
    with pytest.raises(ClientClosed):
        client.ordered(stream)
    with pytest.raises(ServerUnavailable):
        connect_blocking("nats://127.0.0.1:1", timeout_s=0.05)


def test_a_callback_is_refused(client: BlockingClient, stream: str) -> None:
    with pytest.raises(ClientError, match="event loop"):
        client.ordered(stream, callback=print)


def ask(wire: WireClient, subject: str, body: bytes) -> None:
    """One request to the API, whose answer must come and is of no interest."""
    wire.send(b"SUB answer 1\r\nUNSUB 1 1\r\n")
    wire.send(b"PUB %b answer %d\r\n%b\r\n" % (subject.encode(), len(body), body))
    assert b"io.nats.jetstream" in wire.read_frame()
