"""Clients that do not read, say too much, or talk nonsense; a witness must not notice."""

import contextlib
import random
import socket

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from millstream.broker.close_reason import CloseReason
from tests.kits.faults import WatchedServer, Witness, dial, read_to_end
from tests.kits.wire import WireClient

CONNECT = b'CONNECT {"verbose":false,"pedantic":false,"headers":true}\r\n'
MEGABYTE = 1 << 20


# -- clients that do not read -------------------------------------------------------------------------


def test_a_client_that_never_reads_is_closed_and_the_others_get_everything() -> None:
    with WatchedServer(max_pending=2 * MEGABYTE) as server, Witness(server) as witness:
        deaf = WireClient.connect(server.port, receive_buffer=4096)
        deaf.handshake()
        deaf.round_trip(b"SUB flood 1\r\n")
        with WireClient.connect(server.port) as reader, WireClient.connect(server.port) as sender:
            reader.handshake()
            reader.round_trip(b"SUB flood 1\r\n")
            sender.handshake()
            body = b"x" * 65536
            frame = b"PUB flood 65536\r\n" + body + b"\r\n"
            expected = b"MSG flood 1 65536\r\n" + body + b"\r\n"
            for _ in range(30):  # twenty megabytes, ten times what may be pending
                sender.send(10 * frame)  # a third of it: the reader is never so far behind
                for _ in range(10):
                    assert reader.read_frame() == expected
                witness.look()
            assert sender.round_trip() == b""
        server.wait_until(lambda broker: broker.totals.slow_consumers == 1)
        reasons = server.ask(lambda broker: [record.session.reason for record in broker.closed])
        assert CloseReason.SLOW_CONSUMER_PENDING_BYTES in reasons
        server.wait_for_connections(1)
        deaf.close()


def test_a_client_that_stops_reading_is_closed_after_the_write_deadline() -> None:
    with WatchedServer(write_deadline_s=0.5) as server, Witness(server) as witness:
        deaf = WireClient.connect(server.port, receive_buffer=4096)
        deaf.handshake()
        deaf.round_trip(b"SUB flood 1\r\n")
        with WireClient.connect(server.port) as sender:
            sender.handshake()
            sender.round_trip((b"PUB flood 65536\r\n" + b"x" * 65536 + b"\r\n") * 100)
            server.wait_until(lambda broker: broker.totals.slow_consumers == 1)
            witness.look()
        reasons = server.ask(lambda broker: [record.session.reason for record in broker.closed])
        assert CloseReason.SLOW_CONSUMER_WRITE_DEADLINE in reasons
        server.wait_for_connections(1)
        deaf.close()


def test_a_client_that_asks_without_reading_cannot_fill_the_server() -> None:
    with WatchedServer(max_pending=MEGABYTE) as server, Witness(server) as witness, dial(server.port) as deaf:
        deaf.sendall(CONNECT)
        deaf.settimeout(20.0)  # beyond the write deadline
        with contextlib.suppress(OSError):  # the server closes, or stops reading
            for _ in range(400):
                deaf.sendall(b"PING\r\n" * 5000)
        witness.look()
        server.wait_for_connections(1)


# -- clients that say too much --------------------------------------------------------------------------


@pytest.mark.parametrize("line", [b"PUB foo %d\r\n", b"HPUB foo 2 %d\r\n", b"PUB foo inbox %d\r\n"])
def test_one_byte_too_much_ends_the_connection_and_the_limit_itself_does_not(line: bytes) -> None:
    with WatchedServer(max_payload=1000) as server, Witness(server) as witness:
        with WireClient.connect(server.port) as client:
            client.handshake()
            assert client.round_trip(line % 1000 + b"x" * 1000 + b"\r\n") == b""
            client.send(line % 1001)
            assert client.read_until_closed() == b"-ERR 'Maximum Payload Violation'\r\n"
        with dial(server.port) as connection:  # the body comes all the same, and more of it
            connection.sendall(CONNECT + line % 1001)
            with contextlib.suppress(OSError):
                for _ in range(100):
                    connection.sendall(b"x" * 65536)
            read_to_end(connection)
        witness.look()
        server.wait_for_connections(1)


@pytest.mark.parametrize("start", [b"SUB ", b"PUB ", b"CONNECT ", b"HPUB x ", b"UNSUB ", b"INFO "])
def test_a_line_without_end_is_cut_off(start: bytes) -> None:
    with WatchedServer() as server, Witness(server) as witness:
        with dial(server.port) as connection:
            with contextlib.suppress(OSError):
                connection.sendall(CONNECT + start)
                for _ in range(100):
                    connection.sendall(b"y" * 65536)
            assert b"PONG" not in read_to_end(connection)
        witness.look()
        server.wait_for_connections(1)


