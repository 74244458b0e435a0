"""The ordered consumer on bad days: every message once, in stream order, whatever is lost on the way."""

import asyncio
import random
import time
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from millstream.client import (
    Client,
    ClientClosed,
    OrderedConsumer,
    Phase,
    ResetReason,
    StartAt,
    StreamChanged,
    StreamNotFound,
)
from tests.kits.client import (
    BEAT_S,
    CALM_BEAT_S,
    PATIENCE_S,
    Connect,
    Lab,
    eventually,
    is_flow_control,
    is_heartbeat,
    is_message,
    nth,
    read,
    read_numbers,
)
from tests.kits.fault_proxy import Faults
from tests.kits.frame_proxy import Fate, FrameProxy, ServerFrame


@pytest_asyncio.fixture
async def proxy(lab: Lab) -> AsyncIterator[FrameProxy]:
    async with FrameProxy(lab.server.port) as running:
        yield running


@pytest_asyncio.fixture
async def client(proxy: FrameProxy, connect: Connect) -> Client:
    """A client whose line to the server is at the mercy of `proxy`."""
    return await connect(proxy.port, request_timeout_s=10.0)


# -- single frames ----------------------------------------------------------------------------------


@pytest.mark.parametrize("lost", [1, 2, 7, 19])
async def test_a_lost_message_is_read_from_a_new_consumer(
    lab: Lab, proxy: FrameProxy, client: Client, lost: int
) -> None:
    await lab.publish(range(1, 21))
    proxy.judge = nth(is_message, lost, Fate.DROP)
    async with client.ordered(lab.stream) as messages:
        first_consumer = messages.state.consumer_name
        found = await read(messages, 20)
        assert [int(message.data) for message in found] == list(range(1, 21))
        assert [message.stream_seq for message in found] == list(range(1, 21))
        state = messages.state
        assert (state.resets, state.last_reset) == (1, ResetReason.GAP)
        assert state.consumer_name != first_consumer
        await eventually_only(lab, state.consumer_name)
    await lab.no_consumers_left()


async def eventually_only(lab: Lab, name: str) -> None:
    async def only() -> bool:
        return await lab.consumers() == [name]

    await eventually(only, "the old consumer was not released")


async def eventually_received(messages: OrderedConsumer, last: int) -> None:
    async def received() -> bool:
        return messages.state.received_stream_seq == last

    await eventually(received, "not all had arrived")


async def test_a_lost_last_message_is_missed_at_the_next_heartbeat(
    lab: Lab, proxy: FrameProxy, client: Client
) -> None:
    await lab.publish(1, 2, 3)
    proxy.judge = nth(is_message, 3, Fate.DROP)
    async with client.ordered(lab.stream, heartbeat_s=CALM_BEAT_S) as messages:
        assert await read_numbers(messages, 3) == [1, 2, 3]
        assert (messages.state.resets, messages.state.last_reset) == (1, ResetReason.GAP)


async def test_a_message_that_comes_twice_is_handed_out_once(
    lab: Lab, proxy: FrameProxy, client: Client
) -> None:
    proxy.judge = lambda frame: Fate.TWICE if is_message(frame) else Fate.PASS
    await lab.publish(range(1, 11))
    async with client.ordered(lab.stream) as messages:
        assert await read_numbers(messages, 10) == list(range(1, 11))
        assert messages.state.resets == 0


async def test_a_message_that_comes_late_is_handed_out_once_and_in_its_place(
    lab: Lab, proxy: FrameProxy, client: Client
) -> None:
    await lab.publish(range(1, 11))
    proxy.judge = nth(is_message, 4, Fate.HOLD)
    async with client.ordered(lab.stream) as messages:
        assert await read_numbers(messages, 10) == list(range(1, 11))
        proxy.release_held()
        await lab.publish(11)
        assert await read_numbers(messages, 1) == [11]
        assert messages.state.resets == 1


