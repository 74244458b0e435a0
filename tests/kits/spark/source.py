"""Streams to read, and readers driven as Spark drives them, without Spark.

`Lab` makes streams and fills them over the lean wire.  `rows` reads as a batch query does: plan, pickle,
read.  `Query` calls a streaming reader in the order that Spark 4.3 was seen to, with offsets as JSON text
between all calls, and another instance, unpickled, in the tasks.
"""

import base64
import itertools
import json
import pickle
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from pyspark.errors import StreamingQueryException
from pyspark.sql.datasource import CaseInsensitiveDict, InputPartition
from pyspark.sql.types import DataType, StructField, StructType

from millstream.jsapi.errors import Err
from millstream.link.blocking_link import BlockingLink
from millstream.link.errors import LinkApiError
from millstream.link.options import LinkOptions, parse_servers
from millstream.spark.options import shape_of
from millstream.spark.pipeline.restarts import passing_cause
from millstream.spark.schema import COLUMNS, DEFAULT_COLUMNS
from millstream.spark.shapes import SHAPES
from millstream.spark.source import JetStreamDataSource
from millstream.spark.stream import StreamReader
from tests.kits.patience import PATIENCE_S
from tests.kits.reference import ServerKind, ServerProcess

ALL = tuple(COLUMNS)
Row = dict[str, Any]
_NOT_STORED = Err.STREAM_CREATE_FAILED.value[1]
_numbers = itertools.count(1)
STARTS = 10  # of a query, on a machine so busy that Spark does not wait for Python


def run_to_end(start: Callable[[], Any], wait: Callable[[Any], None] | None = None) -> Any:
    """Run a streaming query to its end, or as `wait` says, and again if Spark did not wait for Python.

    It gives a Python process ten seconds to start.  Starting again is what `millstream pipeline` does.
    """
    for _ in range(STARTS):
        query = start()
        try:
            query.awaitTermination() if wait is None else wait(query)
            return query
        except StreamingQueryException as error:
            if not passing_cause(error, worked=False):
                raise
    raise AssertionError("Spark has not waited for Python again and again")


class Lab:
    """A server and a connection to it; streams are removed when it is closed."""

    def __init__(self, server: ServerProcess) -> None:
        self.server = server
        options = LinkOptions(
            servers=parse_servers(server.client_url),
            connect_timeout_s=PATIENCE_S,
            request_timeout_s=PATIENCE_S,
        )
        self.link = BlockingLink(options)
        self.link.connect()
        self._streams: list[str] = []

    def close(self) -> None:
        if not self.link.connected:
            self.link.reconnect(10)
        for name in self._streams:
            self.link.api(f"STREAM.DELETE.{name}")
        self.link.close()

    def stream(self, **config: Any) -> str:
        """A new stream with a name of its own, on all subjects that begin with that name."""
        name = f"LAB{next(_numbers)}"
        self.create_again(name, **config)
        return name

    def delete(self, stream: str) -> None:
        self.link.api(f"STREAM.DELETE.{stream}")
        self._streams.remove(stream)

    def create_again(self, stream: str, **config: Any) -> None:
        """Create a stream, and try again if it is refused.

        nats-server removes the folder of all streams a moment after the last one is gone, and refuses a
        stream that it was about to put there.
        """
        settings = {"name": stream, "subjects": [f"{stream}.>"], **config}
        tries_left = 20 if self.server.kind is ServerKind.NATS_SERVER else 0
        while True:
            try:
                self.link.api(f"STREAM.CREATE.{stream}", settings)
                break
            except LinkApiError as error:
                if error.err_code != _NOT_STORED or not tries_left:
                    raise
            tries_left -= 1
            time.sleep(0.05)
        self._streams.append(stream)

    def publish(
        self, stream: str, payloads: Iterable[bytes | str], subject: str = "x", headers: Any = b""
    ) -> None:
        """Store them, each acknowledged."""
        for payload in payloads:
            data = payload.encode() if isinstance(payload, str) else payload
            answer = json.loads(self.link.request(f"{stream}.{subject}", data, headers=headers).payload)
            assert "error" not in answer, answer

    def fill(self, stream: str, count: int, size: int = 0) -> None:
        """Publish many messages quickly: `0`, `1`, … on three subjects."""
        before = self.state(stream)["last_seq"]
        for start in range(0, count, 500):
            for number in range(start, min(start + 500, count)):
                body = str(number).encode().ljust(size, b".")
                self.link.publish(f"{stream}.{number % 3}", body)
            self.link.request(f"{self.link.options.api}.INFO")  # so that the server is never far behind
        while self.state(stream)["last_seq"] < before + count:
            pass

    def api(self, name: str, request: Mapping[str, Any] | None = None) -> dict[str, Any]:
        return self.link.api(name, request or b"")

    def info(self, stream: str) -> dict[str, Any]:
        return self.api(f"STREAM.INFO.{stream}")

    def state(self, stream: str) -> dict[str, Any]:
        state: dict[str, Any] = self.info(stream)["state"]
        return state

    def purge(self, stream: str, before: int) -> None:
        self.api(f"STREAM.PURGE.{stream}", {"seq": before})

    def consumers(self, stream: str) -> list[str]:
        return list(self.api(f"CONSUMER.NAMES.{stream}").get("consumers") or [])

    def payloads(self, stream: str) -> list[bytes]:
        """Return the stored payloads, read one by one."""
        state = self.state(stream)
        found = []
        for seq in range(state["first_seq"], state["last_seq"] + 1):
            message = self.api(f"STREAM.MSG.GET.{stream}", {"seq": seq})["message"]
            found.append(base64.b64decode(message.get("data", "")))
        return found

    def options(self, stream: str | None = None, **more: str) -> dict[str, str]:
        given = {"nats.servers": self.server.client_url}
        if stream is not None:
            given["subscribe"] = stream
        return given | {name.replace("__", "."): value for name, value in more.items()}


