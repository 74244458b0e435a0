"""Sessions of a client, line by line, compared with those recorded on nats-server.

A test only acts: it asks, publishes, waits.  Each step is a line of its transcript, with what differs from
run to run masked, and at the end the transcript has to be the recorded one.  So nothing an answer has can be
forgotten in an assertion, and what nats-server says is there to be read: the recordings of
`tests/conformance/publishing/test_acks.py` are in `tests/golden/publishing/acks.txt`.  `make oracle`
records them again.

Not here: what the clients of each subject can do, and how messages look in their transcripts.
"""

import re
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final, Generic, TypeVar

import pytest

from tests.kits.conformance.clients import Message, publish
from tests.kits.paths import GOLDEN, TESTS
from tests.kits.recordings.book import Book
from tests.kits.wire import WireClient

Masks = Sequence[tuple[re.Pattern[str], str]]
Heard = TypeVar("Heard", bound=Message)

_CONFORMANCE: Final = TESTS / "conformance"
_ANSWERS: Final = "answer"
_ANSWERS_SID: Final = "1"


def masked(text: str, masks: Masks) -> str:
    """The text without what differs from run to run."""
    for pattern, replacement in masks:
        text = pattern.sub(replacement, text)
    return text


def accounts_text(count: int, jetstream: str = "enabled") -> str:
    """Return the accounts of a configuration: a0, a1 and so on, each with a user of its name."""
    return "\n".join(
        f"a{number}: {{jetstream: {jetstream}, users: [{{user: a{number}, password: p}}]}}"
        for number in range(count)
    )


class Conversation(Generic[Heard]):
    """One connection and the transcript, which it may share with others of the test."""

    def __init__(
        self,
        wire: WireClient,
        lines: list[str],
        read: Callable[[bytes], Heard],
        masks: Masks,
        patience_s: float,
    ) -> None:
        self.wire = wire
        self.lines = lines
        self._read = read
        self._masks = masks
        self._patience_s = patience_s
        self._answers: dict[str, deque[Heard]] = {}
        self._queues: dict[str, deque[Heard]] = {}  # by sid
        self._asked = 0
        wire.send(f"SUB {_ANSWERS}.> {_ANSWERS_SID}\r\n".encode())
        wire.round_trip()

    def note(self, text: str) -> None:
        """Add a line."""
        self.lines.append(masked(text, self._masks))

    def sync(self) -> None:
        """Take in what the server had sent before it answers."""
        self.wire.send(b"PING\r\n")
        while (frame := self.wire.read_frame()) != b"PONG\r\n":
            self._take(frame)

    def expect(self, tail: str = "") -> tuple[str, deque[Heard]]:
        """A reply subject that nobody has used, and where its answers will be."""
        self._asked += 1
        reply = f"{_ANSWERS}.{self._asked}{tail}"
        queue = self._answers[reply] = deque()
        return reply, queue

    def request(self, subject: str, payload: bytes = b"", block: bytes = b"", tail: str = "") -> Heard:
        """Ask and wait for the answer; nothing is written down.  `tail`: how the reply subject ends."""
        reply, queue = self.expect(tail)
        self.wire.send(publish(subject, payload, reply, block))
        self.pump(lambda: bool(queue), f"an answer to {subject} {payload!r}")
        del self._answers[reply]
        return queue.popleft()

    def pump(self, enough: Callable[[], bool], what: str) -> None:
        """Take in what comes until it is enough."""
        deadline = time.monotonic() + self._patience_s
        while not enough():
            assert time.monotonic() < deadline, f"waited in vain for {what}"
            self._take(self.wire.read_frame())

    def _take(self, frame: bytes) -> None:
        heard = self._read(frame)
        if heard.sid != _ANSWERS_SID:
            self._queues[heard.sid].append(heard)
        elif heard.subject in self._answers:
            self._answers[heard.subject].append(heard)
        else:
            self.note(f"(nobody asked) {heard.subject} {heard}")


def compare(item: pytest.Function, lines: list[str]) -> None:
    """Hold what a test has written down against its recording, or make that of it."""
    kind = item.funcargs["server_kind"]
    name = item.name.replace(f"{kind}-", "").replace(f"-{kind}", "").replace(f"[{kind}]", "")
    folder = GOLDEN / item.path.parent.relative_to(_CONFORMANCE)
    Book(folder / f"{item.path.stem.removeprefix('test_')}.txt").compare(item, name, lines)
