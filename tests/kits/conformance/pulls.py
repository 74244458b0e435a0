"""A client that pulls by hand, from a stream and consumers that belong to one test.

What arrives is told as (inbox, text): the payload of a message, or a status and its headers joined by `|`.
Frames of one inbox come in the order in which the server sent them.  That nothing more comes is never
waited for: the consumer's own count of deliveries and of waiting requests says so.
"""

from typing import Any, Final

from tests.kits.conformance.clients import Message, as_bytes, eventually, publish
from tests.kits.wire import WireClient

SECOND: Final = 1_000_000_000
MILLISECOND: Final = 1_000_000

Event = tuple[str, str]
Body = str | bytes | dict[str, Any]


def timeout(left: int, size: int = 0) -> str:
    return f"408 Request Timeout|{pending(left, size)}"


def pending(left: int, size: int = 0) -> str:
    return f"Nats-Pending-Messages: {left}|Nats-Pending-Bytes: {size}"


class PullScene:
    """The test's view of one stream; its consumer is called C."""

    def __init__(self, client: WireClient, stream: str) -> None:
        self.client = client
        self.stream = stream
        self.subject = f"{stream}.m"
        self.acks: list[str] = []  # reply subjects of the messages that came
        self.headers: list[bytes] = []  # their header blocks
        self.subjects: list[str] = []  # of all that came
        self._inboxes: dict[str, str] = {}  # by sid
        self._events: list[Event] = []  # read while looking for something else
        self._asked = 0
        client.send(b"SUB api.> api\r\n")
        self.api(
            f"STREAM.CREATE.{stream}", {"name": stream, "subjects": [f"{stream}.>"], "storage": "memory"}
        )

    # -- the API ----------------------------------------------------------------------------------

    def api(self, verb: str, body: Body = b"") -> Any:
        """Ask for something that must succeed."""
        answer = self._request(f"$JS.API.{verb}", body)
        assert "error" not in answer, answer
        return answer

    def consumer(self, **config: Any) -> None:
        config = {"durable_name": "C", "ack_policy": "none", **config}
        self.api(
            f"CONSUMER.CREATE.{self.stream}.C",
            {"stream_name": self.stream, "config": config},
        )

    def info(self) -> Any:
        return self.api(f"CONSUMER.INFO.{self.stream}.C")

    def publish(self, *payloads: str) -> None:
        for payload in payloads:
            assert "seq" in self._request(self.subject, payload)

    def _request(self, subject: str, body: Body) -> Any:
        self._asked += 1
        reply = f"api.{self._asked}"
        self._publish(subject, reply, body)
        while True:
            frame = self.client.read_frame()
            message = Message.read(frame)
            if message.subject == reply:
                return message.json
            self._events.append(self._told(frame))

    # -- pulling ----------------------------------------------------------------------------------

    def listen(self, *inboxes: str) -> None:
        for inbox in inboxes:
            self.watch(inbox, f"{self.stream}-{inbox}")

    def watch(self, name: str, subject: str) -> None:
        """Read what comes on `subject` as if it came to the inbox `name`."""
        sid = f"s{len(self._inboxes)}"
        self._inboxes[sid] = name
        self.client.send(f"SUB {subject} {sid}\r\n".encode())

    def leave(self, inbox: str) -> None:
        [sid] = [sid for sid, name in self._inboxes.items() if name == inbox]
        assert self.client.round_trip(f"UNSUB {sid}\r\n".encode()) == b""

    def pull(self, inbox: str, body: Body = b"", headers: bytes = b"") -> None:
        if inbox not in self._inboxes.values():
            self.listen(inbox)
        self._publish(f"$JS.API.CONSUMER.MSG.NEXT.{self.stream}.C", f"{self.stream}-{inbox}", body, headers)

    def wait(self, inbox: str, body: Body = b"") -> None:
        """Pull what has to wait, and see that it does."""
        before = self.waiting()
        self.pull(inbox, body)
        eventually(lambda: self.waiting() == before + 1, "one more request waits")

    def waiting(self) -> int:
        number: int = self.info()["num_waiting"]
        return number

    def read(self, count: int = 1) -> list[Event]:
        """The next events."""
        while len(self._events) < count:
            self._events.append(self._told(self.client.read_frame()))
        taken, self._events = self._events[:count], self._events[count:]
        return taken

    def settled(self, *, delivered: int, waiting: int = 0) -> None:
        """Assert that all messages were read, and that no others come."""
        info = self.info()
        assert self._events == []
        assert (info["delivered"]["consumer_seq"], info["num_waiting"]) == (delivered, waiting)

    def send(self, subject: str, body: Body, reply: str) -> None:
        """Publish with one of the inboxes as reply."""
        self._publish(subject, f"{self.stream}-{reply}", body)

    def _publish(self, subject: str, reply: str, body: Body, headers: bytes = b"") -> None:
        self.client.send(publish(subject, as_bytes(body), reply, headers))

    def _told(self, frame: bytes) -> Event:
        message = Message.read(frame)
        inbox = self._inboxes[message.sid]
        self.subjects.append(message.subject)
        if message.status:
            assert message.block.endswith(b"\r\n\r\n")
            assert message.payload == b""
            return inbox, "|".join(message.block[len("NATS/1.0 ") : -4].decode().split("\r\n"))
        if message.reply:  # not an advisory
            self.headers.append(message.block)
            self.acks.append(message.reply)
        return inbox, message.payload.decode()
