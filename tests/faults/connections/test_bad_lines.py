"""nats-py behind a proxy that chops, delays and cuts the line."""

import asyncio
import contextlib
import itertools
import random
from collections.abc import Iterator

import nats
import pytest
from nats.aio.client import Client
from nats.aio.msg import Msg

from tests.kits.fault_proxy import FaultProxy, Faults
from tests.kits.faults import WatchedServer
from tests.kits.patience import PATIENCE_S


@pytest.fixture
def server() -> Iterator[WatchedServer]:
    with WatchedServer() as running:
        yield running


async def connect(port: int, **options: object) -> Client:
    async def ignore(error: Exception) -> None:
        pass  # the line is bad on purpose

    settings: dict[str, object] = {
        "reconnect_time_wait": 0.01,
        "max_reconnect_attempts": -1,
        "connect_timeout": 2,
        "error_cb": ignore,
        **options,
    }
    return await nats.connect(f"nats://127.0.0.1:{port}", **settings)  # type: ignore[arg-type]


def message(number: int) -> bytes:
    """Return the number of a message, and a body that only this number has."""
    return b"%d:" % number + random.Random(number).randbytes(number % 700)


def number_of(data: bytes) -> int:
    number = int(data.split(b":", 1)[0])
    assert data == message(number)
    return number


@pytest.mark.parametrize("piece", [1, 3, 50])
async def test_a_line_chopped_into_pieces_loses_and_changes_nothing(
    server: WatchedServer, piece: int
) -> None:
    async with FaultProxy(server.port, faults=Faults(piece=piece), generator=random.Random(piece)) as proxy:
        client = await connect(proxy.port)
        subscription = await client.subscribe("numbers")
        count = 40 * piece.bit_length()
        for number in range(count):
            await client.publish("numbers", message(number), headers={"n": str(number)})
        got = [number_of((await subscription.next_msg(20)).data) for _ in range(count)]
        assert got == list(range(count))
        await client.close()


async def test_a_slow_line_delays_and_loses_nothing(server: WatchedServer) -> None:
    faults = Faults(piece=400, delay_s=0.01)
    async with FaultProxy(server.port, faults=faults, generator=random.Random(7)) as proxy:
        client = await connect(proxy.port)

        async def answer(msg: Msg) -> None:
            await msg.respond(b"re: " + msg.data)

        await client.subscribe("help", cb=answer)
        answers = await asyncio.gather(
            *(client.request("help", message(n), timeout=PATIENCE_S) for n in range(10))
        )
        assert [reply.data for reply in answers] == [b"re: " + message(n) for n in range(10)]
        await client.close()


async def test_a_line_that_is_cut_is_built_anew_with_its_subscriptions(server: WatchedServer) -> None:
    async with FaultProxy(server.port) as proxy:
        reconnected = asyncio.Event()

        async def note() -> None:
            reconnected.set()

        client = await connect(proxy.port, reconnected_cb=note)
        steady = await connect(server.port)
        received: asyncio.Queue[bytes] = asyncio.Queue()

        async def take(msg: Msg) -> None:
            received.put_nowait(msg.data)

        await client.subscribe("news.*", cb=take)
        await client.flush()
        for number in range(5):
            await steady.publish(f"news.{number}", message(number))
            assert await asyncio.wait_for(received.get(), PATIENCE_S) == message(number)
            reconnected.clear()
            proxy.cut_all()
            await asyncio.wait_for(reconnected.wait(), PATIENCE_S)
            await client.flush(int(PATIENCE_S))
        await asyncio.get_running_loop().run_in_executor(None, server.wait_for_connections, 2)
        await client.close()
        await steady.close()


async def publish_all(port: int, frames: list[bytes]) -> None:
    """Send the frames, connecting anew whenever the line is cut; a frame that was cut is not sent again.

    nats-py would do, but some of its versions never recover from an INFO line that was cut.
    """
    position = 0
    while position < len(frames):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        drained = asyncio.get_running_loop().create_task(reader.read(1 << 20))
        try:
            writer.write(b'CONNECT {"verbose":false,"pedantic":false}\r\n')
            while position < len(frames) and not drained.done():
                position += 1
                writer.write(frames[position - 1])
                await writer.drain()
                if position % 10 == 0:
                    await asyncio.sleep(0)
        except OSError:
            pass
        finally:
            drained.cancel()
            await asyncio.gather(drained, return_exceptions=True)
            writer.transport.abort()


async def bad_weather(server: WatchedServer, rounds: int, generator: random.Random) -> None:
    """Publish through a line that is cut at random places, then let the sun shine."""
    async with FaultProxy(server.port, generator=generator) as proxy:
        steady = await connect(server.port)
        got: list[int] = []
        last = asyncio.Event()

        async def take(msg: Msg) -> None:
            if msg.data == b"end":
                last.set()
            else:
                got.append(number_of(msg.data))

        await steady.subscribe("numbers", cb=take)
        await steady.flush()
        for turn in itertools.count():
            if turn >= rounds and (proxy.cut or turn >= rounds + 200):  # chunks come as the machine has it
                break
            proxy.faults = Faults(
                piece=generator.choice([0, 7, 300]), delay_s=generator.choice([0, 0.001]), cut_chance=0.02
            )
            bodies = [message(number) for number in range(turn * 20, turn * 20 + 20)]
            await publish_all(
                proxy.port, [b"PUB numbers %d\r\n%b\r\n" % (len(body), body) for body in bodies]
            )
            await steady.flush(int(PATIENCE_S))  # the steady client is not kept from anything
        proxy.faults = Faults()
        while not last.is_set():
            await publish_all(proxy.port, [b"PUB numbers 3\r\nend\r\n"])
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(last.wait(), 0.2)
        assert got, "not one message came through"
        assert len(got) == len(set(got)), "a message came twice"
        assert proxy.cut > 0, "the weather was too good"
        await steady.close()
    assert proxy.live == 0


async def test_a_line_cut_at_random_places_never_shows_a_damaged_message(server: WatchedServer) -> None:
    await bad_weather(server, 15, random.Random(42))
    server.wait_for_connections(0)


@pytest.mark.soak
@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", range(10))
async def test_bad_weather_for_a_long_time(server: WatchedServer, seed: int) -> None:
    await bad_weather(server, 300, random.Random(seed))
    server.wait_for_connections(0)


async def test_a_client_on_a_stuck_line_is_found_stale_and_let_go() -> None:
    with WatchedServer(ping_interval_s=1.0, ping_max=2) as server:
        async with FaultProxy(server.port) as proxy:
            client = await connect(proxy.port, allow_reconnect=False)
            steady = await connect(server.port)
            proxy.faults = Faults(stuck=True)
            await asyncio.get_running_loop().run_in_executor(None, server.wait_for_connections, 1)
            assert server.ask(lambda broker: broker.totals.stale_connections) == 1
            await steady.flush()
            proxy.faults = Faults()
            await client.close()
            await steady.close()


async def test_a_proxy_to_nowhere_ends_connections() -> None:
    with WatchedServer() as server:
        port = server.port
    async with FaultProxy(port) as proxy:
        reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
        with pytest.raises(ConnectionResetError):  # noqa: PT012
            if await reader.read() == b"":
                raise ConnectionResetError
        writer.close()
