"""The ordered consumer on a good day: what is read, from where, in which form."""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

import millstream.client
from millstream.client import (
    BadOptions,
    Check,
    Client,
    ClientClosed,
    ClientError,
    OrderedConfigError,
    OrderedMessage,
    Phase,
    RequestRefused,
    ServerUnavailable,
    StartAt,
    StreamNotFound,
)
from millstream.client.state import IllegalMove
from millstream.jsapi.enums import ReplayPolicy
from millstream.jsapi.errors import Err
from tests.kits.client import CALM_BEAT_S, PATIENCE_S, Connect, Lab, eventually, read, read_numbers
from tests.kits.reference import ServerKind, ServerProcess


async def test_messages_come_in_stream_order_with_all_that_is_known_of_them(lab: Lab) -> None:
    before = datetime.now(UTC) - timedelta(seconds=1)
    await lab.js.publish(lab.subject("x"), b"first", headers={"colour": "red"})
    await lab.js.publish(lab.subject("y"), b"")
    async with lab.client.ordered(lab.stream) as messages:
        first, second = await read(messages, 2)
    assert first == OrderedMessage(
        subject=lab.subject("x"),
        data=b"first",
        headers={"colour": "red"},
        stream=lab.stream,
        stream_seq=1,
        consumer_seq=1,
        timestamp_ns=first.timestamp_ns,
        pending=1,
    )
    assert (second.subject, second.data, second.headers) == (lab.subject("y"), b"", {})
    assert (second.stream_seq, second.consumer_seq, second.pending) == (2, 2, 0)
    assert before < first.timestamp <= second.timestamp < before + timedelta(minutes=1)


async def test_iteration_goes_on_with_what_is_published_later(lab: Lab) -> None:
    await lab.publish(range(1, 4))
    seen = []
    async with lab.client.ordered(lab.stream) as messages, asyncio.timeout(PATIENCE_S):
        async for message in messages:
            seen.append(int(message.data))
            if message.stream_seq == 3:
                await lab.publish(range(4, 7))
            if message.stream_seq == 6:
                break
    assert seen == [1, 2, 3, 4, 5, 6]


async def test_the_consumer_on_the_server_is_as_the_document_says_and_is_deleted_in_the_end(lab: Lab) -> None:
    async with lab.client.ordered(lab.stream, name_prefix="audit-") as messages:
        info = await lab.js.consumer_info(lab.stream, messages.state.consumer_name)
        config = info.config
        assert config.durable_name is None
        assert config.deliver_group is None
        assert config.ack_policy == "none"
        assert config.max_deliver == 1
        assert config.flow_control is True
        assert config.mem_storage is True
        assert config.num_replicas == 1
        assert config.idle_heartbeat == 5
        assert config.ack_wait == 22 * 3600
        assert config.deliver_subject is not None
        assert config.deliver_subject.startswith("_INBOX.")
        assert info.name.startswith("audit-")
        assert info.push_bound
    await lab.no_consumers_left()


@pytest.mark.parametrize(
    ("start", "expected"),
    [
        (StartAt.FIRST, [1, 2, 3, 4, 5, 6]),
        (StartAt.LAST, [6]),
        (StartAt.by_sequence(4), [4, 5, 6]),
        (StartAt.LAST_PER_SUBJECT, [3, 5, 6]),
    ],
    ids=lambda value: value.policy if isinstance(value, StartAt) else "",
)
async def test_a_reading_starts_where_it_is_told_to(lab: Lab, start: StartAt, expected: list[int]) -> None:
    for number, token in enumerate("caabbc", 1):
        await lab.publish(number, token=token)
    async with lab.client.ordered(lab.stream, start=start) as messages:
        assert await read_numbers(messages, len(expected)) == expected
        await lab.publish(7)
        assert await read_numbers(messages, 1) == [7]


async def test_a_reading_of_what_is_new_sees_nothing_old(lab: Lab) -> None:
    await lab.publish(1, 2)
    async with lab.client.ordered(lab.stream, start=StartAt.NEW) as messages:
        assert messages.state.received_stream_seq == 2
        assert messages.state.lag == 0
        await lab.publish(3)
        assert await read_numbers(messages, 1) == [3]


