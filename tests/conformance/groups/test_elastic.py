"""Elastic groups: members that come, go and die while messages flow."""

import asyncio
import contextlib
import subprocess
import sys
from collections.abc import Awaitable, Callable
from typing import Any, Final

import pytest
from nats.js.api import ConsumerConfig

from millstream.client import (
    AckLost,
    BadGroup,
    ClientClosed,
    ClientError,
    GroupChanged,
    GroupNotFound,
    ServerUnavailable,
    StreamNotFound,
)
from millstream.client.groups import ElasticGroup, GroupMember, GroupMessage
from tests.kits.client import Connect, Lab, eventually
from tests.kits.patience import PATIENCE_S
from tests.kits.reference import ServerProcess

QUICK_S: Final = 1.0  # an ack wait after which a test expects something
CALM_S: Final = 30.0  # an ack wait that must not end


class Worker:
    """A member that notes and acknowledges its messages, until it is closed."""

    def __init__(self, member: GroupMember, seen: list[tuple[str, str, int]]) -> None:
        self.member = member
        self._seen = seen
        self.failure: Exception | None = None
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> "Worker":
        await self.member.open()
        self._task = asyncio.create_task(self._work())
        return self

    async def _work(self) -> None:
        try:
            async for message in self.member:
                self._seen.append((self.member.name, message.subject, int(message.data)))
                with contextlib.suppress(AckLost, ServerUnavailable):  # then it comes again
                    await message.ack()
        except Exception as error:
            self.failure = error

    async def stop(self) -> None:
        await self.member.close()
        await self.ended()

    async def ended(self) -> None:
        assert self._task is not None
        async with asyncio.timeout(PATIENCE_S):
            await self._task


async def elastic(lab: Lab, partitions: int = 8, **options: Any) -> ElasticGroup:
    filters = options.pop("filters", [(f"{lab.stream}.*", [1])])
    return await lab.client.groups.create_elastic(lab.stream, "g", partitions, filters=filters, **options)


async def next_of(member: GroupMember) -> GroupMessage:
    return await member.next(PATIENCE_S)


async def receiving(*members: GroupMember) -> None:
    async def are() -> bool:
        return all(member.is_receiving for member in members)

    await eventually(are, "a member got no consumer")


def has(seen: list[Any], count: int) -> Callable[[], Awaitable[bool]]:
    async def check() -> bool:
        return len(seen) >= count

    return check


def assert_complete_and_in_order(seen: list[tuple[str, str, int]], count: int) -> None:
    """Assert that every number came once, and those of each key in their order."""
    assert sorted(number for _, _, number in seen) == list(range(count))
    by_key: dict[str, list[int]] = {}
    for _, subject, number in seen:
        by_key.setdefault(subject, []).append(number)
    assert all(numbers == sorted(numbers) for numbers in by_key.values())


async def test_members_share_the_keys(orders: Lab) -> None:
    group = await elastic(orders)
    assert await group.add("m2", "m1") == ["m1", "m2"]
    seen: list[tuple[str, str, int]] = []
    workers = [await Worker(group.consume(name), seen).start() for name in ("m1", "m2")]
    for number in range(100):
        await orders.publish(number, token=f"k{number % 20}")
    await eventually(has(seen, 100), "not all messages came")
    for worker in workers:
        await worker.stop()
    assert_complete_and_in_order(seen, 100)
    owners = {subject: {name for name, key, _ in seen if key == subject} for _, subject, _ in seen}
    assert len(owners) == 20
    assert all(len(names) == 1 for names in owners.values())
    assert {name for names in owners.values() for name in names} == {"m1", "m2"}


