"""The readers that ours is measured against: plain Python on a blocking socket, and nats-py.

Both ask a pull consumer without acknowledgements and build Arrow batches from Python lists, as one writes it
without a compiler: this is what a Python data source costs when done well with what everybody has.  They
read a range that is known to be whole, and check nothing but its length.
"""

import asyncio
import json
import socket
from collections.abc import Iterator
from typing import Any, Final

import nats
import pyarrow as pa
from nats.js.api import AckPolicy, ConsumerConfig, DeliverPolicy

from benchmarks.wire import Address, dial

_ROWS: Final = 10_000  # of a batch, and of a request
_READ_BYTES: Final = 1 << 20
_NATS_PY_FETCH: Final = 1_000


class Lists:
    """Columns that grow by appending."""

    def __init__(self, stream: str, schema: pa.Schema) -> None:
        self._stream = stream
        self._schema = schema
        self.clear()

    def clear(self) -> None:
        self.subjects: list[str] = []
        self.seqs: list[int] = []
        self.times: list[int] = []  # microseconds
        self.headers: list[list[tuple[str, list[str]]]] = []
        self.data: list[bytes] = []

    def flush(self) -> pa.RecordBatch:
        columns = {
            "stream": [self._stream] * len(self.seqs),
            "subject": self.subjects,
            "seq": self.seqs,
            "time": self.times,
            "headers": self.headers,
            "data": self.data,
        }
        arrays = [pa.array(columns[field.name], field.type) for field in self._schema]
        batch = pa.RecordBatch.from_arrays(arrays, schema=self._schema)
        self.clear()
        return batch


def read_plain(
    address: Address, stream: str, count: int, schema: pa.Schema, first: int = 1
) -> Iterator[pa.RecordBatch]:
    """The messages from `first` on through a pull consumer, parsed line by line."""
    with dial(address, greeting=b"SUB _INBOX.r.* 1\r\n") as connection:
        pull = create_consumer(connection, stream, first)
        lists = Lists(stream, schema)
        asked = received = at = 0
        data = b""
        while received < count:
            while asked < count and asked - received <= _ROWS // 8:
                connection.sendall(pull(min(_ROWS, count - asked)))
                asked += _ROWS
            data, at = data[at:] + connection.recv(_READ_BYTES), 0
            while (end := data.find(b"\r\n", at)) >= 0:
                parts = data[at:end].split(b" ")
                if parts[0] not in (b"MSG", b"HMSG"):
                    at = end + 2
                    continue
                start, stop = end + 2, end + 2 + int(parts[-1])
                if stop + 2 > len(data):
                    break
                headers: list[tuple[str, list[str]]] = []
                if parts[0] == b"HMSG":
                    body = start + int(parts[4])
                    headers = parse_headers(data[start:body])
                    start = body
                at = stop + 2
                reply = parts[3].split(b".")
                lists.subjects.append(parts[1].decode())
                lists.seqs.append(int(reply[5]))
                lists.times.append(int(reply[7]) // 1000)
                lists.headers.append(headers)
                lists.data.append(data[start:stop])
                received += 1
                if len(lists.seqs) == _ROWS:
                    yield lists.flush()
        if lists.seqs:
            yield lists.flush()


def parse_headers(block: bytes) -> list[tuple[str, list[str]]]:
    found: dict[str, list[str]] = {}
    for line in block.decode().split("\r\n")[1:-2]:
        name, _, value = line.partition(":")
        found.setdefault(name, []).append(value.strip())
    return list(found.items())


def create_consumer(connection: socket.socket, stream: str, first: int) -> Any:
    """Make an ephemeral consumer; returns a function from a number to the bytes that ask for so many."""
    config = {
        "name": f"bench-{connection.getsockname()[1]}",
        "deliver_policy": "by_start_sequence",
        "opt_start_seq": first,
        "ack_policy": "none",
        "mem_storage": True,
        "inactive_threshold": 30_000_000_000,
    }
    body = json.dumps({"stream_name": stream, "config": config}).encode()
    place = f"{stream}.{config['name']}".encode()
    connection.sendall(b"PUB $JS.API.CONSUMER.CREATE.%b _INBOX.r.c %d\r\n%b\r\n" % (place, len(body), body))
    seen = b""
    while seen.count(b"\r\n") < 2:
        seen += connection.recv(_READ_BYTES)
    if b'"error"' in seen:
        raise ValueError(seen.decode(errors="replace"))

    def pull(count: int) -> bytes:
        request = b'{"batch":%d}' % count
        return b"PUB $JS.API.CONSUMER.MSG.NEXT.%b _INBOX.r.m %d\r\n%b\r\n" % (place, len(request), request)

    return pull


def drain(address: Address, stream: str, count: int, mark: bytes) -> None:
    """Receive everything and look for nothing but how often `mark`, the end of each payload, comes by."""
    with dial(address, greeting=b"SUB _INBOX.r.* 1\r\n") as connection:
        pull = create_consumer(connection, stream, 1)
        asked = received = 0
        tail = b""
        while received < count:
            while asked < count and asked - received <= _ROWS // 8:
                connection.sendall(pull(min(_ROWS, count - asked)))
                asked += _ROWS
            data = tail + connection.recv(_READ_BYTES)
            received += data.count(mark)
            tail = data[1 - len(mark) :]


def read_nats_py(address: Address, stream: str, count: int, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Read the stream through nats-py, a thousand messages at a time."""
    loop = asyncio.new_event_loop()
    try:
        connection = loop.run_until_complete(nats.connect(f"nats://{address.host}:{address.port}"))
        config = ConsumerConfig(
            ack_policy=AckPolicy.NONE,
            deliver_policy=DeliverPolicy.ALL,
            mem_storage=True,
            inactive_threshold=30.0,
        )
        opened = connection.jetstream().pull_subscribe("", stream=stream, config=config)
        subscription = loop.run_until_complete(opened)
        lists = Lists(stream, schema)
        received = 0
        while received < count:
            wanted = min(_NATS_PY_FETCH, count - received)
            for message in loop.run_until_complete(subscription.fetch(wanted)):
                about = message.metadata
                lists.subjects.append(message.subject)
                lists.seqs.append(about.sequence.stream)
                lists.times.append(int(about.timestamp.timestamp() * 1_000_000))
                lists.headers.append([(name, [value]) for name, value in (message.headers or {}).items()])
                lists.data.append(message.data)
                received += 1
            if len(lists.seqs) >= _ROWS:
                yield lists.flush()
        if lists.seqs:
            yield lists.flush()
        loop.run_until_complete(connection.close())
    finally:
        loop.close()