@pytest.mark.parametrize("start", [b"PING", b"SUB ", b"PUB ", b"CONNECT"])
def test_blanks_without_end_hold_up_nobody(start: bytes) -> None:
    with WatchedServer() as server, Witness(server) as witness:
        with dial(server.port) as connection:
            connection.sendall(start)
            for _ in range(60):
                connection.sendall(b" " * 65536)
            witness.look()
        server.wait_for_connections(1)


# -- clients that talk nonsense -------------------------------------------------------------------------


def throw(port: int, data: bytes) -> bytes:
    """Send bytes, say that was all, and read until the server has closed."""
    with dial(port) as connection:
        with contextlib.suppress(OSError):
            connection.sendall(data)
            connection.shutdown(socket.SHUT_WR)
        return read_to_end(connection)


@pytest.mark.parametrize("connected", [False, True])
def test_random_bytes_end_only_their_own_connection(connected: bool) -> None:
    generator = random.Random(20240229 + connected)
    with WatchedServer() as server, Witness(server) as witness:
        for number in range(150):
            noise = generator.randbytes(generator.choice([1, 2, 10, 100, 5000, 100_000]))
            answer = throw(server.port, (CONNECT if connected else b"") + noise)
            assert answer.startswith(b"INFO ") or not answer
            if number % 10 == 0:
                witness.look()
        witness.look()
        server.wait_for_connections(1)


_SEEDS = [
    CONNECT,
    b"CONNECT {}\r\n",
    b'CONNECT {"user":"a","pass":"b","protocol":1,"no_responders":true,"headers":true}\r\n',
    b"PUB foo 5\r\nhello\r\n",
    b"PUB foo bar 5\r\nhello\r\n",
    b"HPUB foo 12 17\r\nNATS/1.0\r\n\r\nhello\r\n",
    b"HPUB foo bar 12 12\r\nNATS/1.0\r\n\r\n\r\n",
    b"SUB foo 1\r\n",
    b"SUB foo.* q 2\r\n",
    b"SUB > 3\r\n",
    b"UNSUB 1\r\n",
    b"UNSUB 2 5\r\n",
    b"PING\r\n",
    b"PONG\r\n",
    b"INFO {}\r\n",
    b"+OK\r\n",
    b"-ERR 'x'\r\n",
]


@st.composite
def mutated_streams(draw: st.DrawFn) -> bytes:
    """Valid frames, some of them damaged: bytes changed, dropped, doubled, put in, or cut off."""
    frames = [bytearray(frame) for frame in draw(st.lists(st.sampled_from(_SEEDS), min_size=1, max_size=8))]
    for frame in frames:
        for _ in range(draw(st.integers(0, 2))):
            place = draw(st.integers(0, max(len(frame) - 1, 0)))
            match draw(st.integers(0, 5)):
                case 0 if frame:
                    frame[place] = draw(st.integers(0, 255))
                case 1 if frame:
                    del frame[place]
                case 2 if frame:
                    frame.insert(place, frame[place])
                case 3:
                    frame[place:place] = draw(st.binary(max_size=4))
                case 4:
                    del frame[place:]
                case 5:
                    frame[place:place] = draw(
                        st.sampled_from([b"9" * 9, b"9" * 30, b"-1", b"\x00", b"  ", b"\t"])
                    )
    return b"".join(bytes(frame) for frame in frames)


def survives(server: WatchedServer, witness: Witness, stream: bytes) -> None:
    throw(server.port, stream)
    witness.look()
    server.wait_for_connections(1)


@pytest.fixture(scope="module")
def scene() -> object:
    with WatchedServer() as server, Witness(server) as witness:
        yield server, witness


_FIXTURE_ONCE = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow]


@settings(max_examples=150, deadline=None, suppress_health_check=_FIXTURE_ONCE)
@given(stream=mutated_streams())
def test_damaged_frames_end_at_most_their_own_connection(
    scene: tuple[WatchedServer, Witness], stream: bytes
) -> None:
    survives(*scene, stream)


@pytest.mark.soak
@pytest.mark.timeout(1200)
@settings(max_examples=20_000, deadline=None, suppress_health_check=_FIXTURE_ONCE)
@given(stream=mutated_streams())
def test_very_many_damaged_frames_end_at_most_their_own_connection(
    scene: tuple[WatchedServer, Witness], stream: bytes
) -> None:
    survives(*scene, stream)
