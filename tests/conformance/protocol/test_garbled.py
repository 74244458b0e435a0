"""Bytes that are almost right: the same answer as nats-server gave when it was recorded, and the same end.

Each case is a few good operations with some bytes changed, added or lost, made from a seed.  The client then
ends its side, so that the server comes to an end too, even when it waits for the rest of a payload.
"""

import contextlib
import random
import socket

import pytest

from tests.kits.conformance.clients import Dial, ServerFactory
from tests.kits.reference import ServerProcess
from tests.kits.wire import WireClient

BATCHES = 10
CASES_IN_A_BATCH = 40
CONFIG = "max_payload: 200, max_control_line: 256, max_connections: 1000"

OPERATIONS = [
    b"PUB foo 2\r\nhi\r\n",
    b"PUB foo bar 2\r\nhi\r\n",
    b"SUB foo 1\r\n",
    b"SUB foo q 2\r\n",
    b"SUB foo.* 3\r\n",
    b"UNSUB 1\r\n",
    b"UNSUB 1 3\r\n",
    b"PING\r\n",
    b"PONG\r\n",
    b"+OK\r\n",
    b"HPUB foo 12 14\r\nNATS/1.0\r\n\r\nhi\r\n",
    b"HPUB foo bar 12 14\r\nNATS/1.0\r\n\r\nhi\r\n",
    b'CONNECT {"verbose":true,"headers":true}\r\n',
    b'CONNECT {"verbose":false,"echo":true}\r\n',
]

# Without 0, because nats-server repeats a size as it was written.
STRAY_BYTES = b'\t 19-+.*>aPUBSHCOINGE{}"\x00\r\r\n\n'


def _garbled(dice: random.Random) -> bytes:
    connect = b'CONNECT {"verbose":%b,"pedantic":%b,"headers":true}\r\n' % (
        dice.choice([b"true", b"false"]),
        dice.choice([b"true", b"false"]),
    )
    # None of them twice: which of two members of a group gets a message is left to chance.
    operations = dice.sample(OPERATIONS, dice.randrange(1, 6))
    victim = dice.randrange(len(operations))
    operations[victim] = _hurt(dice, operations[victim])
    return (connect if dice.random() < 0.8 else b"") + b"".join(operations) + b"PING\r\nPING\r\n"


def _hurt(dice: random.Random, operation: bytes) -> bytes:
    line, end, payload = operation.partition(b"\r\n")
    letters = bytearray(line)
    for _ in range(dice.choice([1, 1, 1, 2, 3])):
        place = dice.randrange(len(letters) + 1)
        kind = dice.random()
        if kind < 0.5 or place == len(letters):
            letters[place:place] = bytes([dice.choice(STRAY_BYTES)])
        elif kind < 0.75:
            letters[place] = dice.choice(STRAY_BYTES)
        elif len(letters) > 1:
            del letters[place]
    if payload and dice.random() < 0.3:
        payload = payload[dice.randrange(1, len(payload)) :]
    return bytes(letters) + end + payload


def _answer(dial: Dial, server: ServerProcess, sent: bytes) -> bytes:
    client: WireClient = dial(server)
    client.read_info()
    client.send(sent)
    assert isinstance(client.stream, socket.socket)
    with contextlib.suppress(OSError):  # the server may have been quicker
        client.stream.shutdown(socket.SHUT_WR)
    answer = client.read_until_closed()
    client.close()
    return answer


@pytest.mark.parametrize("batch", range(BATCHES))
def test_garbled_operations(shared_server: ServerFactory, dial: Dial, lines: list[str], batch: int) -> None:
    server = shared_server(config=CONFIG)
    dice = random.Random(batch)
    for _ in range(CASES_IN_A_BATCH):
        sent = _garbled(dice)
        lines += [f"sent {sent!r}", f"     {_answer(dial, server, sent)!r}"]
