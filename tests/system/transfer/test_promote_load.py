"""Moving streams in use: nothing is lost, nothing is stored twice, nothing acknowledged comes again.

One publisher numbers its messages and goes where they are taken; consumers take what they get, acknowledge
some of it at once, some late and some never, and go to the target when that has taken over.
"""

from __future__ import annotations

import asyncio
import base64
import json
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager

import pytest
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription
from nats.errors import Error as NatsError
from nats.errors import TimeoutError as NatsTimeout

from tests.kits.cluster import Cluster
from tests.kits.reference import ServerKind, ServerProcess
from tests.kits.transfer import HOUR, PATIENCE_S, Site, command, eventually, site_of

NATS, MILLSTREAM = ServerKind.NATS_SERVER, ServerKind.MILLSTREAM
COPY = ("--cut-over",)
FOLLOW = ("--live", "--cut-over", "--method", "follow")
STREAM = "LOAD"
GRACE_S = 6  # a run spends it twice; acknowledgements that come later are not carried over
_SILENCE_S = 2.0  # nats-server says nothing at all for a consumer that is paused
_BATCH = 20
_MOST_IN_HAND = 30  # far less than a consumer may have pending
ROUND_S = 200.0  # for a cluster's mirror to notice its origin, on a machine that is busy


@contextmanager
def target_of(kind: ServerKind | None) -> Iterator[tuple[str, int]]:
    """Addresses, and how many replicas can be had there; None is a cluster."""
    if kind is None:
        with Cluster() as cluster:
            yield ",".join(cluster.urls), 3
    else:
        with ServerProcess(kind, jetstream=True) as server:
            yield server.client_url, 1


class Publisher:
    """Sends numbers, each until it is stored somewhere."""

    def __init__(self, source: Site) -> None:
        self.site = source
        self.target: Site | None = None
        self.stored = 0
        self.enough = asyncio.Event()

    async def run(self) -> None:
        number = 0
        while not self.enough.is_set():
            await self._store(number)
            number += 1
            self.stored = number
            await asyncio.sleep(0.01)  # one of many

    async def _store(self, number: int) -> None:
        headers = {"Nats-Msg-Id": f"number {number}"}
        while True:
            try:
                answer = await self.site.client.request(
                    f"{STREAM}.{number % 5}", str(number).encode(), timeout=5, headers=headers
                )
                if "error" not in json.loads(answer.data):
                    return
            except NatsError:  # nobody takes it here
                if self.target is not None:
                    self.site = self.target
                await asyncio.sleep(0.02)


class Worker:
    """A pull consumer and its client."""

    def __init__(self, source: Site, name: str) -> None:
        self.site = source
        self.name = name
        self.seen: set[int] = set()
        self.acknowledged: set[int] = set()  # and the server has confirmed it
        self.came_again: list[int] = []
        self._inbox: Subscription | None = None

    async def step(self, *, skip: bool) -> int:
        """Take what is there; of what comes first in a batch, keep one unacknowledged if `skip`."""
        messages = await (self._take() if skip else self.site.pull(STREAM, self.name, _BATCH))
        for position, message in enumerate(messages):
            number = self._note(message)
            if skip and position == 0 and len(self.seen - self.acknowledged) < _MOST_IN_HAND:
                continue
            await message.ack_sync(timeout=PATIENCE_S)
            self.acknowledged.add(number)
        return len(messages)

    def _note(self, message: Msg) -> int:
        number = int(message.data)
        if number in self.acknowledged:
            self.came_again.append(number)
        self.seen.add(number)
        return number

    async def _take(self) -> list[Msg]:
        """Pull like `Site.pull`, in one inbox, so that the next call finds messages that come late."""
        client = self.site.client
        if self._inbox is None:
            self._inbox = await client.subscribe(client.new_inbox())
        body = json.dumps({"batch": _BATCH, "no_wait": True}).encode()
        subject = self.site.api.next_subject(STREAM, self.name)
        await client.publish(subject, body, reply=self._inbox.subject)
        found: list[Msg] = []
        while len(found) < _BATCH:
            try:
                message = await self._inbox.next_msg(timeout=_SILENCE_S)
            except NatsTimeout:
                break
            if (message.headers or {}).get("Status"):
                break
            found.append(message)
        return found

    async def run(self, over: asyncio.Event) -> None:
        while not over.is_set():
            if not await self.step(skip=True):
                await asyncio.sleep(0.02)
        await self._look_for_late_ones()

    async def _look_for_late_ones(self) -> None:
        """Take messages that arrived too late to be acknowledged."""
        assert self._inbox is not None
        await self.site.client.flush(timeout=int(PATIENCE_S))  # whatever was sent is here then
        while self._inbox.pending_msgs:
            message = await self._inbox.next_msg(timeout=PATIENCE_S)
            if not (message.headers or {}).get("Status"):
                self._note(message)


