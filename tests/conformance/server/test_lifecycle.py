"""Timers and endings: keep-alive, stale connections, lame duck mode, signals."""

import signal
import time

import pytest

from tests.kits.conformance.clients import Dial, ServerFactory, closed_reason, message, publish
from tests.kits.wire import WireClient, WireError

FAST_PINGS = 'ping_interval: "200ms", ping_max: 2'


def test_idle_connection_is_pinged(shared_server: ServerFactory, dial: Dial) -> None:
    client = dial(shared_server(config='ping_interval: "200ms", ping_max: 100', monitor=True))
    client.handshake()
    client.answer_pings = False
    for _ in range(5):
        assert client.read_frame() == b"PING\r\n"
        client.send(b"PONG\r\n")
    client.answer_pings = True
    assert client.round_trip() == b""


def test_connection_that_does_not_answer_is_stale(shared_server: ServerFactory, dial: Dial) -> None:
    server = shared_server(config=FAST_PINGS, monitor=True)
    started = time.monotonic()
    client = dial(server, answer_pings=False)
    client.read_info()
    client.send_connect()
    told = client.read_until_closed()
    assert told.count(b"PING\r\n") == 2
    assert told.endswith(b"-ERR 'Stale Connection'\r\n")
    assert time.monotonic() - started > 0.4
    assert closed_reason(server, client) == "Stale Connection"


def test_connection_without_connect_is_stale_too(shared_server: ServerFactory, dial: Dial) -> None:
    client = dial(shared_server(config=FAST_PINGS, monitor=True), answer_pings=False)
    client.read_info()
    assert client.read_until_closed() == b"PING\r\nPING\r\n-ERR 'Stale Connection'\r\n"


def test_receiving_keeps_no_connection_alive(shared_server: ServerFactory, dial: Dial, join: Dial) -> None:
    server = shared_server(config=FAST_PINGS, monitor=True)
    publisher, deaf = join(server), dial(server, answer_pings=False)
    deaf.read_info()
    deaf.send_connect()
    frames = deaf.round_trip(b"SUB flow 1\r\n")
    while not frames.endswith(b"'Stale Connection'\r\n"):
        publisher.round_trip(publish("flow"))
        frames += deaf.read_frame()
    assert frames.count(b"PING\r\n") == 2


def test_connect_must_come_in_time(shared_server: ServerFactory, dial: Dial) -> None:
    server = shared_server(config="authorization { token: secret, timeout: 0.2 }", monitor=True)
    client = dial(server)
    client.read_info()
    assert client.read_until_closed() == b"-ERR 'Authentication Timeout'\r\n"
    assert closed_reason(server, client) == "Authentication Timeout"


def test_connect_in_time_ends_the_timeout(shared_server: ServerFactory, dial: Dial) -> None:
    server = shared_server(config="authorization { token: secret, timeout: 1 }", monitor=True)
    late = dial(server)
    client = None
    while client is None:
        client = dial(server)
        try:
            client.handshake(auth_token="secret")
        except WireError:  # on a machine so busy that its time was over
            client = None
    late.read_info()
    assert late.read_until_closed() == b"-ERR 'Authentication Timeout'\r\n"
    assert client.round_trip() == b""


def test_no_timeout_without_authorization(shared_server: ServerFactory, dial: Dial) -> None:
    timed = shared_server(config="authorization { token: secret, timeout: 0.2 }", monitor=True)
    free, late = dial(shared_server(monitor=True)), dial(timed)
    free.read_info()
    late.read_until_closed()
    assert free.round_trip() == b""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signal_ends_connections_and_process(
    own_server: ServerFactory, join: Dial, dial: Dial, number: signal.Signals
) -> None:
    server = own_server()
    subscriber, silent = join(server), dial(server)
    silent.read_info()
    subscriber.round_trip(b"SUB last.words 1\r\n")
    subscriber.send(publish("last.words", b"bye") + b"PING\r\n")
    assert subscriber.read_until_pong() == message("last.words", 1, b"bye")
    server.signal(number)
    assert subscriber.read_until_closed() == b""
    assert silent.read_until_closed() == b""
    assert server.wait() == 0


def test_same_port_after_a_restart(own_server: ServerFactory, join: Dial) -> None:
    server = own_server(config="max_payload: 2000")
    before, port = join(server), server.port
    server.kill()
    before.read_until_closed()
    server.start()
    assert server.port == port
    after = join(server)
    assert after.info["server_id"] != before.info["server_id"]
    assert after.info["max_payload"] == 2000


CONNECT_INFO = ("connect_info", "remote_account")  # only in the INFO right after CONNECT
LAME_DUCK = 'lame_duck_grace_period: "2s", lame_duck_duration: "30s"'


def test_lame_duck_tells_clients_then_closes_them_and_ends(
    own_server: ServerFactory, join: Dial, dial: Dial
) -> None:
    server = own_server(config=LAME_DUCK)
    modern, old = join(server), join(server, protocol=0)
    first_info = {key: modern.info[key] for key in modern.info if key not in CONNECT_INFO}
    server.signal(signal.SIGUSR2)
    assert modern.read_info() == {**first_info, "ldm": True}
    with pytest.raises(ConnectionRefusedError):
        dial(server)
    # Within the grace period connections work as before.
    assert modern.round_trip(b"SUB duck 1\r\n" + publish("duck")) == message("duck", 1)
    for client in (old, modern):  # after 2 s servers ping for the first time
        assert client.read_until_closed() in (b"", b"PING\r\n")
    assert server.wait() == 0


def test_lame_duck_without_clients_ends_at_once(own_server: ServerFactory) -> None:
    server = own_server(config='lame_duck_grace_period: "60s"')
    server.signal(signal.SIGUSR2)
    assert server.wait() == 0  # long before the grace period, which the runner would not wait for


def test_new_client_during_lame_duck_is_not_needed_for_the_old(own_server: ServerFactory, join: Dial) -> None:
    server = own_server(config=LAME_DUCK)
    first, second = join(server), join(server)
    second.round_trip(b"SUB pair 1\r\n")
    server.signal(signal.SIGUSR2)
    first.read_info()
    first.send(publish("pair", b"still"))
    frames = [second.read_frame() for _ in range(2)]
    assert message("pair", 1, b"still") in frames


def test_publishes_before_a_disconnect_are_delivered(shared_server: ServerFactory, join: Dial) -> None:
    server = shared_server(monitor=True)
    subscriber = join(server)
    subscriber.round_trip(b"SUB parting 1\r\n")
    publisher: WireClient = join(server)
    publisher.send(publish("parting", b"x") * 100)
    publisher.close()
    assert subscriber.read_frames(100) == message("parting", 1, b"x") * 100
