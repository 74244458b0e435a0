"""The workloads of streams that take their messages from another one on the same server.

Each round fills a stream, and measures from the first message in the copy to the last.  What passes before,
a tenth or two of a second that both servers wait before they ask for messages, does not count.
"""

import itertools
import time
from dataclasses import dataclass
from typing import Any, Final

from benchmarks import crew
from benchmarks.crew import Share, Stage
from benchmarks.stream_load import WindowPublisher
from benchmarks.stream_wire import Messages, create, remove, request, stored
from benchmarks.wire import Address
from benchmarks.workloads import RATE, Figure, Outcome, Target, Workload, outcome

_LOOK_EVERY_S: Final = 0.001
_names: Final = itertools.count(1)


@dataclass(frozen=True, slots=True)
class Copier:
    """Makes the copy and waits for it."""

    address: Address
    config: dict[str, Any]
    count: int

    def __call__(self, stage: Stage) -> Share:
        name = self.config["name"]
        request(self.address, f"STREAM.CREATE.{name}", self.config)
        self._wait(name, 1)
        started = stage.start()
        self._wait(name, self.count)
        return stage.share(started)

    def _wait(self, name: str, count: int) -> None:
        while stored(self.address, name) < count:
            time.sleep(_LOOK_EVERY_S)


def copying(how: str, *, messages: int, payload_bytes: int = 128) -> Workload:
    """A workload without a name, for a `mirror` or for one of `sources`."""

    def run(target: Target, scale: float) -> Outcome:
        number = next(_names)
        what = Messages(f"O{number:05d}", payload_bytes, max(10_000, int(messages * scale)))
        create(target.address, what, "file")
        crew.run([WindowPublisher(target.address, what)])
        origin: Any = {"name": what.stream}
        name = f"C{number:05d}"
        config = {"name": name, how: origin if how == "mirror" else [origin]}
        shares = crew.run([Copier(target.address, config, what.count)], server_pid=target.pid)
        for stream in (name, what.stream):
            remove(target.address, stream)
        seconds = (shares[0].ended_ns - shares[0].started_ns) / 1e9
        return outcome({"": Figure(what.count / seconds, RATE)}, shares, seconds)

    return Workload("", "", run)
