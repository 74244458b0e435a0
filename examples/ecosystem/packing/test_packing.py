"""Test the program: `pip install millstream pytest` brings the fixture."""

import asyncio

import nats
import packing


async def prepare(url: str) -> None:
    async with await nats.connect(url) as connection:
        jetstream = connection.jetstream()
        await jetstream.add_stream(name="PACKING", subjects=["packing.>"])
        for number in (1, 2):
            await jetstream.publish("packing.new", f"order {number}".encode())


def test_orders_are_packed_in_order(millstream_server):
    asyncio.run(prepare(millstream_server.client_url))
    assert asyncio.run(packing.pack(millstream_server.client_url, 2)) == ["order 1", "order 2"]


def test_each_test_has_a_server_of_its_own(millstream_server):
    asyncio.run(prepare(millstream_server.client_url))
    assert asyncio.run(packing.pack(millstream_server.client_url, 1)) == ["order 1"]
