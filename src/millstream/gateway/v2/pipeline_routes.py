"""Pipelines, from the reports of their jobs on a NATS subject (`progress.subject` of a pipeline).

Reports are not stored, so the gateway subscribes at the first request and keeps the last report of each job
while requests continue.
"""

from __future__ import annotations

import asyncio
from typing import Annotated, Any, Final

import msgspec

from millstream.base.errors import UNREADABLE_JSON
from millstream.gateway.errors import BadRequest, PermissionDenied
from millstream.gateway.link import CallerLink
from millstream.gateway.v2.attention import now_text
from millstream.gateway.v2.calls import Call, Reply, answer
from millstream.gateway.v2.names import check_filter, check_reach
from millstream.gateway.v2.operations import Section, Tag, json_answer
from millstream.gateway.v2.ticks import EVERY_S, Every, tick_answer, ticks
from millstream.link.deliveries import LinkMessage
from millstream.link.errors import LinkError

section: Final = Section(Tag.ACCOUNT)

SUBJECT: Final = "millstream.pipeline.>"
_MOST_JOBS: Final = 1000
_FORGET_S: Final = 300.0
_MOST_SUBJECTS: Final = 8  # subjects that one set of credentials may listen on

Subject = Annotated[str, msgspec.Meta(description="where pipelines report")]


class PipelinesQuery(msgspec.Struct, frozen=True):
    subject: Subject = SUBJECT


class LiveQuery(msgspec.Struct, frozen=True):
    subject: Subject = SUBJECT
    every: Every = EVERY_S


class ReportedJob(msgspec.Struct, kw_only=True):
    """The last report of a job."""

    job: str
    kind: str = ""
    state: str = ""
    rows: int = 0
    batches: int = 0
    rate: float = 0.0  # rows a second
    lag: dict[str, int] = msgspec.field(default_factory=dict)  # messages not yet processed, by stream
    text: str = ""
    subject: str = ""
    time: str = ""  # when the report came


class Pipelines(msgspec.Struct):
    """The jobs that have reported since the gateway subscribed."""

    subject: str
    since: str
    jobs: list[ReportedJob]


_report: Final = msgspec.json.Decoder(ReportedJob, strict=False)


class ReportListener:
    """Keeps the last reports on one subject."""

    def __init__(self, link: CallerLink, subject: str) -> None:
        self._link = link
        self._name = f"pipelines {subject}"
        self._jobs: dict[tuple[str, str], ReportedJob] = {}
        self.subject = subject
        self.since = now_text()
        self._timer: asyncio.TimerHandle | None = None
        self._subscription = link.subscribe(subject, deliver=self._take)

    @classmethod
    def of(cls, link: CallerLink, subject: str) -> ReportListener:
        """Return the listener of a subject; start one if there is none."""
        others = [each for each in link.companions.values() if isinstance(each, ReportListener)]
        found = next((each for each in others if each.subject == subject), None)
        if found is None:
            if len(others) >= _MOST_SUBJECTS:
                others[0].close()
            found = cls(link, subject)
            link.companions[found._name] = found
        found._keep()
        return found

    def close(self) -> None:
        """Stop listening."""
        if self._timer is not None:
            self._timer.cancel()
        if not self._link.is_closed:
            self._subscription.unsubscribe()
        self._link.companions.pop(self._name, None)

    def _keep(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_later(_FORGET_S, self.close)

    def _take(self, messages: list[LinkMessage]) -> None:
        for message in messages:
            try:
                job = _report.decode(message.payload)
            except UNREADABLE_JSON:
                continue
            job.subject, job.time = message.subject, now_text()
            key = (message.subject, job.job)
            if key in self._jobs or len(self._jobs) < _MOST_JOBS:
                self._jobs[key] = job

    def told(self) -> dict[str, Any]:
        """Return the reports; raises if the server refused the subscription."""
        self._keep()
        if self._subscription.error is not None:
            error: LinkError = self._subscription.error
            self.close()
            raise error
        jobs = [self._jobs[key] for key in sorted(self._jobs)]
        return {"subject": self.subject, "since": self.since, "jobs": jobs}


async def _listener(call: Call) -> ReportListener:
    subject = check_filter(call.query.subject)
    if subject.partition(".")[0] in ("*", ">"):
        raise BadRequest("the first token of the subject is no wildcard")
    if subject.startswith("$"):
        raise PermissionDenied(f"{subject} belongs to the server, and pipelines do not report there")
    check_reach(subject, call.settings)
    listener = ReportListener.of(call.link, subject)
    await call.link.flush()  # a refusal of the subscription arrives before the flush ends
    return listener


@section.get(
    "/pipelines",
    "Jobs of pipelines",
    query=PipelinesQuery,
    answers=(json_answer(200, "the last report of each job", Pipelines),),
)
async def read_pipelines(call: Call) -> Reply:
    """Jobs of pipelines that report on `subject` (`progress.subject` in a pipeline's file). Reports are not
    stored, so the first answer has none, and jobs appear with their next batch."""
    return answer((await _listener(call)).told())


@section.get(
    "/pipelines/live",
    "Jobs of pipelines, again and again",
    query=LiveQuery,
    stream=True,
    answers=(tick_answer("pipelines", "what `/v2/pipelines` answers"),),
    problems=(406,),
)
async def read_pipelines_live(call: Call) -> Reply:
    """The jobs as Server-Sent Events."""
    listener = await _listener(call)

    async def look() -> dict[str, Any]:
        return listener.told()

    return await ticks(call, "pipelines", look, every_s=call.query.every)
