"""A client that publishes, and writes down what it asks of a server and what it hears (see `transcripts`)."""

import base64
import json
import re
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

from tests.kits.conformance.clients import (
    PATIENT_SERVER,
    Message,
    as_bytes,
    eventually,
    header_block,
    publish,
)
from tests.kits.patience import PATIENCE_S
from tests.kits.recordings.transcripts import Conversation, accounts_text, masked
from tests.kits.wire import WireClient

SECOND = 1_000_000_000
ACCOUNTS = 200

_SHOWN = 160  # bytes of a text that a transcript has in full

_MASKS = (
    (re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)"), "<time>"),
    (re.compile(r'(\\?"id\\?":)\\?"[0-9A-Za-z]{22}\\?"'), r"\1<id>"),
    (re.compile(r"\bN[A-Z2-7]{55}\b"), "<server>"),
    (re.compile(r'("(?:id|rtt)":)\d+'), r"\1<number>"),
    (re.compile(r'("(?:acc|user)":)"a\d+"'), r"\1<account>"),
    (re.compile(r'("(?:server_id|server)":)"[^"]+"'), r"\1<server>"),
)

Headers = Mapping[str, str]


class Heard(Message):
    """A message that the server sent."""

    def __str__(self) -> str:
        return f"{headers_text(self.block)}{text_of(self.payload)}"


def _block(headers: Headers | bytes | None) -> bytes:
    return headers if isinstance(headers, bytes) else header_block(headers)


def headers_text(block: bytes) -> str:
    if not block:
        return ""
    first, *lines = block.decode().removesuffix("\r\n\r\n").split("\r\n")
    shown = ([] if first == "NATS/1.0" else [first]) + [_short(line) for line in lines]
    return f"[{'; '.join(shown)}] "


def text_of(payload: bytes) -> str:
    return _short(payload.decode(errors="backslashreplace"))


def _short(text: str) -> str:
    if len(text) <= _SHOWN or text.startswith("{"):
        return text
    return f"{text[:20]}… {len(text)} bytes"


def config_text(
    jetstream: str = "{max_mem: 1G, max_file: 4G}", account: str = "enabled", more: str = ""
) -> str:
    """A server with many accounts that have JetStream, and a system account."""
    accounts = accounts_text(ACCOUNTS, account)
    system = "SYS: {users: [{user: sys, password: p}]}"
    server = f"jetstream: {jetstream}\nsystem_account: SYS\n{PATIENT_SERVER}"
    return f"{more}\n{server}accounts: {{\n{system}\n{accounts}\n}}\n"


