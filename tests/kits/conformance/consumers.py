"""A client of consumers that tells its messages apart: answers to requests, and what each inbox got.

js.stream(subjects=["s.>"])
js.create("c", ack_policy="explicit")
pause = js.listen("$JS.EVENT.ADVISORY.CONSUMER.PAUSE.S.c")
assert js.ask("CONSUMER.PAUSE.S.c", {"pause_until": FUTURE})["paused"]
assert pause.next().json["paused"]
"""

from collections import deque
from datetime import datetime, timedelta
from typing import Any, Final

from tests.kits.conformance.clients import Message, as_bytes, header_block, publish
from tests.kits.wire import WireClient

SECOND: Final = 10**9
FUTURE: Final = "2100-01-01T00:00:00Z"
PAST: Final = "2020-01-01T00:00:00Z"
NEVER: Final = "0001-01-01T00:00:00Z"

Body = bytes | str | dict[str, Any]


def soon(now: str) -> str:
    """One to two seconds after a time that the server told."""
    return f"{(datetime.fromisoformat(now[:19]) + timedelta(seconds=1)).isoformat()}.999Z"


class Inbox:
    """One subscription."""

    def __init__(self, js: "Client", sid: str) -> None:
        self._js = js
        self.sid = sid
        self.waiting: deque[Message] = deque()

    def next(self) -> Message:
        """The next message, as soon as it is there."""
        while not self.waiting:
            self._js.read()
        return self.waiting.popleft()

    def rest(self) -> list[Message]:
        """Return the messages that have come."""
        self._js.catch_up()
        found = list(self.waiting)
        self.waiting.clear()
        return found


class Client:
    """One connection to one account."""

    def __init__(self, wire: WireClient) -> None:
        self.wire = wire
        self._inboxes: dict[str, Inbox] = {}
        self._answers = self.listen("answer.*")
        self._asked = 0

    # -- the wire ---------------------------------------------------------------------------------

    def listen(self, subject: str, queue: str = "") -> Inbox:
        sid = str(len(self._inboxes) + 1)
        self._inboxes[sid] = Inbox(self, sid)
        self.wire.send(f"SUB {subject} {queue} {sid}\r\n".encode())
        return self._inboxes[sid]

    def leave(self, inbox: Inbox) -> None:
        self.wire.send(f"UNSUB {inbox.sid}\r\n".encode())
        self.catch_up()

    def send(
        self, subject: str, body: Body = b"", reply: str = "", headers: dict[str, str] | None = None
    ) -> None:
        self.wire.send(publish(subject, as_bytes(body), reply, header_block(headers or None)))

    def read(self) -> None:
        frame = self.wire.read_frame()
        if frame.startswith((b"MSG", b"HMSG")):
            message = Message.read(frame)
            self._inboxes[message.sid].waiting.append(message)

    def catch_up(self) -> None:
        """Take in everything that the server had sent before it answers a ping."""
        self.wire.send(b"PING\r\n")
        while not (frame := self.wire.read_frame()).startswith(b"PONG"):
            message = Message.read(frame)
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
        """Return the answer of the API, even if it is an error."""
        return self.request(f"$JS.API.{verb}", body, headers)

    def ask(self, verb: str, body: Body = b"", headers: dict[str, str] | None = None) -> dict[str, Any]:
        """Return the answer of the API, which must be a success."""
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
