"""Drivers to be killed, faults to be armed, and what is in the end in a table or a stream."""

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from millstream.lake.catalog import CatalogSettings, open_catalog
from millstream.lake.table import LakeTable
from millstream.link.blocking_link import BlockingLink
from millstream.link.errors import LinkError
from millstream.link.options import LinkOptions, parse_servers
from tests.kits.cluster import Cluster
from tests.kits.spark import short_jvm
from tests.kits.spark.mortal_source import FOLDER, committed

PROGRAM = Path(__file__).parent / "mortal_driver.py"
LIMIT_S = 600


def wait_until(happened: Callable[[], object], what: str, limit_s: float = LIMIT_S) -> None:
    deadline = time.monotonic() + limit_s
    while not happened():
        assert time.monotonic() < deadline, f"waited in vain: {what}"
        time.sleep(0.02)


class Streams:
    """The streams IN, with its own sequences as payloads, and OUT."""

    def __init__(self, url: str, **config: Any) -> None:
        self.link = BlockingLink(
            LinkOptions(servers=parse_servers(url), connect_timeout_s=60.0, request_timeout_s=60.0)
        )
        self.link.connect()
        for name in ("IN", "OUT"):
            settings = {
                "name": name,
                "subjects": [f"{name}.>"],
                "allow_atomic": name == "OUT",
                "duplicate_window": 3600 * 10**9,  # longer than servers may be away
                **config,
            }
            self.api(f"STREAM.CREATE.{name}", settings)
        self.count = 0

    def close(self) -> None:
        self.link.close()

    def api(self, name: str, request: dict[str, Any] | None = None) -> dict[str, Any]:
        """Ask, and again while a server is away or a leader is missing: only for what may be done twice."""
        deadline = time.monotonic() + 120
        while True:
            try:
                if not self.link.connected:
                    self.link.reconnect(60)
                return self.link.api(name, request or b"", timeout_s=10)  # without a leader nobody answers
            except LinkError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.2)

    def fill(self, count: int) -> None:
        """Publish more messages into IN and wait for each acknowledgement."""
        self.api("INFO")  # connected, whatever happened since
        for number in range(self.count + 1, self.count + count + 1):
            answer = json.loads(self.link.request(f"IN.{number % 3}", str(number).encode()).payload)
            assert answer.get("seq") == number, answer
        self.count += count

    def copies(self) -> Counter[int]:
        """Return the count of each number in OUT, without markers."""
        last = self.api("STREAM.INFO.OUT")["state"]["last_seq"]
        inbox = f"{self.link.inbox}.copies"
        sid = self.link.subscribe(inbox)
        config = {"deliver_subject": inbox, "ack_policy": "none", "deliver_policy": "all", "num_replicas": 1}
        self.link.api("CONSUMER.CREATE.OUT", {"stream_name": "OUT", "config": config})
        found: Counter[int] = Counter()
        for _ in range(last):
            message = self.link.next_message(60)
            assert message is not None
            if ".fence." not in message.subject:
                found[int(message.payload)] += 1
        self.link.unsubscribe(sid)
        return found


