"""Read a range by an ephemeral pull consumer: two requests in flight, no acks.

The next request is made when the previous one is about to end, so the server never waits for us and never has
more than two requests' worth under way.  It is not made earlier, because Millstream serves waiting requests
in turn, message by message, at more than twice the cost of a run for one request.  A request ends when all of
its messages have come, or with a status sent to its own reply subject, so the number of messages to come is
always known.  The consumer expires when there are no more requests: Spark may end a task without notice.
"""

import contextlib
from collections import deque
from collections.abc import Iterator
from typing import Any, Final

import msgspec

from millstream.base.ids import nuid
from millstream.link.errors import LinkError
from millstream.tables.errors import StreamAccessError
from millstream.tables.readers.job import ReadJob, WireReader, is_finished

_INACTIVE_S: Final = 60
_ENDED: Final = frozenset({404, 408})
_CONFLICT: Final = 409  # the request or the consumer ended
_GONE: Final = 503
_IN_FLIGHT: Final = 2
_LAST_PART: Final = 8  # the next request is made when an eighth is left


class _Request:
    __slots__ = ("count", "left", "reply")

    def __init__(self, reply: str, count: int) -> None:
        self.reply = reply
        self.count = count
        self.left = count  # messages still to come


class PullReader(WireReader):
    """Reads one range."""

    def __init__(self, job: ReadJob) -> None:
        super().__init__(job)
        self._requests: deque[_Request] = deque()
        self._consumer = ""
        self._subject = ""
        self._inbox = ""
        self._sent = 0
        self._received = job.intake.received
        self._single = False  # the next message is larger than the size of a request

    def batches(self) -> Iterator[Any]:
        """Yield full record batches; the rows of the last one stay in the intake."""
        self._create()
        try:
            yield from self._read()
        except GeneratorExit:
            with contextlib.suppress(LinkError):  # nobody waits for the answer; the connection is closed next
                self._link.publish(self._deletion(), reply=f"{self._inbox}.end")
            raise
        self._end()

    def _take(self) -> int:
        self._ask()
        code = super()._take()
        self._count()
        return code

    # -- the consumer -------------------------------------------------------------------------------

    def _create(self) -> None:
        partition = self._job.partition
        self._consumer = f"millstream-{nuid()}"
        config: dict[str, Any] = {
            "name": self._consumer,
            "deliver_policy": "by_start_sequence",
            "opt_start_seq": self._intake.last + 1,
            "ack_policy": "none",
            "replay_policy": "instant",
            "mem_storage": True,
            "inactive_threshold": _INACTIVE_S * 1_000_000_000,
            "headers_only": not self._job.with_data,
        }
        if not partition.interest:
            config["num_replicas"] = 1
        if partition.filters:
            config["filter_subjects"] = list(partition.filters)
        request = {"stream_name": partition.stream, "config": config}
        self._link.api(f"CONSUMER.CREATE.{partition.stream}.{self._consumer}", request)
        self._subject = f"{self._link.options.api}.CONSUMER.MSG.NEXT.{partition.stream}.{self._consumer}"
        self._inbox = f"{self._link.inbox}-{self._consumer}"
        self._sid = self._link.subscribe(f"{self._inbox}.*")
        self._intake.restart()

    def _end(self) -> None:
        self._link.unsubscribe(self._sid)
        with contextlib.suppress(LinkError):  # then it ends by itself
            self._link.request(self._deletion())
        self._requests.clear()

    def _deletion(self) -> str:
        return f"{self._link.options.api}.CONSUMER.DELETE.{self._job.partition.stream}.{self._consumer}"

    def _again(self) -> None:
        """Continue with a new consumer: the old one is gone, or messages from it were lost."""
        self._end()
        self._create()

    # -- requests -----------------------------------------------------------------------------------

    def _wanted(self) -> int:
        """Return how many messages may exist that were not requested yet."""
        asked = sum(request.left for request in self._requests)
        return self._job.partition.high - self._intake.last - asked

    def _ask(self) -> None:
        while len(self._requests) < _IN_FLIGHT:
            if self._requests and _LAST_PART * self._requests[-1].left > self._requests[-1].count:
                return
            count = min(self._wanted(), self._job.fetching.batch)
            if count <= 0 or (self._single and self._requests):
                return
            body: dict[str, Any] = {
                "batch": count,
                "no_wait": True,
                "max_bytes": self._job.fetching.max_bytes,
            }
            if self._single:
                body = {"batch": 1, "no_wait": True}
                count = 1
                self._single = False
            self._sent += 1
            request = _Request(f"{self._inbox}.{self._sent}", count)
            self._requests.append(request)
            self._link.publish(self._subject, msgspec.json.encode(body), reply=request.reply)

    def _count(self) -> None:
        """Subtract the messages received from the oldest requests first."""
        new = self._intake.received - self._received
        self._received = self._intake.received
        while new and self._requests:
            oldest = self._requests[0]
            part = min(new, oldest.left)
            oldest.left -= part
            new -= part
            if oldest.left == 0:
                self._requests.popleft()

    def _take_status(self) -> bool:
        parser = self._link.parser
        status, reply = parser.status(), parser.subject().decode()
        text = parser.headers().partition(b"\r\n")[0].decode(errors="replace")
        ended = next((request for request in self._requests if request.reply == reply), None)
        if ended is None:
            return False
        if status in _ENDED:  # there were no messages
            self._requests.remove(ended)
            if self._requests:
                return False
            if is_finished(self._job):
                return True
            self._patience.pause()
        elif status == _CONFLICT and "MaxBytes" in text:
            self._requests.remove(ended)
            # Nothing came for it, so the next message alone is larger than the size of a request.
            self._single = ended.left == ended.count and not self._requests
        elif status in (_CONFLICT, _GONE):
            self._patience.pause(text)  # do not ask a server that repeats it as fast as possible
            self._again()
        else:
            raise StreamAccessError(f"a request to consumer {self._consumer} was refused: {text}")
        return False
