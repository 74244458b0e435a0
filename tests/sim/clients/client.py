"""A NATS client of the simulation, with a parser of its own: it shares no code with the server.

It reconnects by itself and subscribes again.  A request whose answer does not come ends as ``LOST``: what it
asked for may have happened or not.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, NamedTuple

from tests.sim.machine.loop import SimFuture, SimLoop
from tests.sim.machine.machine import Machine
from tests.sim.machine.network import SimLink

PING_S = 20.0
LOST = None  # the answer to a request that got none


class Message(NamedTuple):
    """A message from the server."""

    subject: str
    reply: str
    headers: dict[str, str]  # `Status` is the status line
    payload: bytes
    connection: int  # the number of the client's connection

    def json(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.payload)
        return found


class SimClient:
    """One client, and its connections one after another."""

    def __init__(self, machine: Machine, name: str) -> None:
        self.name = name
        self.loop: SimLoop = machine.loop
        self.connections = 0  # so far
        self.connected = False
        self.errors: list[str] = []  # -ERR lines
        self.machine = machine
        self._link: SimLink | None = None
        self._input = bytearray()
        self._subscriptions: dict[int, tuple[str, str, Callable[[Message], None]]] = {}
        self._last_sid = 0
        self._last_inbox = 0
        self._waiting: dict[str, SimFuture] = {}
        self._on_connect: list[SimFuture] = []
        self._unanswered = 0
        self.subscribe(f"_INBOX.{name}.*", self._answered)
        self._dial()
        self.loop.after(self.loop.clients, PING_S, self._ping)

    # -- connections ------------------------------------------------------------------------------

    def _dial(self) -> None:
        self._input.clear()
        self._unanswered = 0
        link = self.machine.connect(_End(self, self.connections + 1))
        if link is None:
            self.loop.after(self.loop.clients, 0.05 + self.loop.random.random() * 0.2, self._dial)
            return
        self.connections += 1
        self._link = link
        options = {"verbose": False, "pedantic": False, "headers": True, "no_responders": True}
        lines = [b"CONNECT " + json.dumps({**options, "name": self.name}).encode() + b"\r\n"]
        lines += [_sub_line(sid, *each[:2]) for sid, each in self._subscriptions.items()]
        self._write(b"".join(lines) + b"PING\r\n")

    def received(self, number: int, data: bytes) -> None:
        if number == self.connections:
            self._input += data
            while self._take_one():
                pass

    def closed(self, number: int) -> None:
        if number != self.connections or self._link is None:
            return
        self._link = None
        self.connected = False
        waiting, self._waiting = self._waiting, {}
        for future in waiting.values():
            future.set(LOST)
        self.loop.after(self.loop.clients, 0.01 + self.loop.random.random() * 0.2, self._dial)

    def drop(self) -> None:
        """Give up the connection: it does not answer."""
        if self._link is not None:
            self._link.close()
            self.closed(self.connections)

    def cut(self) -> None:
        """Have the connection broken by the network."""
        if self._link is not None:
            self._link.cut()

    def _ping(self) -> None:
        self.loop.after(self.loop.clients, PING_S, self._ping)
        if self._link is not None:
            if self._unanswered >= 2:
                self.drop()
            else:
                self._unanswered += 1
                self._write(b"PING\r\n")

    def _write(self, data: bytes) -> None:
        if self._link is not None:
            self._link.send(data)

    # -- input ------------------------------------------------------------------------------------

    def _take_one(self) -> bool:
        end = self._input.find(b"\r\n")
        if end < 0:
            return False
        line = self._input[:end].decode()
        words = line.split(" ")
        if words[0] in ("MSG", "HMSG"):
            return self._take_message(words, end + 2)
        del self._input[: end + 2]
        if words[0] == "PING":
            self._write(b"PONG\r\n")
        elif words[0] == "PONG":
            self._unanswered = 0
            if not self.connected:
                self.connected = True
                waiting, self._on_connect = self._on_connect, []
                for future in waiting:
                    future.set(None)
        elif words[0] == "-ERR":
            self.errors.append(line)
        elif words[0] not in ("INFO", "+OK"):
            self.errors.append(f"unknown line {line!r}")
        return True

    def _take_message(self, words: list[str], start: int) -> bool:
        size = int(words[-1])
        if len(self._input) < start + size + 2:
            return False
        body = bytes(self._input[start : start + size])
        if self._input[start + size : start + size + 2] != b"\r\n":
            self.errors.append(f"no line end after {words}")
        del self._input[: start + size + 2]
        head, numbers = (1, 2) if words[0] == "HMSG" else (0, 1)
        reply = words[3] if len(words) == 4 + numbers else ""
        headers: dict[str, str] = {}
        if head:
            head_size = int(words[-2])
            headers, body = parse_headers(body[:head_size]), body[head_size:]
        found = self._subscriptions.get(int(words[2]))
        if found is not None:
            found[2](Message(words[1], reply, headers, body, self.connections))
        return True

    # -- what actors do ---------------------------------------------------------------------------

    def subscribe(self, subject: str, callback: Callable[[Message], None], queue: str = "") -> int:
        self._last_sid += 1
        self._subscriptions[self._last_sid] = (subject, queue, callback)
        self._write(_sub_line(self._last_sid, subject, queue))
        return self._last_sid

    def unsubscribe(self, sid: int) -> None:
        del self._subscriptions[sid]
        self._write(b"UNSUB %d\r\n" % sid)

    def inbox(self) -> str:
        self._last_inbox += 1
        return f"_INBOX.{self.name}.{self._last_inbox}"

    def publish(
        self, subject: str, payload: bytes = b"", reply: str = "", headers: dict[str, str] | None = None
    ) -> bool:
        """Send a message; return False if there is no connection."""
        if not self.connected:
            return False
        if headers:
            block = "NATS/1.0\r\n" + "".join(f"{key}: {value}\r\n" for key, value in headers.items()) + "\r\n"
            sizes = f"{len(block)} {len(block) + len(payload)}"
            line = f"HPUB {subject} {reply} {sizes}" if reply else f"HPUB {subject} {sizes}"
            self._write(line.encode() + b"\r\n" + block.encode() + payload + b"\r\n")
        else:
            line = f"PUB {subject} {reply} {len(payload)}" if reply else f"PUB {subject} {len(payload)}"
            self._write(line.encode() + b"\r\n" + payload + b"\r\n")
        return True

    def ask(
        self,
        subject: str,
        payload: bytes = b"",
        headers: dict[str, str] | None = None,
        timeout: float = 10.0,
    ) -> SimFuture:
        """Send a request; the future gets the answer, or ``LOST``."""
        future = self.loop.future()
        inbox = self.inbox()
        if not self.publish(subject, payload, inbox, headers):
            future.set(LOST)
            return future
        self._waiting[inbox] = future
        self.loop.after(self.loop.clients, timeout, self._timed_out, inbox)
        return future

    async def request(
        self,
        subject: str,
        payload: bytes = b"",
        headers: dict[str, str] | None = None,
        timeout: float = 10.0,
    ) -> Message | None:
        await self.online()
        found: Message | None = await self.ask(subject, payload, headers, timeout)
        return found

    async def api(self, endpoint: str, body: Any = None, timeout: float = 10.0) -> dict[str, Any] | None:
        """Return the answer of the JetStream API; None if it is lost, or nobody answers."""
        payload = b"" if body is None else json.dumps(body).encode()
        found = await self.request(f"$JS.API.{endpoint}", payload, timeout=timeout)
        return None if found is None or found.headers.get("Status") else found.json()

    async def online(self) -> None:
        """Return when there is a connection."""
        while not self.connected:
            future = self.loop.future()
            self._on_connect.append(future)
            await future

    def _answered(self, message: Message) -> None:
        future = self._waiting.pop(message.subject, None)
        if future is not None:
            future.set(message)

    def _timed_out(self, inbox: str) -> None:
        future = self._waiting.pop(inbox, None)
        if future is not None:
            future.set(LOST)


def ack_words(reply: str) -> list[str]:
    """Return stream, consumer, count, both sequences, time and what is pending from the subject of an ack."""
    words = reply.split(".")
    return words[2:] if len(words) == 9 else words[4:]


class _End:
    """The client's end of one connection."""

    def __init__(self, client: SimClient, number: int) -> None:
        self._client = client
        self._number = number

    def received(self, data: bytes) -> None:
        self._client.received(self._number, data)

    def closed(self) -> None:
        self._client.closed(self._number)


def _sub_line(sid: int, subject: str, queue: str) -> bytes:
    return f"SUB {subject} {queue + ' ' if queue else ''}{sid}\r\n".encode()


def parse_headers(block: bytes) -> dict[str, str]:
    first, *lines = block.decode().rstrip("\r\n").split("\r\n")
    found = dict((part.strip() for part in line.split(":", 1)) for line in lines)
    status = first.removeprefix("NATS/1.0").strip()
    if status:
        found["Status"] = status
    return found
