"""A client that writes down what it asks of a server and what it hears, to be compared with a recording.

A test only acts: it creates streams, publishes, waits.  Every request and every answer becomes a line of its
transcript, with times and ids masked, and at the end the transcript has to be the one that nats-server gave
when it was recorded (``tests/golden/jetstream/publishing``).  So nothing an answer has can be forgotten
in an assertion, and what nats-server says is there to be read.
"""

import base64
import json
import re
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from millrace.testing.wire import WireClient

SECOND = 1_000_000_000
ACCOUNTS = 200
PATIENCE_S = 8.0

GOLDEN = Path(__file__).parents[2] / "golden" / "jetstream" / "publishing"
_SECTION = "== "
_ANSWERS = "_INBOX.kit"
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


@dataclass(frozen=True)
class Heard:
    """A message that the server sent."""

    subject: str
    reply: str
    block: bytes
    payload: bytes

    def __str__(self) -> str:
        return f"{headers_text(self.block)}{text_of(self.payload)}"


def block_of(headers: Headers) -> bytes:
    lines = "".join(f"{key}: {value}\r\n" for key, value in headers.items())
    return f"NATS/1.0\r\n{lines}\r\n".encode()


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


def mask(text: str) -> str:
    for pattern, replacement in _MASKS:
        text = pattern.sub(replacement, text)
    return text


def config_text(
    jetstream: str = "{max_mem: 1G, max_file: 4G}", account: str = "enabled", more: str = ""
) -> str:
    """A server with many accounts that have JetStream, and a system account."""
    accounts = "\n".join(
        f"a{number}: {{jetstream: {account}, users: [{{user: a{number}, password: p}}]}}"
        for number in range(ACCOUNTS)
    )
    system = "SYS: {users: [{user: sys, password: p}]}"
    return f"{more}\njetstream: {jetstream}\nsystem_account: SYS\naccounts: {{\n{system}\n{accounts}\n}}\n"


