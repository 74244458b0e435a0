"""The trace log shows what clients send on one line each, and no secrets however they are spelled."""

from __future__ import annotations

import contextlib
import json

from tests.kits.reference import ServerKind, ServerProcess
from tests.kits.security.gate import client
from tests.kits.wire import WireClient, WireError

FORGED = b"[1] 2026/01/01 00:00:00.000000 [INF] forged"


def test_nothing_a_client_sends_makes_a_line_of_its_own() -> None:
    with ServerProcess(ServerKind.MILLSTREAM, "-DV") as server:
        with client(server) as user:
            user.round_trip(b"SUB x 1\xff\r\nSUB a\x1b[2Kb q\xfe 2\r\n")
            body = b'one\n%b\r\n%b\x1b[31m"\\' % (FORGED, FORGED)
            user.round_trip(b"PUB x in\xff %d\r\n%b\r\n" % (len(body), body))
            block = b"NATS/1.0\r\nX: %b\n%b\r\n\r\n" % (FORGED, FORGED)
            user.round_trip(b"HPUB x %d %d\r\n%b\r\n" % (len(block), len(block), block))
        server.wait_for_log("Client connection closed")
        lines = [line for line in server.log.splitlines() if "forged" in line]
        assert lines
        assert not any(line.startswith("[1] ") for line in lines)
        assert any(r'MSG_PAYLOAD: ["one\n[1] ' in line for line in lines)
        assert "\x1b" not in server.log


def test_no_spelling_of_a_secret_is_shown() -> None:
    secret = "s3cr3t-w0rd"
    texts = [
        json.dumps({"user": "u", "pass": secret}),
        '{"user":"u","PASS":"SECRET"}',
        '{"user":"u","pass":"x\\"SECRET"}',
        '{"user":"u","p\\u0061ss":"SECRET"}',
        '{"user":"u","Auth_Token" : "SECRET"}',
        '{"jwt":"SECRET","sig":"SECRET","nkey":"UA"}',
        '{"pass":"SECRET"',
        '{"pass":["SECRET"]}',
        '{"pass":"SECRET"} trailing',
        "pass SECRET",
    ]
    with ServerProcess(ServerKind.MILLSTREAM, "-DV") as server:
        for text in texts:
            with WireClient.connect(server.port) as wire:
                wire.read_info()
                wire.send(b"CONNECT %b\r\nPING\r\n" % text.replace("SECRET", secret).encode())
                with contextlib.suppress(WireError):  # some are refused
                    wire.read_frame()
        server.stop()  # only then everything was read that it said
        assert secret not in server.log
        assert "[REDACTED]" in server.log
        assert '"user":"u"' in server.log.replace('\\"', '"')
