"""INFO and CONNECT: what the server says first, and what the client's options change."""

import json
import re

import pytest

from tests.kits.conformance.clients import Dial, ServerFactory, message, publish
from tests.kits.reference import ServerProcess
from tests.kits.wire import mask_ids

FIRST_INFO_KEYS = [
    "server_id",
    "server_name",
    "version",
    "proto",
    "git_commit",
    "go",
    "host",
    "port",
    "headers",
    "max_payload",
    "client_id",
    "client_ip",
    "api_lvl",
    "xkey",
]


def test_first_info_has_the_fields_of_the_reference(server: ServerProcess, dial: Dial) -> None:
    client = dial(server)
    line = client.read_frame()
    assert line.startswith(b"INFO {")
    info = json.loads(line[5:])
    # These two describe a Go build and are optional for clients.
    required = [key for key in FIRST_INFO_KEYS if key not in ("git_commit", "xkey")]
    assert [key for key in info if key in required] == required
    assert set(info) <= set(FIRST_INFO_KEYS)
    assert re.fullmatch(r"N[A-Z2-7]{55}", info["server_id"])
    assert info["server_name"] == info["server_id"]
    assert (info["proto"], info["headers"], info["max_payload"]) == (1, True, 1048576)
    assert (info["host"], info["port"], info["client_ip"]) == ("127.0.0.1", server.port, "127.0.0.1")
    assert info["version"].startswith("2.15.")
    assert info["api_lvl"] == 5


def test_second_info_follows_the_first_pong(server: ServerProcess, dial: Dial) -> None:
    client = dial(server)
    first = client.read_info()
    client.send(b'CONNECT {"verbose":false,"protocol":1}\r\nPING\r\nPING\r\n')
    assert client.read_frame() == b"PONG\r\n"
    second = client.read_info()
    assert second == {**first, "connect_info": True, "remote_account": "$G"}
    assert client.read_frame() == b"PONG\r\n"
    assert client.round_trip() == b""


@pytest.mark.parametrize("connect", [b"", b'CONNECT {"verbose":false}\r\n', b'CONNECT {"protocol":0}\r\n'])
def test_no_second_info_for_protocol_zero(server: ServerProcess, dial: Dial, connect: bytes) -> None:
    client = dial(server)
    client.read_info()
    client.round_trip(connect)
    assert client.round_trip() == b""


def test_client_ids_rise(server: ServerProcess, dial: Dial) -> None:
    first, second = dial(server).read_info(), dial(server).read_info()
    assert second["client_id"] > first["client_id"]


def test_server_name_is_told(shared_server: ServerFactory, dial: Dial) -> None:
    info = dial(shared_server("-n", "mill")).read_info()
    assert info["server_name"] == "mill"
    assert info["server_id"] != "mill"


def test_client_advertise_is_told(shared_server: ServerFactory, dial: Dial) -> None:
    info = dial(shared_server("--client_advertise", "nats.example.com:4333")).read_info()
    assert (info["host"], info["port"]) == ("nats.example.com", 4333)


def test_headers_can_be_switched_off(shared_server: ServerFactory, dial: Dial) -> None:
    server = shared_server(config="no_header_support: true")
    client = dial(server)
    assert client.read_info()["headers"] is False
    client.send(b'CONNECT {"verbose":false,"headers":true}\r\nHPUB foo 2 4\r\nhihi\r\n')
    assert client.read_until_closed() == b""


def test_no_responders_needs_headers_on_both_sides(shared_server: ServerFactory, dial: Dial) -> None:
    client = dial(shared_server(config="no_header_support: true"))
    client.read_info()
    client.send(b'CONNECT {"verbose":false,"headers":true,"no_responders":true}\r\n')
    assert client.read_until_closed() == b"-ERR 'no responders requires headers support'\r\n"


def test_everything_works_without_connect(server: ServerProcess, dial: Dial) -> None:
    client = dial(server)
    client.read_info()
    sent = b"SUB without.connect 1\r\n" + publish("without.connect", b"hi")
    assert client.round_trip(sent) == b"+OK\r\n+OK\r\n" + message("without.connect", 1, b"hi")