def schema_of(columns: Iterable[str], types: Mapping[str, DataType] = COLUMNS) -> StructType:
    return StructType([StructField(name, types[name]) for name in columns])


def partitions(options: Mapping[str, str], columns: Iterable[str] = DEFAULT_COLUMNS) -> list[InputPartition]:
    return list(source_of(options).reader(schema_of(columns)).partitions())


def rows(options: Mapping[str, str], columns: Iterable[str] = DEFAULT_COLUMNS, **more: DataType) -> list[Row]:
    """Return the rows of a batch query; `more` are types of columns that depend on options."""
    types = {**SHAPES[shape_of(options)].types, **more}
    reader = source_of(options).reader(schema_of(columns, types))
    planned = pickle.loads(pickle.dumps(list(reader.partitions())))
    return read(pickle.loads(pickle.dumps(reader)), planned)


def read(reader: Any, planned: Iterable[InputPartition]) -> list[Row]:
    found: list[Row] = []
    for partition in planned:
        for batch in reader.read(partition):
            batch.validate(full=True)
            found += batch.to_pylist()
    return found


def source_of(options: Mapping[str, str]) -> JetStreamDataSource:
    lowered = CaseInsensitiveDict({name.lower(): value for name, value in options.items()})
    source: JetStreamDataSource = pickle.loads(pickle.dumps(JetStreamDataSource(lowered)))
    return source


class Query:
    """A streaming query with the log of a checkpoint: offsets planned, and how many of them are committed."""

    def __init__(self, options: Mapping[str, str], columns: Iterable[str] = ("seq", "data")) -> None:
        self.options = dict(options)
        self.columns = tuple(columns)
        self.planned: list[str] = []  # end offsets, as text
        self.committed = 0
        self.driver = self._reader()
        self._first = ""

    def _reader(self) -> StreamReader:
        types = SHAPES[shape_of(self.options)].types
        reader = source_of(self.options).streamReader(schema_of(self.columns, types))
        assert isinstance(reader, StreamReader)
        return reader

    def restart(self, **options: str) -> None:
        """A new process, with the same checkpoint."""
        self.driver.stop()
        self.options |= {name.replace("__", "."): value for name, value in options.items()}
        self.driver = self._reader()
        self._first = ""

    def stop(self) -> None:
        self.driver.stop()

    @property
    def start(self) -> str:
        """Return the start of the next batch, as Spark has it."""
        if self.committed:
            return self.planned[self.committed - 1]
        return json.dumps(self.driver.initialOffset())

    def plan(self, limit: Any = None) -> bool:
        """Ask for the next batch and write it to the log; False if there is nothing new."""
        assert len(self.planned) == self.committed
        start = self.start
        used = self.driver.getDefaultReadLimit() if limit is None else limit
        end = json.dumps(self.driver.latestOffset(json.loads(start), used))
        self.driver.reportLatestOffset()
        if end == start:
            return False
        self.planned.append(end)
        return True

    def run(self) -> list[Row]:
        """Execute the batch that was planned last, without committing it."""
        start = self.start
        end = self.planned[self.committed]
        parts = self.driver.partitions(json.loads(start), json.loads(end))
        tasks: StreamReader = pickle.loads(pickle.dumps(self._reader()))
        return read(tasks, pickle.loads(pickle.dumps(list(parts))))

    def commit(self) -> None:
        """Spark writes its own log first; the source hears of it when the next batch is planned."""
        self.committed += 1

    def batch(self) -> list[Row] | None:
        """Plan, execute and commit; None if there is nothing new."""
        if not self.plan():
            return None
        if self.committed:
            self.driver.commit(json.loads(self.planned[self.committed - 1]))
        found = self.run()
        self.commit()
        return found

    def available_now(self) -> list[list[Row]]:
        """All that is there now, in as many batches as the limits want."""
        self.driver.prepareForTriggerAvailableNow()
        return list(iter(self.batch, None))
