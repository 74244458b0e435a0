"""Random sessions: what nats-server said when they were recorded, we must say too.

The other tests know what to expect; these find what nobody thought of.  A session is a list of steps of a
few clients, made from a seed, so a failure can be held again.  After each step every client does a round
trip, and the frames that came are written down, sorted because the order among subscriptions is not promised.
"""

import json
import random
import re
from dataclasses import dataclass, field

import pytest

from tests.kits.conformance.clients import Dial, ServerFactory
from tests.kits.reference import ServerProcess
from tests.kits.wire import WireClient, WireError

SESSIONS = 40
STEPS = 60

CONFIG = """
server_name: probe
max_payload: 300
max_control_line: 400
max_subscriptions: 12
max_sub_tokens: 5
accounts {
  A {
    users: [
      { user: free, password: p }
      { user: narrow, password: p, permissions: {
          publish: { allow: ["a.>", "b"], deny: "a.b" }
          subscribe: { allow: ["a.>", "b.a.>", "c q1"], deny: "a.a" } } }
      { user: serves, password: p, permissions: { subscribe: ">", allow_responses: { max: 2 } } }
    ]
    exports: [ { stream: "a.>" }, { service: "c.*" } ]
    mappings: { "m.*": "b.$1", "m.*.*": "a.{{wildcard(2)}}.{{wildcard(1)}}" }
  }
  B {
    users: [ { user: other, password: p } ]
    imports: [
      { stream: { account: A, subject: "a.>" }, prefix: "from" }
      { service: { account: A, subject: "c.*" } }
    ]
  }
}
"""
USERS = ["free", "free", "narrow", "serves", "other"]
INVALID_PUBLISH = b"-ERR 'Invalid Publish Subject'\r\n"
GONE = b"(gone)"
PONG = b"PONG\r\n"
WORDS = ["a", "b", "c", "m", "a", "b", "from"]


@dataclass
class Session:
    """One random session; `steps` holds (client number, bytes)."""

    seed: int
    connects: list[dict[str, object]] = field(default_factory=list)
    steps: list[tuple[int, bytes]] = field(default_factory=list)

    def __post_init__(self) -> None:
        dice = random.Random(self.seed)
        for user in (dice.choice(USERS) for _ in range(3)):
            headers = dice.random() < 0.8
            self.connects.append(
                {
                    "user": user,
                    "pass": "p",
                    "verbose": dice.random() < 0.3,
                    "pedantic": dice.random() < 0.3,
                    "echo": dice.random() < 0.8,
                    "headers": headers,
                    "no_responders": headers and dice.random() < 0.7,
                    "protocol": dice.choice([0, 1]),
                }
            )
        for _ in range(STEPS):
            number = dice.randrange(3)
            self.steps.append((number, _operation(dice, number)))


def _subject(dice: random.Random, wildcards: float) -> str:
    words = []
    for _ in range(dice.choice([1, 2, 2, 3, 3, 4])):
        pick = dice.random()
        if pick < wildcards:
            words.append(dice.choice(["*", "*", ">"]))
        elif pick > 0.99:
            words.append(dice.choice(["", "a*", ">b", "*a"]))
        else:
            words.append(dice.choice(WORDS))
    return ".".join(words)


