"""httpmq's own Python client against the gateway, through everything its test-suite asks for."""

import asyncio
import uuid
from collections.abc import AsyncIterator
from typing import Any

import httpmq
import pytest
import pytest_asyncio

from tests.kits.gateway.v1 import PATIENCE_S, Gateway


class Client:
    """Both halves of the client, and a check that every answer carries the id of its request."""

    def __init__(self, url: str) -> None:
        self.management = httpmq.ManagementClient(api_client=httpmq.APIClient(base_url=url))
        self.data = httpmq.DataClient(api_client=httpmq.APIClient(base_url=url))

    async def close(self) -> None:
        await self.management.disconnect()
        await self.data.disconnect()


def context() -> Any:
    return httpmq.RequestContext()


@pytest_asyncio.fixture
async def client(gateway: Gateway) -> AsyncIterator[Client]:
    client = Client(gateway.url)
    yield client
    await client.close()


def stream_param(name: str, subjects: list[str]) -> Any:
    return httpmq.ManagementJSStreamParam(name=name, subjects=subjects)


async def create_stream(client: Client, name: str, subjects: list[str]) -> None:
    asked = context()
    told = await client.management.create_stream(params=stream_param(name, subjects), context=asked)
    assert told == asked.request_id


def consumer_param(name: str, subject: str, max_inflight: int = 1) -> Any:
    return httpmq.ManagementJetStreamConsumerParam(
        name=name, filter_subject=subject, max_inflight=max_inflight, mode="push"
    )


async def create_consumer(client: Client, stream: str, param: Any) -> None:
    asked = context()
    told = await client.management.create_consumer_for_stream(stream=stream, params=param, context=asked)
    assert told == asked.request_id


async def delete_stream(client: Client, name: str) -> None:
    asked = context()
    assert await client.management.delete_stream(stream=name, context=asked) == asked.request_id
    with pytest.raises(httpmq.HttpmqAPIError):
        await client.management.get_stream(stream=name, context=context())


async def test_both_groups_are_ready(client: Client) -> None:
    await client.management.ready(context=context())
    await client.data.ready(context=context())


async def test_streams(client: Client) -> None:
    name, subjects = str(uuid.uuid4()), [str(uuid.uuid4()) for _ in range(3)]
    await create_stream(client, name, subjects)
    await create_stream(client, name, subjects)
    with pytest.raises(httpmq.HttpmqAPIError):
        await create_stream(client, str(uuid.uuid4()), subjects[:1])
    asked = context()
    stream, told = await client.management.get_stream(stream=name, context=asked)
    assert (told, stream.config.name, stream.config.subjects) == (asked.request_id, name, subjects)
    streams, told = await client.management.list_all_streams(context=asked)
    assert (told, streams[name].config.subjects) == (asked.request_id, subjects)
    wanted = [str(uuid.uuid4()), str(uuid.uuid4())]
    told = await client.management.change_stream_subjects(stream=name, new_subjects=wanted, context=asked)
    assert told == asked.request_id
    assert (await client.management.get_stream(stream=name, context=asked))[0].config.subjects == wanted
    limits = httpmq.ManagementJSStreamLimits(max_age=3_600_000_000_000)
    told = await client.management.update_stream_limits(stream=name, limits=limits, context=asked)
    assert told == asked.request_id
    stream = (await client.management.get_stream(stream=name, context=asked))[0]
    assert stream.config.max_age == 3_600_000_000_000
    await delete_stream(client, name)