async def test_a_reading_can_start_at_a_time(lab: Lab) -> None:
    await lab.publish(1, 2, 3)
    async with lab.client.ordered(lab.stream) as messages:
        second = (await read(messages, 2))[1]
    when = second.timestamp
    if second.timestamp_ns % 1000:
        when += timedelta(microseconds=1)  # servers store nanoseconds
    async with lab.client.ordered(lab.stream, start=StartAt.by_time(when)) as messages:
        numbers = await read_numbers(messages, 1)
    assert numbers[0] in (2, 3)
    async with lab.client.ordered(lab.stream, start=StartAt.by_time(second.timestamp)) as messages:
        assert await read_numbers(messages, 2) == [2, 3]


async def test_one_filter_or_many_choose_what_is_read(lab: Lab) -> None:
    for number, token in enumerate(["a.x", "b.x", "a.y", "c.x", "b.y"], 1):
        await lab.publish(number, token=token)
    async with lab.client.ordered(lab.stream, subjects=lab.subject("a.*")) as messages:
        assert await read_numbers(messages, 2) == [1, 3]
    async with lab.client.ordered(lab.stream, subjects=[lab.subject("b.>"), lab.subject("c.x")]) as messages:
        found = await read(messages, 3)
    assert [int(message.data) for message in found] == [2, 4, 5]
    assert [message.consumer_seq for message in found] == [1, 2, 3]
    assert found[-1].pending == 0


async def test_headers_only_leaves_the_body_and_tells_its_size(lab: Lab) -> None:
    await lab.js.publish(lab.subject(), b"twelve bytes", headers={"k": "v"})
    async with lab.client.ordered(lab.stream, headers_only=True) as messages:
        [message] = await read(messages, 1)
    assert message.data == b""
    assert message.headers == {"k": "v", "Nats-Msg-Size": "12"}


async def test_replay_original_keeps_the_order(lab: Lab) -> None:
    await lab.publish(1, 2, 3)
    async with lab.client.ordered(lab.stream, replay=ReplayPolicy.ORIGINAL) as messages:
        info = await lab.js.consumer_info(lab.stream, messages.state.consumer_name)
        assert info.config.replay_policy == "original"
        assert await read_numbers(messages, 3) == [1, 2, 3]


async def test_the_rest_of_a_configuration_reaches_the_server(lab: Lab) -> None:
    config = {"description": "nightly", "metadata": {"team": "blue"}, "inactive_threshold": 60_000_000_000}
    async with lab.client.ordered(lab.stream, config=config) as messages:
        info = await lab.js.consumer_info(lab.stream, messages.state.consumer_name)
    assert info.config.description == "nightly"
    assert info.config.metadata is not None
    assert info.config.metadata["team"] == "blue"
    assert info.config.inactive_threshold == 60


async def test_a_stored_message_that_looks_like_a_heartbeat_is_a_message(lab: Lab) -> None:
    headers = {"Status": "100", "Description": "Idle Heartbeat", "Nats-Last-Consumer": "99"}
    await lab.js.publish(lab.subject(), b"", headers=headers)
    await lab.publish(2)
    async with lab.client.ordered(lab.stream) as messages:
        odd, plain = await read(messages, 2)
        assert odd.headers == headers
        assert plain.data == b"2"
        assert messages.state.resets == 0


async def test_what_somebody_else_sends_to_the_inbox_is_left(lab: Lab) -> None:
    async with lab.client.ordered(lab.stream) as messages:
        info = await lab.js.consumer_info(lab.stream, messages.state.consumer_name)
        assert info.config.deliver_subject is not None
        await lab.admin.publish(info.config.deliver_subject, b"psst")
        await lab.admin.flush()
        await lab.publish(1)
        assert await read_numbers(messages, 1) == [1]
        assert messages.state.resets == 0


async def test_large_readings_answer_flow_control(lab: Lab) -> None:
    await lab.publish(range(60), size=100_000)
    async with lab.client.ordered(lab.stream) as messages:
        assert await read_numbers(messages, 60) == list(range(60))
        assert messages.state.resets == 0


async def test_a_reader_that_does_not_read_makes_the_server_wait(lab: Lab) -> None:
    await lab.publish(range(60), size=100_000)
    async with lab.client.ordered(lab.stream, heartbeat_s=CALM_BEAT_S) as messages:

        async def heard_while_stalled() -> bool:
            return messages.state.last_heartbeat is not None

        await eventually(heard_while_stalled, "no heartbeat of a stalled consumer")
        state = messages.state
        assert state.buffered < 40, "all came although nothing was taken"
        assert state.lag == 60
        assert await read_numbers(messages, 60) == list(range(60))
        assert messages.state.resets == 0


