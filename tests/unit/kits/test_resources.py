"""The samples of the soak: what they see of a process, and what they call a leak."""

import os
import socket
from collections import Counter
from pathlib import Path

from tests.soak.resources import Sample, leaks, sample_process

QUIET = Sample(memory_kb=1_000, busy_s=1.0, threads=2, kinds=Counter(pipe=2), files=Counter({"a": 1}))


def test_a_file_of_a_stream_is_not_a_descriptor_like_others(tmp_path: Path) -> None:
    path = tmp_path / "streams/S/log/1.log"
    path.parent.mkdir(parents=True)
    before = sample_process(os.getpid())
    with path.open("w"):
        during = sample_process(os.getpid())
        path.unlink()
        removed = sample_process(os.getpid())
    assert (during.files, during.lost) == (Counter({str(path): 1}), ())
    assert during.kinds.total() == before.kinds.total()
    assert removed.lost == (f"{path} (deleted)",)


def test_sockets_are_known_by_the_side_that_listens() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port)), listener.accept()[0]:
            kinds = sample_process(os.getpid()).kinds
    assert kinds["listener"] >= 1
    assert kinds[f"connection on {port}"] == kinds[f"connection to {port}"] == 1


def test_what_is_the_same_or_less_is_no_leak() -> None:
    after = Sample(memory_kb=1_100, busy_s=9.0, threads=1, kinds=Counter(pipe=1), files=Counter("abc"))
    assert leaks(QUIET, QUIET) == leaks(QUIET, after) == []


def test_what_is_more_is_named() -> None:
    after = Sample(
        memory_kb=1_101,
        busy_s=9.0,
        threads=3,
        kinds=Counter(pipe=2, listener=1),
        files=Counter({"a": 2}),
        lost=("b (deleted)",),
    )
    assert leaks(QUIET, after) == [
        "threads: 2 before, 3 after",
        "descriptors: 2 before, 3 after",
        "new descriptors: {'listener': 1}",
        "removed, but open: b (deleted)",
        "open 2 times: a",
        "memory: 1000 KB before, 1101 KB after",
    ]
