"""``python -m benchmarks.waits.thread_clock serve …``: our server with a watchdog on its thread's clock.

The watchdog then records the processor time of a step, whatever else the machine does meanwhile.  Time in
which the loop waits for the disk or for the interpreter lock is left out.
"""

from __future__ import annotations

import time
from functools import partial
from typing import Final

from millstream.broker import broker
from millstream.broker.watchdog import Watchdog
from millstream.cli.main import main
from tests.kits.reference import ServerProcess

_MODULE: Final = ["-m", "benchmarks.waits.thread_clock"]


class ThreadClockServer(ServerProcess):
    """Our server in a child process, with that watchdog."""

    def _command(self) -> list[str]:
        python, _, _, *rest = super()._command()
        return [python, *_MODULE, *rest]


if __name__ == "__main__":
    broker.Watchdog = partial(Watchdog, time.thread_time)  # type: ignore[attr-defined,assignment]
    main()
