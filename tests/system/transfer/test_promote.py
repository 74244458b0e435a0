"""`millstream promote` while nobody publishes: what arrives, what stays as it was, and repeated runs."""

import asyncio
import json
import signal
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from nats.js.errors import NoStreamResponseError

from millstream.transfer.marks import COPY, FROZEN
from millstream.transfer.plan import Method, PromoteOptions, plan
from millstream.transfer.progress import Silence
from millstream.transfer.promotion import Promotion
from tests.kits.patience import PATIENCE_S
from tests.kits.reference import ServerKind, ServerProcess
from tests.kits.transfer import HOUR, Site, command, run_aside, site_of

NATS, MILLSTREAM = ServerKind.NATS_SERVER, ServerKind.MILLSTREAM
OUTWARD = pytest.mark.parametrize(
    "pair", [(MILLSTREAM, MILLSTREAM), (MILLSTREAM, NATS)], ids="-".join, indirect=True
)
WAYS = pytest.mark.parametrize(
    "pair", [(MILLSTREAM, MILLSTREAM), (MILLSTREAM, NATS), (NATS, MILLSTREAM)], ids="-".join, indirect=True
)


class Pair:
    """A site that streams come from, and a site that they go to."""

    def __init__(self, source: Site, target: Site, urls: tuple[str, str]) -> None:
        self.source = source
        self.target = target
        self.urls = urls

    async def promote(self, *arguments: object) -> tuple[int, dict[str, Any], str]:
        done = await run_aside("promote", "-s", self.urls[0], "--to", self.urls[1], "--json", *arguments)
        return done.returncode, json.loads(done.stdout or "{}"), done.stderr


@pytest_asyncio.fixture
async def pair(
    request: pytest.FixtureRequest,
    origins: dict[ServerKind, ServerProcess],
    targets: dict[ServerKind, ServerProcess],
) -> AsyncIterator[Pair]:
    here, there = request.param
    urls = (origins[here].client_url, targets[there].client_url)
    async with site_of(urls[0]) as source, site_of(urls[1]) as target:
        yield Pair(source, target, urls)


def without_servers_part(config: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in config.items() if key != "metadata"}


@WAYS
async def test_a_plain_copy_leaves_the_source_alone_and_is_complete(pair: Pair, name: str) -> None:
    await pair.source.fill(name, metadata={"team": "orders"})
    before = await pair.source.api.stream(name)
    code, report, errors = await pair.promote(name)
    assert code == 0, errors
    (stream,) = report["streams"]
    assert (stream["messages"], stream["last_seq"], report["cut_over"]) == (17, 20, False)
    assert await pair.target.messages(name) == await pair.source.messages(name)
    assert await pair.target.places(name) == await pair.source.places(name)
    after = await pair.source.api.stream(name)
    assert (after["config"], after["state"]) == (before["config"], before["state"])
    copy = (await pair.target.api.stream(name))["config"]
    assert without_servers_part(copy) == without_servers_part(before["config"])
    assert copy["metadata"]["team"] == "orders"
    assert COPY not in copy["metadata"]


@OUTWARD
async def test_a_copy_that_is_there_is_recognised_and_another_stream_is_refused(
    pair: Pair, name: str
) -> None:
    await pair.source.fill(name)
    assert (await pair.promote(name))[0] == 0
    code, report, _ = await pair.promote(name)
    assert (code, report["streams"][0]["was_there"]) == (0, True)
    await pair.source.publish(f"{name}.more")
    code, report, _ = await pair.promote(name)
    assert code == 1
    assert "--replace" in report["streams"][0]["error"]
    code, report, _ = await pair.promote(name, "--replace")
    assert (code, report["streams"][0]["last_seq"]) == (0, 21)


@OUTWARD
async def test_a_dry_run_says_what_would_be_done_and_does_nothing(pair: Pair, name: str) -> None:
    await pair.source.fill(name)
    await pair.source.create(f"{name}W", subjects=[f"{name}W.>"], retention="workqueue")
    code, report, errors = await pair.promote(f"{name}*", "--dry-run", "--live", "--method", "follow")
    assert code == 0, errors
    first, second = report["streams"]
    assert (first["method"], first["at_target"]) == ("follow", "nothing")
    assert (second["method"], second["remark"]) == ("copy", "can not be followed: retention is workqueue")
    assert name not in await pair.target.api.stream_names()


