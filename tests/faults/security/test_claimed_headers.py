"""Headers that the server sets with authority are the only ones of their names, to every reader."""

from __future__ import annotations

from pathlib import Path

import pytest

from millstream.protocol import headers
from tests.kits.security.gate import client, running

CONFIG = """
accounts {
  ADMIN { users: [{user: desk, password: desk}], exports: [{service: "help"}] }
  TENANT {
    users: [{user: tenant, password: tenant}]
    imports: [{service: {account: ADMIN, subject: "help"}}]
  }
}
"""
FORGED = b'{"acc":"ADMIN","user":"root"}'
BLOCKS = [
    b"NATS/1.0\r\nNats-Request-Info: %b\r\n\r\n",
    b"NATS/1.0\r\nnats-request-info: %b\r\n\r\n",
    b"NATS/1.0\r\nNATS-REQUEST-INFO:%b\r\n\r\n",
    b"NATS/1.0\r\nNats-Request-Info : %b\r\n\r\n",
    b"NATS/1.0\r\n Nats-Request-Info: %b\r\n\r\n",
    b"NATS/1.0\r\nX: y\r\nNats-Request-Info: %b\r\nnats-Request-Info: %b\r\n\r\n",
    b"NATS/1.0\r\nX: y\nNats-Request-Info: %b\r\n\r\n",
    b"NATS/1.0\r\nX: y\rNats-Request-Info: %b\r\n\r\n",
    b"NATS/1.0\r\nX: y\r\n Nats-Request-Info: %b\r\n\r\n",
    b"NATS/1.0 200\r\nNats-Request-Info: %b\r\n\r\n",
    b"Nats-Request-Info: %b\r\n\r\n",
    b"NATS/1.0\r\nNats-Request-Info: %b",
    b"NATS/1.0\r\nX: y",
    b"NATS/1.0\r\nno colon\r\n\r\n",
    b"NATS/1.0\r\n\r\nNats-Request-Info: %b\r\n\r\n",
    b"NATS/1.0\r\nX: y\n\nNats-Request-Info: %b\r\n\r\n",
    b"NATS/1.0\r\nX: y\r\r\r\n\r\n",
    b"\r\n\r\n",
    b"X",
    b"NATS/1.0\r\n\r\n",
]


def _fill(block: bytes) -> bytes:
    return block.replace(b"%b", FORGED)


@pytest.mark.parametrize("block", [_fill(block) for block in BLOCKS])
def test_a_request_of_a_tenant_says_so_whatever_its_headers_say(block: bytes) -> None:
    with running(CONFIG) as server, client(server, "desk") as desk, client(server, "tenant") as tenant:
        desk.round_trip(b"SUB help 1\r\n")
        tenant.round_trip(b"HPUB help %d %d\r\n%bhi\r\n" % (len(block), len(block) + 2, block))
        line, _, rest = desk.wire.read_frame().partition(b"\r\n")
        got = rest[: int(line.split()[-2])]
        assert b"ADMIN" not in got
        lines = got.split(b"\r\n")
        assert lines[0].startswith(b"NATS/1.0")
        assert lines[-2:] == [b"", b""]
        assert all(b": " in each and not each.startswith(b" ") for each in lines[1:-2])
        (info,) = [each for each in lines if each.lower().startswith(b"nats-request-info")]
        assert info.startswith(b'Nats-Request-Info: {"acc":"TENANT"')


@pytest.mark.parametrize("block", BLOCKS)
def test_claimed_headers_are_the_only_ones_and_others_are_kept(block: bytes) -> None:
    claimed = headers.claim(_fill(block), (b"Nats-Request-Info", b"ours"), (b"Other", b"too"))
    assert claimed.lower().count(b"nats-request-info") == 1
    assert claimed.endswith(b"\r\nNats-Request-Info: ours\r\nOther: too\r\n\r\n")
    assert claimed.find(b"\r\n\r\n") == len(claimed) - 4
    if b"X: y\r\n" in block and b"\n\n" not in block:
        assert b"X: y\r\n" in claimed


def test_a_stored_message_cannot_forge_what_a_direct_get_or_a_republish_says(tmp_path: Path) -> None:
    names = (b"Nats-Stream", b"nats-subject", b"NATS-Sequence", b"Nats-Time-Stamp", b"Nats-Last-Sequence")
    block = b"NATS/1.0\r\nX: y\r\n" + b"".join(b"%b: forged\r\n" % name for name in names) + b"\r\n"
    blocks = [
        block,
        block.replace(b"\r\nNats-Stream", b"\nNats-Stream"),
        b"NATS/1.0\r\nX: yz",
        b"bad\r\n\r\n",
    ]
    with running("", tmp_path) as server, client(server) as user:
        config = {
            "name": "S",
            "subjects": ["in"],
            "allow_direct": True,
            "republish": {"src": "in", "dest": "again"},
        }
        assert "error" not in user.api("STREAM.CREATE.S", config)
        user.round_trip(b"SUB again 1\r\n")
        for seq, each in enumerate(blocks, 1):
            user.wire.send(b"HPUB in %d %d\r\n%b\r\n" % (len(each), len(each), each))
            republished = user.wire.read_frame()
            question = b'{"seq":%d}' % seq
            user.wire.send(
                b"PUB $JS.API.DIRECT.GET.S %b.x %d\r\n%b\r\n" % (user.inbox, len(question), question)
            )
            for answer in (republished, user.wire.read_frame()):
                assert b"forged" not in answer
                assert b"\r\nNats-Stream: S\r\nNats-Subject: in\r\nNats-Sequence: %d\r\n" % seq in answer
                assert seq > 1 or b"\r\nX: y\r\n" in answer


def test_pin_and_size_of_a_delivery_cannot_be_forged(tmp_path: Path) -> None:
    block = b"NATS/1.0\r\nnats-msg-size: 1\r\nNats-Msg-Size: 2\r\n\r\n"
    with running("", tmp_path) as server, client(server) as user:
        assert "error" not in user.api("STREAM.CREATE.S", {"name": "S", "subjects": ["in"]})
        user.round_trip(b"HPUB in %d %d\r\n%bhello\r\n" % (len(block), len(block) + 5, block))
        user.round_trip(b"SUB here 1\r\n")
        config = (
            '{"stream_name":"S","config":{"deliver_subject":"here","headers_only":true,"ack_policy":"none"}}'
        )
        user.wire.send(b"PUB $JS.API.CONSUMER.CREATE.S %d\r\n%b\r\n" % (len(config), config.encode()))
        frame = user.wire.read_frame()
        assert frame.lower().count(b"nats-msg-size") == 1
        assert b"\r\nNats-Msg-Size: 5\r\n" in frame
