"""Parts of all readers over NATS: their loop, their patience, and the check that a range is complete."""

import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from millstream.link.blocking_link import BlockingLink
from millstream.link.errors import NotConnected, RequestTimeout
from millstream.tables import intake as codes
from millstream.tables.errors import RangeNotFinished
from millstream.tables.intake import Intake
from millstream.tables.stream_range import Fetching, StreamRange
from millstream.tables.streams import next_message

_SILENCE_S: Final = 5.0  # without a response that should come at once; then check the connection
_FIRST_PAUSE_S: Final = 0.01
_LONGEST_PAUSE_S: Final = 0.2


@dataclass(frozen=True)
class ReadJob:
    """A range, the connection that it is read over, and where its rows go."""

    link: BlockingLink
    partition: StreamRange
    fetching: Fetching
    intake: Intake
    arrow_schema: Any
    with_data: bool  # True: payloads are read


class Patience:
    """Limits how long a task waits for messages that the leader has and its server does not send yet."""

    def __init__(self, job: ReadJob) -> None:
        self._job = job
        self._seen = job.intake.last
        self._pause_s = _FIRST_PAUSE_S
        self._deadline = time.monotonic() + job.fetching.timeout

    def check(self, why: str = "") -> None:
        """Raise `RangeNotFinished` if nothing came for too long; `why` is the server's message."""
        if self._job.intake.last != self._seen:
            self._seen = self._job.intake.last
            self._pause_s = _FIRST_PAUSE_S
            self._deadline = time.monotonic() + self._job.fetching.timeout
        elif time.monotonic() > self._deadline:
            partition = self._job.partition
            raise RangeNotFinished(
                f"stream {partition.stream} has messages behind {self._seen}, but none came within "
                f"{self._job.fetching.timeout:g} s (fetchTimeout); the range is {partition.low} to "
                f"{partition.high}{why and '; the server says: '}{why}"
            )

    def pause(self, why: str = "") -> None:
        self.check(why)
        time.sleep(self._pause_s)
        self._pause_s = min(2 * self._pause_s, _LONGEST_PAUSE_S)


class WireReader(ABC):
    """Reads one range by requests; where a connection breaks, the caller goes on with a new reader."""

    def __init__(self, job: ReadJob) -> None:
        self._job = job
        self._link = job.link
        self._intake = job.intake
        self._patience = Patience(job)
        self._sid = 0  # of the subscription to the answers

    def _read(self) -> Iterator[Any]:
        """Yield full record batches; the rows of the last one stay in the intake."""
        intake, link = self._intake, self._link
        finished = False
        while not finished:
            match self._take():
                case codes.NEED_MORE:
                    if not link.fill(_SILENCE_S):
                        self._patience.check()
                        self._look_for_server()
                case codes.FULL:
                    yield intake.flush(self._job.arrow_schema)
                case codes.FINISHED:
                    finished = True
                case codes.STATUS:
                    finished = self._take_status()
                case codes.LOST:
                    self._again()
                case codes.FOREIGN:
                    link.take_message()
                case _:
                    link.take(intake.op)

    def _take(self) -> int:
        """Append messages that have come; return a code of the intake."""
        return self._intake.take(self._link.parser, self._sid)

    @abstractmethod
    def _take_status(self) -> bool:
        """Handle a status message; return True if it ended the range."""

    @abstractmethod
    def _again(self) -> None:
        """Ask again for what was asked for and did not come."""

    def _look_for_server(self) -> None:
        try:
            self._link.flush(_SILENCE_S)
        except RequestTimeout as error:
            self._link.close()
            raise NotConnected(str(error)) from None
        self._again()  # the server answers at once, so these requests are lost


def is_finished(job: ReadJob) -> bool:
    """Return True if the leader has no more of the range; silence of a replica proves nothing."""
    partition = job.partition
    found = next_message(
        lambda name, request=None: job.link.api(name, request or b""),
        partition.stream,
        job.intake.last + 1,
        partition.filters,
    )
    return found is None or found > partition.high