def test_verbose_confirms_all_but_ping(server: ServerProcess, dial: Dial) -> None:
    client = dial(server)
    client.read_info()
    client.send(b'CONNECT {"verbose":true,"headers":true}\r\n')
    assert client.read_frame() == b"+OK\r\n"
    for operation in (
        b"SUB foo 1",
        b"UNSUB 1",
        b"UNSUB 77",
        b"PUB foo 0\r\n",
        b"HPUB foo 2 2\r\nab",
        b"PONG",
    ):
        expected = b"" if operation == b"PONG" else b"+OK\r\n"
        assert client.round_trip(operation + b"\r\n") == expected, operation


def test_verbose_and_pedantic_refusal_is_followed_by_ok_or_not(server: ServerProcess, dial: Dial) -> None:
    client = dial(server)
    client.read_info()
    assert client.round_trip(b'CONNECT {"verbose":true,"pedantic":true}\r\n') == b"+OK\r\n"
    assert client.round_trip(b"SUB foo.* 1\r\n") == b"+OK\r\n"
    assert client.round_trip(publish("foo.*")) == (
        b"-ERR 'Invalid Publish Subject'\r\n+OK\r\n" + message("foo.*", 1)
    )
    assert client.round_trip(b"SUB foo..a 2\r\n") == b"-ERR 'Invalid Subject'\r\n"
    assert client.round_trip(publish("_GR_.a")) == (
        b"-ERR 'Permissions Violation for Publish to \"_GR_.a\"'\r\n"
    )


def test_second_connect_drops_subscriptions_and_applies_options(server: ServerProcess, dial: Dial) -> None:
    client = dial(server)
    client.read_info()
    assert client.round_trip(b'CONNECT {"verbose":false}\r\nSUB again 1\r\n') == b""
    assert client.round_trip(b'CONNECT {"verbose":true,"echo":false}\r\n') == b"+OK\r\n"
    assert client.round_trip(publish("again", b"x")) == b"+OK\r\n"
    assert client.round_trip(b"SUB again 2\r\n" + publish("again", b"y")) == b"+OK\r\n+OK\r\n"


def test_second_connect_keeps_what_it_does_not_name(server: ServerProcess, dial: Dial) -> None:
    client = dial(server)
    client.read_info()
    assert client.round_trip(b'CONNECT {"verbose":false,"echo":false}\r\n') == b""
    assert client.round_trip(b"CONNECT {}\r\nSUB keep 1\r\n" + publish("keep")) == b""


def test_echo_false_hides_own_messages_only(server: ServerProcess, join: Dial) -> None:
    quiet, other = join(server, echo=False), join(server)
    assert quiet.round_trip(b"SUB echo.t 1\r\nSUB echo.* q 2\r\n" + publish("echo.t", b"mine")) == b""
    other.send(publish("echo.t", b"theirs"))
    assert quiet.read_frame() == message("echo.t", 1, b"theirs")
    assert quiet.read_frame() == message("echo.t", 2, b"theirs")


def test_transcript_of_a_whole_session(server: ServerProcess, dial: Dial) -> None:
    client = dial(server)
    transcript = client.read_frame()
    client.send(
        b'CONNECT {"verbose":true,"pedantic":true,"protocol":1,"headers":true,"no_responders":true}\r\n'
        b"PING\r\nSUB in.box 1\r\nPUB nobody.there in.box 3\r\nabc\r\n"
        b"HPUB in.box 12 14\r\nNATS/1.0\r\n\r\nhi\r\nUNSUB 1\r\nPING\r\n"
    )
    transcript += client.read_frames(10)
    masked = mask_ids(transcript)
    infos, rest = re.findall(rb"INFO .*\r\n", masked), re.sub(rb"INFO .*\r\n", b"INFO\r\n", masked)
    assert len(infos) == 2
    assert rest == (
        b"INFO\r\n+OK\r\nPONG\r\nINFO\r\n+OK\r\n+OK\r\n"
        b"HMSG in.box 1 44 44\r\nNATS/1.0 503\r\nNats-Subject: nobody.there\r\n\r\n\r\n"
        b"+OK\r\nHMSG in.box 1 12 14\r\nNATS/1.0\r\n\r\nhi\r\n+OK\r\nPONG\r\n"
    )
