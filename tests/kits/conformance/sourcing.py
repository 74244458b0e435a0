"""A client that makes streams of streams, and writes down what becomes of them.

A test acts: it creates streams, publishes, waits until messages have arrived (see `transcripts`).  What it
looks at is every message with its sequence, subject, headers and payload, the state of a stream, and every
field of `mirror` and `sources` in its info.

Nothing is slept for: what a test expects is waited for.
"""

import base64
import json
import re
from collections import deque
from collections.abc import Callable
from typing import Any, Final

from tests.kits.conformance.clients import PATIENT_SERVER, Message, as_bytes, eventually, publish, text_block
from tests.kits.patience import PATIENCE_S
from tests.kits.recordings.transcripts import Conversation, accounts_text, masked
from tests.kits.wire import WireClient

SECOND: Final = 1_000_000_000
ACCOUNTS: Final = 200

_STATE: Final = ("messages", "bytes", "first_seq", "last_seq", "num_subjects", "num_deleted", "deleted")
_MASKS: Final = (
    (re.compile(r"(\$JS\.ACK\.\S+\.\d+\.\d+\.\d+)\.\d{19}\.(\d+)"), r"\1.<ts>.\2"),
    (re.compile(r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z"), "<time>"),
    (re.compile(r"((?:\$JS|deliver\.\w+)\.[MS]|\$JSC\.R)\.[0-9A-Za-z]{8,22}\b"), r"\1.<any>"),
    (re.compile(r"(JS_(?:SRC|MIRROR)_[0-9A-Za-z]{8})-[0-9A-Za-z]{8}"), r"\1-<any>"),
    # Which account a test gets, and so what is hashed, depends on the tests before it.
    (re.compile(r"(JS_(?:SRC|MIRROR)_)[0-9A-Za-z]{8}"), r"\1<hash>"),
    (re.compile(r"(_nats\.(?:src|mirror)\.acc\W+)a\d+"), r"\1<account>"),
    (re.compile(r"_R_\.\S+"), "_R_.<any>"),
    (re.compile(r'("active": )\d+'), r"\1<ns>"),
    (re.compile(r"(Nats-Stream-Identity: )[0-9A-Za-z]{8}"), r"\1<identity>"),
    (re.compile(r"(Nats-Stream-Source: \S+ \d+ \S+ \S+ \S+) [0-9A-Za-z]{8}"), r"\1 <identity>"),
)


def mask(text: str) -> str:
    return masked(text, _MASKS)


def config_text(more: str = "") -> str:
    """A server with many accounts that have JetStream."""
    accounts = accounts_text(ACCOUNTS)
    server = f"jetstream: {{max_mem: 1G, max_file: 8G}}\n{PATIENT_SERVER}"
    return f"{more}\n{server}accounts: {{\n{accounts}\n}}\n"


class Heard(Message):
    """A message that the server sent."""

    def __str__(self) -> str:
        words = [self.subject, block_text(self.block), self.payload.decode()]
        return " ".join(word for word in words if word)


def block_text(block: bytes) -> str:
    if not block:
        return ""
    first, *lines = block.decode().removesuffix("\r\n\r\n").split("\r\n")
    # A form feed joins the filters of a source; a transcript shows it as a comma.
    text = "; ".join([first.removeprefix("NATS/1.0").strip(), *lines]).removeprefix("; ")
    return f"[{text}]".replace("\f", ",")


class Scene(Conversation[Heard]):
    """One connection and the transcript."""

    def __init__(self, wire: WireClient, lines: list[str]) -> None:
        super().__init__(wire, lines, Heard.read, _MASKS, PATIENCE_S)

    # -- streams ----------------------------------------------------------------------------------

    def ask(self, request: str, body: Any = None) -> Any:
        """Make a request that must succeed and is not written down."""
        answer = self._json(f"$JS.API.{request}", body)
        assert "error" not in answer, answer
        return answer

    def api(self, request: str, body: Any = None) -> Any:
        """Make a request; the transcript has its answer."""
        answer = self._json(f"$JS.API.{request}", body)
        self.note(f"{request} {'' if body is None else json.dumps(body)}".rstrip())
        self.note(f"    {json.dumps(answer)}")
        return answer

    def _json(self, subject: str, body: Any) -> Any:
        answer = self.request(subject, as_bytes(body))
        assert not answer.status.startswith("503"), f"nobody serves {subject}"
        return answer.json

    def stream(self, name: str, **config: Any) -> None:
        """Create a stream; only what is asked for is shown."""
        self.ask(f"STREAM.CREATE.{name}", {"name": name, **config})
        self.note(f"stream {name} {json.dumps(config)}")

    def change(self, name: str, **config: Any) -> Any:
        """Update a stream; None removes a field.  What the answer tells of mirror and sources is shown."""
        before = self.ask(f"STREAM.INFO.{name}")["config"]
        changed = {key: value for key, value in {**before, **config}.items() if value is not None}
        answer = self._json(f"$JS.API.STREAM.UPDATE.{name}", changed)
        self.note(f"stream {name} becomes {json.dumps(config)}")
        if "error" in answer:
            self.note(f"    {json.dumps(answer['error'])}")
        else:
            self._note_inflows(answer)
        return answer

    def publish(self, subject: str, *payloads: str, headers: str = "") -> None:
        for payload in payloads or ("",):
            answer = self.request(subject, payload.encode(), text_block(headers))
            shown = headers.replace("\r\n", "; ")
            self.note(f"publish {subject} {shown} {payload}: {answer.payload.decode()}".replace("  ", " "))

    def nobody_takes(self, subject: str) -> None:
        answer = self.request(subject, b"?")
        self.note(f"publish {subject}: {block_text(answer.block)}{answer.payload.decode()}")

    # -- waiting ----------------------------------------------------------------------------------

    def until(self, name: str, patience_s: float = PATIENCE_S, **state: int) -> None:
        """Wait until a stream has this state, and show all of it."""

        def check() -> bool:
            found = self.ask(f"STREAM.INFO.{name}")["state"]
            return all(found.get(key, 0) == value for key, value in state.items())

        self.wait(check, f"{name} with {state}", patience_s)
        self.look(name)

    def until_active(self, name: str, patience_s: float = PATIENCE_S) -> None:
        """Wait until all inflows of a stream have heard from their origins."""

        def check() -> bool:
            return all(each["active"] >= 0 for each in self._inflows(self.ask(f"STREAM.INFO.{name}")))

        self.wait(check, f"{name} to hear from its origins", patience_s)

    def until_error(self, name: str) -> None:
        def check() -> bool:
            return any("error" in each for each in self._inflows(self.ask(f"STREAM.INFO.{name}")))

        self.wait(check, f"{name} to fail")

    def wait(self, check: Callable[[], object], what: str, patience_s: float = PATIENCE_S) -> None:
        eventually(check, what, patience_s)

    # -- looking ----------------------------------------------------------------------------------

    def look(self, name: str) -> Any:
        """State and inflows of a stream."""
        info = self.ask(f"STREAM.INFO.{name}", {"deleted_details": True})
        state = {key: info["state"][key] for key in _STATE if key in info["state"]}
        if not state["first_seq"]:  # nats-server says that sequence 0 is deleted
            state = {key: value for key, value in state.items() if "deleted" not in key}
        self.note(f"{name} has {json.dumps(state)}")
        self._note_inflows(info)
        return info

    def _inflows(self, info: Any) -> list[Any]:
        """Return the inflows in a fixed order: nats-server has none."""
        return [info["mirror"]] if "mirror" in info else sorted(info.get("sources", []), key=_by_config)

    def _note_inflows(self, info: Any) -> None:
        for each in self._inflows(info):
            self.note(f"    {'mirror' if 'mirror' in info else 'source'} {json.dumps(each)}")

    def contents(self, name: str, like: str = "") -> None:
        """Every message of a stream; `like` is a stream whose messages have the same times."""
        state = self.ask(f"STREAM.INFO.{name}")["state"]
        self.note(f"{name} contains")
        for seq in range(state["first_seq"], state["last_seq"] + 1):
            message = self._message(name, seq)
            if message is None:
                continue
            block = base64.b64decode(message.get("hdrs", ""))
            body = base64.b64decode(message.get("data", "")).decode()
            line = f"    {seq} {message['subject']} {block_text(block)} {body}".replace("  ", " ")
            if like:
                origin = self._message(like, seq)
                line += ", same time" if origin and origin["time"] == message["time"] else ", other time"
            self.note(line.rstrip())

    def _message(self, name: str, seq: int) -> Any:
        return self._json(f"$JS.API.STREAM.MSG.GET.{name}", {"seq": seq}).get("message")

    # -- the wire ---------------------------------------------------------------------------------

    def listen(self, subject: str) -> deque[Heard]:
        """Subscribe to `subject` and return the list that its messages are put into."""
        sid = f"s{len(self._queues)}"
        queue = self._queues[sid] = deque()
        self.wire.send(f"SUB {subject} {sid}\r\n".encode())
        self.sync()
        return queue

    def pull(self, stream: str, count: int, consumer: str = "c") -> list[Heard]:
        """Get messages from a consumer; the transcript has them with their reply subjects."""
        self._asked += 1
        inbox = f"pull.{self._asked}"
        queue = self.listen(inbox)
        body = as_bytes({"batch": count})
        subject = f"$JS.API.CONSUMER.MSG.NEXT.{stream}.{consumer}"
        self.wire.send(publish(subject, body, inbox))
        self.pump(lambda: len(queue) >= count, f"{count} messages of {consumer}; there are {queue}")
        for heard in queue:
            self.note(f"    {heard} → {heard.reply}")
        return list(queue)


def _by_config(inflow: dict[str, Any]) -> tuple[str, str, str]:
    transforms = json.dumps(inflow.get("subject_transforms", []))
    return inflow["name"], inflow.get("filter_subject", ""), transforms
