"""Tasks and commits that die under Spark: each row once, where that is promised.

Without the promise rows come twice, which shows that we would see it.
"""

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.kits.paths import TESTS
from tests.kits.reference import ServerKind, ServerProcess
from tests.kits.spark.source import Lab

PROGRAM = TESTS / "kits/spark/flaky_sink.py"


def payloads(lab: Lab, stream: str) -> Counter[int]:
    """Return how often each number is in the stream, without markers."""
    link = lab.link
    inbox = f"{link.inbox}.all.{stream}"
    sid = link.subscribe(inbox)
    last = link.api(f"STREAM.INFO.{stream}")["state"]["last_seq"]
    config = {"deliver_subject": inbox, "ack_policy": "none", "deliver_policy": "all"}
    link.api(f"CONSUMER.CREATE.{stream}", {"stream_name": stream, "config": config})
    found: Counter[int] = Counter()
    for _ in range(last):
        message = link.next_message(30)
        assert message is not None
        if ".fence." not in message.subject:
            found[int(message.payload)] += 1
    link.unsubscribe(sid)
    return found


def run(server: ServerProcess, folder: Path, guarantee: str) -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, str(PROGRAM), server.client_url, str(folder), guarantee],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=540,
    )
    assert done.returncode == 0, done.stderr[-6000:]


@pytest.mark.soak
@pytest.mark.timeout(600)
@pytest.mark.parametrize("guarantee", ["dedupe", "fenced", "at-least-once"])
def test_tasks_killed_and_commits_failed_leave_each_row_once(
    tmp_path: Path, server_kind: ServerKind, guarantee: str
) -> None:
    with ServerProcess(server_kind, jetstream=True) as server:
        lab = Lab(server)
        for name in ("IN", "BATCH", "COPY"):
            lab.link.api(
                f"STREAM.CREATE.{name}", {"name": name, "subjects": [f"{name}.>"], "allow_atomic": True}
            )
        lab.fill("IN", 4000)
        lab.link.close()
        run(server, tmp_path, guarantee)
        lab = Lab(server)
        batch, copy = payloads(lab, "BATCH"), payloads(lab, "COPY")
        lab.link.close()
    assert set(batch) == set(range(6000))  # nothing is lost, whatever is promised
    assert set(copy) == set(range(4000))
    if guarantee == "at-least-once":
        assert batch.total() > 6000
        assert copy.total() > 4000
    else:
        assert batch.total() == 6000
        assert copy.total() == 4000