@pytest.mark.parametrize("pair", [(MILLSTREAM, NATS)], ids="-".join, indirect=True)
async def test_a_dry_run_names_groups_that_stay_behind_and_long_windows(pair: Pair, name: str) -> None:
    day = 24 * HOUR
    await pair.source.create(name, subjects=[f"{name}.*"], duplicate_window=day)
    elastic = "KV_elastic-consumer-groups"
    await pair.source.create(elastic, subjects=["$KV.elastic-consumer-groups.>"], max_msgs_per_subject=1)
    await pair.source.publish(f"$KV.elastic-consumer-groups.{name}.workers", b"{}")
    await pair.source.publish(f"$KV.elastic-consumer-groups.{name}2.others", b"{}")
    code, report, _ = await pair.promote(name, "--dry-run")
    window = "only Millstream keeps the ids of a duplicate window of 24 hours outside of memory"
    assert code == 0
    assert report["streams"][0]["remark"] == (
        f"{window}; elastic group workers needs {elastic} and {name}-workers at the target, too"
    )
    code, report, _ = await pair.promote(name, elastic, "--dry-run")
    mine = next(each for each in report["streams"] if each["stream"] == name)
    assert mine["remark"] == f"{window}; elastic group workers needs {name}-workers at the target, too"


@WAYS
@pytest.mark.parametrize("way", [("--cut-over",), ("--live", "--cut-over", "--method", "follow")], ids=str)
async def test_after_a_cut_over_the_target_takes_messages_and_the_source_does_not(
    pair: Pair, name: str, way: tuple[str, ...]
) -> None:
    await pair.source.fill(name)
    messages, places = await pair.source.messages(name), await pair.source.places(name)
    code, report, errors = await pair.promote(name, "--grace", 0, *way)
    assert code == 0, errors
    assert (report["cut_over"], report["verified"], report["in_hand"]) == (True, True, 4)
    assert await pair.target.messages(name) == messages
    assert await pair.target.places(name) == places
    with pytest.raises(NoStreamResponseError):
        await pair.source.client.jetstream().publish(f"{name}.1")
    assert (await pair.target.publish(f"{name}.1"))["seq"] == 21
    assert await pair.source.messages(name) == messages
    # what is pending at the source is pending at the target, and nothing else comes before what is new
    seqs = [each.metadata.sequence.stream for each in await pair.target.pull(name, "some", 20)]
    assert seqs == [each["seq"] for each in messages[8:]] + [21]


@OUTWARD
async def test_a_target_that_took_over_is_not_replaced(pair: Pair, name: str) -> None:
    again = (name, "--grace", 0, "--cut-over", "--replace")
    await pair.source.fill(name)
    assert (await pair.promote(*again))[0] == 0
    assert (await pair.target.publish(f"{name}.1"))["seq"] == 21
    code, report, errors = await pair.promote(*again)
    assert (code, report["streams"][0]["last_seq"]) == (0, 21), errors
    await pair.target.api.delete_message(name, 20)
    code, _, errors = await pair.promote(*again)
    assert (code, "may have taken over" in errors) == (1, True), errors
    assert [each["seq"] for each in await pair.target.messages(name)][-1] == 21


@OUTWARD
async def test_the_freeze_can_be_taken_back(pair: Pair, name: str) -> None:
    await pair.source.fill(name)
    before = (await pair.source.api.stream(name))["config"]
    assert (await pair.promote(name, "--grace", 0, "--cut-over"))[0] == 0
    assert FROZEN in (await pair.source.api.stream(name))["config"]["metadata"]
    code, report, errors = await pair.promote(name, "--release")
    assert (code, report) == (0, {"released": [name]}), errors
    assert (await pair.source.api.stream(name))["config"] == before
    assert not any(info.get("paused") for info in await pair.source.api.consumers(name))
    assert (await pair.source.publish(f"{name}.1"))["seq"] == 21


@OUTWARD
async def test_a_cut_over_that_fails_gives_the_source_back(pair: Pair, name: str) -> None:
    await pair.source.fill(name)
    before = (await pair.source.api.stream(name))["config"]
    code, _, errors = await pair.promote(name, "--grace", 0, "--cut-over", "--replicas", 3)  # one server
    assert code == 1
    assert "replicas" in errors
    assert (await pair.source.api.stream(name))["config"] == before
    assert (await pair.source.publish(f"{name}.1"))["seq"] == 21
    assert name not in await pair.target.api.stream_names()


