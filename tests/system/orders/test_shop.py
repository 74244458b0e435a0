"""The shop of the example on a server of the same process: what flows, what is buried, what is mended."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import nats
from nats.js import JetStreamContext

import millstream
from examples.orders.figures import Watcher
from examples.orders.shop import CONSUMERS, STREAM, Traffic, is_complete, open_shop
from tests.kits.order_junk import BODIES, NO_ORDERS, send_everything


async def until(happened: Callable[[], Awaitable[bool]]) -> None:
    """Wait for it; the time-out of the test is the limit."""
    while not await happened():  # noqa: ASYNC110
        await asyncio.sleep(0.02)


async def test_messages_of_every_kind_end_nothing_and_bad_orders_become_dead_letters(tmp_path: Path) -> None:
    for _ in range(2):  # what was sent is still there at the second start
        async with millstream.Server(store_dir=tmp_path) as server:
            connection = await nats.connect(server.client_url)
            jetstream = connection.jetstream(timeout=60)
            await open_shop(jetstream)
            traffic = Traffic(30, clumsy=False)
            watcher = Watcher(tmp_path / "archive")
            await watcher.attach(connection)
            before = (await watcher.look()).messages
            async with traffic.on(connection):
                await send_everything(server.client_url)

                async def handled(watcher: Watcher = watcher, sent: int = before + 4 * len(BODIES)) -> bool:
                    figures = await watcher.look()
                    waiting = [each.pending + each.waiting_for_ack for each in figures.consumers]
                    return figures.messages > sent + 10 and not any(waiting)

                await until(handled)
            assert (watcher.figures.trouble, traffic.trouble) == ("", "")
            await connection.close()
    async with millstream.Server(store_dir=tmp_path) as server:
        connection = await nats.connect(server.client_url)
        info = await connection.jetstream().stream_info("ORDERS_DLQ", subjects_filter="dlq.ORDERS.>")
        await connection.close()
    own = len(BODIES)  # sent to dlq.ORDERS.NEW
    assert info.state.subjects == {
        "dlq.ORDERS.NEW": 2 * (own + NO_ORDERS),
        "dlq.ORDERS.DISPATCH": 2 * NO_ORDERS,
    }


async def test_a_shop_of_an_earlier_version_is_brought_up_to_date(tmp_path: Path) -> None:
    async with millstream.Server(store_dir=tmp_path) as server:
        connection = await nats.connect(server.client_url)
        jetstream = connection.jetstream(timeout=60)
        await jetstream.add_stream(name="REVENUE", subjects=["revenue.*"])
        await open_shop(jetstream)
        await open_shop(jetstream)  # and again, with nothing to change
        assert (await jetstream.stream_info("REVENUE")).config.duplicate_window == 600
        await connection.close()


async def test_what_somebody_deleted_is_noticed_and_the_view_goes_on(tmp_path: Path) -> None:
    async with millstream.Server(store_dir=tmp_path) as server:
        connection = await nats.connect(server.client_url)
        jetstream = connection.jetstream(timeout=60)
        watcher = Watcher(tmp_path / "archive")
        await watcher.attach(connection)
        assert not await is_complete(jetstream)
        assert (await watcher.look()).trouble.startswith("no new figures: NotFoundError")
        await open_shop(jetstream)
        assert await is_complete(jetstream)
        assert (await watcher.look()).trouble == ""
        await jetstream.delete_consumer(STREAM, "NEW")
        assert not await is_complete(jetstream)
        assert [each.name for each in (await watcher.look()).consumers] == ["DISPATCH", "MONITOR"]
        await connection.close()
        assert "ConnectionClosedError" in (await watcher.look()).trouble


async def test_consumers_of_others_are_counted_and_the_first_is_shown(tmp_path: Path) -> None:
    async with millstream.Server(store_dir=tmp_path) as server:
        connection = await nats.connect(server.client_url)
        jetstream: JetStreamContext = connection.jetstream(timeout=60)
        await open_shop(jetstream)
        for name in ("mine", "yours", "theirs"):
            await jetstream.add_consumer(STREAM, durable_name=name)
        watcher = Watcher(tmp_path / "archive")
        await watcher.attach(connection)
        figures = await watcher.look()
        assert [each.name for each in figures.consumers] == [*CONSUMERS, "mine"]
        assert figures.consumer_count == 6
        await connection.close()
