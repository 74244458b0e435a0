"""A server process with JetStream that is going to be hurt, and clients that remember what it promised.

A ``Ledger`` holds what was published to one stream and what was acknowledged; after a crash it says
whether the stream kept its word.  A ``Publisher`` is one connection under load.  A ``Caller`` asks and reads.
"""

from __future__ import annotations

import itertools
import json
import os
import socket
import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from tests.kits.patience import PATIENCE_S
from tests.kits.wire import QUIET_CONNECT, WireClient

API = b"$JS.API."
_numbers = itertools.count(1)


def files_of_running(folder: Path) -> Iterator[Path]:
    """List the files below a folder of a server that runs; files and folders may go meanwhile."""
    for parent, _, names in os.walk(folder):
        yield from (Path(parent, name) for name in names)


def read_of_running(path: Path) -> bytes:
    """Read a file of a server that runs; nothing if it has gone."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return b""


def is_anything_deleted(store: Path) -> bool:
    """Tell whether files of deleted streams are still there."""
    return any("deleted" in path.parts for path in files_of_running(store))


@dataclass
class Stored:
    """A message as a reader gets it."""

    seq: int
    subject: str
    payload: bytes
    headers: dict[str, str] = field(default_factory=dict)


class Caller:
    """One connection that asks one thing at a time."""

    def __init__(self, port: int) -> None:
        self._client = WireClient.connect(port, timeout_s=PATIENCE_S)
        try:
            self._client.handshake()
            # Of its own: what another is sent must not pile up in a connection that nobody reads.
            self._inbox = b"_INBOX.caller%d" % next(_numbers)
            self._client.send(b"SUB %b 1\r\n" % self._inbox)
        except BaseException:
            self._client.close()
            raise

    def __enter__(self) -> Caller:
        return self

    def __exit__(self, *error: object) -> None:
        self._client.close()

    def close(self) -> None:
        self._client.close()

    def listen(self, subject: bytes) -> None:
        """Subscribe to a subject; ``heard`` reads its messages."""
        self._client.round_trip(b"SUB %b 2\r\n" % subject)

    def heard(self) -> dict[str, Any]:
        """The next message on a subject listened to."""
        while True:
            frame = self._client.read_frame()
            if frame.split(b" ", 3)[2] == b"2":
                return json.loads(frame.split(b"\r\n", 1)[1])  # type: ignore[no-any-return]

    def publish(self, subject: str, payload: bytes = b"", **header: str) -> dict[str, Any]:
        """The answer to a message; `Nats_Msg_Id="1"` becomes a header."""
        return json.loads(self._ask(subject.encode(), payload, _block(header)))  # type: ignore[no-any-return]

    def ask(self, endpoint: str, body: object = None) -> dict[str, Any]:
        """The answer of the API."""
        text = b"" if body is None else json.dumps(body).encode()
        return json.loads(self._ask(API + endpoint.encode(), text))  # type: ignore[no-any-return]

    def create(self, name: str, **config: object) -> dict[str, Any]:
        """A stream on `<name>.>` that can be read directly, unless it is said otherwise."""
        body = {"name": name, "subjects": [f"{name}.>"], "allow_direct": True} | config
        answer = self.ask(f"STREAM.CREATE.{name}", body)
        assert "error" not in answer, answer
        return answer

    def state(self, stream: str) -> dict[str, Any]:
        return self.ask(f"STREAM.INFO.{stream}")["state"]  # type: ignore[no-any-return]

    def read(self, stream: str, first: int = 1) -> dict[int, Stored]:
        """All messages from a sequence on."""
        found: dict[int, Stored] = {}
        request = {"seq": max(first, 1), "batch": 1000, "max_bytes": 4_000_000}
        while True:
            more, end = self._read_some(stream, request)
            found.update((each.seq, each) for each in more)
            if end or not more:
                return found
            request["seq"] = more[-1].seq + 1

    def _read_some(self, stream: str, request: dict[str, int]) -> tuple[list[Stored], bool]:
        text = json.dumps(request).encode()
        subject = API + b"DIRECT.GET." + stream.encode()
        self._client.send(b"PUB %b %b %d\r\n%b\r\n" % (subject, self._inbox, len(text), text))
        found: list[Stored] = []
        while True:
            frame = self._client.read_frame()
            status, headers, payload = _parts(frame)
            if status:
                assert status in ("204", "404"), frame
                return found, status == "404" or int(headers.get("Nats-Num-Pending", "0")) == 0
            found.append(Stored(int(headers["Nats-Sequence"]), headers["Nats-Subject"], payload, headers))

    def _ask(self, subject: bytes, payload: bytes, block: bytes = b"") -> bytes:
        self._client.send(_message(subject, self._inbox, block, payload))
        while True:
            frame = self._client.read_frame()
            if frame.split(b" ", 3)[2] == b"1":
                return _parts(frame)[2]


def _block(header: dict[str, str]) -> bytes:
    if not header:
        return b""
    lines = "".join(f"{key.replace('_', '-')}: {value}\r\n" for key, value in header.items())
    return f"NATS/1.0\r\n{lines}\r\n".encode()


def _message(subject: bytes, reply: bytes, block: bytes, payload: bytes) -> bytes:
    if block:
        size = len(block)
        return b"HPUB %b %b %d %d\r\n%b%b\r\n" % (
            subject,
            reply,
            size,
            size + len(payload),
            block,
            payload,
        )
    return b"PUB %b %b %d\r\n%b\r\n" % (subject, reply, len(payload), payload)


def _parts(frame: bytes) -> tuple[str, dict[str, str], bytes]:
    """Status, headers and payload of a MSG or HMSG."""
    line, body = frame.split(b"\r\n", 1)
    if not line.startswith(b"HMSG"):
        return "", {}, body[:-2]
    size = int(line.split()[-2])
    lines = body[:size].decode().split("\r\n")
    headers = dict(each.split(": ", 1) for each in lines[1:] if ": " in each)
    return lines[0].removeprefix("NATS/1.0").strip()[:3], headers, body[size:-2]


@dataclass
class Ledger:
    """Messages that were published to one stream, and what the server promised about them."""

    stream: str
    subjects: int = 5  # how many of them there are
    padding: int = 20  # bytes of each payload
    with_id: bool = False
    batch: int = 0  # messages of an atomic batch; 0: single messages
    most: int = 0  # `max_msgs`
    last_only: bool = False  # `max_msgs_per_subject` is 1
    sent: dict[bytes, str] = field(default_factory=dict)  # payload -> subject
    acked: dict[int, bytes] = field(default_factory=dict)  # sequence -> payload
    unanswered: dict[bytes, str] = field(default_factory=dict)
    refused: list[str] = field(default_factory=list)  # answers that were errors
    wrong: list[str] = field(default_factory=list)
    last: int = 0  # the highest sequence that was seen
    settled: int = 0  # up to here a check has looked at every message

    def next_message(self, label: str) -> tuple[str, bytes]:
        number = len(self.sent)
        subject = f"{self.stream}.{number % self.subjects}"
        name = f"{label}-{number}-".encode()
        payload = name + b"." * max(self.padding - len(name), 0)
        self.sent[payload] = self.unanswered[payload] = subject
        return subject, payload

    def answered(self, payload: bytes, answer: dict[str, Any]) -> None:
        """The server said something about a message."""
        if "error" in answer:
            self.refused.append(str(answer["error"]))
            return
        self.unanswered.pop(payload, None)
        self.note(answer["seq"], payload)

    def note(self, seq: int, payload: bytes) -> None:
        """A message has this sequence; no other may ever have it."""
        before = self.acked.setdefault(seq, payload)
        if before != payload:
            self.wrong.append(f"sequence {seq} was {before!r} and is {payload!r}")
        self.last = max(self.last, seq)

    def check(self, caller: Caller, *, thoroughly: bool = False) -> int:
        """Assert that everything promised is there, and return how many messages were read."""
        state = caller.state(self.stream)
        assert self.wrong == []
        assert state["last_seq"] >= self.last, "sequences are going to be used again"
        first = 1 if thoroughly or self.most or self.last_only else self.settled + 1
        found = caller.read(self.stream, first)
        for seq, message in found.items():
            assert self.sent.get(message.payload) == message.subject, f"{seq}: nobody sent {message}"
            self.note(seq, message.payload)
            self.unanswered.pop(message.payload, None)
        assert self.wrong == []
        payloads = [message.payload for message in found.values()]
        assert len(set(payloads)) == len(payloads), "something is stored twice"
        if first == 1:
            assert state["messages"] == len(found)
        wanted = self._wanted(first, state["last_seq"])
        lost = [(seq, self.acked[seq][:40]) for seq in wanted if seq not in found]
        assert lost == [], f"{len(lost)} acknowledged messages of {self.stream} are lost: {lost[:5]}"
        if self.most:
            assert len(found) <= self.most
        if self.last_only:
            subjects = [message.subject for message in found.values()]
            assert len(set(subjects)) == len(subjects), "a subject has more than its last message"
        if self.batch:
            self._check_batches(found.values())
        self.settled = state["last_seq"]
        return len(found)

    def _wanted(self, first: int, last_seq: int) -> Iterable[int]:
        """Sequences of acknowledged messages that nothing removed."""
        if self.most:
            return [seq for seq in self.acked if seq > last_seq - self.most]
        if self.last_only:
            newest: dict[str, int] = {}
            for seq in sorted(self.acked):
                newest[self.sent[self.acked[seq]]] = seq
            return newest.values()
        return [seq for seq in self.acked if seq >= first]

    def _check_batches(self, found: Iterable[Stored]) -> None:
        counts: dict[str, int] = {}
        for message in found:
            batch_id = message.headers["Nats-Batch-Id"]
            counts[batch_id] = counts.get(batch_id, 0) + 1
        torn = {batch_id: count for batch_id, count in counts.items() if count != self.batch}
        assert torn == {}, "batches that are not whole"


class Publisher(threading.Thread):
    """Publishes to all streams until the server is gone, a burst ahead of the answers."""

    def __init__(self, port: int, label: str, ledgers: list[Ledger], seed: int) -> None:
        super().__init__(name=label, daemon=True)
        self._port = port
        self._label = label
        self._ledgers = ledgers
        self._random = Random(seed)
        self._waiting: dict[bytes, tuple[Ledger, list[bytes]]] = {}  # reply -> what it is about
        self._count = 0
        self._buffer = bytearray()
        self._enough = threading.Event()
        self.answers = 0
        self.problem: BaseException | None = None

    def run(self) -> None:
        try:
            with socket.create_connection(("127.0.0.1", self._port), PATIENCE_S) as connection:
                connection.sendall(b"CONNECT %b\r\n" % json.dumps(QUIET_CONNECT).encode())
                connection.sendall(b"SUB _INBOX.%b.* 1\r\n" % self._label.encode())
                while not self._enough.is_set():
                    connection.sendall(self._burst())
                    self._read_until_few_wait(connection, 40)
                self._read_until_few_wait(connection, 0)
        except OSError:
            pass  # it was killed
        except BaseException as error:
            self.problem = error

    def finish(self) -> None:
        """Send no more, wait for the last answers, and end; whether all came."""
        self._enough.set()
        self.join(PATIENCE_S)
        if self.problem is not None:
            raise self.problem

    @property
    def unanswered(self) -> int:
        return len(self._waiting)

    def _burst(self) -> bytes:
        out = []
        for _ in range(self._random.randint(1, 30)):
            ledger = self._random.choice(self._ledgers)
            if ledger.padding > 10_000 and self._random.random() < 0.8:
                continue
            if ledger.batch:
                out.append(self._batch(ledger))
            else:
                subject, payload = ledger.next_message(self._label)
                header = {"Nats-Msg-Id": payload.decode()} if ledger.with_id else {}
                out.append(
                    _message(subject.encode(), self._reply(ledger, [payload]), _block(header), payload)
                )
        return b"".join(out)

    def _batch(self, ledger: Ledger) -> bytes:
        out = []
        batch_id = f"{self._label}-{self._count}"
        payloads = []
        for number in range(1, ledger.batch + 1):
            subject, payload = ledger.next_message(self._label)
            payloads.append(payload)
            header = {"Nats-Batch-Id": batch_id, "Nats-Batch-Sequence": str(number)}
            reply = b""
            if number == ledger.batch:
                header["Nats-Batch-Commit"] = "1"
                reply = self._reply(ledger, payloads)
            out.append(_message(subject.encode(), reply, _block(header), payload))
        return b"".join(out)

    def _reply(self, ledger: Ledger, payloads: list[bytes]) -> bytes:
        self._count += 1
        reply = b"_INBOX.%b.%d" % (self._label.encode(), self._count)
        self._waiting[reply] = (ledger, payloads)
        return reply

    def _read_until_few_wait(self, connection: socket.socket, few: int) -> None:
        while len(self._waiting) > few:
            data = connection.recv(262144)
            if not data:
                raise ConnectionResetError
            self._buffer += data
            self._take_answers()

    def _take_answers(self) -> None:
        at = 0
        while (end := self._buffer.find(b"\r\n", at)) >= 0:
            line = bytes(self._buffer[at:end])
            body = end + 2
            if line.startswith((b"MSG", b"HMSG")):
                size = int(line.split()[-1])
                if len(self._buffer) < body + size + 2:
                    break
                self._answer(line + b"\r\n" + bytes(self._buffer[body : body + size + 2]))
                body += size + 2
            elif line.startswith(b"-ERR"):
                raise AssertionError(line)
            at = body
        del self._buffer[:at]

    def _answer(self, frame: bytes) -> None:
        ledger, payloads = self._waiting.pop(frame.split(b" ", 2)[1])
        status, _, text = _parts(frame)
        answer: dict[str, Any] = json.loads(text) if text else {"error": status}
        self.answers += 1
        if "error" not in answer and len(payloads) > 1:
            last = answer["seq"]
            for back, payload in enumerate(reversed(payloads)):
                ledger.answered(payload, {"seq": last - back})
        else:
            ledger.answered(payloads[-1], answer)