@pytest.mark.parametrize("start", [StartAt.NEW, StartAt.LAST], ids=lambda start: start.policy)
async def test_a_start_that_depends_on_the_moment_is_asked_for_once(
    lab: Lab, proxy: FrameProxy, client: Client, start: StartAt
) -> None:
    await lab.publish(1, 2)
    expected = [2, 3, 4, 5] if start is StartAt.LAST else [3, 4, 5]
    dropped = 0

    def judge(frame: ServerFrame) -> Fate:
        nonlocal dropped
        if is_message(frame) and dropped < len(expected):
            dropped += 1
            return Fate.DROP
        return Fate.PASS

    proxy.judge = judge
    async with client.ordered(lab.stream, start=start, heartbeat_s=BEAT_S) as messages:
        await lab.publish(3, 4, 5)
        assert await read_numbers(messages, len(expected)) == expected
        assert messages.state.resets >= 1


async def test_a_gap_in_last_per_subject_brings_no_message_that_is_not_the_last(
    lab: Lab, proxy: FrameProxy, client: Client
) -> None:
    for number, token in enumerate("abcabcabc", 1):
        await lab.publish(number, token=token)
    # The last ones are 7, 8 and 9; a message that was not last stands between them and the gap.
    await lab.publish(10, token="a")
    await lab.publish(11, token="d")
    proxy.judge = nth(is_message, 2, Fate.DROP)  # 9: the row is 8, 9, 10, 11
    async with client.ordered(lab.stream, start=StartAt.LAST_PER_SUBJECT) as messages:
        assert await read_numbers(messages, 4) == [8, 9, 10, 11]
        for number in (12, 13, 14):
            await lab.publish(number, token="a")
        assert await read_numbers(messages, 3) == [12, 13, 14]
        assert messages.state.resets >= 1


async def test_what_comes_while_last_per_subject_recovers_is_read_in_full(
    lab: Lab, proxy: FrameProxy, client: Client
) -> None:
    for number, token in enumerate("aabb", 1):
        await lab.publish(number, token=token)
    row = asyncio.Event()

    def judge(frame: ServerFrame) -> Fate:
        if not row.is_set():
            return Fate.DROP if is_message(frame) or is_heartbeat(frame) else Fate.PASS
        return Fate.PASS

    proxy.judge = judge
    async with client.ordered(
        lab.stream, start=StartAt.LAST_PER_SUBJECT, heartbeat_s=BEAT_S, config={"inactive_threshold": 10**11}
    ) as messages:
        for number in (5, 6, 7):  # all of one subject, all after the start
            await lab.publish(number, token="c")
        row.set()
        assert await read_numbers(messages, 5) == [2, 4, 5, 6, 7]


async def test_a_lost_flow_control_request_is_made_good_by_a_stalled_heartbeat(
    lab: Lab, proxy: FrameProxy, client: Client
) -> None:
    await lab.publish(range(80), size=100_000)
    proxy.judge = nth(is_flow_control, 1, Fate.DROP)
    async with client.ordered(lab.stream, heartbeat_s=CALM_BEAT_S) as messages:
        assert await read_numbers(messages, 80) == list(range(80))
        assert messages.state.resets == 0


async def test_a_creation_whose_answer_is_lost_leaves_no_consumer_behind(
    lab: Lab, proxy: FrameProxy, connect: Connect
) -> None:
    client = await connect(proxy.port, request_timeout_s=2.0)  # after which it asks again
    await lab.publish(range(1, 6))
    gap = nth(is_message, 2, Fate.DROP)
    answers = nth(lambda frame: b"consumer_create_response" in frame.raw, 2, Fate.DROP)
    proxy.judge = lambda frame: Fate.DROP if Fate.DROP in (gap(frame), answers(frame)) else Fate.PASS
    async with client.ordered(lab.stream, config={"inactive_threshold": 10**12}) as messages:
        assert await read_numbers(messages, 5) == [1, 2, 3, 4, 5]

        async def made() -> bool:
            return messages.state.phase is Phase.READING

        await eventually(made, "no consumer was made")
        await eventually_only(lab, messages.state.consumer_name)
    await lab.no_consumers_left()