def _operation(dice: random.Random, number: int) -> bytes:
    kind = dice.random()
    sid = dice.randrange(1, 16)
    if number == 0 and kind < 0.05:
        return b"SUB c q1 1\r\n"
    if kind < 0.35:
        # A group of its own for each, so that the choice of a member is no choice.
        queue = f" q{number}{sid}" if dice.random() < 0.2 else ""
        return f"SUB {_subject(dice, 0.25)}{queue} {sid}\r\n".encode()
    if kind < 0.45:
        count = dice.choice(["", "", " 1", " 2", " 5", " 0", " x"])
        return f"UNSUB {sid}{count}\r\n".encode()
    if kind < 0.985:
        reply = f" {_subject(dice, 0.02)}" if dice.random() < 0.5 else ""
        body = b"x" * dice.choice([0, 1, 5, 5, 50])
        subject = _subject(dice, 0.03)
        if dice.random() < 0.25:
            header = dice.choice(
                [b"NATS/1.0\r\nK: v\r\n\r\n", b"NATS/1.0\r\n\r\n", b"NATS/1.0 404 No\r\n\r\n", b"junk"]
            )
            sizes = f"{len(header)} {len(header) + len(body)}"
            return f"HPUB {subject}{reply} {sizes}\r\n".encode() + header + body + b"\r\n"
        return f"PUB {subject}{reply} {len(body)}\r\n".encode() + body + b"\r\n"
    return dice.choice(
        [
            b"PUB a 301\r\n",
            b"PUB a\r\n",
            b"SUB a b c d\r\n",
            b"BOGUS\r\n",
            b"PUB a 2\r\nabc\r\n",
            b"SUB " + b"a" * 500 + b" 1\r\n",
            b"UNSUB 1 2 3\r\n",
            b"CONNECT {}\r\n",
            b"+OK\r\n",
            b"-ERR 'x'\r\n",
            b"MSG a 1 1\r\nx\r\n",
        ]
    )


class Cast:
    """The clients of a session on one server."""

    def __init__(self, dial: Dial, server: ServerProcess, session: Session) -> None:
        self._clients: list[WireClient | None] = []
        for connect in session.connects:
            client = dial(server)
            client.handshake(**connect)
            self._clients.append(client)

    def play(self, number: int, operation: bytes) -> list[list[bytes]]:
        """Let one client send, and return what each client has got then."""
        order = [number, *(other for other in range(len(self._clients)) if other != number)]
        heard = {other: self._listen(other, operation if other == number else b"") for other in order}
        return [heard[other] for other in sorted(heard)]

    def _listen(self, number: int, operation: bytes) -> list[bytes]:
        client = self._clients[number]
        if client is None:
            return [GONE]
        start = len(client.frames)
        ending = []
        try:
            client.round_trip(operation)
        except WireError:
            self._clients[number] = None
            ending = [b"(closed)"]
        frames = sorted(map(_mask, client.frames[start:]))
        if INVALID_PUBLISH in frames:
            # nats-server says it again when the payload arrives in a second read.
            frames = [INVALID_PUBLISH, *(frame for frame in frames if frame != INVALID_PUBLISH)]
        return frames + ending


def _mask(frame: bytes) -> bytes:
    """Hide what is different for each request: the private inboxes of services, round trip times, and
    which of several subscriptions to an inbox is told that nobody is there."""
    frame = re.sub(rb"^HMSG (\S+) \S+ (\d+ \d+\r\nNATS/1.0 503\r\n)", rb"HMSG \1 # \2", frame)
    frame = re.sub(rb"_R_\.\w+\.\w+", b"_R_", frame)
    if b"Nats-Request-Info" in frame:
        frame = re.sub(rb',?"rtt":\d+', b"", frame)
        frame = re.sub(rb"^(HMSG .*?) \d+ \d+\r\n", rb"\1 # #\r\n", frame)
    return frame


@pytest.mark.parametrize("seed", range(SESSIONS))
def test_session(shared_server: ServerFactory, dial: Dial, lines: list[str], seed: int) -> None:
    session = Session(seed)
    cast = Cast(dial, shared_server(config=CONFIG), session)
    lines += [f"{number} {json.dumps(connect)}" for number, connect in enumerate(session.connects)]
    for number, operation in session.steps:
        lines.append(f"{number} sends {_text(operation)}")
        for other, frames in enumerate(cast.play(number, operation)):
            if frames not in ([PONG], [GONE]):
                lines.append(f"  {other} hears {' '.join(map(_text, frames))}")


def _text(frame: bytes) -> str:
    return repr(frame)[1:]