async def test_state_tells_what_was_handed_out_and_what_is_left(lab: Lab) -> None:
    await lab.publish(range(1, 6))
    consumer = lab.client.ordered(lab.stream, heartbeat_s=CALM_BEAT_S)
    assert consumer.state.phase is Phase.NEW
    async with consumer as messages:
        await read(messages, 2)

        async def all_arrived() -> bool:
            return messages.state.received_stream_seq == 5 and messages.state.last_heartbeat is not None

        await eventually(all_arrived, "the messages and a heartbeat did not come")
        state = messages.state
        assert (state.stream_seq, state.consumer_seq) == (2, 2)
        assert (state.buffered, state.pending, state.lag) == (3, 0, 3)
        assert (state.resets, state.last_reset, state.last_error) == (0, None, None)
        assert state.last_heartbeat is not None
        assert datetime.now(UTC) - state.last_heartbeat < timedelta(seconds=PATIENCE_S)
        assert state.consumer_name in await lab.consumers()
        assert state.phase is Phase.READING
    assert messages.state.phase is Phase.CLOSED


async def test_waiting_for_a_message_can_time_out_and_loses_nothing(lab: Lab) -> None:
    async with lab.client.ordered(lab.stream) as messages:
        with pytest.raises(TimeoutError):
            await messages.next(timeout_s=0.01)
        await lab.publish(1)
        assert await read_numbers(messages, 1) == [1]


async def test_closing_ends_an_iteration_elsewhere(lab: Lab) -> None:
    async with lab.client.ordered(lab.stream) as messages:

        async def count() -> int:
            return len([message async for message in messages])

        counting = asyncio.create_task(count())
        await lab.publish(1)

        async def was_read() -> bool:
            return messages.state.stream_seq == 1

        await eventually(was_read, "the message was not read")
        await messages.close()
        assert await asyncio.wait_for(counting, PATIENCE_S) == 1
        with pytest.raises(ClientClosed):
            await messages.next()
    with pytest.raises(IllegalMove):
        await messages.open()


# -- callbacks --------------------------------------------------------------------------------------


async def test_a_callback_gets_the_messages_one_after_the_other(lab: Lab) -> None:
    await lab.publish(range(1, 4))
    seen: list[str] = []
    done = asyncio.Event()

    async def handle(message: OrderedMessage) -> None:
        seen.append(f"begin {message.stream_seq}")
        await asyncio.sleep(0)
        seen.append(f"end {message.stream_seq}")
        if message.pending == 0:
            done.set()

    async with lab.client.ordered(lab.stream, callback=handle) as consumer:
        await asyncio.wait_for(done.wait(), PATIENCE_S)
        with pytest.raises(ClientError, match="callback"):
            await consumer.next()
    assert seen == ["begin 1", "end 1", "begin 2", "end 2", "begin 3", "end 3"]


async def test_a_callback_may_be_a_plain_function_that_closes_its_consumer_in_time(lab: Lab) -> None:
    await lab.publish(range(1, 4))
    seen: list[int] = []
    async with lab.client.ordered(lab.stream, callback=lambda message: seen.append(message.stream_seq)) as it:

        async def all_seen() -> bool:
            return seen == [1, 2, 3]

        await eventually(all_seen, "not all messages were handed over")
        await it.close()
        await asyncio.wait_for(it.wait(), PATIENCE_S)


async def test_a_callback_may_close_its_consumer(lab: Lab) -> None:
    await lab.publish(range(1, 6))
    seen: list[int] = []

    async def handle(message: OrderedMessage) -> None:
        seen.append(message.stream_seq)
        if message.stream_seq == 3:
            await consumer.close()

    consumer = lab.client.ordered(lab.stream, callback=handle)
    async with consumer:
        await asyncio.wait_for(consumer.wait(), PATIENCE_S)
    assert seen == [1, 2, 3]
    await lab.no_consumers_left()


