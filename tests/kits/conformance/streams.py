"""A client of the stream API that keeps a transcript of what the server says (see `transcripts`).

A test asks; every answer is a line of the transcript as it came from the wire, with times and names of
servers masked: as JSON, so that the fields and their order are compared with those of nats-server.

Not here: how a test gets its account (`conftest`).
"""

import json
import re
from collections.abc import Callable
from typing import Any, Final

from tests.kits.conformance.clients import Message, as_bytes, eventually, header_block, publish
from tests.kits.wire import WireClient

_TIMES: Final = frozenset({"ts", "created", "first_ts", "last_ts", "time", "now", "start"})
_ZERO_TIME: Final = "0001-01-01T00:00:00Z"
_STAMP: Final = re.compile(r"(Nats-Time-Stamp: )\S+")

Body = bytes | str | dict[str, Any] | list[Any]


class Reply(Message):
    """One message that came back."""

    def recorded(self) -> Any:
        """Return the compared part: the JSON, or the text, and the lines of the headers if there are any."""
        try:
            content = masked(json.loads(self.payload))
        except ValueError:
            content = self.payload.decode(errors="backslashreplace")
        if not self.block:
            return content
        lines = self.block.decode().split("\r\n")
        assert lines[-2:] == ["", ""], self.block
        return {"headers": [_STAMP.sub(r"\1<time>", line) for line in lines[:-2]], "payload": content}


def masked(value: Any) -> Any:
    """The document without what differs from run to run."""
    if isinstance(value, list):
        return [masked(each) for each in value]
    if not isinstance(value, dict):
        return value
    return {key: _masked_field(key, entry) for key, entry in value.items()}


def _masked_field(key: str, value: Any) -> Any:
    if key in _TIMES and isinstance(value, str) and value != _ZERO_TIME:
        return "<time>"
    if key in ("leader", "server", "server_id", "host") and isinstance(value, str):
        return f"<{key}>"
    return masked(value)


class Session:
    """One connection to one account."""

    def __init__(self, client: WireClient, lines: list[str]) -> None:
        self.client = client
        self._lines = lines
        self._asked = 0
        client.send(b"SUB answer.* 1\r\n")

    # -- what is compared -------------------------------------------------------------------------

    def ask(self, verb: str, body: Body = b"", headers: dict[str, str] | None = None) -> Any:
        """Ask `$JS.API.<verb>` and take the one answer into the transcript; gives the JSON of it."""
        reply = self.request(f"$JS.API.{verb}", body, headers)[0]
        self._note(verb, [reply])
        return reply.json if not reply.block else None

    def ask_subject(self, subject: str, body: Body = b"", headers: dict[str, str] | None = None) -> Any:
        """Send a request on any other subject."""
        reply = self.request(subject, body, headers)[0]
        self._note(subject, [reply])
        return reply.json if not reply.block else None

    def get(self, place: str, body: Body = b"", headers: dict[str, str] | None = None) -> list[Reply]:
        """Ask `$JS.API.DIRECT.GET.<place>` and take one answer, or all up to a status."""
        many = isinstance(body, dict) and bool(body.get("batch") or body.get("multi_last"))
        replies = self.request(f"$JS.API.DIRECT.GET.{place}", body, headers, many=many)
        self._note(f"DIRECT.GET.{place}", replies)
        return replies

    def hear(self, verb: str, body: Body = b"", headers: dict[str, str] | None = None) -> None:
        """Ask what is never answered, or by nobody but the router; note what came before a later answer."""
        self.hear_subject(f"$JS.API.{verb}", body, headers)

    def hear_subject(self, subject: str, body: Body = b"", headers: dict[str, str] | None = None) -> None:
        """Hear a request on any other subject."""
        self._send(subject, body, headers)
        silent = self._asked
        self._send("$JS.API.INFO", b"", None)
        replies = [Reply.read(self.client.read_frame())]
        while replies[-1].subject != f"answer.{self._asked}":
            replies.append(Reply.read(self.client.read_frame()))
        rest = self.client.round_trip()
        assert not rest, rest
        self._note(subject, [each for each in replies if each.subject == f"answer.{silent}"])

    def state(self, name: str = "S") -> Any:
        """Look at a stream, and note its state with all details."""
        found = self.do(f"STREAM.INFO.{name}", {"deleted_details": True, "subjects_filter": ">"})
        self.note(masked(found["state"]), asked=f"the state of {name}")
        return found["state"]

    def note_masked(self, document: Any, *, asked: str) -> None:
        """Add a document, or a part of one."""
        self.note(masked(document), asked=asked)

    def note(self, answer: Any, *, asked: str) -> None:
        """Add to the transcript what was seen another way."""
        self._lines.append(json.dumps({"asked": asked, "answer": answer}))

    # -- what only sets the scene -----------------------------------------------------------------

    def do(self, verb: str, body: Body = b"") -> Any:
        """Ask for something that must succeed."""
        answer = self.request(f"$JS.API.{verb}", body, None)[0].json
        assert "error" not in answer, answer
        return answer

    def create(self, name: str = "S", **config: Any) -> Any:
        return self.do(f"STREAM.CREATE.{name}", {"name": name, **config})

    def eventually(self, verb: str, check: Callable[[Any], bool]) -> None:
        """Ask until the answer is as it should be: for what happens behind the client's back."""
        eventually(lambda: check(self.do(verb)), f"the answer of {verb}")

    def publish(self, subject: str, payload: Body = b"", headers: dict[str, str] | None = None) -> int:
        """Publish and return the sequence."""
        answer = self.request(subject, payload, headers)[0].json
        assert "error" not in answer, answer
        sequence: int = answer["seq"]
        return sequence

    def fill(self, *subjects: str) -> None:
        """Publish one message to each, with its number as payload."""
        for number, subject in enumerate(subjects, 1):
            self._send(subject, str(number), None)
        for _ in subjects:
            answer = Reply.read(self.client.read_frame()).json
            assert "error" not in answer, answer

    def request(
        self, subject: str, body: Body, headers: dict[str, str] | None = None, *, many: bool = False
    ) -> list[Reply]:
        """One answer, or all up to a status; nothing else may come."""
        self._send(subject, body, headers)
        replies = [Reply.read(self.client.read_frame())]
        while many and not replies[-1].status:
            replies.append(Reply.read(self.client.read_frame()))
        strays = self.client.round_trip()
        assert not strays, strays
        assert {each.subject for each in replies} == {f"answer.{self._asked}"}
        return replies

    # -- inside -----------------------------------------------------------------------------------

    def _send(self, subject: str, body: Body, headers: dict[str, str] | None) -> None:
        self._asked += 1
        reply = f"answer.{self._asked}"
        self.client.send(publish(subject, as_bytes(body), reply, header_block(headers)))

    def _note(self, asked: str, replies: list[Reply]) -> None:
        answers = [each.recorded() for each in replies]
        self.note(answers if len(answers) != 1 else answers[0], asked=asked)


OpenSession = Callable[..., Session]  # server, user and options of CONNECT
Prepare = Callable[[Session], None]
JsWith = Callable[[Prepare], Session]
