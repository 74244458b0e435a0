"""The first batch and the last one under Spark itself: where a query starts, idles, and ends.

`tests/system/spark` has the same for the reader alone, in seconds.
"""

import json
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from millstream.link.blocking_link import BlockingLink
from millstream.link.options import LinkOptions, parse_servers
from tests.kits.reference import ServerKind, ServerProcess
from tests.kits.spark.deaths import MakeDriver, Streams, exactly_once

pytestmark = [pytest.mark.timeout(1800), pytest.mark.soak]


@pytest.fixture(params=[ServerKind.MILLSTREAM, ServerKind.NATS_SERVER], ids=str)
def server(request: pytest.FixtureRequest) -> Iterator[ServerProcess]:
    with ServerProcess(request.param, jetstream=True) as server:
        yield server


@contextmanager
def traffic(url: str) -> Iterator[None]:
    """Messages all the time, some hundred a second."""
    link = BlockingLink(LinkOptions(servers=parse_servers(url)))
    link.connect()
    over = threading.Event()

    def publish() -> None:
        while not over.wait(0.005):
            link.request("IN.live", b"now")

    thread = threading.Thread(target=publish)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        link.close()


def test_latest_under_traffic_loses_and_doubles_nothing_over_deaths_before_the_first_commit(
    server: ServerProcess, driver: MakeDriver
) -> None:
    streams = Streams(server.client_url)
    streams.fill(50)
    query = driver(server.client_url, "dedupe", once=False, startingOffsets="latest")
    with traffic(server.client_url):
        # Spark logs its first batch even if there is nothing in it: from then on the start is fixed.
        for place in ("planned", "before-commit"):
            query.dies(place, after=0)
            assert query.committed == 0
    query.once = True
    query.finish()
    logged = (query.folder / "checkpoint" / "offsets" / "0").read_text().splitlines()[-1]
    first = json.loads(logged)["streams"]["IN"]["from"]
    last = streams.api("STREAM.INFO.IN")["state"]["last_seq"]
    assert 50 < first < last
    assert query.results(streams) == Counter(range(first, last + 1))
    streams.close()


def test_an_idle_query_runs_no_batches(server: ServerProcess, driver: MakeDriver) -> None:
    streams = Streams(server.client_url)
    streams.fill(300)
    query = driver(server.client_url, "none", once=False)
    query.start()
    query.wait_until(lambda: query.committed == 2, "300 messages are two batches")
    asked = query.folder / "asked"
    before = asked.stat().st_size
    query.wait_until(lambda: asked.stat().st_size >= before + 100, "Spark asks for more")
    logged = [one for one in (query.folder / "checkpoint" / "offsets").iterdir() if one.name.isdecimal()]
    assert len(logged) == 2
    assert query.committed == 2
    query.kill()
    streams.close()


def test_the_last_batch_of_a_run_is_told_to_the_durable(server: ServerProcess, driver: MakeDriver) -> None:
    streams = Streams(server.client_url)
    streams.fill(300)
    query = driver(server.client_url, "none", commitMode="consumer", durable="LAG")
    query.finish()
    consumer = streams.api("CONSUMER.INFO.IN.LAG")
    assert consumer["num_pending"] == 0
    assert consumer["num_ack_pending"] == 0
    streams.close()


def test_the_last_batch_of_a_run_is_purged_from_a_work_queue(
    server: ServerProcess, driver: MakeDriver
) -> None:
    streams = Streams(server.client_url)
    streams.api("STREAM.DELETE.IN")
    streams.api(
        "STREAM.CREATE.IN",
        {"name": "IN", "subjects": ["IN.>"], "retention": "workqueue", "allow_direct": True},
    )
    streams.fill(300)
    query = driver(server.client_url, "files", commitMode="purge", transport="auto")
    query.finish()
    assert streams.api("STREAM.INFO.IN")["state"]["messages"] == 0
    assert query.results(streams) == exactly_once(300)
    streams.close()