class Scenario(Conversation[Heard]):
    """One connection, and the transcript."""

    def __init__(self, wire: WireClient, lines: list[str]) -> None:
        super().__init__(wire, lines, Heard.read, _MASKS, PATIENCE_S)
        self._sids: dict[str, str] = {}  # by the subject of the subscription

    # -- the API ----------------------------------------------------------------------------------

    def ask(self, request: str, body: Any = None) -> Any:
        """Make an API request that is not written down; its answer."""
        return self.request(f"$JS.API.{request}", as_bytes(body)).json

    def api(self, request: str, body: Any = None) -> Any:
        """Make an API request; its whole answer is in the transcript."""
        payload = as_bytes(body)
        answer = self.request(f"$JS.API.{request}", payload)
        self.note(f"{request} {text_of(payload)}".rstrip())
        self.note(f"    {answer}")
        return answer.json

    def create(self, name: str = "S", **config: Any) -> None:
        """Create a stream, by default on `s.>` in memory; only a refusal is shown."""
        config = {"subjects": ["s.>"], "storage": "memory", **config}
        self._configure("create", name, config)

    def update(self, name: str = "S", **config: Any) -> None:
        """Change what is given of a stream's configuration."""
        before = self.ask(f"STREAM.INFO.{name}")["config"]
        self._configure("update", name, {**before, **config}, shown=config)

    def _configure(self, verb: str, name: str, config: dict[str, Any], shown: Any = None) -> None:
        answer = self.ask(f"STREAM.{verb.upper()}.{name}", {"name": name, **config})
        told = json.dumps(answer["error"]) if "error" in answer else "done"
        self.note(f"{verb} {name} {json.dumps(shown if shown is not None else config)}: {told}")

    def info(self, name: str = "S") -> dict[str, Any]:
        state: dict[str, Any] = self.ask(f"STREAM.INFO.{name}")["state"]
        return state

    def state(self, name: str = "S") -> None:
        """Record the state of the stream."""
        found = self.info(name)
        shown = {key: value for key, value in found.items() if not key.endswith("_ts")}
        self.note(f"state of {name}: {json.dumps(shown)}")

    def stored(self, name: str = "S") -> None:
        """All messages of the stream."""
        found = self.info(name)
        self.note(f"stored in {name}: {found['messages']}")
        for seq in range(found["first_seq"], found["last_seq"] + 1):
            message = self.ask(f"STREAM.MSG.GET.{name}", {"seq": seq}).get("message")
            if message is not None:
                block = base64.b64decode(message.get("hdrs", ""))
                payload = base64.b64decode(message.get("data", ""))
                self.note(f"    {seq} {message['subject']} {headers_text(block)}{text_of(payload)}".rstrip())

    def headers_of(self, name: str, seq: int) -> str:
        """The headers of one message."""
        message = self.ask(f"STREAM.MSG.GET.{name}", {"seq": seq})["message"]
        return headers_text(base64.b64decode(message["hdrs"])).rstrip()

    # -- publishing -------------------------------------------------------------------------------

    def publish(self, subject: str, payload: bytes = b"", headers: Headers | bytes | None = None) -> Heard:
        """Publish and wait for the answer."""
        answer = self.request(subject, payload, _block(headers))
        self.note(f"{_publication(subject, payload, headers)}")
        self.note(f"    {answer}")
        return answer

    def tell(self, subject: str, payload: bytes = b"", headers: Headers | bytes | None = None) -> None:
        """Publish without asking for an answer."""
        self.wire.send(publish(subject, payload, "", _block(headers)))
        self.note(f"(no reply) {_publication(subject, payload, headers)}")

    def send(self, subject: str, reply: str, payload: bytes = b"", headers: Headers | None = None) -> None:
        """Publish with a reply subject of the test's own; what comes there is `heard`."""
        self.wire.send(publish(subject, payload, reply, _block(headers)))
        self.note(f"{_publication(subject, payload, headers)} → {reply}")

    def ask_raw(self, subject: str, headers: Headers | None = None, tail: str = "") -> bytes:
        """Publish without writing it down, with a reply subject that ends like this; the answer's body."""
        return self.request(subject, b"", _block(headers), tail).payload

    # -- listening --------------------------------------------------------------------------------

    def listen(self, subject: str) -> None:
        sid = self._sids[subject] = f"s{len(self._queues)}"
        self._queues[sid] = deque()
        self.wire.send(f"SUB {subject} {sid}\r\n".encode())

    def heard(self, subject: str, count: int, *, in_order: bool = True) -> list[Heard]:
        """Wait for messages of a subscription; they are in the transcript."""
        queue = self._queues[self._sids[subject]]
        self.pump(lambda: len(queue) >= count, f"{count} messages on {subject}; there are {queue}")
        found = [queue.popleft() for _ in range(count)]
        lines = [f"    {each.subject} {each}" for each in found]
        self.note(f"heard on {subject}:")
        for line in lines if in_order else sorted(masked(line, _MASKS) for line in lines):
            self.note(line)
        return found

    def wait_for(self, what: str, check: Callable[[], object]) -> None:
        """Ask until something is true that the server brings about by itself."""
        eventually(check, what, PATIENCE_S)
        self.note(f"then: {what}")

    def until(self, name: str = "S", **state: int) -> None:
        """Wait until the stream's state has these values."""
        words = ", ".join(f"{key} {value}" for key, value in state.items())
        self.wait_for(
            f"{name} has {words}",
            lambda: all(self.info(name).get(key, 0) == value for key, value in state.items()),
        )


def _publication(subject: str, payload: bytes, headers: Headers | bytes | None) -> str:
    return f"{subject} {headers_text(_block(headers))}{text_of(payload)}".rstrip()
