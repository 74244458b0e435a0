"""A program that knows nats-py, and nothing of Millstream."""

import nats


async def pack(url: str, count: int) -> list[str]:
    """Pack so many orders, and acknowledge each."""
    async with await nats.connect(url) as connection:
        jetstream = connection.jetstream()
        orders = await jetstream.pull_subscribe("packing.new", durable="packers")
        packed = []
        for message in await orders.fetch(count):
            packed.append(message.data.decode())
            await message.ack_sync()
        return packed
