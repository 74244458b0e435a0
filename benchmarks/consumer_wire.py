"""The protocol of the load generators of consumers: creation, deliveries, flow control.

All stored messages have one payload, which no subject holds, so counting that payload counts messages and
checks every byte of them.  The last reply subject says how many deliveries the server thinks it made.
A keep-alive PING is not answered: no round lasts as long as the servers wait.
"""

import json
import re
import socket
from typing import Any, Final

from benchmarks.wire import Address, WireError, dial

_READ_BYTES: Final = 1 << 20
_API: Final = b"$JS.API."
_FLOW: Final = re.compile(rb" \d+ (\$JS\.FC\.\S+) \d+ \d+\r\n")
_REPLY: Final = re.compile(rb" (\$JS\.ACK\.\S+) \d+\r\n")
_ACK_END: Final = b" 4\r\n+ACK\r\n"
_TROUBLE: Final = (b" 408 ", b" 409 ", b" 503")
_LONGEST_LINE: Final = 400


class Deliveries:
    """Messages of consumers that come over one connection, all with the same payload."""

    def __init__(self, connection: socket.socket, payload: bytes) -> None:
        self.count = 0
        self.replies: list[bytes] = []  # of the last read, where asked for
        self.last = b""  # the last bytes read that held a whole message
        self._connection = connection
        self._mark = payload + b"\r\n"
        self._tail = b""

    def receive(self) -> int:
        """Wait for more, answer what the server asks, and count; how many came."""
        data = self._tail + self._some()
        return self._take(data, data.rfind(self._mark))

    def receive_replies(self) -> int:
        """Receive messages, and find the reply subject of each."""
        data = self._tail + self._some()
        end = data.rfind(self._mark)
        self.replies = _REPLY.findall(data, 0, max(end, 0))
        came = self._take(data, end)
        if came != len(self.replies):
            raise WireError(f"{came} messages with {len(self.replies)} reply subjects: {data[:300]!r}")
        return came

    def _take(self, data: bytes, last: int) -> int:
        end = last + len(self._mark) if last >= 0 else 0
        came = data.count(self._mark, 0, end)
        if came:
            self.count += came
            self.last = data[max(0, last - _LONGEST_LINE) : end]
        if b"HMSG" in data:  # no stored message has headers, but every status has
            end = max(end, data.rfind(b"\r\n\r\n") + 4)
            self._answer(data[:end])
        self._tail = data[end:]
        return came

    def _answer(self, data: bytes) -> None:
        if any(word in data for word in _TROUBLE):
            raise WireError(f"not a delivery: {data[:400]!r}")
        answer_flow_control(self._connection, data)

    def _some(self) -> bytes:
        data = self._connection.recv(_READ_BYTES)
        if not data:
            raise WireError("the server closed the connection")
        return data

    def require_last(self, deliveries: int) -> None:
        """Raise unless the last message was delivery number so and so of its consumer."""
        replies = _REPLY.findall(self.last)
        said = int(replies[-1].split(b".")[6]) if replies else 0
        if said != deliveries:
            raise WireError(f"the last delivery was number {said}, not {deliveries}")


def answer_flow_control(connection: socket.socket, data: bytes) -> None:
    """Say that everything up to each request in `data` was received."""
    for subject in _FLOW.findall(data):
        connection.sendall(b"PUB %b 0\r\n\r\n" % subject)


def acks_of(replies: list[bytes]) -> bytes:
    """The commands that acknowledge them."""
    return b"PUB " + (_ACK_END + b"PUB ").join(replies) + _ACK_END


def create_command(stream: str, config: dict[str, Any], inbox: bytes = b"_INBOX.made") -> bytes:
    """Return the command that creates a consumer; without a name in `config` it is ephemeral."""
    body = json.dumps({"stream_name": stream, "config": config}).encode()
    name = config.get("durable_name")
    place = f"DURABLE.CREATE.{stream}.{name}" if name else f"CREATE.{stream}"
    return b"PUB %bCONSUMER.%b %b %d\r\n%b\r\n" % (_API, place.encode(), inbox, len(body), body)


def listening(consumers: int) -> bytes:
    """Return the commands that subscribe to ``deliver.0`` and so on.

    One wildcard would do, but nats-server does not notice it when the consumer was there before.
    """
    return b"".join(b"SUB deliver.%d %d\r\n" % (number, number + 1) for number in range(consumers))


class Maker:
    """Makes many consumers over one connection."""

    def __init__(self, address: Address) -> None:
        self.connection = dial(address, greeting=b"SUB _INBOX.made 9\r\n")
        self._tail = b""

    def make(self, commands: list[bytes], *, at_once: int) -> None:
        """Send all, with at most `at_once` of them not answered."""
        answered = sent = 0
        while answered < len(commands):
            ready = commands[sent : answered + at_once]
            if ready:
                self.connection.sendall(b"".join(ready))
                sent += len(ready)
            answered += self._answers()

    def _answers(self) -> int:
        data = self._tail + self.connection.recv(_READ_BYTES)
        if b'"error"' in data or b"-ERR" in data:
            raise WireError(f"a consumer was not made: {data[:400]!r}")
        end = data.rfind(b"\r\n") + 2
        self._tail = data[end:]
        return data.count(b'"type":"io.nats.jetstream.api.v1.consumer_create_response"', 0, end)

    def close(self) -> None:
        self.connection.close()
