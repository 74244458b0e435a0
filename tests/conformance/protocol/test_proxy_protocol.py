"""The PROXY protocol: whose connection it is, by the header of a proxy."""

import json
import urllib.request
from typing import Any

import pytest

from tests.kits.conformance.clients import Dial, ServerFactory, message, publish
from tests.kits.reference import ServerProcess
from tests.kits.wire import WireClient

SIGNATURE = b"\r\n\r\n\x00\r\nQUIT\n"
ADDRESSES = bytes([192, 0, 2, 1, 198, 51, 100, 1]) + (56324).to_bytes(2) + (4222).to_bytes(2)
ADDRESSES_6 = bytes(15) + b"\x07" + bytes(15) + b"\x08" + (56325).to_bytes(2) + (4222).to_bytes(2)


def version_2(command: int, family: int, data: bytes) -> bytes:
    return SIGNATURE + bytes([0x20 | command, family]) + len(data).to_bytes(2) + data


GOOD = {
    "tcp4": (b"PROXY TCP4 192.0.2.1 198.51.100.1 56324 4222\r\n", "192.0.2.1", 56324),
    "tcp6": (b"PROXY TCP6 2001:db8::1 2001:db8::2 56324 4222\r\n", "2001:db8::1", 56324),
    "mapped": (b"PROXY TCP6 ::ffff:192.0.2.7 ::ffff:192.0.2.8 1 2\r\n", "192.0.2.7", 1),
    "unknown": (b"PROXY UNKNOWN\r\n", "127.0.0.1", None),
    "unknown_more": (b"PROXY UNKNOWN ffff::1 ffff::2 1 2\r\n", "127.0.0.1", None),
    "inet": (version_2(1, 0x11, ADDRESSES), "192.0.2.1", 56324),
    "inet_more": (version_2(1, 0x11, ADDRESSES + b"\x04\x00\x01x"), "192.0.2.1", 56324),
    "inet_most": (version_2(1, 0x11, ADDRESSES + bytes(65535 - len(ADDRESSES))), "192.0.2.1", 56324),
    "inet6": (version_2(1, 0x21, ADDRESSES_6), "::7", 56325),
    "local": (version_2(0, 0, b""), "127.0.0.1", None),
    "local_more": (version_2(0, 0x11, ADDRESSES), "127.0.0.1", None),
    "unspecified": (version_2(1, 0x01, b"abc"), "127.0.0.1", None),
    "none": (b"", "127.0.0.1", None),
}
BAD = {
    "family": b"PROXY TCP4 2001:db8::1 2001:db8::2 1 2\r\n",
    "protocol": b"PROXY UDP4 192.0.2.1 192.0.2.2 1 2\r\n",
    "address": b"PROXY TCP4 192.0.2.256 192.0.2.2 1 2\r\n",
    "zone": b"PROXY TCP6 fe80::1%\x1b[31m 2001:db8::2 1 2\r\n",
    "port": b"PROXY TCP4 192.0.2.1 192.0.2.2 65536 2\r\n",
    "signs": b"PROXY TCP4 192.0.2.1 192.0.2.2 +1 2\r\n",
    "parts": b"PROXY TCP4 192.0.2.1 192.0.2.2 1\r\n",
    "long": b"PROXY " + b"x" * 200 + b"\r\n",
    "signature": SIGNATURE[:-1] + b"x" + bytes(4),
    "version": SIGNATURE + b"\x31\x11\x00\x0c" + ADDRESSES,
    "command": version_2(2, 0x11, ADDRESSES),
    "datagram": version_2(1, 0x12, ADDRESSES),
    "unix": version_2(1, 0x31, bytes(216)),
    "stranger_family": version_2(1, 0x41, bytes(216)),
    "short": version_2(1, 0x11, ADDRESSES[:-1]),
    "short_6": version_2(1, 0x21, ADDRESSES_6[:-1]),
    "nothing": version_2(1, 0x11, b""),
    "twice": GOOD["tcp4"][0] + GOOD["tcp4"][0],
    "twice_2": GOOD["inet"][0] + GOOD["inet"][0],
    "unknown_before_another": GOOD["unknown"][0] + GOOD["tcp4"][0],
    "local_before_another": GOOD["local"][0] + GOOD["inet"][0],
    "after_connect": b"CONNECT {}\r\n" + GOOD["tcp4"][0],
}


@pytest.fixture
def server(shared_server: ServerFactory) -> ServerProcess:
    return shared_server(config="proxy_protocol: true", monitor=True)


def described(server: ServerProcess, client: WireClient) -> dict[str, Any]:
    url = f"{server.monitor_url}/connz?cid={client.info['client_id']}"
    with urllib.request.urlopen(url) as response:
        (found,) = json.load(response)["connections"]
    return dict(found)


@pytest.mark.parametrize("name", GOOD)
def test_headers(server: ServerProcess, dial: Dial, name: str) -> None:
    header, host, port = GOOD[name]
    client = dial(server)
    assert "client_ip" not in client.read_info()
    client.send(header)
    client.handshake(read_info=False)
    found = described(server, client)
    assert (found["ip"], found["port"] if port else None) == (host, port)
    assert client.round_trip(b"SUB x 1\r\n" + publish("x", b"a")) == message("x", "1", b"a")


@pytest.mark.parametrize("name", ["tcp4", "inet", "inet6"])
def test_header_in_pieces_and_with_what_follows(server: ServerProcess, dial: Dial, name: str) -> None:
    header, host, _ = GOOD[name]
    rest = header + b'CONNECT {"verbose":false,"protocol":1}\r\nPING\r\n'
    for cut in (1, 6, 12, len(header) - 1, len(header) + 3):
        client = dial(server)
        client.read_info()
        client.send(rest[:cut])
        client.send(rest[cut:])
        client.read_until_pong()
        assert described(server, client)["ip"] == host


@pytest.mark.parametrize("name", BAD)
def test_headers_that_are_refused(server: ServerProcess, dial: Dial, name: str) -> None:
    client = dial(server)
    client.read_info()
    client.send(BAD[name] + b"PING\r\n")
    assert b"PONG" not in client.read_until_closed()


def test_header_where_none_is_expected(shared_server: ServerFactory, dial: Dial) -> None:
    client = dial(shared_server())
    client.read_info()
    client.send(GOOD["tcp4"][0])
    assert b"Unknown Protocol Operation" in client.read_until_closed()