@pytest.mark.parametrize("seed", range(3))
async def test_frames_lost_repeated_and_late_at_random_change_nothing(
    lab: Lab, proxy: FrameProxy, client: Client, seed: int
) -> None:
    generator = random.Random(seed)
    await lab.publish(range(300))

    def judge(frame: ServerFrame) -> Fate:
        if not (is_message(frame) or is_heartbeat(frame)):
            return Fate.PASS
        proxy.release_held()
        chances = [Fate.PASS] * 40 + [Fate.DROP, Fate.TWICE, Fate.HOLD]
        return generator.choice(chances)

    proxy.judge = judge
    async with client.ordered(lab.stream, heartbeat_s=BEAT_S) as messages:
        assert await read_numbers(messages, 300) == list(range(300))
        assert messages.state.resets > 0


# -- consumers and streams ----------------------------------------------------------------------------


async def test_a_consumer_deleted_behind_its_back_is_made_anew(lab: Lab) -> None:
    await lab.publish(1, 2)
    async with lab.client.ordered(lab.stream, heartbeat_s=BEAT_S) as messages:
        assert await read_numbers(messages, 2) == [1, 2]
        await lab.js.delete_consumer(lab.stream, messages.state.consumer_name)
        await lab.publish(3, 4)
        assert await read_numbers(messages, 2) == [3, 4]
        assert messages.state.last_reset is ResetReason.MISSED_HEARTBEATS


async def test_a_program_that_was_held_up_itself_blames_nobody(lab: Lab) -> None:
    await lab.publish(1)
    async with lab.client.ordered(lab.stream, heartbeat_s=CALM_BEAT_S / 2) as messages:
        await read(messages, 1)
        time.sleep(2 * CALM_BEAT_S)  # noqa: ASYNC251 - the loop stands still, and heartbeats wait in the socket
        heard = messages.state.last_heartbeat

        async def heard_again() -> bool:
            return messages.state.last_heartbeat != heard

        await eventually(heard_again, "no heartbeat")
        assert messages.state.resets == 0


async def test_a_purge_while_reading_costs_what_it_purged_and_nothing_else(lab: Lab) -> None:
    await lab.publish(range(80), size=100_000)  # more than the server sends unasked
    async with lab.client.ordered(lab.stream, heartbeat_s=CALM_BEAT_S) as messages:
        assert await read_numbers(messages, 5) == [0, 1, 2, 3, 4]
        await lab.js.purge_stream(lab.stream)
        await lab.publish(range(100, 103))
        numbers = [5]
        while numbers[-1] != 102:
            numbers += await read_numbers(messages, 1)
        rest = numbers[1:]
        assert rest == sorted(set(rest))
        assert rest[-3:] == [100, 101, 102]
        assert messages.state.resets == 0


async def test_a_purge_while_the_consumer_is_lost_moves_the_reading_on(lab: Lab) -> None:
    await lab.publish(1, 2)
    async with lab.client.ordered(lab.stream, heartbeat_s=BEAT_S) as messages:
        await read(messages, 2)
        await lab.js.delete_consumer(lab.stream, messages.state.consumer_name)
        await lab.publish(3, 4)
        await lab.js.purge_stream(lab.stream)
        await lab.publish(5)
        assert await read_numbers(messages, 1) == [5]


async def test_a_deleted_stream_ends_the_reading_after_what_had_arrived(lab: Lab) -> None:
    await lab.publish(1, 2)
    async with lab.client.ordered(lab.stream, heartbeat_s=BEAT_S) as messages:
        assert await read_numbers(messages, 1) == [1]
        await eventually_received(messages, 2)
        await lab.remove()
        assert await read_numbers(messages, 1) == [2]
        with pytest.raises(StreamNotFound):
            await read(messages, 1)
        assert messages.state.phase is Phase.FAILED


async def test_a_stream_of_the_same_name_is_not_the_same_stream(lab: Lab) -> None:
    await lab.publish(range(1, 6))
    async with lab.client.ordered(lab.stream, heartbeat_s=BEAT_S) as messages:
        await read(messages, 5)
        await asyncio.gather(lab.remove(), lab.create())  # in one write: the reader never finds no stream
        await lab.publish(range(1, 10))
        with pytest.raises(StreamChanged, match="made anew"):
            await read(messages, 1)