class Scenario:
    """One connection, and the transcript."""

    def __init__(self, wire: WireClient, lines: list[str] | None = None) -> None:
        self._wire = wire
        self.lines: list[str] = [] if lines is None else lines
        self._answers: dict[str, deque[Heard]] = {}
        self._listening: dict[str, tuple[str, deque[Heard]]] = {}  # by sid: the subject, and what came
        self._asked = 0
        wire.send(f"SUB {_ANSWERS}.> 1\r\n".encode())
        wire.round_trip()

    def note(self, text: str) -> None:
        """Add a line of the test's own."""
        self.lines.append(mask(text))

    # -- the API ----------------------------------------------------------------------------------

    def ask(self, request: str, body: Any = None) -> Any:
        """Make an API request that is not written down; its answer."""
        payload = b"" if body is None else json.dumps(body).encode()
        return json.loads(self._request(f"$JS.API.{request}", payload).payload)

    def api(self, request: str, body: Any = None) -> Any:
        """Make an API request; its whole answer is in the transcript."""
        payload = b"" if body is None else json.dumps(body).encode()
        answer = self._request(f"$JS.API.{request}", payload)
        self.note(f"{request} {text_of(payload)}".rstrip())
        self.note(f"    {answer}")
        return json.loads(answer.payload)

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
        """What the stream says of its contents."""
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
        answer = self._request(subject, payload, headers)
        self.note(f"{_publication(subject, payload, headers)}")
        self.note(f"    {answer}")
        return answer

    def tell(self, subject: str, payload: bytes = b"", headers: Headers | bytes | None = None) -> None:
        """Publish without asking for an answer."""
        self._send(subject, "", payload, headers)
        self.note(f"(no reply) {_publication(subject, payload, headers)}")

    def send(self, subject: str, reply: str, payload: bytes = b"", headers: Headers | None = None) -> None:
        """Publish with a reply subject of the test's own; what comes there is `heard`."""
        self._send(subject, reply, payload, headers)
        self.note(f"{_publication(subject, payload, headers)} → {reply}")

    def ask_raw(self, subject: str, headers: Headers | None = None, tail: str = "") -> bytes:
        """Publish without writing it down, with a reply subject that ends like this; the answer's body."""
        return self._request(subject, b"", headers, tail).payload

    # -- listening --------------------------------------------------------------------------------

    def listen(self, subject: str) -> None:
        sid = str(len(self._listening) + 2)
        self._listening[sid] = (subject, deque())
        self._wire.send(f"SUB {subject} {sid}\r\n".encode())

    def heard(self, subject: str, count: int, *, in_order: bool = True) -> list[Heard]:
        """Wait for messages of a subscription; they are in the transcript."""
        queue = next(queue for wanted, queue in self._listening.values() if wanted == subject)
        self._pump(lambda: len(queue) >= count, f"{count} messages on {subject}, {len(queue)} came: {queue}")
        found = [queue.popleft() for _ in range(count)]
        lines = [f"    {each.subject} {each}" for each in found]
        self.note(f"heard on {subject}:")
        for line in lines if in_order else sorted(map(mask, lines)):
            self.note(line)
        return found

    def wait_for(self, what: str, check: Callable[[], object]) -> None:
        """Ask until something is true that the server brings about by itself."""
        deadline = time.monotonic() + PATIENCE_S
        while not check():
            assert time.monotonic() < deadline, f"{what} did not come true within {PATIENCE_S} s"
            time.sleep(0.02)
        self.note(f"then: {what}")

    def until(self, name: str = "S", **state: int) -> None:
        """Wait until the stream's state has these values."""
        words = ", ".join(f"{key} {value}" for key, value in state.items())
        self.wait_for(
            f"{name} has {words}",
            lambda: all(self.info(name).get(key, 0) == value for key, value in state.items()),
        )

    # -- inside -----------------------------------------------------------------------------------

    def _request(
        self, subject: str, payload: bytes, headers: Headers | bytes | None = None, tail: str = ""
    ) -> Heard:
        self._asked += 1
        reply = f"{_ANSWERS}.{self._asked}{tail}"
        queue = self._answers[reply] = deque()
        self._send(subject, reply, payload, headers)
        self._pump(lambda: bool(queue), f"an answer to {subject}")
        del self._answers[reply]
        return queue.popleft()

    def _send(self, subject: str, reply: str, payload: bytes, headers: Headers | bytes | None) -> None:
        words = [subject, *([reply] if reply else [])]
        if headers is None:
            line = " ".join(["PUB", *words, str(len(payload))])
            self._wire.send(line.encode() + b"\r\n" + payload + b"\r\n")
            return
        block = headers if isinstance(headers, bytes) else block_of(headers)
        line = " ".join(["HPUB", *words, str(len(block)), str(len(block) + len(payload))])
        self._wire.send(line.encode() + b"\r\n" + block + payload + b"\r\n")

    def _pump(self, enough: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not enough():
            assert time.monotonic() < deadline, f"waited in vain for {what}"
            self._take(self._wire.read_frame())

    def _take(self, frame: bytes) -> None:
        line, _, body = frame.partition(b"\r\n")
        words = line.decode().split()
        if words[0] not in ("MSG", "HMSG"):
            raise AssertionError(f"unexpected {frame!r}")
        sizes = 2 if words[0] == "HMSG" else 1
        subject, sid, *reply = words[1 : len(words) - sizes]
        header_size = int(words[-2]) if sizes == 2 else 0
        body = body[: int(words[-1])]
        heard = Heard(subject, reply[0] if reply else "", body[:header_size], body[header_size:])
        if sid == "1":
            if subject in self._answers:
                self._answers[subject].append(heard)
            else:
                self.note(f"(nobody asked) {subject} {heard}")
        else:
            self._listening[sid][1].append(heard)


def _publication(subject: str, payload: bytes, headers: Headers | bytes | None) -> str:
    block = b"" if headers is None else headers if isinstance(headers, bytes) else block_of(headers)
    return f"{subject} {headers_text(block)}{text_of(payload)}".rstrip()


class Recording:
    """The transcripts of one test file."""

    def __init__(self, module: str) -> None:
        self._path = GOLDEN / f"{module.removeprefix('test_')}.txt"

    def of(self, test: str) -> list[str] | None:
        return self._sections().get(test)

    def keep(self, test: str, lines: list[str]) -> None:
        sections = self._sections()
        sections[test] = lines
        text = "\n".join(
            f"{_SECTION}{name}\n" + "".join(f"{line}\n" for line in each) for name, each in sections.items()
        )
        self._path.write_text(text)

    def _sections(self) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        if self._path.exists():
            for section in f"\n{self._path.read_text()}".split(f"\n{_SECTION}")[1:]:
                name, *lines = section.rstrip("\n").split("\n")
                found[name] = lines
        return found