class ClusterStreams(Streams):
    """Streams on three servers, each with a replica on all of them."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        super().__init__(",".join(cluster.urls), num_replicas=3)

    def kill_leader(self, stream: str) -> None:
        leader = self.api(f"STREAM.INFO.{stream}")["cluster"]["leader"]
        self._cluster.named(leader).kill()

    def heal(self) -> None:
        """Start the dead, and wait until every server has all of the streams."""
        self._cluster.start_the_dead()
        for stream in ("IN", "OUT"):
            wait_until(partial(self._is_whole, stream), f"the replicas of {stream} are not current")

    def _is_whole(self, stream: str) -> bool:
        replicas = self.api(f"STREAM.INFO.{stream}").get("cluster", {}).get("replicas") or []
        return len(replicas) == 2 and all(one["current"] and not one.get("offline") for one in replicas)


class Driver:
    """A query with its checkpoint, in a program that is run again and again."""

    def __init__(self, folder: Path, url: str, target: str, *, once: bool = True, **options: str) -> None:
        self.folder = folder
        self.target = target
        self.once = once
        self._job = {"url": url, "target": target, "options": options}
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def committed(self) -> int:
        return committed(self.folder / "checkpoint")

    def arm(self, place: str, kind: str, *, after: int) -> None:
        """Let something happen at this place of the first batch behind so many."""
        (self.folder / f"{place}.fired").unlink(missing_ok=True)
        ready = self.folder / "arming"
        ready.write_text(f"{kind} {after}")
        ready.rename(self.folder / place)

    def fired(self, place: str) -> bool:
        return (self.folder / f"{place}.fired").exists()

    def start(self) -> None:
        assert self._process is None
        job = json.dumps({**self._job, "once": self.once})
        paths = os.pathsep.join(sys.path)
        with (self.folder / "driver.log").open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, str(PROGRAM), job],
                env={
                    **os.environ,
                    "JDK_JAVA_OPTIONS": short_jvm.OPTIONS,
                    "PYTHONPATH": paths,
                    FOLDER: str(self.folder),
                },
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def wait(self) -> int:
        assert self._process is not None
        code = self._process.wait(LIMIT_S)
        self._process = None
        return code

    def wait_until(self, happened: Callable[[], object], what: str) -> None:
        def happened_or_dead() -> object:
            assert self._process is not None
            assert self._process.poll() is None, self.log
            return happened()

        wait_until(happened_or_dead, what)

    def kill(self) -> None:
        """Kill the process at once, with its JVM."""
        if self._process is not None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._process = None

    def meanwhile(self, place: str, act: Callable[[], None], *, after: int) -> None:
        """Let the query wait at this place of a batch to come until `act` has returned."""
        go_on = self.folder / "go-on"
        go_on.unlink(missing_ok=True)
        self.arm(place, "pause", after=after)
        self.wait_until(lambda: self.fired(place), f"the query does not come to {place}")
        act()
        go_on.touch()

    def dies(self, place: str, *, after: int | None = None) -> None:
        """Run, and be killed at this place."""
        self.arm(place, "driver", after=self.committed + 1 if after is None else after)
        self.start()
        assert self.wait() == -signal.SIGKILL, self.log
        assert self.fired(place)

    def finish(self) -> None:
        """Run to the end."""
        if self._process is None:
            self.start()
        assert self.wait() == 0, self.log

    @property
    def log(self) -> str:
        return (self.folder / "driver.log").read_text()[-6000:]

    def results(self, streams: Streams) -> Counter[int]:
        """Return the number of arrivals of each sequence."""
        if self.target == "table":
            return Counter(pq.read_table(self.folder / "table", columns=["seq"]).column("seq").to_pylist())
        if self.target in ("iceberg", "tiered"):
            return self._iceberg_rows()
        if self.target == "files":
            return Counter(json.loads((self.folder / "rows.json").read_text()))
        return streams.copies()

    def _iceberg_rows(self) -> Counter[int]:
        """Return what PyIceberg, DuckDB and Spark find, which has to be the same."""
        with open_catalog(CatalogSettings(warehouse=str(self.folder / "lake"))) as catalog:
            table = LakeTable.open(catalog, "lake.archived").load()
            files = [task.file.file_path for task in table.scan().plan_files()]
            found = Counter(table.scan(selected_fields=("seq",)).to_arrow().column("seq").to_pylist())
        import duckdb  # at the top of a module of tests, it complains of leaks at the end

        with duckdb.connect() as connection:
            rows = connection.execute("select seq from read_parquet(?)", [files]).fetchall()
        assert Counter(seq for (seq,) in rows) == found
        assert Counter(json.loads((self.folder / "rows.json").read_text())) == found
        return found


MakeDriver = Callable[..., Driver]


def exactly_once(count: int) -> Counter[int]:
    return Counter(range(1, count + 1))