async def test_consumers(client: Client) -> None:
    name, base = str(uuid.uuid4()), str(uuid.uuid4())
    with pytest.raises(httpmq.HttpmqAPIError):
        await create_consumer(client, name, consumer_param("c", f"{base}.a"))
    await create_stream(client, name, [f"{base}.a", f"{base}.b"])
    first, second = str(uuid.uuid4()), str(uuid.uuid4())
    await create_consumer(client, name, consumer_param(first, f"{base}.a"))
    await create_consumer(client, name, consumer_param(first, f"{base}.a"))
    with pytest.raises(httpmq.HttpmqAPIError):
        await create_consumer(client, name, consumer_param(first, f"{base}.b"))
    with pytest.raises(httpmq.HttpmqAPIError):
        await create_consumer(client, name, consumer_param(str(uuid.uuid4()), str(uuid.uuid4())))
    await create_consumer(client, name, consumer_param(second, f"{base}.*", 2))
    asked = context()
    consumer, told = await client.management.get_consumer_of_stream(
        stream=name, consumer=first, context=asked
    )
    assert told == asked.request_id
    assert (consumer.config.max_ack_pending, consumer.config.filter_subject) == (1, f"{base}.a")
    consumers, _ = await client.management.list_all_consumer_of_stream(stream=name, context=asked)
    assert set(consumers) == {first, second}
    assert consumers[second].config.max_ack_pending == 2
    for consumer_name in (first, second):
        told = await client.management.delete_consumer_on_stream(
            stream=name, consumer=consumer_name, context=asked
        )
        assert told == asked.request_id
    assert (await client.management.list_all_consumer_of_stream(stream=name, context=asked))[0] == {}
    await delete_stream(client, name)


class Subscription:
    """One `push_subscribe` in a task of its own."""

    def __init__(self, client: Client, stream: str, consumer: str, subject: str) -> None:
        self.received: asyncio.Queue[Any] = asyncio.Queue()
        self.problems: list[Any] = []
        self._stop = asyncio.Event()
        self._asked = context()
        self._task = asyncio.ensure_future(
            client.data.push_subscribe(
                stream=stream,
                consumer=consumer,
                subject_filter=subject,
                forward_data_cb=self._take,
                context=self._asked,
                stop_loop=self._stop,
                loop_interval_sec=0.05,
            )
        )

    async def _take(self, message: Any) -> None:
        if isinstance(message, httpmq.ReceivedMessage):
            await self.received.put(message)
        else:
            self.problems.append(message)

    async def next(self) -> Any:
        async with asyncio.timeout(PATIENCE_S):
            return await self.received.get()

    async def stop(self) -> None:
        self._stop.set()
        async with asyncio.timeout(PATIENCE_S):
            assert await self._task == self._asked.request_id


async def test_messages(client: Client) -> None:
    name, base = str(uuid.uuid4()), str(uuid.uuid4())
    await create_stream(client, name, [f"{base}.a", f"{base}.b"])
    subjects = [f"{base}.a", f"{base}.b", f"{base}.*"]
    consumers = [str(uuid.uuid4()) for _ in subjects]
    for consumer, subject in zip(consumers, subjects, strict=True):
        await create_consumer(client, name, consumer_param(consumer, subject))

    quiet = Subscription(client, name, consumers[0], subjects[0])
    await asyncio.sleep(0.1)
    await quiet.stop()
    assert quiet.received.empty()

    # The same consumer at once, and nobody waits for the subscriptions before publishing.
    open_ones = [
        Subscription(client, name, consumer, subject)
        for consumer, subject in zip(consumers, subjects, strict=True)
    ]
    for token, readers in (("a", (0, 2)), ("b", (1, 2))):
        payload = str(uuid.uuid4()).encode()
        asked = context()
        told = await client.data.publish(subject=f"{base}.{token}", message=payload, context=asked)
        assert told == asked.request_id
        for reader in readers:
            message = await open_ones[reader].next()
            assert (message.stream, message.consumer) == (name, consumers[reader])
            assert (message.subject, message.message) == (subjects[reader], payload)
            asked = context()
            told = await client.data.send_ack(
                stream=name,
                stream_seq=message.stream_seq,
                consumer=consumers[reader],
                consumer_seq=message.consumer_seq,
                context=asked,
            )
            assert told == asked.request_id
    with pytest.raises(httpmq.HttpmqAPIError):
        await client.data.publish(subject=str(uuid.uuid4()), message=b"lost", context=context())
    for subscription in open_ones:
        await subscription.stop()
        assert subscription.received.empty()
    await delete_stream(client, name)
