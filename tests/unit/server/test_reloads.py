"""Reloads that do not hold up clients: read in a thread, one at a time."""

from __future__ import annotations

import asyncio
from pathlib import Path

import nats
import pytest

from millstream.config.errors import ConfigError
from millstream.server.server import Server
from tests.kits.patience import PATIENCE_S


def write(folder: Path, text: str) -> str:
    """Replace the file in one step: a reload that runs must not read half of it."""
    file, new = folder / "server.conf", folder / "server.conf.new"
    new.write_text('listen: "127.0.0.1:-1"\n' + text)
    new.replace(file)
    return str(file)


async def reload(server: Server) -> None:
    """Reload, and raise what went wrong."""
    ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def note(error: Exception | None) -> None:
        if error is None:
            ended.set_result(None)
        else:
            ended.set_exception(error)

    server.reloads.begin(note)
    await asyncio.wait_for(ended, PATIENCE_S)


async def test_a_reload_is_in_force_when_it_has_ended(tmp_path: Path) -> None:
    async with Server(config=write(tmp_path, "max_payload: 1000\n")) as server:
        client = await nats.connect(server.client_url)
        write(tmp_path, "max_payload: 2000\n")
        await reload(server)
        assert server.broker.options.max_payload == server.options.broker.max_payload == 2000
        [connection] = server.broker.connections.values()
        assert connection.parser.max_payload == 2000
        await client.flush()
        await client.close()


async def test_a_file_that_is_invalid_has_no_effect(tmp_path: Path) -> None:
    async with Server(config=write(tmp_path, "max_payload: 1000\n")) as server:
        write(tmp_path, "max_payload: {\n")
        with pytest.raises(ConfigError):
            await reload(server)
        assert server.broker.options.max_payload == 1000
        write(tmp_path, "max_payload: 3000\n")
        await reload(server)
        assert server.broker.options.max_payload == 3000


async def test_a_reload_that_is_asked_for_during_another_reads_the_file_again(tmp_path: Path) -> None:
    async with Server(config=write(tmp_path, "max_payload: 1000\n")) as server:
        first, second = asyncio.ensure_future(reload(server)), asyncio.ensure_future(reload(server))
        await asyncio.sleep(0)  # both have asked
        write(tmp_path, "max_payload: 4000\n")
        await asyncio.gather(first, second, reload(server))
        assert server.broker.options.max_payload == 4000


async def test_an_account_that_is_gone_ends_with_its_streams(tmp_path: Path) -> None:
    jetstream = f'jetstream {{ store_dir: "{tmp_path}" }}\n'
    both = (
        "accounts { A { users = [{user: a, password: a}], jetstream: enabled }\n"
        "B { users = [{user: b, password: b}], jetstream: enabled } }\n"
    )
    async with Server(config=write(tmp_path, jetstream + both)) as server:
        client = await nats.connect(server.client_url, user="b", password="b", allow_reconnect=False)
        streams = client.jetstream()
        for number in range(20):
            await streams.add_stream(name=f"S{number}", subjects=[f"s.{number}"])
            await streams.publish(f"s.{number}", b"x")
        one = "accounts { A { users = [{user: a, password: a}], jetstream: enabled } }\n"
        write(tmp_path, jetstream + one)
        await reload(server)
        assert sorted(server.broker.accounts) == ["$G", "$SYS", "A"]
        write(tmp_path, jetstream + both)
        await reload(server)
        again = await nats.connect(server.client_url, user="b", password="b")
        assert (await again.jetstream().account_info()).streams == 20
        await again.close()
        await client.close()