async def test_a_message_has_its_own_subject_and_partition(orders: Lab) -> None:
    group = await elastic(orders, 1)
    await group.add("m1")
    await orders.js.publish(orders.subject("k"), b"1", headers={"colour": "red"})
    async with group.consume("m1") as messages:
        message = await next_of(messages)
        assert (message.subject, message.partition, message.data) == (orders.subject("k"), 0, b"1")
        assert message.headers["colour"] == "red"
        assert (message.stream, message.deliveries, message.pending) == (f"{orders.stream}-g", 1, 0)
        await message.nak()
        again = await next_of(messages)
        assert (again.data, again.deliveries) == (b"1", 2)
        await again.term("unreadable")
        assert again.is_settled
    state = (await orders.js.stream_info(f"{orders.stream}-g")).state
    assert state.messages == 0
    assert (await orders.js.stream_info(orders.stream)).state.messages == 1


async def test_order_is_kept_while_members_come_and_go(orders: Lab) -> None:
    group = await elastic(orders)
    await group.add("m1")
    seen: list[tuple[str, str, int]] = []
    workers = {name: await Worker(group.consume(name), seen).start() for name in ("m1", "m2", "m3")}

    async def publish() -> None:
        for number in range(400):
            await orders.publish(number, token=f"k{number % 16}")

    publishing = asyncio.create_task(publish())
    await eventually(has(seen, 30), "m1 got nothing")
    await group.add("m2", "m3")
    await receiving(*(worker.member for worker in workers.values()))
    await group.drop("m1")
    await publishing
    await eventually(has(seen, 400), "not all messages came")
    for worker in workers.values():
        await worker.stop()
        assert worker.failure is None
    assert_complete_and_in_order(seen, 400)
    assert len({name for name, _, _ in seen}) > 1


async def test_a_partition_moves_after_the_message_in_hand_is_settled(orders: Lab) -> None:
    group = await elastic(orders, 1)
    await group.add("m1")
    await orders.publish(1, 2)
    async with (
        group.consume("m1", ack_wait_s=CALM_S) as first,
        group.consume("m2", ack_wait_s=CALM_S) as second,
    ):
        held = await next_of(first)
        await group.set_mappings({"m2": [0]})

        async def released() -> bool:
            return not first.is_receiving

        await eventually(released, "m1 goes on receiving")
        assert not second.is_receiving
        await held.ack()
        message = await next_of(second)
        assert (held.data, message.data, message.deliveries) == (b"1", b"2", 1)
        await message.ack()


async def test_another_program_takes_over_from_one_that_was_killed(
    orders: Lab, js_server: ServerProcess
) -> None:
    group = await elastic(orders, 2)
    await group.add("m1")
    command = [sys.executable, "-m", "millstream", "group", "consume", orders.stream, "g", "m1", "--json"]
    program = await asyncio.create_subprocess_exec(
        *command, "--ack-wait", f"{QUICK_S}s", "-s", js_server.client_url, stdout=subprocess.PIPE
    )
    try:
        await orders.publish(0)
        assert program.stdout is not None
        assert b'"data": "0"' in await program.stdout.readline()
        async with group.consume("m1", ack_wait_s=QUICK_S) as messages:
            await receiving(messages)
            program.kill()
            await orders.publish(range(1, 20))
            got: list[int] = []
            while len(got) < 19:
                message = await next_of(messages)
                if int(message.data):  # the program may have died before its ack
                    got.append(int(message.data))
                await message.ack()
        assert got == list(range(1, 20))
    finally:
        with contextlib.suppress(ProcessLookupError):
            program.kill()
        await program.wait()


