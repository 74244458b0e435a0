"""A client of consumers that tells its messages apart: answers to requests, and what each inbox got.

js.stream(subjects=["s.>"])
js.create("c", ack_policy="explicit")
pause = js.listen("$JS.EVENT.ADVISORY.CONSUMER.PAUSE.S.c")
assert js.ask("CONSUMER.PAUSE.S.c", {"pause_until": FUTURE})["paused"]
assert pause.next().json["paused"]
"""

import json
from collections import deque
from dataclasses import dataclass
from typing import Any, Final

from millrace.testing.wire import WireClient

SECOND: Final = 10**9
FUTURE: Final = "2100-01-01T00:00:00Z"
PAST: Final = "2020-01-01T00:00:00Z"
NEVER: Final = "0001-01-01T00:00:00Z"

Body = bytes | str | dict[str, Any]


@dataclass(frozen=True)
class Message:
    subject: str
    sid: int
    reply: str
    block: bytes  # of headers; empty if there is none
    payload: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.payload)

    @property
    def headers(self) -> dict[str, str]:
        lines = (line.partition(": ") for line in self.block.decode().split("\r\n")[1:] if line)
        return {name: value for name, _, value in lines}


def read_message(frame: bytes) -> Message:
    line, _, rest = frame.partition(b"\r\n")
    words = line.decode().split()
    assert words[0] in ("MSG", "HMSG"), frame
    size = int(words[-2]) if words[0] == "HMSG" else 0
    numbers = 2 if words[0] == "HMSG" else 1
    reply = words[3] if len(words) > 3 + numbers else ""
    return Message(words[1], int(words[2]), reply, rest[:size], rest[size:-2])


class Inbox:
    """One subscription."""

    def __init__(self, js: "Client", sid: int) -> None:
        self._js = js
        self.sid = sid
        self.waiting: deque[Message] = deque()

    def next(self) -> Message:
        """The next message, as soon as it is there."""
        while not self.waiting:
            self._js.read()
        return self.waiting.popleft()

    def rest(self) -> list[Message]:
        """What has come by now."""
        self._js.catch_up()
        found = list(self.waiting)
        self.waiting.clear()
        return found


class Client:
    """One connection to one account."""

    def __init__(self, wire: WireClient) -> None:
        self.wire = wire
        self._inboxes: dict[int, Inbox] = {}
        self._answers = self.listen("answer.*")
        self._asked = 0

    # -- the wire ---------------------------------------------------------------------------------

    def listen(self, subject: str, queue: str = "") -> Inbox:
        sid = len(self._inboxes) + 1
        self._inboxes[sid] = Inbox(self, sid)
        self.wire.send(f"SUB {subject} {queue} {sid}\r\n".encode())
        return self._inboxes[sid]

    def leave(self, inbox: Inbox) -> None:
        self.wire.send(f"UNSUB {inbox.sid}\r\n".encode())
        self.catch_up()

    def send(
        self, subject: str, body: Body = b"", reply: str = "", headers: dict[str, str] | None = None
    ) -> None:
        payload = (
            body
            if isinstance(body, bytes)
            else body.encode()
            if isinstance(body, str)
            else json.dumps(body).encode()
        )
        if not headers:
            self.wire.send(f"PUB {subject} {reply} {len(payload)}\r\n".encode() + payload + b"\r\n")
            return
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        block = f"NATS/1.0\r\n{lines}\r\n".encode()
        sizes = f"{len(block)} {len(block) + len(payload)}"
        self.wire.send(f"HPUB {subject} {reply} {sizes}\r\n".encode() + block + payload + b"\r\n")

    def read(self) -> None:
        frame = self.wire.read_frame()
        if frame.startswith((b"MSG", b"HMSG")):
            message = read_message(frame)
            self._inboxes[message.sid].waiting.append(message)

    def catch_up(self) -> None:
        """Take in everything that the server had sent before it answers a ping."""
        self.wire.send(b"PING\r\n")
        while not (frame := self.wire.read_frame()).startswith(b"PONG"):
            message = read_message(frame)
            self._inboxes[message.sid].waiting.append(message)

    # -- requests ---------------------------------------------------------------------------------

    def request(self, subject: str, body: Body = b"", headers: dict[str, str] | None = None) -> Message:
        self._asked += 1
        reply = f"answer.{self._asked}"
        self.send(subject, body, reply, headers)
        message = self._answers.next()
        assert message.subject == reply
        return message

    def answer(self, verb: str, body: Body = b"", headers: dict[str, str] | None = None) -> Message:
        """What the API says, whatever it is."""
        return self.request(f"$JS.API.{verb}", body, headers)

    def ask(self, verb: str, body: Body = b"", headers: dict[str, str] | None = None) -> dict[str, Any]:
        """What the API says if it does what it is asked to."""
        found: dict[str, Any] = self.answer(verb, body, headers).json
        assert "error" not in found, found["error"]
        return found

    def refusal(self, verb: str, body: Body = b"", headers: dict[str, str] | None = None) -> tuple[int, str]:
        """Number and text of the error."""
        error = self.answer(verb, body, headers).json["error"]
        assert error["code"] == {10014: 404, 10059: 404, 10185: 412, 10012: 500}.get(error["err_code"], 400)
        return error["err_code"], error["description"]

    def unanswered(self, verb: str, body: Body = b"") -> None:
        """The request gets no answer before another that was made later gets one."""
        self._asked += 1
        self.send(f"$JS.API.{verb}", body, f"answer.{self._asked}")
        self.ask("INFO")
        assert self._answers.rest() == []

    # -- short ways -------------------------------------------------------------------------------

    def stream(self, name: str = "S", **config: Any) -> dict[str, Any]:
        body = {"name": name, "subjects": [f"{name.lower()}.>"], **config}
        return self.ask(f"STREAM.CREATE.{name}", body)

    def create(self, consumer: str = "c", **config: Any) -> dict[str, Any]:
        """A durable."""
        return self.ask(
            f"CONSUMER.CREATE.S.{consumer}",
            {"stream_name": "S", "config": {"durable_name": consumer, **config}},
        )

    def info(self, consumer: str = "c") -> dict[str, Any]:
        return self.ask(f"CONSUMER.INFO.S.{consumer}")

    def publish(self, *subjects: str) -> None:
        for subject in subjects:
            answer = self.request(subject, b"x").json
            assert "error" not in answer, answer

    def fetch(self, consumer: str = "c", **pull: Any) -> Inbox:
        """An inbox for what one pull request gets."""
        self._asked += 1
        inbox = self.listen(f"pull.{self._asked}")
        self.send(f"$JS.API.CONSUMER.MSG.NEXT.S.{consumer}", {"batch": 1, **pull}, f"pull.{self._asked}")
        return inbox