async def test_a_callback_goes_on_over_a_lost_consumer_and_hears_of_a_deleted_stream(lab: Lab) -> None:
    await lab.publish(1)
    seen: asyncio.Queue[int] = asyncio.Queue()
    async with lab.client.ordered(
        lab.stream, heartbeat_s=BEAT_S, callback=lambda message: seen.put_nowait(int(message.data))
    ) as consumer:
        assert await asyncio.wait_for(seen.get(), PATIENCE_S) == 1
        await lab.js.delete_consumer(lab.stream, consumer.state.consumer_name)
        await lab.publish(2)
        assert await asyncio.wait_for(seen.get(), PATIENCE_S) == 2
        await lab.remove()
        with pytest.raises(StreamNotFound):
            await asyncio.wait_for(consumer.wait(), PATIENCE_S)


async def test_a_buffer_that_is_full_gives_the_consumer_back_until_there_is_room(lab: Lab) -> None:
    await lab.publish(range(100))
    async with lab.client.ordered(lab.stream, buffer_messages=10) as messages:

        async def resting() -> bool:
            return messages.state.phase is Phase.RESTING and not await lab.consumers()

        await eventually(resting, "the consumer was not given back")
        assert messages.state.buffered == 10
        assert messages.state.last_reset is ResetReason.BUFFER_FULL
        assert await read_numbers(messages, 100) == list(range(100))


async def test_a_slow_reader_of_the_last_of_each_subject_skips_what_it_had_once(lab: Lab) -> None:
    for key in range(300):
        await lab.publish(key, key + 1000, token=f"k{key}")
    async with lab.client.ordered(lab.stream, start=StartAt.LAST_PER_SUBJECT, buffer_messages=24) as messages:

        async def resting() -> bool:
            return messages.state.phase is Phase.RESTING

        await eventually(resting, "the consumer was not given back")
        numbers: list[int] = []
        while len(numbers) < 300:
            numbers += await read_numbers(messages, 1)
            if len(numbers) % 10 == 0:
                await asyncio.sleep(0.001)  # another ten would have come
        assert numbers == [key + 1000 for key in range(300)]
        assert messages.state.resets == 1
        await lab.publish(7, token="k7")
        assert await read_numbers(messages, 1) == [7]


async def test_a_buffer_can_be_bounded_by_bytes(lab: Lab) -> None:
    await lab.publish(range(30), size=1000)
    async with lab.client.ordered(lab.stream, buffer_bytes=5000) as messages:

        async def resting() -> bool:
            return messages.state.phase is Phase.RESTING

        await eventually(resting, "the consumer was not given back")
        assert messages.state.buffered == 5
        assert await read_numbers(messages, 30) == list(range(30))


# -- lines and servers --------------------------------------------------------------------------------


class Cutter:
    """Cuts a client's line again and again, but never while the last cut is mended.

    nats-py's attempts to reconnect get in each other's way then, which is not what is tested here.
    """

    def __init__(self, proxy: FrameProxy) -> None:
        self._proxy = proxy
        self._mended = asyncio.Event()
        self._mended.set()

    def note(self) -> None:
        self._mended.set()

    async def cut(self) -> None:
        await asyncio.wait_for(self._mended.wait(), PATIENCE_S)
        self._mended.clear()
        self._proxy.cut_all()


@pytest.mark.parametrize("kind", ["link"])  # a connection of somebody else tells nothing
async def test_a_cut_line_is_found_at_once_and_nothing_is_missed(
    lab: Lab, proxy: FrameProxy, connect: Connect
) -> None:
    cutter = Cutter(proxy)
    client = await connect(proxy.port, reconnected=cutter.note)
    await lab.publish(range(10))
    async with client.ordered(lab.stream) as messages:
        assert await read_numbers(messages, 10) == list(range(10))
        for number in range(10, 40, 10):
            await cutter.cut()
            await lab.publish(range(number, number + 10))
            assert await read_numbers(messages, 10) == list(range(number, number + 10))
        assert messages.state.last_reset in (ResetReason.RECONNECTED, ResetReason.GAP)