@asynccontextmanager
async def promoting(*arguments: object) -> AsyncIterator[asyncio.subprocess.Process]:
    process = await asyncio.create_subprocess_exec(
        *command("promote", *arguments), stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
        process._transport.close()  # type: ignore[attr-defined]


async def until(process: asyncio.subprocess.Process, words: str) -> str:
    """Read what it says up to a line with these words."""
    assert process.stdout is not None
    said = ""
    while words not in said:
        try:
            line = (await asyncio.wait_for(process.stdout.readline(), ROUND_S)).decode()
        except TimeoutError:
            raise AssertionError(f"it hangs, after\n{said}") from None
        assert line, said
        said += line
    return said


@pytest.mark.parametrize(
    ("origin", "target", "way"),
    [
        pytest.param(MILLSTREAM, MILLSTREAM, COPY, id="millstream-millstream-copy"),
        pytest.param(MILLSTREAM, MILLSTREAM, FOLLOW, id="millstream-millstream-follow"),
        pytest.param(MILLSTREAM, None, COPY, id="millstream-cluster-copy", marks=pytest.mark.oracle),
        pytest.param(MILLSTREAM, NATS, FOLLOW, id="millstream-nats-follow"),
        pytest.param(
            *(MILLSTREAM, None, FOLLOW),
            id="millstream-cluster-follow",
            marks=[pytest.mark.oracle, pytest.mark.soak],
        ),
        pytest.param(MILLSTREAM, NATS, COPY, id="millstream-nats-copy", marks=pytest.mark.soak),
        pytest.param(NATS, MILLSTREAM, COPY, id="nats-millstream-copy", marks=pytest.mark.soak),
        pytest.param(NATS, MILLSTREAM, FOLLOW, id="nats-millstream-follow", marks=pytest.mark.soak),
    ],
)
@pytest.mark.timeout(400)
async def test_under_load_every_consumer_continues_where_it_was(
    origin: ServerKind, target: ServerKind | None, way: tuple[str, ...]
) -> None:
    with ServerProcess(origin, jetstream=True) as server, target_of(target) as (url, replicas):
        async with (
            site_of(server.client_url) as source,
            site_of(url.split(",")[0]) as there,
            AsyncExitStack() as stack,
        ):
            await source.create(STREAM, subjects=[f"{STREAM}.>"])
            workers = [Worker(source, name) for name in ("first", "second")]
            for worker in workers:
                await source.add_consumer(STREAM, worker.name, ack_wait=HOUR)
            await source.add_consumer(STREAM, "held", ack_wait=HOUR)
            publisher = Publisher(source)
            over = asyncio.Event()
            tasks = [asyncio.create_task(publisher.run())]
            tasks += [asyncio.create_task(worker.run(over)) for worker in workers]
            stack.callback(lambda: [task.cancel() for task in tasks])
            await eventually(lambda: publisher.stored >= 100)
            held = await source.pull(STREAM, "held", 10)
            grace = ("--grace", GRACE_S)
            arguments = ("-s", server.client_url, "--to", url, "--replicas", replicas, *grace, *way)
            async with promoting(*arguments) as process:
                await until(process, "is frozen")
                publisher.target = there
                await until(process, "takes over")
                # They were in hand all the time; two of them stay there.
                await asyncio.gather(*(message.ack_sync(timeout=PATIENCE_S) for message in held[2:]))
                report = await until(process, "stays frozen")
                assert await process.wait() == 0, report
            over.set()
            await asyncio.gather(*tasks[1:])
            moved = publisher.stored
            await eventually(lambda: publisher.stored >= moved + 50)
            publisher.enough.set()
            await tasks[0]
            assert publisher.site is there
            for worker in workers:
                worker.site = there
                unacknowledged = worker.seen - worker.acknowledged
                while await worker.step(skip=False):
                    pass
                assert worker.came_again == []
                assert worker.seen == set(range(publisher.stored))
                info = await there.api.consumer(STREAM, worker.name)
                assert info["num_pending"] == 0
                assert info["num_ack_pending"] == len(unacknowledged)  # theirs, until their time is over
            stored = await there.messages(STREAM)
            numbers = [int(base64.b64decode(each["data"])) for each in stored]
            assert numbers == list(range(publisher.stored))
            info = await there.api.consumer(STREAM, "held")
            assert info["num_ack_pending"] == 2
            first = await source.messages(STREAM)
            assert stored[: len(first)] == first
