"""The client of these workloads: frames made in advance, replies counted by a compiled parser.

A connection listens to its own inbox.  ``exchange`` keeps a window of requests unanswered, ``ask`` waits for
one reply of the JetStream API, ``next`` returns when a message is in `parser`.
"""

import json
import socket
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, Final, Self

from benchmarks.wire import PONG, Address, WireError, dial
from millstream.link.parser import LinkOp, LinkParser

INBOX: Final = b"_INBOX.c"
BODY: Final = b"v" * 128
_ROOM: Final = 1 << 19
_PATIENCE_S: Final = 20.0
_AT_ONCE: Final = 200  # frames of one write
_MSG, _PING, _ERR, _NEED_MORE = int(LinkOp.MSG), int(LinkOp.PING), int(LinkOp.ERR), int(LinkOp.NEED_MORE)


def pub(subject: bytes, body: bytes = BODY, reply: bytes = INBOX, headers: bytes = b"") -> bytes:
    """A publish, with a reply subject unless it is empty; `headers` are lines with their ends."""
    reply = reply + b" " if reply else b""
    if not headers:
        return b"PUB %b %b%d\r\n%b\r\n" % (subject, reply, len(body), body)
    block = b"NATS/1.0\r\n%b\r\n" % headers
    size = len(block) + len(body)
    return b"HPUB %b %b%d %d\r\n%b%b\r\n" % (subject, reply, len(block), size, block, body)


def request(subject: str, body: object, reply: bytes = INBOX) -> bytes:
    """A request with a JSON body."""
    return pub(subject.encode(), json.dumps(body, separators=(",", ":")).encode(), reply)


