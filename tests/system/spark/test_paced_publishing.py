"""Rows published at their time, by a worker that has no connection yet."""

import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime

import pyarrow as pa
import pytest

from millstream.link.blocking_link import BlockingLink
from millstream.link.options import LinkOptions, parse_servers
from millstream.spark.jobs.timed_publish import Pace, publish_paced
from millstream.tables.connections import close_idle_links
from tests.kits.patience import PATIENCE_S
from tests.kits.reference import ServerProcess


@pytest.fixture(autouse=True)
def _no_links() -> Iterator[None]:
    close_idle_links()
    yield
    close_idle_links()


def test_a_new_worker_connects_by_itself(shared_server: Callable[..., ServerProcess]) -> None:
    server = shared_server(jetstream=True)
    row = {
        "data": b"1",
        "subject": "paced.x",
        "headers": [],
        "msg_id": "S:1",
        "time": datetime.now(UTC),
    }
    options = LinkOptions(
        servers=parse_servers(server.client_url), connect_timeout_s=PATIENCE_S, request_timeout_s=PATIENCE_S
    )
    with BlockingLink(options) as link:
        link.api("STREAM.CREATE.PACED", {"name": "PACED", "subjects": ["paced.>"]})
        try:
            batch = pa.RecordBatch.from_pylist([row])
            nats = {"nats.servers": server.client_url}
            [sent] = publish_paced([batch], nats, Pace(time.time(), rate=1000.0))
            assert sent.to_pylist() == [{"rows": 1}]
            assert link.api("STREAM.INFO.PACED")["state"]["messages"] == 1
        finally:
            link.api("STREAM.DELETE.PACED")
