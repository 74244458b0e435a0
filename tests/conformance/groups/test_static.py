"""Static groups: on a stream whose subjects begin with a partition."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from nats.js.api import ConsumerConfig, SubjectTransform

from millstream.client import GroupChanged, GroupExists, GroupNotFound, NotAMember, StreamNotFound
from millstream.client.groups import GroupMember, GroupMessage
from tests.kits.client import Connect, Lab, eventually
from tests.kits.patience import PATIENCE_S


@pytest_asyncio.fixture
async def parts(orders: Lab) -> AsyncIterator[Lab]:
    """A stream that adds a partition of four to its subjects."""
    name = orders.stream
    config = {"name": name, "subjects": [f"{name}.*"]}
    transform = SubjectTransform(src=f"{name}.*", dest=f"{{{{partition(4,1)}}}}.{name}.{{{{wildcard(1)}}}}")
    await orders.js.delete_stream(name)
    await orders.js.add_stream(**config, subject_transform=transform)
    yield orders


async def next_of(member: GroupMember) -> GroupMessage:
    return await member.next(PATIENCE_S)


async def make(lab: Lab, **options: Any) -> Any:
    return await lab.client.groups.create_static(lab.stream, "g", 4, **options)


async def test_members_share_the_partitions(parts: Lab) -> None:
    group = await make(parts, members=["m1", "m2"])
    for number in range(40):
        await parts.publish(number, token=f"k{number % 10}")
    got: dict[str, list[GroupMessage]] = {"m1": [], "m2": []}

    async def work(name: str) -> None:
        async with group.consume(name) as messages:
            async for message in messages:
                got[name].append(message)
                await message.ack()

    tasks = [asyncio.create_task(work(name)) for name in got]

    async def all_came() -> bool:
        return sum(map(len, got.values())) == 40

    await eventually(all_came, "not all messages came")
    states = {state.name: state for state in await group.members()}
    assert {name: state.partitions for name, state in states.items()} == {"m1": [0, 1], "m2": [2, 3]}
    assert all(state.is_active for state in states.values())
    await group.delete()
    async with asyncio.timeout(PATIENCE_S):
        await asyncio.gather(*tasks)
    assert {message.partition for message in got["m1"]} <= {0, 1}
    assert {message.partition for message in got["m2"]} <= {2, 3}
    assert await parts.consumers() == []


async def test_a_member_continues_where_it_was(parts: Lab) -> None:
    group = await make(parts, mappings={"m1": [0, 1, 2, 3]}, filters=[f"{parts.stream}.*"])
    await parts.publish(range(4))
    for number in range(4):
        async with group.consume("m1") as messages:
            message = await next_of(messages)
            assert (int(message.data), message.subject) == (number, parts.subject("a"))
            await message.ack()


async def test_any_change_ends_the_members(parts: Lab) -> None:
    group = await make(parts, members=["m1", "m2"])
    async with group.consume("m1") as messages:
        bucket = await parts.js.key_value("static-consumer-groups")
        await bucket.put(f"{parts.stream}.g", b'{"max_members":4,"members":["m1"]}')
        with pytest.raises(GroupChanged, match="of the static group g was changed"):
            await next_of(messages)
    await parts.no_consumers_left()


async def test_only_members_may_consume(parts: Lab) -> None:
    group = await make(parts, members=["m1"])
    with pytest.raises(NotAMember, match="m9 is no member of the group g"):
        await group.consume("m9").open()
    with pytest.raises(GroupNotFound):
        await parts.client.groups.static(parts.stream, "other").consume("m1").open()
    with pytest.raises(StreamNotFound):
        await parts.client.groups.static("NONE", "g").consume("m1").open()
    with pytest.raises(NotAMember, match="nobody runs the member m1"):
        await group.step_down("m1")


async def test_a_group_is_made_once(parts: Lab, connect: Connect) -> None:
    group = await make(parts, members=["m1", "m2"])
    same = await make(parts, members=["m2", "m1"])
    assert (await group.config()) == (await same.config())
    with pytest.raises(GroupExists, match="another configuration"):
        await make(parts, members=["m1"])
    with pytest.raises(StreamNotFound):
        await parts.client.groups.create_static("NONE", "g", 4, members=["m1"])
    makers = [await connect(parts.server.port) for _ in range(4)]
    wanted = [
        each.groups.create_static(parts.stream, "race", 4, members=[f"m{number % 2}"])
        for number, each in enumerate(makers)
    ]
    outcomes = await asyncio.gather(*wanted, return_exceptions=True)
    assert sum(isinstance(each, GroupExists) for each in outcomes) == 2


async def test_deleting_a_group_leaves_consumers_of_others(parts: Lab) -> None:
    await make(parts, members=["m1"])
    group = parts.client.groups.static(parts.stream, "g")
    await parts.js.add_consumer(parts.stream, ConsumerConfig(durable_name="g-m2"))
    async with group.consume("m1"):
        pass
    assert sorted(await parts.consumers()) == ["g-m1", "g-m2"]
    await group.delete()
    assert await parts.consumers() == ["g-m2"]
    with pytest.raises(GroupNotFound):
        await group.delete()