class Client:
    """One connection; one thread."""

    def __init__(self, port: int, connection: socket.socket | None = None, inbox: bytes = INBOX) -> None:
        self.inbox = inbox
        greeting = b"SUB %b 1\r\nSUB %b.> 2\r\n" % (inbox, inbox)
        self.connection = connection or dial(Address("127.0.0.1", port), greeting=greeting)
        self.connection.settimeout(_PATIENCE_S)
        if connection is not None:
            connection.sendall(greeting)
        self.parser = LinkParser()
        self._early = 0  # messages that came while a reply was awaited

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.connection.close()

    def send(self, data: bytes) -> None:
        self.connection.sendall(data)

    def next(self) -> None:
        """Wait for a message, which is then in `parser`; answers flow control."""
        while True:
            op = self.parser.next()
            if op == _MSG:
                if not self.parser.header_size or self.parser.status() != 100:
                    return
                if self.parser.reply_size:
                    self.send(b"PUB %b 0\r\n\r\n" % self.parser.reply())
                continue
            if op == _NEED_MORE:
                self._read()
            elif op == _PING:
                self.connection.sendall(PONG)
            elif op == _ERR:
                raise WireError(self.parser.line().decode())

    def _read(self) -> None:
        try:
            count = self.connection.recv_into(self.parser.room(_ROOM))
        except TimeoutError:
            raise WireError("nothing came for too long") from None
        if not count:
            raise WireError("the server closed the connection")
        self.parser.filled(count)

    def ask(self, subject: str, body: object = None) -> dict[str, Any]:
        """The answer of the JetStream API; WireError if it is a refusal."""
        data = b"" if body is None else json.dumps(body).encode()
        self.send(pub(f"$JS.API.{subject}".encode(), data, self.inbox + b".ask"))
        self._early = 0
        while True:
            self.next()
            if self.parser.subject() == self.inbox + b".ask":
                break
            self._early += not self.parser.status()
        answer: dict[str, Any] = json.loads(self.parser.payload())
        if "error" in answer:
            raise WireError(f"{subject}: {answer['error']}")
        return answer

    def exchange(self, frames: Iterable[bytes], window: int = 1_000, *, may_fail: bool = False) -> int:
        """Send all frames, each answered by one message, with so many unanswered; returns how many failed."""
        source: Iterator[bytes] = iter(frames)
        at_once = min(_AT_ONCE, max(1, window // 4))
        sent = answered = failed = 0
        more = True
        while more or answered < sent:
            while more and sent - answered <= window - at_once:
                part = list(islice(source, at_once))
                more = len(part) == at_once
                sent += len(part)
                if part:
                    self.send(b"".join(part))
            if answered == sent:
                break
            self.next()
            answered += 1
            if self._refused():
                if not may_fail:
                    raise WireError(
                        f"refused: {self.parser.headers()[:80]!r} {self.parser.payload()[:300]!r}"
                    )
                failed += 1
        return failed

    def _refused(self) -> bool:
        parser = self.parser
        if parser.header_size:
            return parser.status() >= 300
        return b'"error"' in parser.payload()[:200]

    def receive(self, count: int) -> int:
        """Wait for so many messages that have no status; returns the bytes of their payloads."""
        parser, size, seen = self.parser, 0, self._early
        self._early = 0
        while seen < count:
            self.next()
            if parser.header_size and parser.status():
                raise WireError(f"after {seen} messages: {parser.headers()!r}")
            seen += 1
            size += parser.payload_size
        return size

    def receive_batch(self) -> int:
        """Count messages until the status that ends a batch, or a payload of no bytes with headers."""
        parser, seen = self.parser, 0
        while True:
            self.next()
            if parser.header_size and parser.status():
                return seen
            seen += 1

    def replies(self, count: int) -> list[bytes]:
        """Wait for so many messages and return the reply subject of each; a status is an error."""
        parser = self.parser
        found: list[bytes] = []
        while len(found) < count:
            self.next()
            if parser.header_size and parser.status():
                raise WireError(f"after {len(found)} messages: {parser.headers()!r}")
            found.append(parser.reply())
        return found

    def flush(self) -> None:
        """Return when the server has worked through everything sent so far; drops what comes meanwhile."""
        self.send(b"PING\r\n")
        while (op := self.parser.next()) != int(LinkOp.PONG):
            if op == _NEED_MORE:
                self._read()
            elif op == _PING:
                self.connection.sendall(PONG)
            elif op == _ERR:
                raise WireError(self.parser.line().decode())

    # -- JetStream ----------------------------------------------------------------------------------

    def stream(self, name: str, *subjects: str, **config: object) -> None:
        body = {"name": name, "storage": "file", "allow_direct": True, "allow_rollup_hdrs": True, **config}
        self.ask(f"STREAM.CREATE.{name}", body | ({"subjects": list(subjects)} if subjects else {}))

    def bucket(self, name: str, **config: object) -> None:
        """A stream as clients make it for a key-value bucket."""
        kind = {"max_msgs_per_subject": 1, "discard": "new", "deny_delete": True}
        self.stream(f"KV_{name}", f"$KV.{name}.>", **kind, **config)

    def consumer(self, stream: str, name: str, **config: object) -> dict[str, Any]:
        """A durable consumer, or an ephemeral one if `name` is empty."""
        values: dict[str, object] = {"ack_policy": "explicit", **config}
        body = {"stream_name": stream, "config": values}
        if not name:
            return self.ask(f"CONSUMER.CREATE.{stream}", body)
        values["durable_name"] = name
        return self.ask(f"CONSUMER.DURABLE.CREATE.{stream}.{name}", body)

    def fill(self, subjects: Iterable[bytes], body: bytes = BODY, window: int = 4_000) -> None:
        """Publish one message to each subject, all acknowledged."""
        self.exchange((pub(subject, body) for subject in subjects), window)

    def info(self, stream: str, body: object = None) -> dict[str, Any]:
        return self.ask(f"STREAM.INFO.{stream}", body)

    def pull(self, stream: str, consumer: str, batch: int, **more: object) -> None:
        """Ask for messages; they come to the inbox."""
        body = {"batch": batch, "expires": 30_000_000_000, **more}
        self.send(request(f"$JS.API.CONSUMER.MSG.NEXT.{stream}.{consumer}", body, self.inbox))


ACK_END: Final = b" 4\r\n+ACK\r\n"


def acks(replies: list[bytes]) -> bytes:
    return b"".join(b"PUB %b%b" % (reply, ACK_END) for reply in replies)


def consume(client: Client, stream: str, consumer: str, count: int, batch: int = 100) -> None:
    """Pull and acknowledge `count` messages."""
    left = count
    while left:
        part = min(batch, left)
        client.pull(stream, consumer, part)
        client.send(acks(client.replies(part)))
        left -= part
    client.flush()