async def test_a_borrowed_connection_that_is_cut_is_noticed_by_its_heartbeats(
    lab: Lab, proxy: FrameProxy, client: Client
) -> None:
    borrowed = Client(client.connection)
    await lab.publish(1)
    async with borrowed.ordered(lab.stream, heartbeat_s=BEAT_S) as messages:
        assert await read_numbers(messages, 1) == [1]
        proxy.cut_all()
        await lab.publish(2, 3)
        assert await read_numbers(messages, 2) == [2, 3]


async def test_a_line_that_is_stuck_for_a_while_loses_nothing(
    lab: Lab, proxy: FrameProxy, client: Client
) -> None:
    await lab.publish(1)
    async with client.ordered(lab.stream, heartbeat_s=BEAT_S) as messages:
        assert await read_numbers(messages, 1) == [1]
        proxy.faults = Faults(stuck=True)
        await lab.publish(2, 3)

        async def noticed() -> bool:
            return messages.state.phase is Phase.RECOVERING

        await eventually(noticed, "nobody noticed the silence")
        proxy.faults = Faults()
        assert await read_numbers(messages, 2) == [2, 3]


async def test_a_line_cut_again_and_again_in_the_middle_of_things_changes_nothing(
    lab: Lab, proxy: FrameProxy, connect: Connect
) -> None:
    await lab.publish(range(200), size=2000)
    cutter = Cutter(proxy)
    client = await connect(proxy.port, reconnected=cutter.note)
    proxy.faults = Faults(piece=3000, delay_s=0.002)  # so that much is on its way at any time
    numbers: list[int] = []
    async with client.ordered(lab.stream, heartbeat_s=BEAT_S) as messages:
        for _ in range(10):
            numbers += await read_numbers(messages, 10)
            await cutter.cut()
        proxy.faults = Faults()
        assert numbers + await read_numbers(messages, 100) == list(range(200))
        assert proxy.cut >= 10


async def test_a_server_killed_and_started_again_loses_no_message(own_lab: Lab, connect: Connect) -> None:
    await own_lab.publish(range(20))
    client = await connect(own_lab.server.port)
    async with client.ordered(own_lab.stream, heartbeat_s=BEAT_S) as messages:
        assert await read_numbers(messages, 10) == list(range(10))
        await eventually_received(messages, 20)
        own_lab.server.kill()
        assert await read_numbers(messages, 10) == list(range(10, 20))
        await asyncio.to_thread(own_lab.server.start)
        await own_lab.admin.flush()
        await own_lab.publish(range(20, 30))
        assert await read_numbers(messages, 10) == list(range(20, 30))
        assert messages.state.resets >= 1


async def test_a_server_that_is_away_for_long_is_waited_for(own_lab: Lab, connect: Connect) -> None:
    client = await connect(own_lab.server.port)
    async with client.ordered(own_lab.stream, heartbeat_s=BEAT_S) as messages:
        own_lab.server.kill()

        async def tried() -> bool:
            return messages.state.last_error is not None

        await eventually(tried, "no attempt was made")
        assert messages.state.phase is Phase.RECOVERING
        await asyncio.to_thread(own_lab.server.start)
        await own_lab.publish(1)
        assert await read_numbers(messages, 1) == [1]


@pytest.mark.parametrize("kind", ["link"])
async def test_a_server_that_does_not_come_back_ends_the_reading_if_the_user_set_an_end(
    own_lab: Lab, connect: Connect
) -> None:
    client = await connect(own_lab.server.port, attempts=2)
    await own_lab.publish(1)
    async with client.ordered(own_lab.stream) as messages:
        own_lab.server.kill()
        numbers = []
        with pytest.raises(ClientClosed):  # noqa: PT012
            while True:
                numbers += await read_numbers(messages, 1)
    assert numbers in ([], [1])
