"""What tests of jobs share: servers with streams, and a way to run a pipeline."""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from millstream.link.blocking_link import BlockingLink
from millstream.link.blocking_publisher import BlockingPublisher
from millstream.link.errors import LinkError
from millstream.link.frames import header_block
from millstream.link.options import LinkOptions, parse_servers
from millstream.link.publish_window import Receipts
from millstream.spark.jobs.admin import AdminMessage, StreamAdmin
from millstream.spark.pipeline.check import check_pipeline
from millstream.spark.pipeline.load import convert_pipeline
from millstream.spark.pipeline.runner import PipelineRun
from millstream.testing.patience import PATIENCE_S
from millstream.testing.reference import ServerKind, ServerProcess


class Broker:
    """A server with JetStream, and short words for what tests do with it."""

    def __init__(self, server: ServerProcess) -> None:
        self.server = server
        options = LinkOptions(
            servers=parse_servers(server.client_url),
            connect_timeout_s=PATIENCE_S,
            request_timeout_s=PATIENCE_S,
        )
        self._link = BlockingLink(options)
        self._link.connect()
        self.nats = {"nats.servers": server.client_url}
        self.admin = StreamAdmin(self.nats, "test")

    def close(self) -> None:
        self.admin.close()
        self._link.close()

    @property
    def link(self) -> BlockingLink:
        """The connection; a new one if its pings went unanswered for too long while Spark worked."""
        try:
            self._link.flush()
        except LinkError:
            self._link.reconnect(60)
        return self._link

    def clear(self) -> "Broker":
        """Remove what other tests left."""
        for name in self.link.api("STREAM.NAMES").get("streams") or []:
            self.link.api(f"STREAM.DELETE.{name}")
        return self

    def create(self, name: str, *subjects: str, **config: Any) -> str:
        """Make a stream."""
        settings = {
            "name": name,
            "subjects": list(subjects),
            "storage": "file",
            "retention": "limits",
            "num_replicas": 1,
            "max_consumers": -1,
            "max_msgs": -1,
            "max_bytes": -1,
            "discard": "old",
            "allow_direct": True,
            "duplicate_window": 120_000_000_000,
            **config,
        }
        self.link.api(f"STREAM.CREATE.{name}", settings)
        return name

    def publish(self, messages: "list[tuple[str, bytes, dict[str, str]]]") -> None:
        """Publish and wait for every acknowledgement."""
        publisher = BlockingPublisher(self.link)
        receipts = Receipts()
        for subject, data, headers in messages:
            publisher.publish(receipts, subject.encode(), header_block(headers), data)
        publisher.settle(receipts)
        publisher.close()
        assert not receipts.errors

    def fill(self, subject: str, count: int, first: int = 1) -> None:
        """Publish `count` numbered messages, with a header."""
        numbers = range(first, first + count)
        self.publish([(f"{subject}.{n % 3}", b"message %d" % n, {"Number": str(n)}) for n in numbers])

    def messages(self, stream: str) -> list[AdminMessage]:
        facts = self.admin.facts(stream)
        found = [self.admin.get(stream, number) for number in range(facts.first, facts.after_last)]
        return [message for message in found if message is not None]

    def count(self, stream: str) -> int:
        return self.admin.facts(stream).messages


@pytest.fixture(scope="session")
def brokers() -> Iterator[Callable[[ServerKind], Broker]]:
    started: dict[ServerKind, Broker] = {}

    def get(kind: ServerKind) -> Broker:
        if kind not in started:
            started[kind] = Broker(ServerProcess(kind, jetstream=True, start_timeout_s=PATIENCE_S).start())
        return started[kind]

    yield get
    for broker in started.values():
        broker.close()
        broker.server.close()


@pytest.fixture
def both(server_kind: ServerKind, brokers: Callable[[ServerKind], Broker]) -> Broker:
    """A broker of each kind."""
    return brokers(server_kind).clear()


_REFERENCE = pytest.param(ServerKind.NATS_SERVER, marks=pytest.mark.soak)


@pytest.fixture(params=[ServerKind.MILLSTREAM, _REFERENCE], ids=str)
def broker(request: pytest.FixtureRequest, brokers: Callable[[ServerKind], Broker]) -> Broker:
    """A broker of each kind, but the other one only where there is time: Spark takes seconds for each job."""
    return brokers(request.param).clear()


@pytest.fixture
def millstream(brokers: Callable[[ServerKind], Broker]) -> Broker:
    """Ours only."""
    return brokers(ServerKind.MILLSTREAM).clear()


RunPipeline = Callable[..., PipelineRun]


@pytest.fixture
def run_pipeline(spark: SparkSession, tmp_path: Path) -> RunPipeline:
    """Run jobs to their end in the shared session; `fails` lets them fail."""

    def run(broker: Broker, *jobs: Mapping[str, Any], fails: bool = False, **top: Any) -> PipelineRun:
        document = {"checkpoint": str(tmp_path / "checkpoints"), **top, "job": [dict(job) for job in jobs]}
        pipeline = convert_pipeline(document, "test.toml")
        assert check_pipeline(pipeline) == []
        running = PipelineRun(pipeline, spark, broker.nats)
        running.start()
        running.wait()
        assert bool(running.failures) is fails, [failure.text for failure in running.failures]
        return running

    return run