async def test_an_error_of_a_callback_ends_the_reading_and_is_raised(lab: Lab) -> None:
    await lab.publish(range(1, 4))
    seen: list[int] = []

    def handle(message: OrderedMessage) -> None:
        seen.append(message.stream_seq)
        if message.stream_seq == 2:
            raise ZeroDivisionError("on purpose")

    with pytest.raises(ZeroDivisionError, match="on purpose"):
        async with lab.client.ordered(lab.stream, callback=handle) as consumer:
            await asyncio.wait_for(consumer.wait(), PATIENCE_S)

    consumer = lab.client.ordered(lab.stream, callback=handle)

    async def ended() -> bool:
        return consumer.state.phase is Phase.CLOSED

    with pytest.raises(ZeroDivisionError, match="on purpose"):
        async with consumer:  # whose body does not ask
            await eventually(ended, "the reading did not end")
    assert seen == [1, 2, 1, 2]
    await lab.no_consumers_left()


# -- servers that are set up otherwise -----------------------------------------------------------------


async def test_a_stream_of_a_domain_is_read_through_its_own_subjects(
    own_server: Callable[..., ServerProcess], connect: Connect
) -> None:
    server = own_server(jetstream=True, config="jetstream: {domain: hub}")
    await read_in_full(Lab(server, await connect(server.port, domain="hub")))


@pytest.mark.oracle
async def test_the_long_form_of_reply_subjects_is_understood(connect: Connect) -> None:
    # Millstream never sends it.
    flags = "feature_flags: {js_ack_fc_v2: true}"
    with ServerProcess(ServerKind.NATS_SERVER, jetstream=True, config=flags) as server:
        await read_in_full(Lab(server, await connect(server.port)))


async def read_in_full(lab: Lab) -> None:
    await lab.create()
    await lab.publish(range(30), size=100_000)
    async with lab.client.ordered(lab.stream) as messages:
        assert await read_numbers(messages, 30) == list(range(30))
        assert messages.state.resets == 0
    await lab.no_consumers_left()


# -- refusals ---------------------------------------------------------------------------------------


async def test_a_stream_that_is_not_there_is_told_on_entering(lab: Lab) -> None:
    consumer = lab.client.ordered("NOWHERE")
    with pytest.raises(StreamNotFound) as refusal:
        await consumer.open()
    assert refusal.value.code == Err.STREAM_NOT_FOUND.value[1]
    assert consumer.state.phase is Phase.FAILED


async def test_what_the_server_refuses_is_told_on_entering(lab: Lab) -> None:
    overlapping = [lab.subject("a.>"), lab.subject("a.b")]
    with pytest.raises(RequestRefused) as refusal:
        await lab.client.ordered(lab.stream, subjects=overlapping).open()
    assert refusal.value.code == Err.CONSUMER_OVERLAPPING_SUBJECT_FILTERS.value[1]
    with pytest.raises(RequestRefused) as refusal:
        await lab.client.ordered(lab.stream, heartbeat_s=0.05).open()
    assert refusal.value.status == 400
    assert await lab.consumers() == []


async def test_a_bad_configuration_is_refused_before_anything_is_asked(lab: Lab) -> None:
    with pytest.raises(OrderedConfigError) as refusal:
        lab.client.ordered(lab.stream, config={"durable_name": "d"})
    assert refusal.value.check is Check.DURABLE_NAME
    with pytest.raises(ValueError, match="no name for a stream"):
        lab.client.ordered("two.tokens")
    with pytest.raises(ValueError, match="at least one message"):
        lab.client.ordered(lab.stream, buffer_messages=0)


async def test_a_closed_connection_ends_readings_and_refuses_new_ones(lab: Lab, js_server: object) -> None:
    client = await millstream.client.connect(lab.server.client_url)
    async with client.ordered(lab.stream) as messages:
        await client.close()
        with pytest.raises(ClientClosed):
            await messages.next()
    with pytest.raises(ClientClosed):
        await client.ordered(lab.stream).open()
    assert messages.state.phase is Phase.FAILED


async def test_a_client_on_a_connection_of_somebody_else_leaves_it_open(lab: Lab) -> None:
    await lab.publish(1)
    async with Client(lab.client.connection) as borrowed, borrowed.ordered(lab.stream) as messages:
        assert await read_numbers(messages, 1) == [1]
    assert not lab.client.connection.is_closed


async def test_no_server_is_told_as_such() -> None:
    with pytest.raises(ServerUnavailable):
        await millstream.client.connect("nats://127.0.0.1:1", timeout_s=0.2)
    with pytest.raises(ServerUnavailable):
        await millstream.client.connect("nats://127.0.0.1:1", timeout_s=0.05)
    with pytest.raises(BadOptions, match="no address of a server"):
        await millstream.client.connect(b"no url")  # type: ignore[arg-type]
