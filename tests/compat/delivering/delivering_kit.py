"""A client that consumes, and writes down everything that it does and gets.

A test only acts: it publishes, pulls, listens, acknowledges.  Each step is a line of its transcript, with
times and random tokens masked, and the transcript has to be the one that nats-server gave when it was
recorded (``tests/golden/jetstream/delivering``).  So every token of every reply subject, every field of every
advisory and every count of an info is compared, whether the test thought of it or not.

Nothing is slept for.  What comes is waited for; that nothing comes is seen in the counts of the consumer's
info, and an answer that nobody expects ends up in the transcript.
"""

import json
import re
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from millrace.testing.wire import WireClient

MILLISECOND: Final = 1_000_000
SECOND: Final = 1_000_000_000
FUTURE: Final = "2100-01-01T00:00:00Z"
PAST: Final = "2020-01-01T00:00:00Z"
ACCOUNTS: Final = 300
PATIENCE_S: Final = 8.0

GOLDEN: Final = Path(__file__).parents[2] / "golden" / "jetstream" / "delivering"
_SECTION: Final = "== "
_ANSWERS: Final = "answer"
_EVENTS: Final = (
    "$JS.EVENT.ADVISORY.CONSUMER.DELETED.>",
    "$JS.EVENT.ADVISORY.CONSUMER.MAX_DELIVERIES.>",
    "$JS.EVENT.ADVISORY.CONSUMER.MSG_NAKED.>",
    "$JS.EVENT.ADVISORY.CONSUMER.MSG_TERMINATED.>",
    "$JS.EVENT.ADVISORY.CONSUMER.PAUSE.>",
    "$JS.EVENT.METRIC.>",
)
_SHOWN: Final = 60  # characters of a payload that a transcript has in full

