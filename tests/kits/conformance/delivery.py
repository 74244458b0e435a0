"""A client that consumes, and writes down everything that it does and gets.

A test only acts: it publishes, pulls, listens, acknowledges (see `transcripts`).  So every token of every
reply subject, every field of every advisory and every count of an info is compared, whether the test thought
of it or not.

Nothing is slept for.  What comes is waited for; that nothing comes is seen in the counts of the consumer's
info, and an answer that nobody expects ends up in the transcript.
Where something has to be done before a time is over, that is a second or more: a machine may be busy.
"""

import json
import re
import time
from collections import deque
from collections.abc import Mapping
from typing import Any, Final

from tests.kits.conformance.clients import PATIENT_SERVER, Message, as_bytes, eventually, publish, text_block
from tests.kits.patience import PATIENCE_S
from tests.kits.recordings.transcripts import Conversation, accounts_text, masked
from tests.kits.wire import WireClient

MILLISECOND: Final = 1_000_000
SECOND: Final = 1_000_000_000
FUTURE: Final = "2100-01-01T00:00:00Z"
PAST: Final = "2020-01-01T00:00:00Z"
ACCOUNTS: Final = 300

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
    (re.compile(r"(\$JS\.FC\.\w+\.\w+)\.[0-9A-Za-z]{4,22}\b"), r"\1.<any>"),
    (re.compile(r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z"), "<time>"),
    (re.compile(r'("id":)"[0-9A-Za-z]{22}"'), r"\1<id>"),
    (re.compile(r'("(?:ack_time|pause_remaining)": ?)\d+'), r"\1<ns>"),
)


class Heard(Message):
    """A message that the server sent."""

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


def config_text(more: str = "") -> str:
    """A server with many accounts that have JetStream."""
    accounts = accounts_text(ACCOUNTS)
    server = f"jetstream: {{max_mem: 1G, max_file: 8G}}\n{PATIENT_SERVER}"
    return f"{more}\n{server}accounts: {{\n{accounts}\n}}\n"


class Scene(Conversation[Heard]):
    """One connection, a stream S that takes `s.>`, its consumers, and the transcript."""

    def __init__(self, wire: WireClient, lines: list[str]) -> None:
        super().__init__(wire, lines, Heard.read, _MASKS, PATIENCE_S)
        self._sids: dict[str, str] = {}  # by the name that the test knows
        self._silent: list[tuple[str, deque[Heard]]] = []  # no answer came, and none may come later
        self._published = 0
        self._events: deque[Heard] = deque()
        for number, subject in enumerate(_EVENTS):
            self._queues[f"e{number}"] = self._events
            wire.send(f"SUB {subject} e{number}\r\n".encode())
        wire.round_trip()

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
            answer = self.request(f"s.{subject}", body, text_block(headers)).json
            assert "error" not in answer, answer
        self.note(f"publish {' '.join(subjects)}")

    def stored(self) -> None:
        """Record the messages of the stream."""
        state = self.ask("STREAM.INFO.S", {"deleted_details": True})["state"]
        gone = state.get("deleted") or []
        left = [seq for seq in range(state["first_seq"], state["last_seq"] + 1) if seq not in gone]
        assert len(left) == state["messages"]
        self.note(f"stream has {left}, first {state['first_seq']}, last {state['last_seq']}")

    def until_stored(self, messages: int) -> None:
        eventually(
            lambda: self.ask("STREAM.INFO.S")["state"]["messages"] == messages,
            f"{messages} messages",
            PATIENCE_S,
        )
        self.stored()

    # -- the API ----------------------------------------------------------------------------------

    def ask(self, request: str, body: Any = None) -> Any:
        """Make a request that must succeed and is not written down."""
        answer = self.request(f"$JS.API.{request}", as_bytes(body)).json
        assert "error" not in answer, answer
        return answer

    def api(self, request: str, body: Any = None) -> Any:
        """Make a request; the transcript has its answer, an info as in ``look``."""
        answer = self.request(f"$JS.API.{request}", as_bytes(body)).json
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
        answer = self.request(
            f"$JS.API.CONSUMER.CREATE.S.{name}", as_bytes({"stream_name": "S", "config": config})
        )
        told = answer.json
        self.note(f"consumer {name} {json.dumps(shown)}")
        self.note(f"    {json.dumps(told['error']) if 'error' in told else _place(told)}")
        return told

    def look(self, name: str = "c", *, floor: bool = True) -> Any:
        """Record the consumer's info.

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

        eventually(check, f"{name} with {fields}", PATIENCE_S)
        self.look(name, floor=floor)

    def await_pending(self, count: int, name: str = "c") -> None:
        """nats-server acknowledges what is published before its consumers have counted it."""
        eventually(
            lambda: self.ask(f"CONSUMER.INFO.S.{name}")["num_pending"] == count,
            f"{count} pending at {name}",
            PATIENCE_S,
        )

    # -- getting messages -------------------------------------------------------------------------

    def pull(self, count: int = 1, name: str = "c", *, got: int | None = None, **body: Any) -> list[Heard]:
        """Pull and wait for all of it, or for `got` messages."""
        self._asked += 1
        inbox = f"pull{self._asked}"
        self.listen(inbox)
        self.send(f"$JS.API.CONSUMER.MSG.NEXT.S.{name}", as_bytes({"batch": count, **body}), inbox)
        self.note(f"pull {name} {json.dumps({'batch': count, **body})}")
        return self.heard(inbox, count if got is None else got, shown="")

    def drain(self, name: str = "c", count: int = 100) -> list[Heard]:
        """Pull what is there, up to the status that says that there is no more; the messages."""
        self._asked += 1
        inbox = f"pull{self._asked}"
        self.listen(inbox)
        body = as_bytes({"batch": count, "no_wait": True})
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
        self.send(f"$JS.API.CONSUMER.MSG.NEXT.S.{name}", as_bytes({"batch": count, **body}), inbox)
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
        """Take the next messages without recording them."""
        queue = self._queues[self._sids[name]]
        self.pump(lambda: len(queue) >= count, f"{count} messages on {name}; there are {list(queue)}")
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
        self.pump(lambda: len(self._events) >= count, f"{count} events; there are {list(self._events)}")
        found = [self._events.popleft() for _ in range(count)]
        lines = [f"    {each.subject} {each.payload.decode()}" for each in found]
        self.note("events:")
        for line in lines if in_order else sorted(masked(line, _MASKS) for line in lines):
            self.note(line)
        return [each.json for each in found]

    # -- what clients say -------------------------------------------------------------------------

    def say(self, message: Heard | str, payload: str | bytes = "+ACK") -> None:
        """Answer a delivery, ask for an answer to that, and wait for it."""
        subject = message if isinstance(message, str) else message.reply
        answer = self.request(subject, as_bytes(payload))
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
        reply, queue = self.expect()
        self.send(subject, payload, reply)
        return queue

    def in_turn(self, consumer: str = "c") -> None:
        """Wait until everything is done that was said to the consumer: it takes one ack after the other."""
        self.request(f"$JS.ACK.S.{consumer}.1.1.1.1.0", b"nonsense")

    def wait_a_moment(self, seconds: float) -> None:
        """Pause between messages, for consumers that replay at the original pace."""
        time.sleep(seconds)

    # -- the wire ---------------------------------------------------------------------------------

    def send(self, subject: str, payload: bytes = b"", reply: str = "", headers: str = "") -> None:
        self.wire.send(publish(subject, payload, reply, text_block(headers)))

    def finish(self) -> None:
        """Assert that all messages were read."""
        self.ask("INFO")
        self.sync()
        for subject, queue in self._silent:
            if queue:
                self.note(f"(too late) {subject}: {[str(each) for each in queue]}")
        for event in self._events:
            self.note(f"(nobody expected) {event}")


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