@WAYS
async def test_a_copy_follows_its_source_message_by_message(pair: Pair, name: str, tmp_path: Path) -> None:
    """The parts are used directly: messages after the copy, gaps, and later removals."""
    source, target = pair.source, pair.target
    await source.fill(name)
    happened: list[str] = []

    async def more() -> None:
        for number in range(21, 41):
            await source.publish(f"{name}.{number % 3}", b"tail" * number, {"Nats-Msg-Id": f"tail{number}"})
        for seq in (5, 22, 30, 40):  # the last one too
            await source.api.delete_message(name, seq)
        await source.api.purge_below(name, 5)
        for message in await source.pull(name, "some", 10):
            if message.metadata.sequence.stream % 2:
                await message.ack_sync(timeout=PATIENCE_S)
        await source.add_consumer(name, "late", filter_subject=f"{name}.1")
        await source.api.delete_consumer(name, "filtered")
        happened.append("more")

    options = PromoteOptions(live=True, method=Method.FOLLOW, grace_s=0)
    plans = await plan(source.api, target.api, [name], options)
    promotion = Promotion(source.api, target.api, plans, options, Silence(), tmp_path, more)
    result = await promotion.run()
    assert happened == ["more"]
    assert (result.complete, plans[0].method) == (True, Method.FOLLOW)
    assert await target.messages(name) == await source.messages(name)
    mine, theirs = await source.places(name), await target.places(name)
    for each in mine.values():
        each["config"].pop("pause_until", None)
    assert theirs == mine
    assert f"MILLSTREAM_FEED_{name}" not in await target.api.stream_names()
    answer = await target.publish(f"{name}.1", b"", {"Nats-Msg-Id": "tail39"})
    assert (answer["seq"], answer.get("duplicate")) == (39, True)
    assert (await target.publish(f"{name}.1"))["seq"] == 41


@OUTWARD
async def test_a_killed_run_leaves_what_the_next_one_goes_on_with(pair: Pair, name: str) -> None:
    await pair.source.fill(name)
    arguments = ("promote", "-s", pair.urls[0], "--to", pair.urls[1], name, "--live", "--method", "follow")
    process = await asyncio.create_subprocess_exec(
        *command(*arguments), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )
    assert process.stderr is not None
    while b"following" not in await process.stderr.readline():
        pass
    process.send_signal(signal.SIGKILL)
    await process.wait()
    process._transport.close()  # type: ignore[attr-defined]
    assert COPY in (await pair.target.api.stream(name))["config"]["metadata"]
    await pair.source.publish(f"{name}.more", b"after the crash")
    code, report, errors = await pair.promote(
        name, "--live", "--cut-over", "--method", "follow", "--grace", 0
    )
    assert code == 0, errors
    assert report["streams"][0]["method"] == "follow"
    assert report["streams"][0]["last_seq"] == 21
    assert await pair.target.messages(name) == await pair.source.messages(name)
    # and once more: all is done already, and nothing changes
    code, report, errors = await pair.promote(name, "--cut-over", "--grace", 0)
    assert (code, report["streams"][0]["last_seq"]) == (0, 21), errors


@OUTWARD
async def test_a_work_queue_moves_with_what_is_not_done(pair: Pair, name: str) -> None:
    source, target = pair.source, pair.target
    await source.create(name, subjects=[f"{name}.>"], retention="workqueue")
    await source.add_consumer(name, "workers", ack_wait=HOUR)
    for number in range(10):
        await source.publish(f"{name}.job", str(number).encode())
    for message in (await source.pull(name, "workers", 5))[:3]:
        await message.ack_sync(timeout=PATIENCE_S)
    code, _, errors = await pair.promote(name, "--cut-over", "--grace", 0)
    assert code == 0, errors
    assert await target.messages(name) == await source.messages(name)
    assert [each.data for each in await target.pull(name, "workers", 10)] == [b"5", b"6", b"7", b"8", b"9"]


async def test_source_and_target_must_not_be_the_same(origins: dict[ServerKind, ServerProcess]) -> None:
    url = origins[MILLSTREAM].client_url
    async with site_of(url) as site:
        await site.create("SAME", subjects=["SAME.>"])
        done = await run_aside("promote", "-s", url, "--to", url, "SAME")
        assert done.returncode == 1
        assert "the same stream" in done.stderr
        await site.api.delete_stream("SAME")
