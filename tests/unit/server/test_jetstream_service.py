"""JetStream as a part of the server: domains, accounts without it, and what a reload changes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import nats
import pytest
from nats.aio.client import Client
from nats.errors import NoRespondersError

from millstream.server.reload import reload_configuration
from millstream.server.server import Server
from tests.kits.patience import PATIENCE_S

_LISTEN = 'listen: "127.0.0.1:-1"\n'


def write(folder: Path, text: str) -> str:
    file = folder / "server.conf"
    file.write_text(_LISTEN + text.replace("STORE", str(folder)))
    return str(file)


async def ask(client: Client, subject: str, payload: bytes = b"") -> Any:
    return json.loads((await client.request(subject, payload, timeout=PATIENCE_S)).data)


async def test_a_domain_has_the_same_api_under_its_own_name(tmp_path: Path) -> None:
    config = write(tmp_path, 'jetstream { store_dir: "STORE", domain: hub }')
    async with Server(config=config) as server:
        client = await nats.connect(server.client_url)
        body = json.dumps({"name": "S", "subjects": ["s", "$KV.b.>"], "allow_direct": True}).encode()
        created = await ask(client, "$JS.hub.API.STREAM.CREATE.S", body)
        assert created["type"] == "io.nats.jetstream.api.v1.stream_create_response"
        assert (await ask(client, "s"))["domain"] == "hub"
        assert (await ask(client, "$JS.hub.API.$KV.b.key"))["seq"] == 2
        got = await client.request("$JS.hub.API.DIRECT.GET.S.s", b"", timeout=PATIENCE_S)
        assert got.headers is not None
        assert got.headers["Nats-Sequence"] == "1"
        await client.close()


async def test_a_reload_turns_jetstream_on_and_off(tmp_path: Path) -> None:
    config = write(tmp_path, "")
    async with Server(config=config) as server:
        client = await nats.connect(server.client_url)
        with pytest.raises(NoRespondersError):
            await ask(client, "$JS.API.INFO")
        write(tmp_path, 'jetstream { store_dir: "STORE" }')
        reload_configuration(server)
        assert (await ask(client, "$JS.API.INFO"))["streams"] == 0
        write(tmp_path, "")
        reload_configuration(server)
        with pytest.raises(NoRespondersError):
            await ask(client, "$JS.API.INFO")
        await client.close()


_ACCOUNTS = """
jetstream { store_dir: "STORE" }
accounts {
  A { users: [{user: a, password: a}], %s }
  B { users: [{user: b, password: b}], %s }
}
"""


async def test_a_reload_changes_which_accounts_have_jetstream(tmp_path: Path) -> None:
    config = write(tmp_path, _ACCOUNTS % ("jetstream: enabled", ""))
    async with Server(config=config) as server:
        a = await nats.connect(server.client_url, user="a", password="a")
        b = await nats.connect(server.client_url, user="b", password="b")
        assert (await ask(b, "$JS.API.INFO"))["error"]["err_code"] == 10039
        write(tmp_path, _ACCOUNTS % ("jetstream: {max_streams: 3}", "jetstream: enabled"))
        reload_configuration(server)
        assert (await ask(a, "$JS.API.INFO"))["limits"]["max_streams"] == 3
        assert (await ask(b, "$JS.API.INFO"))["streams"] == 0
        write(tmp_path, _ACCOUNTS % ("", "jetstream: enabled"))
        reload_configuration(server)
        assert (await ask(a, "$JS.API.INFO"))["error"]["err_code"] == 10039
        await a.close()
        await b.close()


async def test_a_reload_that_imports_the_api_of_another_account_ends_our_own_refusals(tmp_path: Path) -> None:
    exporting = 'jetstream: enabled, exports: [{service: "$JS.API.>", response_type: stream}]'
    config = write(tmp_path, _ACCOUNTS % (exporting, ""))
    async with Server(config=config) as server:
        b = await nats.connect(server.client_url, user="b", password="b")
        assert (await ask(b, "$JS.API.INFO"))["error"]["err_code"] == 10039
        write(tmp_path, _ACCOUNTS % (exporting, 'imports: [{service: {account: A, subject: "$JS.API.>"}}]'))
        reload_configuration(server)
        assert (await ask(b, "$JS.API.INFO"))["streams"] == 0
        write(tmp_path, _ACCOUNTS % (exporting, ""))
        reload_configuration(server)
        assert (await ask(b, "$JS.API.INFO"))["error"]["err_code"] == 10039
        await b.close()