_MASKS: Final = (
    (re.compile(r"(\$JS\.ACK\.\S+\.\d+\.\d+\.\d+)\.\d{19}\.(\d+)"), r"\1.<ts>.\2"),
    (re.compile(r"(\$JS\.FC\.\w+\.\w+)\.[0-9A-Za-z]{4}\b"), r"\1.<any>"),
    (re.compile(r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z"), "<time>"),
    (re.compile(r'("id":)"[0-9A-Za-z]{22}"'), r"\1<id>"),
    (re.compile(r'("(?:ack_time|pause_remaining)": ?)\d+'), r"\1<ns>"),
)


@dataclass(frozen=True)
class Heard:
    """A message that the server sent."""

    subject: str
    reply: str
    block: bytes
    payload: bytes

    @property
    def headers(self) -> dict[str, str]:
        lines = (line.partition(": ") for line in self.block.decode().split("\r\n")[1:] if line)
        return {name: value for name, _, value in lines}

    @property
    def status(self) -> str:
        return self.block.split(b"\r\n", 1)[0].decode().removeprefix("NATS/1.0").strip()

    @property
    def sseq(self) -> int:
        return int(self.reply.split(".")[-4])

    def __str__(self) -> str:
        words = [self.subject]
        if self.block:
            first, *lines = self.block.decode().removesuffix("\r\n\r\n").split("\r\n")
            words.append(
                f"[{'; '.join([first.removeprefix('NATS/1.0').strip(), *lines]).removeprefix('; ')}]"
            )
        words.append(short(self.payload.decode(errors="backslashreplace")))
        if self.reply:
            words.append(f"→ {self.reply}")
        return " ".join(word for word in words if word)


def short(text: str) -> str:
    if len(text) <= _SHOWN or text.startswith("{"):
        return text
    return f"{text[:8]}… {len(text)} bytes"


def mask(text: str) -> str:
    for pattern, replacement in _MASKS:
        text = pattern.sub(replacement, text)
    return text


def config_text(more: str = "") -> str:
    """A server with many accounts that have JetStream."""
    accounts = "\n".join(
        f"a{number}: {{jetstream: enabled, users: [{{user: a{number}, password: p}}]}}"
        for number in range(ACCOUNTS)
    )
    return f"{more}\njetstream: {{max_mem: 1G, max_file: 8G}}\naccounts: {{\n{accounts}\n}}\n"


class Scene:
    """One connection, a stream S that takes `s.>`, its consumers, and the transcript."""

    def __init__(self, wire: WireClient, lines: list[str]) -> None:
        self.wire = wire
        self.lines = lines
        self._answers: dict[str, deque[Heard]] = {}
        self._queues: dict[str, deque[Heard]] = {}  # by sid
        self._sids: dict[str, str] = {}  # by the name that the test knows
        self._silent: list[tuple[str, deque[Heard]]] = []  # no answer came, and none may come later
        self._asked = 0
        self._published = 0
        wire.send(f"SUB {_ANSWERS}.> 1\r\n".encode())
        self._events: deque[Heard] = deque()
        for number, subject in enumerate(_EVENTS):
            self._queues[f"e{number}"] = self._events
            wire.send(f"SUB {subject} e{number}\r\n".encode())
        wire.round_trip()

    def note(self, text: str) -> None:
        self.lines.append(mask(text))

    # -- streams ----------------------------------------------------------------------------------

    def stream(self, **config: Any) -> None:
        """Create S; only what differs from the usual is shown."""
        self.ask("STREAM.CREATE.S", {"name": "S", "subjects": ["s.>"], **config})
        self.note(f"stream {json.dumps(config)}")

    def change_stream(self, **config: Any) -> None:
        before = self.ask("STREAM.INFO.S")["config"]
        self.ask("STREAM.UPDATE.S", {**before, **config})
        self.note(f"stream becomes {json.dumps(config)}")

    def publish(self, *subjects: str, payload: bytes | None = None, headers: str = "") -> None:
        """Store messages on `s.<subject>`; their payloads are numbers that count up."""
        for subject in subjects:
            self._published += 1
            body = b"%d" % self._published if payload is None else payload
            answer = json.loads(self._request(f"s.{subject}", body, headers).payload)
            assert "error" not in answer, answer
        self.note(f"publish {' '.join(subjects)}")

    def stored(self) -> None:
        """Which messages the stream has."""
        state = self.ask("STREAM.INFO.S", {"deleted_details": True})["state"]
        gone = state.get("deleted") or []
        left = [seq for seq in range(state["first_seq"], state["last_seq"] + 1) if seq not in gone]
        assert len(left) == state["messages"]
        self.note(f"stream has {left}, first {state['first_seq']}, last {state['last_seq']}")

    def until_stored(self, messages: int) -> None:
        self._wait(lambda: self.ask("STREAM.INFO.S")["state"]["messages"] == messages, f"{messages} messages")
        self.stored()

    # -- the API ----------------------------------------------------------------------------------

    def ask(self, request: str, body: Any = None) -> Any:
        """Make a request that must succeed and is not written down."""
        answer = json.loads(self._request(f"$JS.API.{request}", _bytes(body)).payload)
        assert "error" not in answer, answer
        return answer

    def api(self, request: str, body: Any = None) -> Any:
        """Make a request; the transcript has its answer, an info as in ``look``."""
        answer = json.loads(self._request(f"$JS.API.{request}", _bytes(body)).payload)
        self.note(f"{request} {'' if body is None else json.dumps(body)}".rstrip())
        if "delivered" in answer:
            self.note(f"    {_place(answer)}")
        else:
            self.note(f"    {json.dumps(answer)}")
        return answer

    def consumer(self, name: str = "c", **config: Any) -> Any:
        """Create or change a durable; what the answer tells of its state is shown."""
        return self._configure(name, {"durable_name": name, **config}, config)

    def ephemeral(self, name: str = "c", **config: Any) -> Any:
        return self._configure(name, config, config)

    def _configure(self, name: str, config: dict[str, Any], shown: dict[str, Any]) -> Any:
        answer = self._request(
            f"$JS.API.CONSUMER.CREATE.S.{name}", _bytes({"stream_name": "S", "config": config})
        )
        told = json.loads(answer.payload)
        self.note(f"consumer {name} {json.dumps(shown)}")
        self.note(f"    {json.dumps(told['error']) if 'error' in told else _place(told)}")
        return told

    def look(self, name: str = "c", *, floor: bool = True) -> Any:
        """What the consumer's info says.

        `floor`: not where it has given messages up.  nats-server then shows the floor that is on its disk,
        and that moves with some later ack.
        """
        info = self.ask(f"CONSUMER.INFO.S.{name}")
        self.note(f"info {name}: {_place(info, floor=floor)}")
        return info

    def until(self, name: str = "c", *, floor: bool = True, **fields: Any) -> None:
        """Wait until the info has these values; `delivered` and `ack_floor` mean consumer sequences."""

        def check() -> bool:
            info = self.ask(f"CONSUMER.INFO.S.{name}")
            for place in ("delivered", "ack_floor"):
                info[place] = info[place]["consumer_seq"]
            return all(info.get(field, False) == value for field, value in fields.items())

        self._wait(check, f"{name} with {fields}")
        self.look(name, floor=floor)

    def await_pending(self, count: int, name: str = "c") -> None:
        """nats-server acknowledges what is published before its consumers have counted it."""
        self._wait(
            lambda: self.ask(f"CONSUMER.INFO.S.{name}")["num_pending"] == count, f"{count} pending at {name}"
        )

    # -- getting messages -------------------------------------------------------------------------

    def pull(self, count: int = 1, name: str = "c", *, got: int | None = None, **body: Any) -> list[Heard]:
        """Pull and wait for all of it, or for `got` messages."""
        self._asked += 1
        inbox = f"pull{self._asked}"
        self.listen(inbox)
        self.send(f"$JS.API.CONSUMER.MSG.NEXT.S.{name}", _bytes({"batch": count, **body}), inbox)
        self.note(f"pull {name} {json.dumps({'batch': count, **body})}")
        return self.heard(inbox, count if got is None else got, shown="")

    def drain(self, name: str = "c", count: int = 100) -> list[Heard]:
        """Pull what is there, up to the status that says that there is no more; the messages."""
        self._asked += 1
        inbox = f"pull{self._asked}"
        self.listen(inbox)
        body = _bytes({"batch": count, "no_wait": True})
        self.send(f"$JS.API.CONSUMER.MSG.NEXT.S.{name}", body, inbox)
        self.note(f"drain {name}")
        found: list[Heard] = []
        while not (message := self.hear(inbox)[0]).status:
            found.append(message)
            self.note(f"    {message}")
        self.note(f"    {message}".replace(inbox, "inbox"))
        return found

    def ask_for(self, inbox: str, count: int = 1, name: str = "c", **body: Any) -> None:
        """Pull to an inbox that the test listens at, and wait for nothing."""
        self.send(f"$JS.API.CONSUMER.MSG.NEXT.S.{name}", _bytes({"batch": count, **body}), inbox)
        self.note(f"pull {name} {json.dumps({'batch': count, **body})} to {inbox}")

    def listen(self, subject: str, queue: str = "", name: str = "") -> None:
        sid = f"l{len(self._queues)}"
        self._sids[name or subject] = sid
        self._queues[sid] = deque()
        self.wire.send(f"SUB {subject} {queue} {sid}\r\n".encode())
        self.sync()

    def leave(self, name: str) -> None:
        self.wire.send(f"UNSUB {self._sids[name]}\r\n".encode())
        self.sync()
        self.note(f"nobody listens to {name}")

    def heard(self, name: str, count: int = 1, shown: str | None = None) -> list[Heard]:
        """Wait for messages of a subscription."""
        found = self.hear(name, count)
        if shown is None:
            self.note(f"heard on {name}:")
        for each in found:
            self.note(f"    {each}")
        return found

    def messages(self, name: str, count: int = 1) -> list[Heard]:
        """Wait for messages of a subscription and pass over heartbeats."""
        found: list[Heard] = []
        while len(found) < count:
            found += [each for each in self.hear(name) if not each.status]
        self.note(f"heard on {name}:")
        for each in found:
            self.note(f"    {each}")
        return found

    def hear(self, name: str, count: int = 1) -> list[Heard]:
        """The same, and it is not written down."""
        queue = self._queues[self._sids[name]]
        self._pump(lambda: len(queue) >= count, f"{count} messages on {name}; there are {list(queue)}")
        return [queue.popleft() for _ in range(count)]

    def take(self, name: str) -> int:
        """Throw away what has come; how many that was."""
        queue = self._queues[self._sids[name]]
        count = len(queue)
        queue.clear()
        return count

    def unread(self, name: str) -> int:
        """Note how many messages have come that were not read."""
        self.sync()
        count = len(self._queues[self._sids[name]])
        self.note(f"{count} more on {name}")
        return count

    def events(self, count: int = 1, *, in_order: bool = True) -> list[dict[str, Any]]:
        """Wait for advisories and metrics."""
        self._pump(lambda: len(self._events) >= count, f"{count} events; there are {list(self._events)}")
        found = [self._events.popleft() for _ in range(count)]
        lines = [f"    {each.subject} {each.payload.decode()}" for each in found]
        self.note("events:")
        for line in lines if in_order else sorted(map(mask, lines)):
            self.note(line)
        return [json.loads(each.payload) for each in found]

    # -- what clients say -------------------------------------------------------------------------

    def say(self, message: Heard | str, payload: str | bytes = "+ACK") -> None:
        """Answer a delivery, ask for an answer to that, and wait for it."""
        subject = message if isinstance(message, str) else message.reply
        answer = self._request(subject, _bytes(payload))
        text = payload if isinstance(payload, str) else repr(payload)
        self.note(f"{subject} {text or 'nothing'}: answered {answer.block!r} {answer.payload!r}")

    def tell(self, message: Heard | str, payload: str = "+ACK", consumer: str = "c") -> None:
        """Answer a delivery without asking for an answer, and wait until the server has seen it."""
        subject = message if isinstance(message, str) else message.reply
        self.send(subject, payload.encode())
        self.note(f"{subject} {payload or 'nothing'}")
        self.in_turn(consumer)

    def unanswered(self, message: Heard | str, payload: str = "+ACK", consumer: str = "c") -> None:
        """Answer a delivery and ask for an answer, which does not come before that to a later one."""
        subject = message if isinstance(message, str) else message.reply
        queue = self.try_request(subject, payload.encode())
        self.in_turn(consumer)
        self.ask("INFO")
        self.note(f"{subject} {payload or 'nothing'}: {[str(each) for each in queue] or 'no answer'}")
        queue.clear()
        self._silent.append((subject, queue))

    def try_request(self, subject: str, payload: bytes = b"+ACK") -> deque[Heard]:
        """Ask for something that may get no answer; what comes goes to the list."""
        self._asked += 1
        queue = self._answers[f"{_ANSWERS}.{self._asked}"] = deque()
        self.send(subject, payload, f"{_ANSWERS}.{self._asked}")
        return queue

    def in_turn(self, consumer: str = "c") -> None:
        """Wait until everything is done that was said to the consumer: it takes one ack after the other."""
        self._request(f"$JS.ACK.S.{consumer}.1.1.1.1.0", b"nonsense")

    def wait_a_moment(self, seconds: float) -> None:
        """So that there is a pause between messages, for those who are to keep it."""
        time.sleep(seconds)

    # -- the wire ---------------------------------------------------------------------------------

    def send(self, subject: str, payload: bytes = b"", reply: str = "", headers: str = "") -> None:
        if headers:
            block = f"NATS/1.0\r\n{headers}\r\n\r\n".encode()
            line = f"HPUB {subject} {reply} {len(block)} {len(block) + len(payload)}\r\n"
            self.wire.send(line.encode() + block + payload + b"\r\n")
        else:
            self.wire.send(f"PUB {subject} {reply} {len(payload)}\r\n".encode() + payload + b"\r\n")

    def sync(self) -> None:
        """Take in what the server had sent before it answers."""
        self.wire.send(b"PING\r\n")
        while (frame := self.wire.read_frame()) != b"PONG\r\n":
            self._take(frame)

    def finish(self) -> None:
        """Nothing may be left that was not read."""
        self.ask("INFO")
        self.sync()
        for subject, queue in self._silent:
            if queue:
                self.note(f"(too late) {subject}: {[str(each) for each in queue]}")
        for event in self._events:
            self.note(f"(nobody expected) {event}")

    def _request(self, subject: str, payload: bytes, headers: str = "") -> Heard:
        self._asked += 1
        reply = f"{_ANSWERS}.{self._asked}"
        queue = self._answers[reply] = deque()
        self.send(subject, payload, reply, headers)
        self._pump(lambda: bool(queue), f"an answer to {subject} {payload!r}")
        del self._answers[reply]
        return queue.popleft()

    def _pump(self, enough: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not enough():
            assert time.monotonic() < deadline, f"waited in vain for {what}"
            self._take(self.wire.read_frame())

    def _wait(self, check: Callable[[], object], what: str) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not check():
            assert time.monotonic() < deadline, f"waited in vain for {what}"
            time.sleep(0.01)

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
        if sid != "1":
            self._queues[sid].append(heard)
        elif subject in self._answers:
            self._answers[subject].append(heard)
        else:
            self.note(f"(nobody asked) {heard}")


def _bytes(body: Any) -> bytes:
    if body is None:
        return b""
    if isinstance(body, bytes):
        return body
    return (body if isinstance(body, str) else json.dumps(body)).encode()


def _place(info: Mapping[str, Any], *, floor: bool = True) -> str:
    """The state of a consumer in a line; `~` behind a place that has a time."""
    words = []
    for name in ("delivered", "ack_floor") if floor else ("delivered",):
        place = info[name]
        mark = "~" if "last_active" in place else ""
        words.append(f"{name} {place['consumer_seq']}/{place['stream_seq']}{mark}")
    words += [f"{key} {value}" for key, value in info.items() if key.startswith("num_") and value]
    words += [key for key in ("push_bound", "paused") if info.get(key)]
    words += [f"{key} {info[key]}" for key in ("reset_seq",) if key in info]
    return ", ".join(words)


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