async def test_a_program_that_waits_gets_a_member_that_steps_down(orders: Lab, connect: Connect) -> None:
    group = await elastic(orders, 1)
    await group.add("m1")
    other = (await connect(orders.server.port)).groups.elastic(orders.stream, "g")
    async with group.consume("m1", ack_wait_s=CALM_S) as first:
        await orders.publish(1)
        await (await next_of(first)).ack()
        async with other.consume("m1", ack_wait_s=CALM_S) as second:
            await receiving(second)

            async def waits() -> bool:
                state = (await orders.js.consumer_info(f"{orders.stream}-g", "m1")).num_waiting
                return state == 2

            await eventually(waits, "the second program asks for nothing")
            (state,) = await group.members()
            assert (state.name, state.partitions, state.is_active) == ("m1", [0], True)
            assert state.pinned_id
            await group.step_down("m1")
            await orders.publish(2)
            pinned = {asyncio.create_task(next_of(each)): each for each in (first, second)}
            done, waiting = await asyncio.wait(pinned, return_when=asyncio.FIRST_COMPLETED)
            for task in waiting:
                task.cancel()
            await asyncio.gather(*waiting, return_exceptions=True)
            message = done.pop().result()
            assert message.data == b"2"
            await message.ack()
            (after,) = await group.members()
            assert after.pinned_id not in ("", state.pinned_id)


async def test_closing_hands_the_member_over_at_once(orders: Lab) -> None:
    group = await elastic(orders, 1)
    await group.add("m1")
    await orders.publish(range(6))
    async with group.consume("m1", ack_wait_s=CALM_S, max_ack_pending=6) as first:
        message = await next_of(first)
        await message.ack()
    with pytest.raises(ClientClosed):
        await first.next()
    async with group.consume("m1", ack_wait_s=CALM_S, max_ack_pending=6) as second:
        got = []
        for _ in range(5):
            message = await next_of(second)
            got.append(int(message.data))
            await message.ack()
    assert sorted(got) == [1, 2, 3, 4, 5]


async def test_a_consumer_that_was_deleted_is_made_again(orders: Lab) -> None:
    group = await elastic(orders, 1)
    await group.add("m1")
    async with group.consume("m1", ack_wait_s=CALM_S) as messages:
        await orders.publish(1)
        held = await next_of(messages)
        await orders.js.delete_consumer(f"{orders.stream}-g", "m1")
        with pytest.raises(AckLost, match="its consumer is gone"):
            await held.ack()
        again = await next_of(messages)
        assert (again.data, again.deliveries) == (b"1", 1)
        await again.ack()


async def test_deleting_the_group_ends_its_members(orders: Lab) -> None:
    group = await elastic(orders, 2)
    await group.add("m1")
    seen: list[tuple[str, str, int]] = []
    workers = [await Worker(group.consume(name), seen).start() for name in ("m1", "m2")]
    await orders.publish(1)
    await eventually(has(seen, 1), "m1 got nothing")
    await group.delete()
    for worker in workers:
        await worker.ended()
        assert worker.failure is None
        await worker.member.close()
    with pytest.raises(GroupNotFound, match="there is no group g"):
        await group.config()
    with pytest.raises(StreamNotFound):
        await group.consume("m1").open()
    with pytest.raises(GroupNotFound):
        await group.delete()
    again = await elastic(orders, 3)  # over the mark of the deletion
    assert (await again.config()).max_members == 3


async def test_another_change_than_of_members_ends_them(orders: Lab) -> None:
    group = await elastic(orders, 2)
    await group.add("m1")
    async with group.consume("m1") as messages:
        bucket = await orders.js.key_value("elastic-consumer-groups")
        stored = await bucket.get(f"{orders.stream}.g")
        assert stored.value is not None
        changed = stored.value.replace(b'"max_members":2', b'"max_members":3')
        await bucket.put(f"{orders.stream}.g", changed)
        with pytest.raises(GroupChanged, match="more than the members"):
            await next_of(messages)


async def test_a_configuration_that_breaks_ends_members(orders: Lab) -> None:
    group = await elastic(orders, 2)
    await group.add("m1")
    async with group.consume("m1") as messages:
        bucket = await orders.js.key_value("elastic-consumer-groups")
        await bucket.put(f"{orders.stream}.g", b'{"max_members":2,"members":')
        with pytest.raises(BadGroup, match="cannot be read"):
            await next_of(messages)
    (listed,) = await orders.client.groups.list(orders.stream)
    assert (listed.name, listed.config) == ("g", None)
    assert "cannot be read" in listed.problem
    with pytest.raises(BadGroup):
        await group.add("m2")
    await group.delete()
    assert await orders.client.groups.list() == []


