"""The workloads of direct gets: a stored stream page by page, a filtered one, and single messages by subject.

Each round fills a stream and measures from the first request to the last answer.  All messages have one
payload, so counting that payload counts messages and checks every byte of them; each page must end where it
says.
"""

import itertools
import json
import re
from dataclasses import dataclass
from typing import Final

from benchmarks import crew
from benchmarks.crew import Job, Share, Stage
from benchmarks.stream_load import WindowPublisher
from benchmarks.stream_wire import Messages, remove, request
from benchmarks.wire import Address, WireError, dial, payloads
from benchmarks.workloads import RATE, Figure, Outcome, Target, Workload, outcome

PAGE: Final = 1_000  # messages of one request
WINDOW: Final = 64  # single requests under way
_SUBJECTS: Final = 10
_READ_BYTES: Final = 1 << 20
_END: Final = re.compile(rb" 204 EOB\r\nNats-Num-Pending: (\d+)\r\nNats-Last-Sequence: (\d+)\r\n")
_LONGEST_LINE: Final = 400
_names: Final = itertools.count(1)


@dataclass(frozen=True, slots=True)
class PageReader:
    """Reads all messages, or those of one subject, `PAGE` at a time; asks on when a page has ended."""

    address: Address
    stream: str
    payload: bytes
    count: int
    subject: str = ""

    def __call__(self, stage: Stage) -> Share:
        mark = self.payload + b"\r\n"
        with dial(self.address, greeting=b"SUB _INBOX.page 1\r\n") as connection:
            started = stage.start()
            connection.sendall(self._ask(1))
            seen, tail = 0, b""
            while True:
                data = connection.recv(_READ_BYTES)
                if not data:
                    raise WireError("the server closed the connection")
                data = tail + data
                last = data.rfind(mark)
                end = last + len(mark) if last >= 0 else 0
                seen += data.count(mark, 0, end)
                tail = data[end:]
                if len(tail) > len(mark) + _LONGEST_LINE:
                    raise WireError(f"not a message: {tail[:400]!r}")
                page = _END.search(tail)
                if page is None:
                    continue
                left = int(page[1])
                if seen + left != self.count:
                    raise WireError(f"{seen} messages came, and {left} of {self.count} are said to be left")
                if not left:
                    return stage.share(started)
                tail = b""
                connection.sendall(self._ask(int(page[2]) + 1))

    def _ask(self, seq: int) -> bytes:
        wanted: dict[str, int | str] = {"seq": seq, "batch": PAGE}
        if self.subject:
            wanted["next_by_subj"] = self.subject
        body = json.dumps(wanted).encode()
        head = b"PUB $JS.API.DIRECT.GET.%b _INBOX.page %d\r\n" % (self.stream.encode(), len(body))
        return head + body + b"\r\n"


@dataclass(frozen=True, slots=True)
class LastReader:
    """Asks for the last message of a subject, `WINDOW` times ahead, as those who look keys up do."""

    address: Address
    stream: str
    payload: bytes
    count: int

    def __call__(self, stage: Stage) -> Share:
        mark = self.payload + b"\r\n"
        asks = [
            b"PUB $JS.API.DIRECT.GET.%b.%b.%07d _INBOX.last.%d 0\r\n\r\n"
            % (self.stream.encode(), self.stream.encode(), number % _SUBJECTS, number)
            for number in range(self.count)
        ]
        with dial(self.address, greeting=b"SUB _INBOX.last.* 1\r\n") as connection:
            started = stage.start()
            connection.sendall(b"".join(asks[:WINDOW]))
            asked, seen, tail = min(WINDOW, self.count), 0, b""
            while seen < self.count:
                data = connection.recv(_READ_BYTES)
                if not data:
                    raise WireError("the server closed the connection")
                data = tail + data
                last = data.rfind(mark)
                end = last + len(mark) if last >= 0 else 0
                came = data.count(mark, 0, end)
                seen += came
                tail = data[end:]
                if len(tail) > len(mark) + _LONGEST_LINE or b" 404 " in tail:
                    raise WireError(f"not a message: {tail[:400]!r}")
                if came and asked < self.count:
                    connection.sendall(b"".join(asks[asked : asked + came]))
                    asked = min(asked + came, self.count)
            return stage.share(started)


def getting(how: str, *, messages: int, payload_bytes: int = 128) -> Workload:
    """A workload without a name: `all` messages, `some` of them by subject, or the `last` of each subject."""

    def run(target: Target, scale: float) -> Outcome:
        number = next(_names)
        (payload,) = payloads(1, payload_bytes, seed=7)
        count = max(1_000, int(messages * scale)) // _SUBJECTS * _SUBJECTS
        stored = max(10_000, count) if how == "last" else count
        what = Messages(f"D{number:05d}", payload_bytes, stored, subjects=_SUBJECTS, one_payload=payload)
        config = {"name": what.stream, "subjects": [what.pattern], "storage": "file", "allow_direct": True}
        request(target.address, f"STREAM.CREATE.{what.stream}", config)
        crew.run([WindowPublisher(target.address, what)])
        job: Job
        if how == "last":
            job = LastReader(target.address, what.stream, payload, count)
        elif how == "some":
            count //= _SUBJECTS
            job = PageReader(target.address, what.stream, payload, count, f"{what.stream}.0000003")
        else:
            job = PageReader(target.address, what.stream, payload, count)
        shares = crew.run([job], server_pid=target.pid)
        remove(target.address, what.stream)
        seconds = (shares[0].ended_ns - shares[0].started_ns) / 1e9
        return outcome({"": Figure(count / seconds, RATE)}, shares, seconds)

    return Workload("", "", run)