async def test_edits_at_the_same_time_are_all_kept(orders: Lab) -> None:
    group = await elastic(orders, 16)
    names = [f"m{number}" for number in range(10)]
    await asyncio.gather(*(group.add(name) for name in names))
    assert sorted((await group.config()).members) == names


async def test_the_groups_stream_has_its_limit(orders: Lab) -> None:
    group = await elastic(orders, 1, max_buffered_messages=5)
    await group.add("m1")
    await orders.publish(range(12))
    info = await orders.js.stream_info(f"{orders.stream}-g")
    assert (info.config.max_msgs, info.config.retention) == (5, "workqueue")
    async with group.consume("m1") as messages:
        for number in range(12):
            message = await next_of(messages)
            assert int(message.data) == number
            await message.ack()


async def test_the_whole_subject_is_the_key_without_filters(orders: Lab) -> None:
    group = await elastic(orders, 4, filters=())
    await group.add("m1", "m2")
    seen: list[tuple[str, str, int]] = []
    workers = [await Worker(group.consume(name), seen).start() for name in ("m1", "m2")]
    for number in range(40):
        await orders.publish(number, token=f"a.k{number % 8}")
    await eventually(has(seen, 40), "not all messages came")
    for worker in workers:
        await worker.stop()
    assert_complete_and_in_order(seen, 40)


async def test_a_group_that_its_stream_refuses_is_not_kept(orders: Lab) -> None:
    await orders.js.add_stream(name=f"{orders.stream}-g", subjects=[f"other.{orders.stream}"])
    with pytest.raises(Exception, match="already in use"):
        await elastic(orders, 4)
    assert await orders.client.groups.list(orders.stream) == []


async def test_a_lost_connection_loses_nothing(orders: Lab, connect: Connect) -> None:
    group = await elastic(orders, 1)
    await group.add("m1")
    doomed = await connect(orders.server.port)
    await orders.publish(range(5))
    gone = doomed.groups.elastic(orders.stream, "g").consume("m1", ack_wait_s=QUICK_S)
    await gone.open()
    assert (await next_of(gone)).data == b"0"
    await doomed.connection.close()
    async with group.consume("m1", ack_wait_s=QUICK_S) as messages:
        for number in range(5):
            message = await next_of(messages)
            assert int(message.data) == number
            await message.ack()
    await gone.close()


async def test_members_outlive_a_server_that_is_killed(own_lab: Lab) -> None:
    group = await elastic(own_lab, 4)
    await group.add("m1", "m2")
    seen: list[tuple[str, str, int]] = []
    workers = [await Worker(group.consume(name, ack_wait_s=QUICK_S), seen).start() for name in ("m1", "m2")]
    for number in range(20):
        await own_lab.publish(number, token=f"k{number % 8}")
    await eventually(has(seen, 20), "not all messages came")
    own_lab.server.kill()
    own_lab.server.restart()

    async def publishes() -> bool:
        try:
            await own_lab.client.publish(own_lab.subject("k0"), b"20")
        except ClientError:
            return False
        return True

    await eventually(publishes, "the client did not come back")
    for number in range(21, 40):
        await own_lab.publish(number, token=f"k{number % 8}")

    async def all_came() -> bool:
        return {number for _, _, number in seen} == set(range(40))

    await eventually(all_came, "a message is missing")
    for worker in workers:
        await worker.stop()
        assert worker.failure is None


async def test_groups_leave_other_consumers_alone(orders: Lab) -> None:
    await orders.js.add_consumer(orders.stream, ConsumerConfig(durable_name="g-m1"))
    group = await elastic(orders, 2)
    await group.add("m1")
    async with group.consume("m1") as messages:
        await receiving(messages)
    await group.delete()
    assert await orders.consumers() == ["g-m1"]
